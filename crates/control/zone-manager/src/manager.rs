//! The thread of the zone manager: applies updates in rounds, and publishes each round at once.
use crate::Shared;
use crate::catalog::{self, Content};
use crate::edits;
use crate::epoch::{empty_layer, names};
use crate::filter::HealthFilter;
use crate::hold::{Acceptance, Evidence, Verdict};
use crate::limits::{COLLECT_INTERVAL, LAST_SETS_SHOWN_MAX, LIVE_INTERVAL, ROUND_CHANGES_MAX};
use crate::queue::{Action, Judged, Sequence, SourceId, Update};
use crate::ramps::WallClock;
use crate::source::{Applied, HoldPolicy, Lane, Refusal, SyncOutcome, Synced, Target};
use compile::{Image, Zone};
use model::Change;
use server_status::HeldZone;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;
use wire::Name;

/// Someone who waits until an update is live.
struct LiveWaiter {
    sequence: Sequence,
    /// Known once the update is published.
    generation: Option<u64>,
    then: Box<dyn FnOnce(bool) + Send>,
}

/// What is reported once a round is published.
type Report = Box<dyn FnOnce()>;

/// The state of the thread.
pub(crate) struct Manager {
    shared: Arc<Shared>,
    receiver: Receiver<Update>,
    urgent: VecDeque<Update>,
    normal: VecDeque<Update>,
    received: Sequence,
    live: Vec<LiveWaiter>,
    /// The next held content that is served without an operator.
    due: Option<Instant>,
    filter: HealthFilter,
}

/// The image of a round, and what is reported once it is published.
struct Round {
    image: Image,
    has_changed: bool,
    reports: Vec<Report>,
}

impl Manager {
    pub fn new(shared: Arc<Shared>, receiver: Receiver<Update>, clock: WallClock) -> Self {
        let (urgent, normal, live) = (VecDeque::new(), VecDeque::new(), Vec::new());
        let filter = HealthFilter::new(Arc::clone(&shared.health), clock);
        Self { shared, receiver, urgent, normal, received: Sequence(0), live, due: None, filter }
    }

    /// Applies updates until the queue is closed and empty.
    pub fn run(&mut self) {
        let mut retired = 0;
        while self.receive(retired > 0) {
            // Urgent updates wait for one round of normal ones at most, and do not starve these.
            for lane in [Lane::Urgent, Lane::Normal] {
                self.round(lane);
            }
            self.publish_due();
            self.publish_steps();
            retired = self.shared.publisher().collect();
            self.report_live();
        }
        for waiter in self.live.drain(..) {
            (waiter.then)(false);
        }
    }

