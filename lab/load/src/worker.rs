//! One thread of a load: sends due queries, receives answers, and never sleeps past a due time.

use crate::arrivals::{Arrivals, Plan, Rate, Spacing, ThreadShare};
use crate::clock::Clock;
use crate::fleet::Fleet;
use crate::limits::BATCH_MAX;
use crate::names::{Names, QuestionInfo};
use crate::options::{LoadMode, Options, QuerySource};
use crate::random::Random;
use crate::recorder::{ALONE, IntervalPart, Recorder};
use crate::table::{NewQuery, Table};
use crate::transport::{Batch, Transport};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

/// A thread wakes this long before a query is due, and spins until then: waking up takes some
/// microseconds, more on a virtual machine.
const SPIN_NS: u64 = 60_000;
/// The longest sleep of an idle thread, which then checks whether it must stop.
const NAP_MAX_NS: u64 = 50_000_000;
/// Queries due before the end may still leave for this long after it; then they are unsent.
const GRACE_NS: u64 = 1_000_000_000;

/// The link between a thread and the collector.
pub(crate) struct ReportLink {
    pub index: usize,
    pub out: SyncSender<(usize, Box<IntervalPart>)>,
    /// Empty parts to continue with.
    pub back: Receiver<Box<IntervalPart>>,
}

/// Where queries come from.
enum Source {
    Questions(Box<Names>),
    Lookups(Random),
}

pub(crate) struct Worker<'a, W> {
    options: &'a Options,
    transport: W,
    clock: Clock,
    stop: &'a AtomicBool,
    line: ReportLink,
    recorder: Recorder,
    source: Source,
    batch: Batch,
    plan: Option<Plan>,
    /// When the plan's next query is due.
    due: Option<u64>,
    /// Queries or lookups that may still be made.
    left: u64,
    channels: usize,
    channel: usize,
    /// A channel that sends nothing until it is renewed, and the time of the next renewal.
    retiring: Option<usize>,
    churn_at: u64,
    next_churned: usize,
    publish_at: u64,
}

/// The totals of a thread.
pub(crate) struct ThreadResult {
    pub busy_ns: u64,
    pub table_bytes: usize,
    pub dropped: u64,
    pub detoured: u64,
    pub failure: Option<String>,
}

/// Places each channel has in the table: in an open loop each may have to hold all that is under
/// way in its share, and chance makes shares uneven.
fn places_each(options: &Options) -> usize {
    let all = options.outstanding_each();
    match options.channels_each() {
        1 => all,
        channels => (2 * all.div_ceil(channels)).min(all),
    }
}

fn plan(options: &Options, share: ThreadShare) -> Option<Plan> {
    let capped;
    let arrivals = match &options.when {
        LoadMode::Open(arrivals) => arrivals,
        LoadMode::Closed { rate_max: None, .. } => return None,
        LoadMode::Closed { rate_max: Some(rate), .. } => {
            capped = Arrivals { rate: Rate::Constant(*rate), spacing: Spacing::Even, burst: 1 };
            &capped
        }
    };
    Some(Plan::new(arrivals, options.length_ns, share, options.seed))
}

impl<'a, W: Transport> Worker<'a, W> {
    pub fn new(options: &'a Options, transport: W, stop: &'a AtomicBool, line: ReportLink) -> Self {
        let share = ThreadShare { index: line.index, of: options.threads };
        let (channels, seed) = (options.channels_each(), options.seed);
        let own_seed = Random::new(seed, 0x0077_6f72 + share.index as u64).bits();
        let (source, fleet) = match &options.asks {
            QuerySource::Questions(what) => {
                let names = Names::new((**what).clone(), share.index, share.of, seed);
                (Source::Questions(Box::new(names)), None)
            }
            QuerySource::Lookups(names) => {
                let random = Random::new(seed, 0x6c6f_6f6b + share.index as u64);
                (Source::Lookups(random), Some(Fleet::new(names.clone())))
            }
        };
        let mut plan = plan(options, share);
        let due = plan.as_mut().and_then(Iterator::next);
        let (index, of) = (share.index as u64, share.of as u64);
        let left = options.queries_max.map_or(u64::MAX, |all| (all + of - 1 - index) / of);
        Self {
            options,
            transport,
            clock: Clock::ahead(0),
            stop,
            recorder: Recorder::new(
                options,
                Table::new(channels, places_each(options), own_seed),
                fleet,
            ),
            line,
            source,
            batch: Batch::new(),
            plan,
            due,
            left,
            channels,
            channel: 0,
            retiring: None,
            churn_at: options.churn_ns.unwrap_or(u64::MAX),
            next_churned: 0,
            publish_at: options.interval_ns,
        }
    }

