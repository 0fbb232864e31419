//! Who is connected, to all threads together, and who makes room for whom.

use super::StreamLimits;
use super::shares::{Client, Shares};
use crate::limits::{PARTING_MAX, STREAM_THREADS_MAX};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The thread that serves a connection: its number is part of the connection's.
pub fn thread_of(id: u64) -> usize {
    (id % STREAM_THREADS_MAX as u64) as usize
}

/// The open connections, so that limits hold for the server and not for a thread. Threads meet
/// here when a connection comes, goes, or is used again after some time; not for every query.
#[derive(Debug)]
pub struct Room {
    limits: StreamLimits,
    guests: Mutex<Guests>,
}

#[derive(Debug)]
struct Guests {
    /// Each connection weighs one, and is as old as it is idle.
    shares: Shares,
    /// Connections of each thread.
    loads: Vec<usize>,
    /// Connections there have ever been.
    numbered: u64,
    /// Connections that have lost their places, and are not closed yet.
    parting: usize,
}

/// A place for a connection.
#[derive(Debug)]
pub struct Place {
    /// Its number, unique in the process.
    pub id: u64,
    /// Who has to go for it.
    pub loser: Option<u64>,
}

impl Room {
    /// An empty room for the connections of so many threads.
    pub fn new(limits: StreamLimits, threads: usize) -> Self {
        let loads = vec![0; threads];
        let guests = Guests { shares: Shares::default(), loads, numbered: 0, parting: 0 };
        Self { limits, guests: Mutex::new(guests) }
    }

    /// A place for one more connection, at the thread with the fewest. There always is one: who
    /// has too many loses the one that is idle longest, and so does, when the room is full, who
    /// has most.
    pub fn admit(&self, client: Client, now: Duration) -> Place {
        let mut guests = self.guests();
        let loads = guests.loads.iter().enumerate();
        let thread = loads.min_by_key(|(_, load)| **load).map_or(0, |(thread, _)| thread);
        guests.numbered += 1;
        let id = guests.numbered * STREAM_THREADS_MAX as u64 + thread as u64;
        let loser = self.make_room(client, &mut guests);
        guests.enter(id, client, now);
        Place { id, loser }
    }

    /// Gives a connection to the client its proxy forwards, and returns who has to go for it.
    pub fn identify(&self, id: u64, client: Client, now: Duration) -> Option<u64> {
        let mut guests = self.guests();
        if !guests.lose(id) {
            return None;
        }
        let loser = self.make_room(client, &mut guests);
        guests.enter(id, client, now);
        loser
    }

    /// Takes the place of who goes when this client comes with one more.
    fn make_room(&self, client: Client, guests: &mut Guests) -> Option<u64> {
        let loser = self.loser_to(client, &guests.shares)?;
        guests.lose(loser);
        guests.parting += 1;
        Some(loser)
    }

