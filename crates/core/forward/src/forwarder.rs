//! Chooses the server for each query, and the time of each try.
use crate::case_mask::CaseMask;
use crate::compatibility::QueryForm;
use crate::event::{ForwardEvent, QueryId, QueryOutcome, Transmission};
use crate::late::{LatePurpose, LateQueries};
use crate::limits::{
    GROUP_LEN_MAX, HEDGE_SHARE, HEDGES_MAX, QUERIES_MAX, QUERY_MICROS_MAX, TRIES_MAX,
    UPSTREAMS_MAX, WAITERS_MAX, WAITERS_PER_QUERY_MAX,
};
use crate::message::{QUERY_LEN_MAX, compose, compose_probe};
use crate::pending::{Attempt, NONE, PendingQuery, UpstreamGroup};
use crate::timer::TimerWheel;
use crate::upstream::{Upstream, UpstreamHealth};
use cache::CacheKey;
use wire::NameBuf;

/// Hash lists of queries.
const LISTS: usize = QUERIES_MAX;
/// The most transmissions of one call: a server, a failing server that is tried again, and spare
/// room.
const TRANSMISSIONS_MAX: usize = 4;

/// The state of a forwarder, except its queries.
#[derive(Debug)]
pub struct ForwarderState {
    pub(crate) upstreams: [Upstream; UPSTREAMS_MAX],
    pub(crate) wheel: TimerWheel,
    /// The first query of each list.
    lists: [u16; LISTS],
    /// The first free slot.
    free: u16,
    /// For each message ID, one more than the number of its query and try; 0: unused.
    pub(crate) ids: [u16; 1 << 16],
    /// For each waiter, the next waiter of the same query.
    waiters: [u16; WAITERS_MAX],
    /// Queries under way.
    len: usize,
    /// Hedged queries that may be sent, in units of one share.
    hedge_credit: u32,
    pub(crate) transmissions: [Option<Transmission>; TRANSMISSIONS_MAX],
    pub(crate) late_queries: LateQueries,
    /// The suffix of each server's names.
    pub(crate) probe_names: [NameBuf; UPSTREAMS_MAX],
    /// Servers that were used have numbers below this.
    pub(crate) servers: u16,
    /// When the next probe is due; `is_probe_wanted`: that must be determined again.
    pub(crate) probe_at: Option<u64>,
    pub(crate) is_probe_wanted: bool,
}

impl ForwarderState {
    /// A state without servers and queries. `queries` is all the memory for queries, at most
    /// [`QUERIES_MAX`].
    pub fn new(queries: &mut [PendingQuery]) -> Self {
        let last = queries.len().min(QUERIES_MAX);
        for (number, query) in queries.iter_mut().enumerate().take(last) {
            query.next = if number + 1 == last { NONE } else { number as u16 + 1 };
        }
        Self {
            upstreams: [const { Upstream::NEW }; UPSTREAMS_MAX],
            wheel: TimerWheel::new(),
            lists: [NONE; LISTS],
            free: if last == 0 { NONE } else { 0 },
            ids: [0; 1 << 16],
            waiters: [NONE; WAITERS_MAX],
            len: 0,
            hedge_credit: HEDGES_MAX * HEDGE_SHARE,
            transmissions: [None; TRANSMISSIONS_MAX],
            late_queries: LateQueries::new(),
            probe_names: [const { NameBuf::root() }; UPSTREAMS_MAX],
            servers: 0,
            probe_at: None,
            is_probe_wanted: false,
        }
    }
}

/// Unpredictable numbers.
pub type RandomSource<'d> = &'d mut dyn FnMut() -> u64;

/// The queries of one thread, in borrowed memory. Times are monotonic microseconds, and never go
/// back.
#[derive(Debug)]
pub struct Forwarder<'m> {
    /// The state.
    pub state: &'m mut ForwarderState,
    /// The queries, as many as the state was made for.
    pub queries: &'m mut [PendingQuery],
}

