//! Counters of the upstream client, for readers in other threads.
use crate::fault::TlsFault;
use crate::loops::ServerMarks;
use crate::streams::UpstreamStreams;
use answer::CacheLookup;
use forward::{Forwarder, UpstreamHealth};
use std::time::Duration;
use sync::{Counters, CountersView};

/// Counters of a server: [`forward::UpstreamCounts`], round trip time, health, connections, fault,
/// drained.
const SERVER: usize = 12;
/// Counters of the cache and of waiting clients.
const OWN: usize = 11;
/// Lookups: fresh, stale, missing.
const HITS: usize = 0;
const STALE: usize = 1;
const MISSES: usize = 2;
const ENTRIES: usize = 3;
const USED: usize = 4;
const WAITING: usize = 5;
/// Answers of owner shards, and queries sent by the shard itself: see [`OwnQueryReason`].
const HOME: usize = 6;
const ALONE: usize = 7;
/// Queries of clients that had too many waiting.
const CROWDED: usize = 10;

/// The writing end.
#[derive(Debug)]
pub(crate) struct StatusWriter {
    servers: Vec<Counters<SERVER>>,
    own: Counters<OWN>,
}

/// The reading end; it outlives the client.
#[derive(Clone, Debug)]
pub struct StatusView {
    servers: Vec<CountersView<SERVER>>,
    own: CountersView<OWN>,
}

/// The state of a server, as one or several threads know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpstreamState {
    /// Counters.
    pub counts: forward::UpstreamCounts,
    /// The longest smoothed round trip time of all threads, microseconds; 0: not measured.
    pub round_trip_micros: u64,
    /// Threads for which it is up.
    pub up: u64,
    /// Threads for which it is down.
    pub down: u64,
    /// Open connections.
    pub connections: u64,
    /// Connections opened so far.
    pub opened: u64,
    /// Queries that found no room on a connection.
    pub full: u64,
    /// What is wrong with it, for a thread that cannot use it.
    pub fault: TlsFault,
    /// Threads for which it is drained.
    pub drained: u64,
}

/// Counters of forwarding, of one or several threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResolverCounts {
    /// Lookups that found a fresh entry.
    pub hits: u64,
    /// Lookups that found a stale entry only.
    pub stale: u64,
    /// Lookups that found nothing.
    pub misses: u64,
    /// Cached answers.
    pub entries: u64,
    /// Their bytes.
    pub used: u64,
    /// Waiting clients.
    pub waiting: u64,
    /// Queries that were not deferred, because their client had too many waiting.
    pub crowded: u64,
    /// Queries for names of other owner shards.
    pub owner_shards: ShardCounts,
}

/// Queries for names of other owner shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardCounts {
    /// The owner shard answered.
    pub answered: u64,
    /// Sent by the shard itself, because the ring was full.
    pub full: u64,
    /// Because the owner shard was late.
    pub late: u64,
    /// Because the owner shard refused.
    pub refused: u64,
}

/// Why a shard sends a query for a name of another owner shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnQueryReason {
    /// The ring is full.
    Full,
    /// The owner shard did not answer in time.
    Late,
    /// The owner shard cannot send it, has not flushed yet, or its answer is too long for the ring.
    Refused,
}

impl StatusWriter {
    pub(crate) fn new(servers: usize) -> Self {
        Self { servers: (0..servers).map(|_| Counters::new()).collect(), own: Counters::new() }
    }

    pub(crate) fn view(&self) -> StatusView {
        let servers = self.servers.iter().map(Counters::view).collect();
        StatusView { servers, own: self.own.view() }
    }

    /// Counts a lookup.
    pub(crate) fn count(&mut self, lookup: CacheLookup) {
        let what = match lookup {
            CacheLookup::Hit => HITS,
            CacheLookup::Stale => STALE,
            CacheLookup::Miss => MISSES,
        };
        self.own.add(what, 1);
    }

    /// Counts an answer of an owner shard.
    pub(crate) fn count_owner(&mut self) {
        self.own.add(HOME, 1);
    }

    /// Counts a query of a client that has too many waiting.
    pub(crate) fn count_crowded(&mut self) {
        self.own.add(CROWDED, 1);
    }

    /// Counts a query that this shard sends itself.
    pub(crate) fn count_own_query(&mut self, why: OwnQueryReason) {
        self.own.add(ALONE + why as usize, 1);
    }

    /// Publishes the state of the servers.
    pub(crate) fn publish_servers(
        &mut self,
        forwarder: &mut Forwarder<'_>,
        (streams, marks): (&UpstreamStreams, &ServerMarks),
        now: Duration,
    ) {
        let now_micros = now.as_micros() as u64;
        for (number, status) in (0..).zip(self.servers.iter_mut().take(streams.servers())) {
            let connections = streams.server(number.into());
            let server = forwarder.upstream(number);
            let counts = server.counts;
            let is_up = server.health(now_micros) == UpstreamHealth::Up;
            let is_loop = marks.is_loop(number, now);
            let fault = match server.has_case_fault() {
                _ if is_loop => TlsFault::Loop,
                true => TlsFault::Case,
                false => connections.fault,
            };
            let values = [
                counts.sent,
                counts.answered,
                counts.refused,
                counts.late,
                counts.mismatched,
                server.round_trip_micros().into(),
                is_up.into(),
                connections.open() as u64,
                connections.opened,
                connections.full,
                fault.code(),
                server.is_drained.into(),
            ];
            for (index, value) in values.into_iter().enumerate() {
                status.set(index, value);
            }
        }
    }

    /// Publishes the state of the cache and the number of waiting clients.
    pub(crate) fn publish_own(&mut self, cache: &cache::CacheState, waiting: usize) {
        self.own.set(ENTRIES, cache.entries() as u64);
        self.own.set(USED, cache.used() as u64);
        self.own.set(WAITING, waiting as u64);
    }
}

impl StatusView {
    /// The state of the server with this number, summed over threads.
    pub fn server<'v>(views: impl IntoIterator<Item = &'v Self>, number: usize) -> UpstreamState {
        let mut sum = UpstreamState::default();
        for view in views {
            let Some(server) = view.servers.get(number) else { continue };
            let [sent, answered, refused, late, mismatched, round_trip, is_up, streams @ ..] =
                server.read();
            let [connections, opened, full, fault, is_drained] = streams;
            sum.counts.sent += sent;
            sum.counts.answered += answered;
            sum.counts.refused += refused;
            sum.counts.late += late;
            sum.counts.mismatched += mismatched;
            sum.round_trip_micros = sum.round_trip_micros.max(round_trip);
            // A server without queries counts as up.
            sum.up += u64::from(is_up != 0 || sent == 0);
            sum.down += u64::from(is_up == 0 && sent > 0);
            sum.connections += connections;
            sum.opened += opened;
            sum.full += full;
            if sum.fault == TlsFault::None {
                sum.fault = TlsFault::from_code(fault);
            }
            sum.drained += is_drained;
        }
        sum
    }

    /// The counters of forwarding, summed over threads.
    pub fn own<'v>(views: impl IntoIterator<Item = &'v Self>) -> ResolverCounts {
        let [hits, stale, misses, entries, used, waiting, answered, full, late, refused, crowded] =
            CountersView::sum(views.into_iter().map(|view| &view.own));
        let owner_shards = ShardCounts { answered, full, late, refused };
        ResolverCounts { hits, stale, misses, entries, used, waiting, crowded, owner_shards }
    }
}