    /// Who goes when this client comes with one more. As the room is for at least one, somebody
    /// is there when it is full.
    fn loser_to(&self, client: Client, shares: &Shares) -> Option<u64> {
        let theirs = shares.weight_of(client);
        // A proxy's connections are its clients'; whose, it has not told yet.
        let is_limited = matches!(client, Client::Network(_));
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

    /// Tells that a connection was used, and returns whether it still has its place.
    pub fn renew(&self, id: u64, now: Duration) -> bool {
        self.guests().shares.renew(id, now)
    }

    /// Tells that a connection is closed: its place is free, if it still had one.
    pub fn leave(&self, id: u64) {
        let mut guests = self.guests();
        if !guests.lose(id) {
            guests.parting -= 1;
        }
    }

    /// Whether so many wait to be closed that nobody should be let in until some are: places come
    /// free sooner than descriptors do.
    pub fn is_crowded(&self) -> bool {
        self.guests().parting >= PARTING_MAX
    }

    /// A thread that panicked ends the process; until then the others go on.
    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guests {
    fn enter(&mut self, id: u64, client: Client, now: Duration) {
        self.shares.put(id, client, 1, now);
        self.loads[thread_of(id)] += 1;
    }

    /// Takes a connection's place, and tells whether it had one.
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

    fn room(connections_max: usize, per_client_max: usize) -> Room {
        let limits = StreamLimits { connections_max, per_client_max, ..Default::default() };
        Room::new(limits, 2)
    }

    fn client(n: u8) -> Client {
        Client::at(IpAddr::from([192, 0, 2, n]))
    }

    /// The numbers of connections that these clients open, one a second.
    fn open(room: &Room, clients: &[u8]) -> Vec<u64> {
        let places = clients.iter().enumerate();
        let places = places.map(|(n, &who)| room.admit(client(who), Duration::from_secs(n as u64)));
        places.map(|place| place.id).collect()
    }

    const LATER: Duration = Duration::from_secs(60);

    #[test]
    fn connections_are_dealt_evenly_and_places_come_free() {
        let room = room(100, 100);
        let ids = open(&room, &[1; 6]);
        assert_eq!(ids.iter().filter(|id| thread_of(**id) == 1).count(), 3);
        ids.iter().filter(|id| thread_of(**id) == 1).for_each(|id| room.leave(*id));
        assert!((0..3).all(|_| thread_of(room.admit(client(1), LATER).id) == 1));
    }

    #[test]
    fn when_full_the_client_with_most_loses_its_longest_idle_one() {
        let room = room(5, 4);
        let ids = open(&room, &[1, 2, 2, 2, 3]);
        room.renew(ids[1], LATER);
        assert_eq!(room.admit(client(4), LATER).loser, Some(ids[2]));
        // 2, 2, 1, 1, 1: one of whom has two goes, not the newcomer.
        assert_eq!(room.admit(client(5), LATER).loser, Some(ids[3]));
        // One each: whoever is idle longest.
        assert_eq!(room.admit(client(6), LATER).loser, Some(ids[0]));
    }

    #[test]
    fn who_has_most_makes_room_for_itself() {
        let room = room(4, 3);
        let ids = open(&room, &[1, 2, 2, 3]);
        assert_eq!(room.admit(client(2), LATER).loser, Some(ids[1]));
        assert_eq!(room.admit(client(3), LATER).loser, Some(ids[2]), "two of 2, and one of 3");
    }

    #[test]
    fn a_client_at_its_own_limit_loses_its_longest_idle_one() {
        let room = room(100, 2);
        let ids = open(&room, &[2, 1, 1]);
        assert_eq!(room.admit(client(1), LATER).loser, Some(ids[1]));
        assert_eq!(room.admit(client(2), LATER).loser, None);
    }

    #[test]
    fn nobody_is_let_in_while_many_wait_to_be_closed() {
        let room = room(2, 2);
        let mut losers = Vec::new();
        while !room.is_crowded() {
            losers.extend(room.admit(client(1), LATER).loser);
        }
        assert_eq!(losers.len(), PARTING_MAX);
        room.leave(losers[0]);
        assert!(!room.is_crowded());
        losers[1..].iter().for_each(|id| room.leave(*id));
        assert_eq!(room.guests().parting, 0);
    }

    #[test]
    fn a_proxied_connection_counts_for_its_client() {
        let room = room(100, 2);
        let proxy = Client::Proxy(IpAddr::from([203, 0, 113, 1]));
        let ids: Vec<u64> = (0..9).map(|_| room.admit(proxy, LATER).id).collect();
        assert_eq!(room.identify(ids[0], client(1), LATER), None);
        assert_eq!(room.identify(ids[1], client(1), LATER), None);
        assert_eq!(room.identify(ids[2], client(1), LATER), Some(ids[0]));
        assert_eq!(room.identify(ids[0], client(1), LATER), None, "it is gone already");
    }
}
