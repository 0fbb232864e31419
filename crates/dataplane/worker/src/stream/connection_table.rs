//! The connections of all threads: admission and eviction.

use super::StreamLimits;
use super::client_shares::{ClientIdentity, Shares};
use crate::limits::{CLOSING_MAX, STREAM_THREADS_MAX};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The thread of a connection, a part of its number.
pub fn thread_of(id: u64) -> usize {
    (id % STREAM_THREADS_MAX as u64) as usize
}

/// The open connections of all threads, so that limits hold for the server. Threads use it when a
/// connection begins, ends, or is used again after some time, and not for every query.
#[derive(Debug)]
pub struct ConnectionTable {
    limits: StreamLimits,
    entries: Mutex<TableState>,
}

#[derive(Debug)]
struct TableState {
    /// Each connection has weight one, and its time is that of its last use.
    shares: Shares,
    /// Connections of each thread.
    loads: Vec<usize>,
    /// Connections ever admitted.
    numbered: u64,
    /// Evicted connections that are not closed yet.
    closing: usize,
}

/// An admitted connection.
#[derive(Debug)]
pub struct Admitted {
    /// Its number, unique in the process.
    pub id: u64,
    /// The connection to evict for it.
    pub loser: Option<u64>,
}

impl ConnectionTable {
    /// An empty table for `threads` threads.
    pub fn new(limits: StreamLimits, threads: usize) -> Self {
        let loads = vec![0; threads];
        let entries = TableState { shares: Shares::default(), loads, numbered: 0, closing: 0 };
        Self { limits, entries: Mutex::new(entries) }
    }

    /// Admits a connection, at the thread with the fewest. It always succeeds: a client with too
    /// many loses its longest idle one, and if the table is full, the client with the most does.
    pub fn admit(&self, client: ClientIdentity, now: Duration) -> Admitted {
        let mut entries = self.entries();
        let loads = entries.loads.iter().enumerate();
        let thread = loads.min_by_key(|(_, load)| **load).map_or(0, |(thread, _)| thread);
        entries.numbered += 1;
        let id = entries.numbered * STREAM_THREADS_MAX as u64 + thread as u64;
        let loser = self.make_room(client, &mut entries);
        entries.enter(id, client, now);
        Admitted { id, loser }
    }

    /// Assigns a connection to the client in its proxy's header; returns the connection to evict.
    pub fn identify(&self, id: u64, client: ClientIdentity, now: Duration) -> Option<u64> {
        let mut entries = self.entries();
        if !entries.lose(id) {
            return None;
        }
        let loser = self.make_room(client, &mut entries);
        entries.enter(id, client, now);
        loser
    }

    /// Evicts a connection for one more of this client.
    fn make_room(&self, client: ClientIdentity, entries: &mut TableState) -> Option<u64> {
        let loser = self.loser_to(client, &entries.shares)?;
        entries.lose(loser);
        entries.closing += 1;
        Some(loser)
    }

    /// The connection to evict for one more of this client. The limit is at least one, so a full
    /// table has one.
    fn loser_to(&self, client: ClientIdentity, shares: &Shares) -> Option<u64> {
        let theirs = shares.weight_of(client);
        // A proxy's connections belong to its clients, which are unknown before the header.
        let is_limited = matches!(client, ClientIdentity::Network(_));
        if is_limited && theirs >= self.limits.per_client_max {
            return shares.oldest_of(client);
        }
        if shares.weight() < self.limits.connections_max {
            return None;
        }
        let heaviest = shares.heaviest()?;
        let own = theirs > 0 && theirs >= shares.weight_of(heaviest);
        shares.oldest_of(if own { client } else { heaviest })
    }

    /// Reports a use of a connection; returns whether it was not evicted.
    pub fn renew(&self, id: u64, now: Duration) -> bool {
        self.entries().shares.renew(id, now)
    }

    /// Reports that a connection is closed.
    pub fn leave(&self, id: u64) {
        let mut entries = self.entries();
        if !entries.lose(id) {
            entries.closing -= 1;
        }
    }

    /// Whether too many evicted connections are still open to accept more: a slot becomes free
    /// sooner than its descriptor.
    pub fn is_crowded(&self) -> bool {
        self.entries().closing >= CLOSING_MAX
    }