    /// Waits for updates, or until there is something else to do. False: there will be none.
    fn receive(&mut self, has_retired: bool) -> bool {
        if self.urgent.is_empty() && self.normal.is_empty() {
            let pauses = [
                self.live.iter().any(|live| live.generation.is_some()).then_some(LIVE_INTERVAL),
                has_retired.then_some(COLLECT_INTERVAL),
                self.due.map(|due| due.saturating_duration_since(Instant::now())),
                self.filter.until_step(),
            ];
            let first = match pauses.into_iter().flatten().min() {
                Some(pause) => self.receiver.recv_timeout(pause),
                None => self.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match first {
                Ok(update) => self.sort(update),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        while let Ok(update) = self.receiver.try_recv() {
            self.sort(update);
        }
        true
    }

    fn sort(&mut self, update: Update) {
        self.received = update.sequence;
        match update.lane {
            Lane::Urgent => self.urgent.push_back(update),
            Lane::Normal => self.normal.push_back(update),
        }
    }

    /// Applies updates of a lane, publishes them, and reports.
    fn round(&mut self, lane: Lane) {
        let waiting = match lane {
            Lane::Urgent => &mut self.urgent,
            Lane::Normal => &mut self.normal,
        };
        if waiting.is_empty() {
            return;
        }
        let (mut these, mut changes) = (Vec::new(), 0);
        while changes < ROUND_CHANGES_MAX
            && let Some(update) = waiting.pop_front()
        {
            changes += match &update.action {
                Action::Apply(_, changes, _) => changes.len().max(1),
                _ => 1,
            };
            these.push(update);
        }
        let image = self.shared.publisher().newest().clone();
        let mut round = Round { image, has_changed: false, reports: Vec::new() };
        // Their room is given back once they are published.
        let mut rooms = Vec::new();
        for Update { sequence, source, action, room, .. } in these {
            rooms.push(room);
            self.act(&mut round, sequence, source, action);
        }
        self.publish(round);
    }

    fn publish(&mut self, round: Round) {
        let generation = match round.has_changed {
            true => self.shared.publish(round.image),
            false => self.shared.publisher().generation(),
        };
        let first = [&self.urgent, &self.normal]
            .into_iter()
            .filter_map(VecDeque::front)
            .min_by_key(|it| it.sequence);
        let done = first.map_or(self.received, |first| Sequence(first.sequence.0 - 1));
        for waiter in &mut self.live {
            if waiter.generation.is_none() && waiter.sequence <= done {
                waiter.generation = Some(generation);
            }
        }
        self.shared.queue.progress.send_modify(|progress| {
            (progress.done, progress.generation) = (done, generation);
        });
        round.reports.into_iter().for_each(|report| report());
    }

    fn act(&mut self, round: &mut Round, sequence: Sequence, source: SourceId, action: Action) {
        match action {
            Action::Apply(target, changes, promise) => {
                let results = self.apply(round, source, &target, changes);
                round.report(move || promise.give(Applied { results, sequence }));
            }
            Action::Replace(target, zone, judged, promise) => {
                let outcome = self.replace(round, source, &target, (zone, judged));
                let synced = Synced { refused: Vec::new(), outcome, sequence };
                round.report(move || promise.give(synced));
            }
            Action::Claim(origin, file) => {
                let claimed =
                    self.shared.catalog.state().claim(source, origin.as_name(), file).map(drop);
                if let Err(owner) = claimed {
                    let why = Refusal::NotTheOwner(owner);
                    return tracing::error!(zone = %origin, "zone refused: {why}");
                }
                self.show(round, origin.as_name());
            }
            Action::Remove(target) => self.remove(round, source, &target),
            Action::Layers(files) => self.set_layers(round, source, files),
            Action::Accept(target, promise) => {
                let accepted = self.accept(round, source, &target);
                // The layers of a source are of the same list as its zones.
                if accepted.is_some() && matches!(target, Target::Zone(_)) {
                    let layers = self.shared.catalog.state().held_layers(source);
                    for layer in layers {
                        self.accept(round, source, &layer);
                    }
                }
                let done = accepted.map_or(Acceptance::NotHeld, Acceptance::Served);
                round.report(move || promise.give(done));
            }
            Action::Health(verdicts, promise) => {
                for zone in self.filter.judge(&round.image, verdicts) {
                    round.image.put_zone(zone);
                    round.has_changed = true;
                }
                round.report(move || promise.give(sequence));
            }
            Action::Defaults(all) => {
                for origin in self.filter.set_defaults(all) {
                    self.show(round, origin.as_name());
                }
            }
            Action::LastMember(address, check, promise) => {
                promise.give(self.filter.last_of(address, check.as_deref(), LAST_SETS_SHOWN_MAX));
            }
            Action::Judged(zone, (view, name), rtype, promise) => {
                promise.give(self.filter.judged(&round.image, &zone, (view, &name), rtype));
            }
            Action::WhenLive(then) => {
                self.live.push(LiveWaiter { sequence, generation: None, then });
            }
        }
    }

    /// Applies changes to the served content, and to held content.
    fn apply(
        &mut self,
        round: &mut Round,
        source: SourceId,
        target: &Target,
        changes: Vec<Change>,
    ) -> Vec<Result<(), Refusal>> {
        let Some(mut content) = self.content(round, source, target) else {
            return changes.iter().map(|_| Err(Refusal::NoSuchTarget)).collect();
        };
        let Some(served) = &mut content.served else {
            return changes.iter().map(|_| Err(Refusal::NoSuchTarget)).collect();
        };
        let results = match &mut content.held {
            None => edits::apply(Arc::make_mut(served), changes),
            Some(held) => {
                // The source knows the held content; what is served follows as far as it can.
                edits::apply(Arc::make_mut(served), changes.clone());
                edits::apply(Arc::make_mut(held), changes)
            }
        };
        self.judge_again(source, target, &mut content);
        self.put(round, source, target, content);
        results
    }

    /// The content of a target; that of a new layer is empty.
    fn content(&self, round: &Round, source: SourceId, target: &Target) -> Option<Content> {
        let mut state = self.shared.catalog.state();
        match target {
            Target::Zone(origin) => state.zone_of(source, origin.as_name()).cloned(),
            Target::Layer(number) => {
                let known = state.layers.get(&state.layer_key(source, *number)).cloned();
                let new = || Some(Arc::new(empty_layer(round.image.key())));
                Some(known.unwrap_or_else(|| Content { served: new(), ..Content::default() }))
            }
        }
    }

    /// Ends a hold once the held content lost no more than is usual.
    fn judge_again(&self, source: SourceId, target: &Target, content: &mut Content) {
        let (Some(served), Some(held)) = (&content.served, &content.held) else { return };
        let key = self.hold_key(source, target);
        if self.shared.holds.judge(&key, &listed(served, held)) != Verdict::Hold
            && let Some(held) = content.held.take()
        {
            *content = std::mem::take(content).with(held);
        }
    }

    fn replace(
        &mut self,
        round: &mut Round,
        source: SourceId,
        target: &Target,
        (zone, judged): (Arc<Zone>, Judged),
    ) -> SyncOutcome {
        if let Target::Zone(origin) = target {
            let claimed =
                self.shared.catalog.state().claim(source, origin.as_name(), None).map(drop);
            if let Err(owner) = claimed {
                return SyncOutcome::Refused(Refusal::NotTheOwner(owner));
            }
        }
        let policy = self.shared.catalog.state().sources[source.0].hold;
        let before = self.content(round, source, target).unwrap_or_default();
        let evidence = match judged {
            _ if policy == HoldPolicy::Never => None,
            Judged::Listed => before.served.as_ref().map(|served| listed(served, &zone)),
            Judged::By(evidence) => Some(evidence),
            Judged::Believed => None,
        };
        let key = self.hold_key(source, target);
        let verdict = evidence.map(|evidence| self.shared.holds.judge(&key, &evidence));
        let held = self.shared.holds.held(&key).filter(|_| verdict == Some(Verdict::Hold));
        let (content, outcome) = match (held, policy) {
            (Some(held), HoldPolicy::Source) => return SyncOutcome::Held(held),
            (Some(held), _) => {
                (self.hold(&key, before, zone, held, policy), SyncOutcome::Held(held))
            }
            (None, _) if verdict == Some(Verdict::Warn) => {
                (before.with(zone), SyncOutcome::Doubted)
            }
            (None, _) => (before.with(zone), SyncOutcome::Published),
        };
        self.put(round, source, target, content);
        outcome
    }

    /// Keeps new content that lost too much beside the served one.
    fn hold(
        &mut self,
        key: &str,
        before: Content,
        zone: Arc<Zone>,
        held: HeldZone,
        policy: HoldPolicy,
    ) -> Content {
        let until = match policy {
            HoldPolicy::Until(pause) => before.until.or_else(|| Instant::now().checked_add(pause)),
            HoldPolicy::Never | HoldPolicy::Operator | HoldPolicy::Source => None,
        };
        self.due = self.due.into_iter().chain(until).min();
        tracing::warn!(
            zone = key,
            names_served = held.had,
            names_held = held.has,
            "content held: it has lost more than half of its names, so the content before is \
             served; `dunlin zones accept {key}` serves what is held"
        );
        Content { held: Some(zone), until, ..before }
    }

    /// Serves held content that an operator has accepted, or that has been held long enough.
    fn accept(&mut self, round: &mut Round, source: SourceId, target: &Target) -> Option<HeldZone> {
        let mut content = self.content(round, source, target)?;
        let zone = content.held.take()?;
        let key = self.hold_key(source, target);
        let held = self.shared.holds.held(&key).unwrap_or_default();
        self.shared.holds.release(key);
        self.put(round, source, target, content.with(zone));
        Some(held)
    }

    fn publish_due(&mut self) {
        let now = Instant::now();
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = None;
        let due = self.shared.catalog.state().due(now);
        let image = self.shared.publisher().newest().clone();
        let mut round = Round { image, has_changed: false, reports: Vec::new() };
        for (source, target) in due {
            tracing::warn!(%target, "held content is served: it was held for `hold_time`");
            self.accept(&mut round, source, &target);
        }
        self.due = self.shared.catalog.state().next_due();
        self.publish(round);
    }

    /// Publishes the weights that have changed with time.
    fn publish_steps(&mut self) {
        if self.filter.until_step().is_none() {
            return;
        }
        let mut image = self.shared.publisher().newest().clone();
        let stepped = self.filter.step(&image);
        if stepped.is_empty() {
            return;
        }
        stepped.into_iter().for_each(|zone| image.put_zone(zone));
        self.publish(Round { image, has_changed: true, reports: Vec::new() });
    }

    /// Keeps the content of a target, and shows it.
    fn put(&mut self, round: &mut Round, source: SourceId, target: &Target, content: Content) {
        match target {
            Target::Zone(origin) => {
                if let Some(kept) = self.shared.catalog.state().zone_of(source, origin.as_name()) {
                    *kept = content;
                }
                self.show(round, origin.as_name());
            }
            Target::Layer(number) => {
                let mut state = self.shared.catalog.state();
                let key = state.layer_key(source, *number);
                state.layers.insert(key, content);
                drop(state);
                self.show_layers(round);
            }
        }
    }

    fn remove(&mut self, round: &mut Round, source: SourceId, target: &Target) {
        self.shared.holds.release(self.hold_key(source, target));
        match target {
            Target::Zone(origin) => {
                self.shared.catalog.state().remove(source, origin.as_name());
                self.show(round, origin.as_name());
            }
            Target::Layer(number) => {
                let mut state = self.shared.catalog.state();
                let key = state.layer_key(source, *number);
                state.layers.remove(&key);
                drop(state);
                self.show_layers(round);
            }
        }
    }

    fn set_layers(&self, round: &mut Round, source: SourceId, files: Vec<PathBuf>) {
        for removed in self.shared.catalog.state().set_layers(source, files) {
            self.shared.holds.release(removed.display());
        }
        self.show_layers(round);
    }

    /// Puts what is to be served of a zone into the image.
    fn show(&mut self, round: &mut Round, origin: Name<'_>) {
        let (served, location) = {
            let state = self.shared.catalog.state();
            (state.served(origin), state.location(origin))
        };
        let key = catalog::key(origin);
        let was_there = round.image.zone(origin).is_some_and(|zone| zone.facts().loaded);
        let content = served.clone().flatten();
        let served = match served {
            Some(Some(zone)) => Some(Some(self.filter.show(&round.image, &key, zone, location))),
            Some(None) => {
                self.filter.forget(&key);
                Some(None)
            }
            None => {
                self.filter.delete(&key);
                None
            }
        };
        let image = &mut round.image;
        match (served, image.zone(origin)) {
            (None, None) => return,
            (None, Some(_)) => image.remove_zone(origin),
            (Some(Some(zone)), Some(shown)) if Arc::ptr_eq(&zone, shown) => return,
            (Some(Some(zone)), _) => image.put_zone(zone),
            // A zone without content answers SERVFAIL (invariant I10).
            (Some(None), Some(shown)) if !shown.facts().loaded => return,
            (Some(None), _) => {
                let key = Arc::clone(image.key());
                image.put_zone(Zone::unloaded(key, origin).into());
            }
        }
        for zone in self.filter.follow(image, origin, content.as_ref(), was_there) {
            image.put_zone(zone);
        }
        round.has_changed = true;
    }

    fn show_layers(&self, round: &mut Round) {
        let state = self.shared.catalog.state();
        let served = state.layers.values().filter_map(|content| content.served.clone());
        round.image.set_hosts(served.collect());
        round.has_changed = true;
    }

    fn hold_key(&self, source: SourceId, target: &Target) -> String {
        self.shared.catalog.state().hold_key(source, target)
    }

    /// Calls back those whose updates every worker serves.
    fn report_live(&mut self) {
        let mut at = 0;
        while at < self.live.len() {
            let is_live = |generation| self.shared.publisher().is_live(generation);
            if self.live[at].generation.is_some_and(is_live) {
                (self.live.swap_remove(at).then)(true);
            } else {
                at += 1;
            }
        }
    }
}

impl Round {
    fn report(&mut self, report: impl FnOnce() + 'static) {
        self.reports.push(Box::new(report));
    }
}

/// The evidence of content that a source lists.
fn listed(served: &Zone, new: &Zone) -> Evidence {
    Evidence::listed(names(served), names(new))
}