    /// Runs the load to its end, from when this clock begins.
    pub fn run(mut self, clock: Clock) -> ThreadResult {
        self.clock = clock;
        while self.clock.until_begin() > 0 {
            std::thread::sleep(std::time::Duration::from_nanos(self.clock.until_begin()));
        }
        let mut now = self.clock.now();
        while !self.is_over(now) {
            let sent = self.send(now);
            if !self.turn() && !sent {
                self.wait(self.wake_at());
            }
            now = self.clock.now();
        }
        self.count_unsent(now);
        while self.recorder.table.len() > 0 && !self.is_ended() {
            if !self.turn() {
                self.wait(u64::MAX);
            }
        }
        // A stopped load does not wait: its outstanding queries count as timed out.
        self.recorder.expire(u64::MAX);
        self.recorder.part.until_ns = self.clock.now();
        self.recorder.part.counts.connections += self.transport.connections();
        let table_bytes = self.recorder.table.bytes();
        let busy_ns = self.recorder.busy_ns;
        let (dropped, detoured) = (self.transport.dropped(), self.transport.detoured());
        let failure = self.transport.failure().map(ToString::to_string);
        // There is room for one more than are handed over and not given back.
        let _ = self.line.out.send((self.line.index, self.recorder.part));
        ThreadResult { busy_ns, table_bytes, dropped, detoured, failure }
    }

    /// Whether all queries were sent.
    fn is_over(&self, now: u64) -> bool {
        let waiting = !self.batch.is_empty();
        let chained =
            self.recorder.fleet.as_ref().is_some_and(|f| !f.ready.is_empty() || f.len() > 0);
        let exhausted = (self.plan.is_some() && self.due.is_none() || self.left == 0)
            && !waiting
            && !(chained && now < self.options.length_ns);
        let grace = if self.options.is_open() { GRACE_NS } else { 0 };
        exhausted || now >= self.options.length_ns + grace || self.is_ended()
    }

    /// Whether it is stopped, or cannot continue.
    fn is_ended(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.transport.failure().is_some()
    }

    /// Receives, expires and renews. Returns whether a message was received.
    fn turn(&mut self) -> bool {
        let Self { transport, clock, recorder, .. } = self;
        let came = transport
            .receive(clock, &mut |channel, now, message| recorder.came(channel, now, message));
        while let Some(channel) = self.transport.closed() {
            self.recorder.part.counts.cut += u64::from(self.recorder.table.len_of(channel) > 0);
        }
        let now = self.clock.now();
        self.recorder.expire(now);
        self.renew(now);
        if now >= self.publish_at {
            self.publish(now);
        }
        came > 0
    }

    /// Replaces channels that are due for renewal.
    fn renew(&mut self, now: u64) {
        if self.retiring.is_none() {
            self.retiring = self.transport.spent();
        }
        if self.retiring.is_none() && now >= self.churn_at {
            self.retiring = Some(self.next_churned);
            self.next_churned = (self.next_churned + 1) % self.channels;
            self.churn_at += self.options.churn_ns.unwrap_or(u64::MAX);
        }
        let waits = |channel| !self.batch.is_empty() && self.batch.channel == channel;
        if let Some(channel) = self.retiring
            && self.recorder.table.len_of(channel) == 0
            && !waits(channel)
        {
            // If no new one is available, this one continues.
            if self.transport.renew(channel).is_ok() {
                self.recorder.table.renew(channel);
            }
            self.retiring = None;
        }
    }

    /// Hands the interval over, if there is something to continue with.
    fn publish(&mut self, now: u64) {
        self.publish_at += self.options.interval_ns;
        if let Ok(empty) = self.line.back.try_recv() {
            self.recorder.part.until_ns = now;
            let part = std::mem::replace(&mut self.recorder.part, empty);
            // There is room for all parts.
            let _ = self.line.out.try_send((self.line.index, part));
        }
    }