    /// A thread that panicked ends the process; until then the others continue.
    fn entries(&self) -> MutexGuard<'_, TableState> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TableState {
    fn enter(&mut self, id: u64, client: ClientIdentity, now: Duration) {
        self.shares.put(id, client, 1, now);
        self.loads[thread_of(id)] += 1;
    }

    /// Removes a connection; returns whether it existed.
    fn lose(&mut self, id: u64) -> bool {
        let was_there = self.shares.take(id);
        if was_there {
            self.loads[thread_of(id)] -= 1;
        }
        was_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn table(connections_max: usize, per_client_max: usize) -> ConnectionTable {
        let limits = StreamLimits { connections_max, per_client_max, ..Default::default() };
        ConnectionTable::new(limits, 2)
    }

    fn client(n: u8) -> ClientIdentity {
        ClientIdentity::at(IpAddr::from([192, 0, 2, n]))
    }

    /// The numbers of connections that these clients open, one a second.
    fn open(table: &ConnectionTable, clients: &[u8]) -> Vec<u64> {
        let places = clients.iter().enumerate();
        let places =
            places.map(|(n, &who)| table.admit(client(who), Duration::from_secs(n as u64)));
        places.map(|place| place.id).collect()
    }

    const LATER: Duration = Duration::from_secs(60);

    #[test]
    fn connections_are_dealt_evenly_and_places_come_free() {
        let table = table(100, 100);
        let ids = open(&table, &[1; 6]);
        assert_eq!(ids.iter().filter(|id| thread_of(**id) == 1).count(), 3);
        ids.iter().filter(|id| thread_of(**id) == 1).for_each(|id| table.leave(*id));
        assert!((0..3).all(|_| thread_of(table.admit(client(1), LATER).id) == 1));
    }

    #[test]
    fn when_full_the_client_with_most_loses_its_longest_idle_one() {
        let table = table(5, 4);
        let ids = open(&table, &[1, 2, 2, 2, 3]);
        table.renew(ids[1], LATER);
        assert_eq!(table.admit(client(4), LATER).loser, Some(ids[2]));
        // 2, 2, 1, 1, 1: a client with two loses one, not the new one.
        assert_eq!(table.admit(client(5), LATER).loser, Some(ids[3]));
        // One each: the longest idle one.
        assert_eq!(table.admit(client(6), LATER).loser, Some(ids[0]));
    }

    #[test]
    fn who_has_most_makes_room_for_itself() {
        let table = table(4, 3);
        let ids = open(&table, &[1, 2, 2, 3]);
        assert_eq!(table.admit(client(2), LATER).loser, Some(ids[1]));
        assert_eq!(table.admit(client(3), LATER).loser, Some(ids[2]), "two of 2, and one of 3");
    }

    #[test]
    fn a_client_at_its_own_limit_loses_its_longest_idle_one() {
        let table = table(100, 2);
        let ids = open(&table, &[2, 1, 1]);
        assert_eq!(table.admit(client(1), LATER).loser, Some(ids[1]));
        assert_eq!(table.admit(client(2), LATER).loser, None);
    }

    #[test]
    fn nobody_is_let_in_while_many_wait_to_be_closed() {
        let table = table(2, 2);
        let mut losers = Vec::new();
        while !table.is_crowded() {
            losers.extend(table.admit(client(1), LATER).loser);
        }
        assert_eq!(losers.len(), CLOSING_MAX);
        table.leave(losers[0]);
        assert!(!table.is_crowded());
        losers[1..].iter().for_each(|id| table.leave(*id));
        assert_eq!(table.entries().closing, 0);
    }

    #[test]
    fn a_proxied_connection_counts_for_its_client() {
        let table = table(100, 2);
        let proxy = ClientIdentity::Proxy(IpAddr::from([203, 0, 113, 1]));
        let ids: Vec<u64> = (0..9).map(|_| table.admit(proxy, LATER).id).collect();
        assert_eq!(table.identify(ids[0], client(1), LATER), None);
        assert_eq!(table.identify(ids[1], client(1), LATER), None);
        assert_eq!(table.identify(ids[2], client(1), LATER), Some(ids[0]));
        assert_eq!(table.identify(ids[0], client(1), LATER), None, "it is gone already");
    }
}