impl Forwarder<'_> {
    /// Sends a query to a server of a group, unless it is already under way, and lets `waiter` wait
    /// for the answer: a number below [`WAITERS_MAX`] that waits for nothing else.
    pub fn query(
        &mut self,
        key: &CacheKey<'_>,
        group: UpstreamGroup,
        waiter: Option<u16>,
        now: u64,
        random: RandomSource<'_>,
    ) -> QueryOutcome {
        if group.len == 0 {
            return QueryOutcome::NoUpstream;
        }
        let number = match self.find(key, group) {
            Some(number) => number,
            None => {
                let Some(number) = self.begin(key, group, now) else { return QueryOutcome::Full };
                self.add_hedge_credit();
                if !self.try_next(number, now, random) && !self.try_unreachable(number, now, random)
                {
                    self.end(self.query_id(number));
                    return QueryOutcome::NoUpstream;
                }
                self.try_failing(number, now, random);
                self.schedule(number, now);
                number
            }
        };
        self.join(number, waiter)
    }

    /// The query under way with this key, unless it was cut off.
    pub(crate) fn find(&self, key: &CacheKey<'_>, group: UpstreamGroup) -> Option<u16> {
        let mut number = self.state.lists[key.hash as usize % LISTS];
        while number != NONE && !self.queries[usize::from(number)].is(key, group) {
            number = self.queries[usize::from(number)].next;
        }
        (number != NONE).then_some(number)
    }

    /// Takes a free slot for a query.
    pub(crate) fn begin(
        &mut self,
        key: &CacheKey<'_>,
        group: UpstreamGroup,
        now: u64,
    ) -> Option<u16> {
        let number = self.state.free;
        let query = self.queries.get_mut(usize::from(number))?;
        self.state.free = query.next;
        query.begin(key, group, now);
        let servers = group.first + group.len;
        if self.state.servers < servers {
            (self.state.servers, self.state.is_probe_wanted) = (servers, true);
        }
        let first = &mut self.state.lists[key.hash as usize % LISTS];
        query.next = core::mem::replace(first, number);
        self.state.len += 1;
        Some(number)
    }

    /// Adds to the credit for hedged queries, for each query that is sent.
    pub(crate) fn add_hedge_credit(&mut self) {
        self.state.hedge_credit = (self.state.hedge_credit + 1).min(HEDGES_MAX * HEDGE_SHARE);
    }

    /// Lets a waiter wait for a query.
    pub(crate) fn join(&mut self, number: u16, waiter: Option<u16>) -> QueryOutcome {
        let Some(waiter) = waiter else { return QueryOutcome::Pending };
        let query = &mut self.queries[usize::from(number)];
        if query.waiters == WAITERS_PER_QUERY_MAX {
            return QueryOutcome::Full;
        }
        query.waiters += 1;
        self.state.waiters[usize::from(waiter)] = core::mem::replace(&mut query.waiter, waiter);
        QueryOutcome::Pending
    }

    /// The next transmission.
    pub fn transmission(&mut self) -> Option<Transmission> {
        self.state.transmissions.iter_mut().find_map(Option::take)
    }

    /// Writes a transmission; returns its length.
    pub fn compose(&self, transmission: &Transmission, buf: &mut [u8; QUERY_LEN_MAX]) -> usize {
        let transport = self.state.upstreams[usize::from(transmission.upstream)].transport;
        if let Some(slot) = transmission.probe() {
            let late = self.state.late_queries.get(slot);
            let root = late.purpose == LatePurpose::Probe { root: true };
            return compose_probe(late.id, self.probe_name(late.upstream, root), transport, buf);
        }
        let query = &self.queries[usize::from(transmission.query)];
        compose(query, &query.tries[usize::from(transmission.attempt)], transport, buf)
    }

    /// When [`expire`](Self::expire) should be called next.
    pub fn next_micros(&mut self) -> Option<u64> {
        let (probe, queries) = (self.next_probe(), self.state.wheel.next_micros());
        [probe, queries].into_iter().flatten().min()
    }

    /// A query under way, unless it has ended.
    pub fn get(&self, query_id: QueryId) -> Option<&PendingQuery> {
        let query = self.queries.get(usize::from(query_id.number))?;
        (query.serial == query_id.serial && query.group.len > 0).then_some(query)
    }

    /// Removes a waiter of a query.
    pub fn take_waiter(&mut self, query_id: QueryId) -> Option<u16> {
        self.get(query_id)?;
        let query = &mut self.queries[usize::from(query_id.number)];
        let waiter = query.waiter;
        let next = self.state.waiters.get(usize::from(waiter))?;
        query.waiter = *next;
        query.waiters -= 1;
        Some(waiter)
    }

    /// Ends a query. A later reply to it still shows that the server is alive.
    pub fn end(&mut self, query_id: QueryId) {
        if self.get(query_id).is_none() {
            return;
        }
        let QueryId { number, .. } = query_id;
        for attempt in 0..self.queries[usize::from(number)].tries().len() {
            let sent = self.queries[usize::from(number)].tries[attempt];
            if self.state.ids[usize::from(sent.id)] == id_of(number, attempt) {
                self.give_up(number, &sent);
            }
            if sent.is_waited {
                self.state.upstreams[usize::from(sent.upstream)].record_query_end();
            }
        }
        let state = &mut *self.state;
        let query = &mut self.queries[usize::from(number)];
        state.wheel.clear(number);
        let (list, next) = (query.hash as usize % LISTS, query.next);
        query.group.len = 0;
        query.next = core::mem::replace(&mut state.free, number);
        state.len -= 1;
        let mut before = state.lists[list];
        if before == number {
            state.lists[list] = next;
            return;
        }
        while self.queries[usize::from(before)].next != number {
            before = self.queries[usize::from(before)].next;
        }
        self.queries[usize::from(before)].next = next;
    }

    /// The state of a server.
    pub fn upstream(&mut self, number: u16) -> &mut Upstream {
        self.state.is_probe_wanted = true;
        &mut self.state.upstreams[usize::from(number)]
    }

    /// The number of queries under way.
    pub fn len(&self) -> usize {
        self.state.len
    }

    /// Whether no query is under way.
    pub fn is_empty(&self) -> bool {
        self.state.len == 0
    }

    pub(crate) fn query_id(&self, number: u16) -> QueryId {
        QueryId { number, serial: self.queries[usize::from(number)].serial }
    }

    pub(crate) fn mismatch(&mut self, upstream: u16) -> ForwardEvent {
        self.state.upstreams[usize::from(upstream)].counts.mismatched += 1;
        ForwardEvent::Nothing
    }

    /// Handles the failure of a try: queries another server, waits for one that was queried, or
    /// gives up.
    pub(crate) fn go_on(
        &mut self,
        number: u16,
        now: u64,
        random: RandomSource<'_>,
    ) -> ForwardEvent {
        let query = &self.queries[usize::from(number)];
        let waits = query.tries().iter().any(|sent| sent.is_waited);
        if !waits && (query.is_without_waiters() || !self.try_next(number, now, random)) {
            self.state.wheel.clear(number);
            return ForwardEvent::Failure(self.query_id(number));
        }
        self.schedule(number, now);
        ForwardEvent::Nothing
    }

    /// Queries the server with the lowest expected time among those that this query was sent to
    /// least.
    fn try_next(&mut self, number: u16, now: u64, random: RandomSource<'_>) -> bool {
        let query = &self.queries[usize::from(number)];
        if now - query.began_at >= QUERY_MICROS_MAX {
            return false;
        }
        let healths = [
            UpstreamHealth::Up,
            UpstreamHealth::Drained,
            UpstreamHealth::Due,
            UpstreamHealth::Down,
        ];
        let best = healths.into_iter().find_map(|health| self.best(query, now, health));
        best.is_some_and(|upstream| self.send(number, (upstream, false), now, random))
    }

    /// Sends a new name now and then if all servers are unreachable: they may answer clients but
    /// not probes.
    fn try_unreachable(&mut self, number: u16, now: u64, random: RandomSource<'_>) -> bool {
        let UpstreamGroup { first, len, .. } = self.queries[usize::from(number)].group;
        let mut group = first..first + len.min(GROUP_LEN_MAX as u16);
        let gone = group.find(|number| self.state.upstreams[usize::from(*number)].may_trickle(now));
        gone.is_some_and(|upstream| self.send(number, (upstream, false), now, random))
    }

    /// Checks whether a failing server has recovered: it gets a copy of the query, and no client
    /// waits for it alone.
    fn try_failing(&mut self, number: u16, now: u64, random: RandomSource<'_>) {
        let query = &self.queries[usize::from(number)];
        if let Some(upstream) = self.best(query, now, UpstreamHealth::Due)
            && query.asked(upstream) == 0
        {
            self.send(number, (upstream, false), now, random);
        }
    }

    /// Queries a second server if the first one is late, for a share of all queries.
    pub(crate) fn hedge(&mut self, number: u16, now: u64, random: RandomSource<'_>) {
        let query = &self.queries[usize::from(number)];
        let mut waited = query.tries().iter().filter(|sent| sent.is_waited);
        let (Some(sent), None) = (waited.next(), waited.next()) else { return };
        let server = &self.state.upstreams[usize::from(sent.upstream)];
        let is_late = now - sent.sent_at >= server.hedge_micros();
        if !is_late || query.is_hedged || self.state.hedge_credit < HEDGE_SHARE {
            return;
        }
        let other =
            self.best(query, now, UpstreamHealth::Up).filter(|other| query.asked(*other) == 0);
        if let Some(other) = other
            && self.send(number, (other, false), now, random)
        {
            self.state.hedge_credit -= HEDGE_SHARE;
            self.queries[usize::from(number)].is_hedged = true;
        }
    }

    /// The cheapest server with this health among those that this query was sent to least.
    fn best(&self, query: &PendingQuery, now: u64, health: UpstreamHealth) -> Option<u16> {
        let len = query.group.len.min(GROUP_LEN_MAX as u16);
        (query.group.first..query.group.first + len)
            .filter(|number| {
                let server = &self.state.upstreams[usize::from(*number)];
                server.serves_as(health, now) && query.may_forward(*number)
            })
            .min_by_key(|number| {
                (query.asked(*number), self.state.upstreams[usize::from(*number)].cost(now))
            })
    }

    /// Adds a transmission in the form that the server understands; `is_long`: the answer is too
    /// long for a datagram. False if the query was sent often enough.
    pub(crate) fn send(
        &mut self,
        number: u16,
        (upstream, is_long): (u16, bool),
        now: u64,
        random: RandomSource<'_>,
    ) -> bool {
        let attempt = usize::from(self.queries[usize::from(number)].tries_len);
        if attempt == TRIES_MAX || self.state.transmissions.iter().all(Option::is_some) {
            return false;
        }
        let form = self.form(&self.queries[usize::from(number)], (upstream, is_long), now);
        let Some(id) = self.free_id(random) else { return false };
        let Some(transmission) =
            self.state.transmissions.iter_mut().find(|transmission| transmission.is_none())
        else {
            return false;
        };
        let query = &mut self.queries[usize::from(number)];
        self.state.ids[usize::from(id)] = id_of(number, attempt);
        let server = &mut self.state.upstreams[usize::from(upstream)];
        let QueryForm { by_stream, is_case_retry, mixes_case, has_edns } = form;
        let casing = if mixes_case { CaseMask::new(random()) } else { CaseMask::LOWER };
        query.tries[attempt] = Attempt {
            upstream,
            id,
            casing,
            by_stream,
            is_case_retry,
            has_edns,
            is_opening: by_stream,
            sent_at: now,
            patience_micros: server.wait_micros(query.asked(upstream), now),
            is_waited: true,
            ..Attempt::NEVER
        };
        query.tries_len += 1;
        let (serial, attempt) = (query.serial, attempt as u8);
        *transmission = Some(Transmission { upstream, by_stream, query: number, serial, attempt });
        server.query(now);
        true
    }

    /// An unused message ID.
    pub(crate) fn free_id(&mut self, random: RandomSource<'_>) -> Option<u16> {
        self.choose_key(random);
        let mut throws = core::iter::repeat_with(|| random() as u16).take(ID_THROWS);
        throws.find(|id| self.state.ids[usize::from(*id)] == 0)
    }

    /// Sets when a query is due.
    pub(crate) fn schedule(&mut self, number: u16, now: u64) {
        let query = &self.queries[usize::from(number)];
        let servers = &self.state.upstreams;
        let waited = query.tries().iter().filter(|sent| sent.is_waited).map(|sent| {
            let server = &servers[usize::from(sent.upstream)];
            let hedge = sent.sent_at + server.hedge_micros();
            let wait = sent.sent_at + sent.wait_micros();
            if query.is_hedged || hedge <= now { wait } else { hedge }
        });
        self.state.wheel.set(number, waited.min().unwrap_or(now));
    }

    /// Cuts off the queries for which `is_old` returns true: they take no more waiters, and their
    /// answers are not cached. Returns how many there are.
    pub fn cut_off(&mut self, mut is_old: impl FnMut(&PendingQuery) -> bool) -> usize {
        let mut count = 0;
        for query in
            self.queries.iter_mut().filter(|query| query.group.len > 0 && !query.is_cut_off)
        {
            query.is_cut_off = is_old(query);
            count += usize::from(query.is_cut_off);
        }
        // Late answers would fill the cache again.
        self.state.late_queries.cut_off();
        count
    }
}

/// At most half of the IDs are used. A query that finds none in this many attempts fails.
const ID_THROWS: usize = 64;

/// The value of a try in the table of IDs.
pub(crate) fn id_of(number: u16, attempt: usize) -> u16 {
    number * TRIES_MAX as u16 + attempt as u16 + 1
}
