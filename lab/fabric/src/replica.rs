//! A replica that agrees with others on an order of requests, in the manner of PBFT (Castro and
//! Liskov, 1999): pre-prepare, prepare, commit; a view change when nothing is decided. Pure:
//! messages in, messages out.
//!
//! It is a load, not a product. It has no checkpoints and no transfer of state, and believes what a
//! new view's primary says of the views before: with MACs, which prove nothing to a third one, the
//! original acknowledges each part of that.
use crate::limits::{EARLY_MAX, RETAINED, WINDOW};
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

/// A request by its number; 0 is none.
pub type Request = u64;

/// A place, the view in which it was prepared, and with what.
type Prepared = (u64, u64, Request);

/// What replicas tell each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The primary has given a request this place.
    PrePrepare { view: u64, place: u64, request: Request },
    /// A replica has seen that.
    Prepare { view: u64, place: u64, request: Request },
    /// A replica knows that a quorum has seen it.
    Commit { view: u64, place: u64, request: Request },
    /// A replica wants this view, and what it has prepared: place, view, request.
    ViewChange { view: u64, prepared: Vec<Prepared> },
    /// A quorum wants this view; what has a place in it: place, request.
    NewView { view: u64, places: Vec<(u64, Request)> },
}

impl Message {
    /// The view that it is about.
    pub const fn view(&self) -> u64 {
        match self {
            Self::PrePrepare { view, .. }
            | Self::Prepare { view, .. }
            | Self::Commit { view, .. }
            | Self::ViewChange { view, .. }
            | Self::NewView { view, .. } => *view,
        }
    }
}

/// What a replica does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send to all others.
    Broadcast(Message),
    /// A request is decided: the client hears of it.
    Execute(Request),
}

/// Who has voted, as bits.
#[derive(Clone, Debug, Default)]
struct Votes(BTreeSet<usize>);

impl Votes {
    fn add(&mut self, replica: usize) -> usize {
        self.0.insert(replica);
        self.0.len()
    }
}

/// What is known of a place in the current view.
#[derive(Clone, Debug, Default)]
struct Slot {
    /// What the primary has put there.
    request: Option<Request>,
    prepares: BTreeMap<Request, Votes>,
    commits: BTreeMap<Request, Votes>,
    has_committed: bool,
    is_decided: bool,
}

/// A replica.
pub struct Replica {
    own: usize,
    replicas: usize,
    view: u64,
    /// The view that it wants; above `view` while it waits for that.
    wanted: u64,
    slots: BTreeMap<u64, Slot>,
    /// The view in which a place was prepared, and with what.
    prepared: BTreeMap<u64, (u64, Request)>,
    decided: BTreeMap<u64, Request>,
    /// Places up to this one are executed.
    executed: u64,
    done: HashSet<Request>,
    pending: BTreeSet<Request>,
    /// The primary's next place.
    next: u64,
    changes: BTreeMap<u64, BTreeMap<usize, Vec<Prepared>>>,
    early: VecDeque<(usize, Message)>,
}

impl Replica {
    /// One of these many replicas.
    pub fn new(own: usize, replicas: usize) -> Self {
        Self {
            own,
            replicas,
            view: 0,
            wanted: 0,
            slots: BTreeMap::new(),
            prepared: BTreeMap::new(),
            decided: BTreeMap::new(),
            executed: 0,
            done: HashSet::new(),
            pending: BTreeSet::new(),
            next: 1,
            changes: BTreeMap::new(),
            early: VecDeque::new(),
        }
    }

    /// Replicas that may fail.
    pub const fn faults(&self) -> usize {
        (self.replicas - 1) / 3
    }

    const fn quorum(&self) -> usize {
        2 * self.faults() + 1
    }

    /// The primary of its view.
    pub const fn primary(&self) -> usize {
        (self.view % self.replicas as u64) as usize
    }

    /// The view that it is in.
    pub const fn view(&self) -> u64 {
        self.view
    }

    /// The view that it is in, or waits for.
    pub const fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Whether a request waits for its decision.
    pub fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    const fn is_active(&self) -> bool {
        self.view == self.wanted
    }

    /// A client's request.
    pub fn request(&mut self, request: Request, out: &mut Vec<Output>) {
        if request != 0 && !self.done.contains(&request) && self.pending.insert(request) {
            self.propose(out);
        }
    }

    /// The primary gives waiting requests their places.
    fn propose(&mut self, out: &mut Vec<Output>) {
        if !self.is_active() || self.primary() != self.own {
            return;
        }
        let placed: HashSet<Request> =
            self.slots.values().filter_map(|slot| slot.request).collect();
        let waiting: Vec<Request> =
            self.pending.iter().copied().filter(|one| !placed.contains(one)).collect();
        for request in waiting {
            if self.next > self.executed + WINDOW {
                return;
            }
            let (view, place) = (self.view, self.next);
            self.next += 1;
            self.slots.entry(place).or_default().request = Some(request);
            out.push(Output::Broadcast(Message::PrePrepare { view, place, request }));
            self.progress(place, out);
        }
    }

