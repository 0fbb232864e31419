//! What an asker counts, for others to read.
use crate::fault::Fault;
use crate::loops::Marks;
use crate::streams::Streams;
use answer::Lookup;
use door::{Counters, CountersView};
use forward::{Forwarder, Standing};
use std::time::Duration;

/// Of a server: what happened ([`forward::Counts`]), its round trip time, its standing, what there
/// is to tell of connections to it, and whether it is drained.
const SERVER: usize = 12;
/// Of the cache and those who wait.
const OWN: usize = 10;
/// Look-ups that found what is good, what is too old, and nothing.
const HITS: usize = 0;
const STALE: usize = 1;
const MISSES: usize = 2;
const ENTRIES: usize = 3;
const USED: usize = 4;
const WAITING: usize = 5;
/// What a home answered, and what was asked alone: see [`Alone`].
const HOME: usize = 6;
const ALONE: usize = 7;

/// The writing end.
#[derive(Debug)]
pub(crate) struct Board {
    servers: Vec<Counters<SERVER>>,
    own: Counters<OWN>,
}

/// The reading end; it stays readable when the asker is gone.
#[derive(Clone, Debug)]
pub struct View {
    servers: Vec<CountersView<SERVER>>,
    own: CountersView<OWN>,
}

/// What one thread, or several together, know of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// What happened.
    pub counts: forward::Counts,
    /// The longest of the threads' smoothed round trip times, microseconds; 0: never heard.
    pub round_trip_micros: u64,
    /// Threads for which it answers, and for which it does not.
    pub up: u64,
    /// As before.
    pub down: u64,
    /// Connections to it: those that there are, and that were ever opened.
    pub connections: u64,
    /// As before.
    pub opened: u64,
    /// Questions that found no room on them.
    pub full: u64,
    /// What is wrong with it, or was with the last of them, for a thread that could not use it.
    pub fault: Fault,
    /// Threads that were told not to ask it.
    pub drained: u64,
}

/// What one thread, or several together, know of others' names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// Look-ups that found what is good, what is too old, and nothing.
    pub hits: u64,
    /// As before.
    pub stale: u64,
    /// As before.
    pub misses: u64,
    /// Answers that are kept.
    pub entries: u64,
    /// Octets they take.
    pub used: u64,
    /// Clients that wait.
    pub waiting: u64,
    /// What became of names whose home is another thread.
    pub homes: Homes,
}

/// What became of names whose home is another thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Homes {
    /// The home told what is known.
    pub answered: u64,
    /// They were asked alone, because the ring to the home was full.
    pub full: u64,
    /// Because the home was late.
    pub late: u64,
    /// Because the home refused.
    pub refused: u64,
}

/// Why a thread asks about a name itself whose home is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alone {
    /// The ring to the home is full.
    Full,
    /// The home does not answer in time.
    Late,
    /// The home cannot ask, has yet to forget something, or knows what is too long to be told.
    Refused,
}

impl Board {
    pub(crate) fn new(servers: usize) -> Self {
        Self { servers: (0..servers).map(|_| Counters::new()).collect(), own: Counters::new() }
    }

    pub(crate) fn view(&self) -> View {
        let servers = self.servers.iter().map(Counters::view).collect();
        View { servers, own: self.own.view() }
    }

    /// Counts a look-up.
    pub(crate) fn count(&mut self, lookup: Lookup) {
        let what = match lookup {
            Lookup::Hit => HITS,
            Lookup::Stale => STALE,
            Lookup::Miss => MISSES,
        };
        self.own.add(what, 1);
    }

    /// Counts what a home answered.
    pub(crate) fn count_home(&mut self) {
        self.own.add(HOME, 1);
    }

    /// Counts what has to be asked alone.
    pub(crate) fn count_alone(&mut self, why: Alone) {
        self.own.add(ALONE + why as usize, 1);
    }

    /// Tells how servers stand.
    pub(crate) fn tell_servers(
        &mut self,
        forwarder: &mut Forwarder<'_>,
        (streams, marks): (&Streams, &Marks),
        now: Duration,
    ) {
        let now_micros = now.as_micros() as u64;
        for (number, board) in (0..).zip(&mut self.servers) {
            let connections = streams.server(number.into());
            let server = forwarder.upstream(number);
            let counts = server.counts;
            let is_up = server.standing(now_micros) == Standing::Up;
            let is_loop = marks.is_loop(number, now);
            let fault = if is_loop { Fault::Loop } else { connections.fault };
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
                board.set(index, value);
            }
        }
    }

    /// Tells what is kept, and how many wait.
    pub(crate) fn tell_own(&mut self, cache: &cache::State, waiting: usize) {
        self.own.set(ENTRIES, cache.entries() as u64);
        self.own.set(USED, cache.used() as u64);
        self.own.set(WAITING, waiting as u64);
    }
}

impl View {
    /// What several threads know of the server of this number.
    pub fn server<'v>(views: impl IntoIterator<Item = &'v Self>, number: usize) -> Server {
        let mut sum = Server::default();
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
            // Nobody has looked yet where nothing was sent.
            sum.up += u64::from(is_up != 0 || sent == 0);
            sum.down += u64::from(is_up == 0 && sent > 0);
            sum.connections += connections;
            sum.opened += opened;
            sum.full += full;
            if sum.fault == Fault::None {
                sum.fault = Fault::from_code(fault);
            }
            sum.drained += is_drained;
        }
        sum
    }

    /// What several threads know of others' names.
    pub fn own<'v>(views: impl IntoIterator<Item = &'v Self>) -> Own {
        let [hits, stale, misses, entries, used, waiting, answered, full, late, refused] =
            CountersView::sum(views.into_iter().map(|view| &view.own));
        let homes = Homes { answered, full, late, refused };
        Own { hits, stale, misses, entries, used, waiting, homes }
    }
}
