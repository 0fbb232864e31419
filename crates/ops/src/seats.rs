//! Who is connected: places are few, and nobody takes all of them.
use crate::limits::{CONNECTIONS_MAX, CONNECTIONS_PER_CLIENT_MAX, DENIED_MAX};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The places, and who has them.
#[derive(Default)]
pub struct Seats(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    clients: HashMap<IpAddr, usize>,
    all: usize,
    denied: usize,
}

/// A place, until it is dropped.
pub struct Seat {
    seats: Arc<Seats>,
    /// Whose it is; nobody's who may not ask.
    client: Option<IpAddr>,
}

impl Seats {
    /// A place for this client, if there is one for it.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Option<Seat> {
        let client = client(address);
        self.with(|taken| {
            let of_client = taken.clients.get(&client).copied().unwrap_or(0);
            let free = taken.all < CONNECTIONS_MAX && of_client < CONNECTIONS_PER_CLIENT_MAX;
            free.then(|| {
                taken.all += 1;
                taken.clients.insert(client, of_client + 1);
                Seat { seats: Arc::clone(self), client: Some(client) }
            })
        })
    }

    /// A place for someone who may not ask, to be told so.
    pub fn take_denied(self: &Arc<Self>) -> Option<Seat> {
        self.with(|taken| {
            (taken.denied < DENIED_MAX).then(|| {
                taken.denied += 1;
                Seat { seats: Arc::clone(self), client: None }
            })
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut Taken) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
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
fn client(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_all_places() {
        let seats = Arc::new(Seats::default());
        let v6 = |host: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, host]);
        let mut taken: Vec<Seat> = (0..).map_while(|host| seats.take(v6(host))).collect();
        assert_eq!(taken.len(), CONNECTIONS_PER_CLIENT_MAX, "of one /64");
        let v4 = |n: usize| IpAddr::from([192, 0, 2, n as u8]);
        taken.extend((0..).map_while(|n| seats.take(v4(n))));
        assert_eq!(taken.len(), CONNECTIONS_MAX);
        taken.pop();
        assert!(seats.take(v6(0)).is_none(), "still too many of that client");
        assert!(seats.take(v4(99)).is_some(), "and it is given back at once");
        drop(taken);
        assert!(seats.with(|taken| taken.all == 0 && taken.clients.is_empty()));
    }

    #[test]
    fn who_may_not_ask_takes_no_place_from_others() {
        let seats = Arc::new(Seats::default());
        let denied: Vec<Seat> = std::iter::from_fn(|| seats.take_denied()).collect();
        assert_eq!(denied.len(), DENIED_MAX);
        assert!(seats.take([192, 0, 2, 1].into()).is_some());
        drop(denied);
        assert!(seats.take_denied().is_some());
    }
}