    /// When there is something to do at the latest.
    fn wake_at(&self) -> u64 {
        let due = match &self.options.when {
            LoadMode::Closed { .. } if self.room() == 0 => None,
            _ => self.due.filter(|_| self.left > 0),
        };
        due.unwrap_or(u64::MAX).min(self.options.length_ns).min(self.churn_at)
    }

    /// Waits for an answer until shortly before `until`, or something else is to be done.
    fn wait(&mut self, until: u64) {
        let now = self.clock.now();
        let timeout = self.recorder.next_timeout().unwrap_or(u64::MAX);
        let until = until.saturating_sub(SPIN_NS).min(timeout).min(self.publish_at);
        match until > now {
            true => self.transport.wait((until - now).min(NAP_MAX_NS)),
            // A receiver on this CPU must not wait for the end of a time slice.
            false => std::thread::yield_now(),
        }
    }

    /// How many more may be under way.
    fn room(&self) -> usize {
        match self.options.when {
            LoadMode::Open(_) => usize::MAX,
            LoadMode::Closed { .. } => {
                let ready = self.recorder.fleet.as_ref().map_or(0, |fleet| fleet.ready.len());
                let all = self.options.outstanding_each();
                all.saturating_sub(self.recorder.table.len() + ready)
            }
        }
    }

    /// Sends the due queries. Returns whether there were any.
    fn send(&mut self, now: u64) -> bool {
        if self.batch.is_empty() {
            self.gather(now);
        }
        if self.batch.is_empty() {
            return false;
        }
        let stamp = self.clock.now();
        let is_open = self.options.is_open();
        for place in &self.batch.places[self.batch.done..] {
            let place = self.recorder.table.get(*place);
            place.sent = stamp;
            if !is_open {
                place.due = stamp;
            }
        }
        let sent = self.transport.send(&self.batch);
        for _ in 0..sent.taken {
            let index = self.batch.done;
            let (place, len) = (self.batch.places[index], self.batch.query(index).len());
            match self.transport.was_refused(index) {
                true => self.recorder.refused(place, stamp),
                false => self.recorder.sent(place, len),
            }
            self.batch.done += 1;
        }
        if sent.refused && !self.batch.is_empty() {
            self.recorder.refused(self.batch.places[self.batch.done], stamp);
            self.batch.done += 1;
        }
        if self.options.spin_ns > 0 {
            self.clock.spin(self.options.spin_ns * sent.taken as u64);
        }
        sent.taken > 0
    }

    /// The next channel that takes a query.
    fn next_lane(&mut self) -> Option<usize> {
        for _ in 0..self.channels {
            self.channel = (self.channel + 1) % self.channels;
            if self.may_take(self.channel) {
                return Some(self.channel);
            }
        }
        None
    }

    fn may_take(&self, channel: usize) -> bool {
        Some(channel) != self.retiring
            && self.recorder.table.room_of(channel) > 0
            && self.transport.takes(channel) > 0
    }

    /// Takes the next due query from the plan. Returns its due time: in a closed loop, now.
    fn take(&mut self, now: u64) -> Option<u64> {
        if self.left == 0 {
            return None;
        }
        let due = match (&mut self.plan, self.due) {
            (None, _) => now,
            (Some(plan), Some(due)) if due <= now => {
                self.due = plan.next();
                due
            }
            _ => return None,
        };
        self.left -= 1;
        Some(if self.options.is_open() { due } else { now })
    }

    /// Whether something is due.
    fn is_due(&self, now: u64) -> bool {
        self.left > 0 && (self.plan.is_none() || self.due.is_some_and(|due| due <= now))
    }

    /// The most queries that leave together. With `spin_ns`, fewer, so that answers are read in
    /// between.
    fn batch_max(&self) -> usize {
        if self.options.spin_ns > 0 { 1 } else { BATCH_MAX }
    }

    /// Writes the due queries into the batch, all for one channel.
    fn gather(&mut self, now: u64) {
        self.batch.clear();
        match self.source {
            Source::Lookups(_) => self.gather_lookups(now),
            Source::Questions(_) => self.collect_queries(now),
        }
    }

