//! Who is connected: places are few, and nobody takes all of them.
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// How many places there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// For those who may ask.
    pub all: usize,
    /// Of them, for one IPv4 address or one IPv6 /64.
    pub of_client: usize,
    /// For those who may not ask, to be told so.
    pub denied: usize,
}

/// The places, and who has them.
pub struct Seats {
    places: Places,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    clients: HashMap<IpAddr, usize>,
    all: usize,
    denied: usize,
}

/// A place, until it is dropped.
pub struct Seat {
    seats: Arc<Seats>,
    is_scarce: bool,
    /// Whose it is; nobody's who may not ask.
    client: Option<IpAddr>,
}

impl Seats {
    /// So many places, nobody on them.
    pub fn new(places: Places) -> Self {
        Self { places, taken: Mutex::default() }
    }

    /// A place for this client, if there is one for it.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Option<Seat> {
        let client = client(address);
        self.with(|taken| {
            let of_client = taken.clients.get(&client).copied().unwrap_or(0);
            let free = taken.all < self.places.all && of_client < self.places.of_client;
            let is_scarce =
                taken.all >= self.places.all / 2 || of_client >= self.places.of_client / 2;
            free.then(|| {
                taken.all += 1;
                taken.clients.insert(client, of_client + 1);
                Seat { seats: Arc::clone(self), is_scarce, client: Some(client) }
            })
        })
    }

    /// A place for someone who may not ask, to be told so.
    pub fn take_denied(self: &Arc<Self>) -> Option<Seat> {
        self.with(|taken| {
            (taken.denied < self.places.denied).then(|| {
                taken.denied += 1;
                Seat { seats: Arc::clone(self), is_scarce: true, client: None }
            })
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut Taken) -> T) -> T {
        change(&mut self.taken.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Seat {
    /// Whether half of all places, or of the client's, were taken before it.
    pub fn is_scarce(&self) -> bool {
        self.is_scarce
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.with(|taken| {
            let Some(client) = self.client else {
                taken.denied -= 1;
                return;
            };
            taken.all -= 1;
            if let Some(count) = taken.clients.get_mut(&client) {
                *count -= 1;
                if *count == 0 {
                    taken.clients.remove(&client);
                }
            }
        });
    }
}

/// An IPv4 address, or the /64 of an IPv6 one: who has one such address has them all.
pub fn client(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: Places = Places { all: 32, of_client: 8, denied: 4 };

    #[test]
    fn nobody_takes_all_places() {
        let seats = Arc::new(Seats::new(PLACES));
        let v6 = |host: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, host]);
        let mut taken: Vec<Seat> = (0..).map_while(|host| seats.take(v6(host))).collect();
        assert_eq!(taken.len(), PLACES.of_client, "of one /64");
        let scarce = |seats: &[Seat]| seats.iter().filter(|seat| seat.is_scarce()).count();
        assert_eq!(scarce(&taken), PLACES.of_client / 2);
        let v4 = |n: usize| IpAddr::from([192, 0, 2, n as u8]);
        taken.extend((0..).map_while(|n| seats.take(v4(n))));
        assert_eq!(taken.len(), PLACES.all);
        assert_eq!(scarce(&taken), PLACES.of_client / 2 + PLACES.all / 2);
        taken.pop();
        assert!(seats.take(v6(0)).is_none(), "still too many of that client");
        assert!(seats.take(v4(99)).is_some(), "and it is given back at once");
        drop(taken);
        assert!(seats.with(|taken| taken.all == 0 && taken.clients.is_empty()));
    }

    #[test]
    fn who_may_not_ask_takes_no_place_from_others() {
        let seats = Arc::new(Seats::new(PLACES));
        let denied: Vec<Seat> = std::iter::from_fn(|| seats.take_denied()).collect();
        assert_eq!(denied.len(), PLACES.denied);
        assert!(seats.take([192, 0, 2, 1].into()).is_some());
        drop(denied);
        assert!(seats.take_denied().is_some());
    }
}