    /// A message of another replica.
    pub fn receive(&mut self, from: usize, message: Message, out: &mut Vec<Output>) {
        match message {
            Message::ViewChange { view, prepared } => self.view_change(from, view, prepared, out),
            Message::NewView { view, places } => {
                let is_primary = from as u64 == view % self.replicas as u64;
                if is_primary && view >= self.wanted && view > self.view {
                    self.enter(view, places, out);
                }
            }
            other if other.view() > self.view && self.early.len() < EARLY_MAX => {
                self.early.push_back((from, other));
            }
            other if other.view() == self.view && self.is_active() => {
                self.vote(from, &other, out);
            }
            _ => {}
        }
    }

    fn vote(&mut self, from: usize, message: &Message, out: &mut Vec<Output>) {
        let (Message::PrePrepare { place, request, .. }
        | Message::Prepare { place, request, .. }
        | Message::Commit { place, request, .. }) = *message
        else {
            return;
        };
        if place == 0 || place > self.executed + 2 * WINDOW {
            return;
        }
        let (primary, view) = (self.primary(), self.view);
        let slot = self.slots.entry(place).or_default();
        match message {
            Message::PrePrepare { .. } if from == primary && slot.request.is_none() => {
                slot.request = Some(request);
                slot.prepares.entry(request).or_default().add(self.own);
                out.push(Output::Broadcast(Message::Prepare { view, place, request }));
            }
            Message::Prepare { .. } if from != primary => {
                slot.prepares.entry(request).or_default().add(from);
            }
            Message::Commit { .. } => {
                slot.commits.entry(request).or_default().add(from);
            }
            _ => return,
        }
        self.progress(place, out);
    }

    /// Goes on with a place as far as its votes allow.
    fn progress(&mut self, place: u64, out: &mut Vec<Output>) {
        let (view, quorum) = (self.view, self.quorum());
        let Some(slot) = self.slots.get_mut(&place) else { return };
        let Some(request) = slot.request else { return };
        let votes = |votes: &BTreeMap<Request, Votes>| votes.get(&request).map_or(0, |v| v.0.len());
        // The primary's word counts as its vote.
        if !slot.has_committed && votes(&slot.prepares) + 1 >= quorum {
            slot.has_committed = true;
            slot.commits.entry(request).or_default().add(self.own);
            self.prepared.insert(place, (view, request));
            out.push(Output::Broadcast(Message::Commit { view, place, request }));
        }
        if slot.has_committed && !slot.is_decided && votes(&slot.commits) >= quorum {
            slot.is_decided = true;
            self.decided.insert(place, request);
            self.execute(out);
        }
    }

    fn execute(&mut self, out: &mut Vec<Output>) {
        while let Some(request) = self.decided.get(&(self.executed + 1)).copied() {
            self.executed += 1;
            if request != 0 && self.done.insert(request) {
                self.pending.remove(&request);
                out.push(Output::Execute(request));
            }
        }
        // What no view change will need.
        let low = self.executed.saturating_sub(RETAINED);
        self.slots = self.slots.split_off(&low);
        self.prepared = self.prepared.split_off(&low);
        self.decided = self.decided.split_off(&low);
        self.propose(out);
    }

    /// Nothing was decided for too long: it wants the next view.
    pub fn time_out(&mut self, out: &mut Vec<Output>) {
        self.want(self.wanted + 1, out);
    }

    fn want(&mut self, view: u64, out: &mut Vec<Output>) {
        self.wanted = view;
        let prepared: Vec<_> = self
            .prepared
            .iter()
            .map(|(place, (view, request))| (*place, *view, *request))
            .collect();
        out.push(Output::Broadcast(Message::ViewChange { view, prepared: prepared.clone() }));
        self.view_change(self.own, view, prepared, out);
    }

    fn view_change(
        &mut self,
        from: usize,
        view: u64,
        prepared: Vec<Prepared>,
        out: &mut Vec<Output>,
    ) {
        if view <= self.view || view > self.wanted + self.replicas as u64 {
            return;
        }
        let changes = self.changes.entry(view).or_default();
        changes.insert(from, prepared);
        let votes = changes.len();
        // One of them is right: something is wrong with the view.
        if view > self.wanted && votes > self.faults() {
            return self.want(view, out);
        }
        let is_primary = view % self.replicas as u64 == self.own as u64;
        if is_primary && view == self.wanted && votes >= self.quorum() {
            let places = self.places(view);
            out.push(Output::Broadcast(Message::NewView { view, places: places.clone() }));
            self.enter(view, places, out);
        }
    }

    /// What each place gets in a new view: what was prepared in the latest view, else nothing.
    fn places(&self, view: u64) -> Vec<(u64, Request)> {
        let mut latest: BTreeMap<u64, (u64, Request)> = BTreeMap::new();
        for (place, at, request) in self.changes[&view].values().flatten() {
            let known = latest.entry(*place).or_insert((*at, *request));
            if *at > known.0 {
                *known = (*at, *request);
            }
        }
        let Some((last, _)) = latest.last_key_value() else { return Vec::new() };
        let first = latest.keys().next().copied().unwrap_or(1);
        let of = |place| (place, latest.get(&place).map_or(0, |(_, request)| *request));
        (first..=*last).map(of).collect()
    }