    fn collect_queries(&mut self, now: u64) {
        let most = self.room().min(self.batch_max());
        if most == 0 || !self.is_due(now) {
            return;
        }
        let Some(channel) = self.next_lane() else { return self.crowd_out(now) };
        self.batch.channel = channel;
        let most = most.min(self.transport.takes(channel));
        while self.batch.ends.len() < most && self.may_take(channel) {
            let Some(due) = self.take(now) else { return };
            let Source::Questions(names) = &mut self.source else { return };
            let asked = names.write(&mut self.batch.bytes);
            self.enter(due, asked, ALONE);
        }
    }

    /// Takes a place for the last written query, and completes it.
    fn enter(&mut self, due: u64, asked: QuestionInfo, tag: u32) {
        let QuestionInfo { question_len, identity, .. } = asked;
        let new = NewQuery { due, sent: due, identity, question_len, tag };
        self.recorder.part.counts.planned += 1;
        let (place, id) = self
            .recorder
            .table
            .open(self.batch.channel, new)
            .expect("the channel was checked before");
        self.batch.end(place, id);
    }

    fn gather_lookups(&mut self, now: u64) {
        while self.room() >= 2 && self.is_due(now) && self.ready() < BATCH_MAX {
            let Some(channel) = self.next_lane() else {
                self.crowd_out(now);
                break;
            };
            let Some(due) = self.take(now) else { break };
            let (Source::Lookups(random), Some(fleet)) =
                (&mut self.source, &mut self.recorder.fleet)
            else {
                return;
            };
            let counts = &mut self.recorder.part.counts;
            counts.lookups += 1;
            if !fleet.begin(fleet.pick(random), due, channel as u32) {
                // Its first two queries count as unsent.
                counts.lookups_failed += 1;
                counts.planned += 2;
                counts.crowded += 2;
                self.recorder.unsent(2);
            }
        }
        self.gather_ready();
    }

    fn ready(&self) -> usize {
        self.recorder.fleet.as_ref().map_or(0, |fleet| fleet.ready.len())
    }

    /// Writes queries of lookups into the batch, as long as they are for one channel.
    fn gather_ready(&mut self) {
        let front = |recorder: &Recorder| recorder.fleet.as_ref()?.ready.front().copied();
        let Some(first) = front(&self.recorder) else { return };
        self.batch.channel = first.channel as usize;
        let channel = self.batch.channel;
        let most = self.batch_max().min(self.transport.takes(channel));
        while let Some(step) = front(&self.recorder)
            && step.channel == first.channel
            && self.batch.ends.len() < most
            && self.recorder.table.room_of(channel) > 0
        {
            let Some(fleet) = &mut self.recorder.fleet else { return };
            fleet.ready.pop_front();
            let (query, asked) = fleet.names.set.asked(step.index);
            self.batch.bytes.extend_from_slice(query);
            self.enter(step.due, asked, step.lookup);
        }
    }

    /// No channel accepts the due query. Drops the query if the table is full, else delays it.
    fn crowd_out(&mut self, now: u64) {
        let full = (0..self.channels).all(|channel| self.recorder.table.room_of(channel) == 0);
        if !full || !self.options.is_open() {
            return;
        }
        let each = if self.recorder.fleet.is_some() { 2 } else { 1 };
        while self.take(now).is_some() {
            let counts = &mut self.recorder.part.counts;
            counts.planned += each;
            counts.crowded += each;
            self.recorder.unsent(each);
        }
    }

    /// Counts queries that were due and have not left as unsent.
    fn count_unsent(&mut self, now: u64) {
        for place in self.batch.places.split_off(self.batch.done) {
            self.recorder.refused(place, now);
        }
        if let Some(fleet) = &mut self.recorder.fleet {
            for _ in std::mem::take(&mut fleet.ready) {
                self.recorder.part.counts.planned += 1;
                self.recorder.unsent(1);
            }
        }
        if !self.options.is_open() {
            return;
        }
        let each = if self.recorder.fleet.is_some() { 2 } else { 1 };
        while self.take(now).is_some() {
            self.recorder.part.counts.planned += each;
            self.recorder.unsent(each);
        }
    }
}
