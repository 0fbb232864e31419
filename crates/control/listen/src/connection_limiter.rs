//! Limits connections in total and per client. When full, the longest idle connection is closed;
//! connections with accepted requests are kept longest.
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

/// The maximum numbers of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections of clients that may make requests.
    pub all: usize,
    /// Of these, from one IPv4 address or one IPv6 /64.
    pub of_client: usize,
    /// Connections of clients that may not, to receive an error response.
    pub denied: usize,
}

/// Counts open connections.
pub struct ConnectionLimiter {
    places: ConnectionLimits,
    taken: Mutex<LimiterState>,
}

#[derive(Default)]
struct LimiterState {
    /// By connection number.
    connections: BTreeMap<u64, OpenConnection>,
    denied: usize,
    /// The next connection number; also a clock for `idle_since`.
    next: u64,
}

struct OpenConnection {
    client: IpAddr,
    /// Whether a request of it was accepted.
    is_proven: bool,
    /// Requests in progress.
    requests: usize,
    /// When it last became idle, by `next`.
    idle_since: u64,
    /// Wakes the task that waits for its eviction.
    waker: Option<Waker>,
}

/// Permission for one connection, until it is dropped or evicted.
pub struct ConnectionPermit {
    limiter: Arc<ConnectionLimiter>,
    /// `None`: a client that may not make requests.
    number: Option<u64>,
}

/// A request in progress. Its connection is not evicted until this is dropped.
pub struct RequestGuard {
    limiter: Arc<ConnectionLimiter>,
    number: Option<u64>,
}

impl ConnectionLimiter {
    /// No connections are open.
    pub fn new(places: ConnectionLimits) -> Self {
        Self { places, taken: Mutex::default() }
    }