    fn enter(&mut self, view: u64, places: Vec<(u64, Request)>, out: &mut Vec<Output>) {
        (self.view, self.wanted) = (view, view);
        self.changes = self.changes.split_off(&(view + 1));
        self.slots.clear();
        let last = places.last().map_or(self.executed, |(place, _)| *place);
        self.next = last.max(self.executed) + 1;
        let primary = self.primary();
        for (place, request) in places {
            if primary == self.own {
                self.slots.entry(place).or_default().request = Some(request);
                self.progress(place, out);
            } else {
                self.vote(primary, &Message::PrePrepare { view, place, request }, out);
            }
        }
        for (from, message) in std::mem::take(&mut self.early) {
            self.receive(from, message, out);
        }
        self.propose(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replicas whose messages arrive in any order; some are silent from some step on.
    struct Net {
        replicas: Vec<Replica>,
        waiting: Vec<(usize, usize, Message)>,
        executed: Vec<Vec<Request>>,
        silent: Vec<usize>,
        random: fastrand::Rng,
    }

    impl Net {
        fn new(replicas: usize, seed: u64) -> Self {
            Self {
                replicas: (0..replicas).map(|own| Replica::new(own, replicas)).collect(),
                waiting: Vec::new(),
                executed: vec![Vec::new(); replicas],
                silent: Vec::new(),
                random: fastrand::Rng::with_seed(seed),
            }
        }

        fn take(&mut self, own: usize, out: Vec<Output>) {
            for one in out {
                match one {
                    Output::Execute(request) => self.executed[own].push(request),
                    Output::Broadcast(message) if !self.silent.contains(&own) => {
                        for to in (0..self.replicas.len()).filter(|to| *to != own) {
                            self.waiting.push((own, to, message.clone()));
                        }
                    }
                    Output::Broadcast(_) => {}
                }
            }
        }

        fn on(&mut self, own: usize, act: impl FnOnce(&mut Replica, &mut Vec<Output>)) {
            if !self.silent.contains(&own) {
                let mut out = Vec::new();
                act(&mut self.replicas[own], &mut out);
                self.take(own, out);
            }
        }

        fn step(&mut self) -> bool {
            if self.waiting.is_empty() {
                return false;
            }
            let at = self.random.usize(..self.waiting.len());
            let (from, to, message) = self.waiting.swap_remove(at);
            self.on(to, |replica, out| replica.receive(from, message, out));
            true
        }

        fn is_done(&self, requests: u64) -> bool {
            let is_well = |own: &usize| !self.silent.contains(own);
            (0..self.replicas.len())
                .filter(is_well)
                .all(|own| self.executed[own].len() as u64 == requests)
        }
    }

    /// All replicas but `silent` execute all requests in one order; those are silent after some
    /// steps.
    fn agree(replicas: usize, silent: &[usize], steps: usize, seed: u64) {
        let requests = 20;
        let mut net = Net::new(replicas, seed);
        for request in 1..=requests {
            for own in 0..replicas {
                net.on(own, |replica, out| replica.request(request, out));
            }
        }
        for _ in 0..steps {
            net.step();
        }
        net.silent = silent.to_vec();
        let mut rounds = 0;
        while !net.is_done(requests) {
            while net.step() {}
            rounds += 1;
            assert!(rounds < 50, "seed {seed}: nothing is decided");
            for own in 0..replicas {
                if net.replicas[own].is_waiting() {
                    net.on(own, |replica, out| replica.time_out(out));
                }
            }
        }
        let well = (0..replicas).find(|own| !silent.contains(own)).unwrap();
        let order = net.executed[well].clone();
        for own in (0..replicas).filter(|own| !silent.contains(own)) {
            assert_eq!(net.executed[own], order, "seed {seed}, replica {own}");
        }
        // Those that fell silent had decided nothing else.
        for own in silent {
            assert!(order.starts_with(&net.executed[*own]), "seed {seed}, replica {own}");
        }
    }

    #[test]
    fn replicas_agree_in_any_order_of_messages() {
        for seed in 0..40 {
            agree(4, &[], 0, seed);
            agree(7, &[], 0, seed);
        }
    }

    #[test]
    fn replicas_agree_when_the_primary_and_others_fall_silent_in_the_middle() {
        for seed in 0..120 {
            let steps = (seed as usize * 37) % 900;
            agree(4, &[0], steps, seed);
            agree(7, &[0, 1], steps * 3, seed);
            agree(7, &[0, 5], steps * 3, seed);
        }
    }

    #[test]
    fn second_request_at_a_place_has_no_votes() {
        let mut backup = Replica::new(1, 4);
        let mut out = Vec::new();
        let pre = |request| Message::PrePrepare { view: 0, place: 1, request };
        backup.receive(0, pre(7), &mut out);
        assert_eq!(out.len(), 1);
        backup.receive(0, pre(8), &mut out);
        backup.receive(2, pre(9), &mut out);
        assert_eq!(out, [Output::Broadcast(Message::Prepare { view: 0, place: 1, request: 7 })]);
    }
}