    /// A permit for this client. If there is none left, evicts the longest idle connection, first
    /// among those without accepted requests. `None`: all are serving requests.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        let client = client(address);
        let places = self.places;
        self.with(|taken| {
            if taken.of(Some(client)).count() >= places.of_client {
                taken.evict(Some(client))?;
            } else if taken.connections.len() >= places.all {
                taken.evict(None)?;
            }
            let number = taken.tick();
            let connection = OpenConnection {
                client,
                is_proven: false,
                requests: 0,
                idle_since: number,
                waker: None,
            };
            taken.connections.insert(number, connection);
            Some(ConnectionPermit { limiter: Arc::clone(self), number: Some(number) })
        })
    }

    /// A permit for a client that may not make requests, to send it an error.
    pub fn take_denied(self: &Arc<Self>) -> Option<ConnectionPermit> {
        self.with(|taken| {
            (taken.denied < self.places.denied).then(|| {
                taken.denied += 1;
                ConnectionPermit { limiter: Arc::clone(self), number: None }
            })
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut LimiterState) -> T) -> T {
        change(&mut self.taken.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl LimiterState {
    fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The connections of a client, or all.
    fn of(&self, client: Option<IpAddr>) -> impl Iterator<Item = (u64, &OpenConnection)> {
        let connections = self.connections.iter().map(|(number, one)| (*number, one));
        connections.filter(move |(_, one)| client.is_none_or(|client| one.client == client))
    }

    /// Evicts the longest idle connection of a client, or of all, first among those without
    /// accepted requests. `None`: none is idle.
    fn evict(&mut self, client: Option<IpAddr>) -> Option<()> {
        let idle = self.of(client).filter(|(_, one)| one.requests == 0);
        let (number, _) = idle.min_by_key(|(_, one)| (one.is_proven, one.idle_since))?;
        let evicted = self.connections.remove(&number)?;
        evicted.waker.into_iter().for_each(Waker::wake);
        Some(())
    }
}

impl ConnectionPermit {
    /// Marks the start of an accepted request.
    pub fn serve(&self) -> RequestGuard {
        self.limiter.with(|taken| {
            let number = self.number;
            if let Some(one) = number.and_then(|number| taken.connections.get_mut(&number)) {
                one.is_proven = true;
                one.requests += 1;
            }
        });
        RequestGuard { limiter: Arc::clone(&self.limiter), number: self.number }
    }

    /// Waits until this connection is evicted. Only one task may wait.
    pub fn evicted(&self) -> impl Future<Output = ()> + '_ {
        poll_fn(|context| {
            let Some(number) = self.number else { return Poll::Pending };
            self.limiter.with(|taken| match taken.connections.get_mut(&number) {
                Some(one) => {
                    one.waker = Some(context.waker().clone());
                    Poll::Pending
                }
                None => Poll::Ready(()),
            })
        })
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        self.limiter.with(|taken| {
            let now = taken.tick();
            if let Some(one) = taken.connections.get_mut(&number) {
                one.requests -= 1;
                one.idle_since = now;
            }
        });
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limiter.with(|taken| match self.number {
            Some(number) => drop(taken.connections.remove(&number)),
            None => taken.denied -= 1,
        });
    }
}

/// An IPv4 address, or the /64 of an IPv6 address, which one client usually owns.
pub fn client(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Waker};

    const PLACES: ConnectionLimits = ConnectionLimits { all: 32, of_client: 8, denied: 4 };

    fn v4(number: usize) -> IpAddr {
        IpAddr::from([192, 0, 2, number as u8])
    }

    fn is_evicted(permit: &ConnectionPermit) -> bool {
        let evicted = std::pin::pin!(permit.evicted());
        evicted.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn busy(
        limiter: &Arc<ConnectionLimiter>,
        client: IpAddr,
    ) -> Vec<(RequestGuard, ConnectionPermit)> {
        let permit = || limiter.take(client).map(|permit| (permit.serve(), permit));
        std::iter::from_fn(permit).take(PLACES.all + 1).collect()
    }

    #[test]
    fn one_client_cannot_take_all_permits() {
        let limiter = Arc::new(ConnectionLimiter::new(PLACES));
        let v6 = IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]);
        let same_64 = IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 2]);
        let mut taken = busy(&limiter, v6);
        assert_eq!(taken.len(), PLACES.of_client);
        assert!(limiter.take(same_64).is_none(), "one /64 is one client");
        for number in 0..(PLACES.all / PLACES.of_client) - 1 {
            taken.extend(busy(&limiter, v4(number)));
        }
        assert_eq!(taken.len(), PLACES.all);
        assert!(limiter.take(v4(99)).is_none(), "all are serving");
        drop(taken.pop());
        assert!(limiter.take(v4(99)).is_some(), "a place is given back at once");
        drop(taken);
        assert!(limiter.with(|taken| taken.connections.is_empty()));
    }

    #[test]
    fn idle_unproven_connection_is_evicted_for_its_own_client() {
        let limiter = Arc::new(ConnectionLimiter::new(PLACES));
        let other = limiter.take(v4(2)).expect("a place");
        let idle: Vec<ConnectionPermit> = (0..100).filter_map(|_| limiter.take(v4(1))).collect();
        assert_eq!(idle.len(), 100, "each was let in");
        let kept: Vec<bool> = idle.iter().map(|permit| !is_evicted(permit)).collect();
        let expected: Vec<bool> = (0..100).map(|n| n >= 100 - PLACES.of_client).collect();
        assert_eq!(kept, expected, "the newest stay");
        assert!(!is_evicted(&other), "another client loses nothing");
    }

    #[test]
    fn proven_connections_outlast_unproven_ones() {
        let limiter = Arc::new(ConnectionLimiter::new(PLACES));
        let proven: Vec<ConnectionPermit> = (0..PLACES.of_client / 2)
            .map(|_| limiter.take(v4(1)).expect("a place"))
            .inspect(|permit| drop(permit.serve()))
            .collect();
        let _flood: Vec<ConnectionPermit> = (0..100).filter_map(|_| limiter.take(v4(1))).collect();
        assert!(!proven.iter().any(is_evicted));
        let newcomer = limiter.take(v4(1)).expect("a place");
        let _serving = newcomer.serve();
        let _flood: Vec<ConnectionPermit> = (0..100).filter_map(|_| limiter.take(v4(1))).collect();
        assert!(!is_evicted(&newcomer), "a request under way is never cut off");
    }

    #[test]
    fn longest_idle_connection_is_evicted_when_all_are_proven() {
        let limiter = Arc::new(ConnectionLimiter::new(PLACES));
        let take = || limiter.take(v4(1)).expect("a place");
        let idle: Vec<ConnectionPermit> =
            (0..PLACES.of_client).map(|_| take()).inspect(|permit| drop(permit.serve())).collect();
        drop(idle[0].serve());
        let _newest = take();
        let evicted: Vec<usize> = (0..idle.len()).filter(|at| is_evicted(&idle[*at])).collect();
        assert_eq!(evicted, [1], "the first has just served");
    }

    #[test]
    fn denied_clients_take_no_permit_from_others() {
        let limiter = Arc::new(ConnectionLimiter::new(PLACES));
        let denied: Vec<ConnectionPermit> = std::iter::from_fn(|| limiter.take_denied()).collect();
        assert_eq!(denied.len(), PLACES.denied);
        assert!(limiter.take(v4(1)).is_some());
        drop(denied);
        assert!(limiter.take_denied().is_some());
    }
}
