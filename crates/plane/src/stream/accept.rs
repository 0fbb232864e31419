//! Accepting connections, as many as there is room for.

use super::connection::{Desk, converse};
use super::{ACCEPTED, CLOSED, CONNECTION_COUNTERS, REFUSED, StreamLimits};
use crate::App;
use crate::limits::{ACCEPT_PAUSE, STOP_MAX};
use door::Counters;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::panic::resume_unwind;
use std::rc::Rc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};

/// Accepts connections and sees each through, until told to stop; then waits, not for ever, for
/// those that are open.
pub async fn accept<A: App + 'static>(
    listener: TcpListener,
    desk: Rc<Desk<A>>,
    room: Rc<Room>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut open = JoinSet::new();
    let on_stop = stopped.clone();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted.map(|(stream, peer)| (stream, peer.ip())),
            Some(ended) = open.join_next() => { raise(ended); continue }
            _ = stopped.wait_for(|stopped| *stopped) => break,
        };
        match stream {
            Ok((stream, client)) => {
                if let Some(guest) = room.admit(client) {
                    open.spawn_local(attend(stream, guest, desk.clone(), on_stop.clone()));
                }
            }
            // The client is gone again, or we are out of descriptors, which passes.
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
    drop(listener);
    let all_ended = async {
        while let Some(ended) = open.join_next().await {
            raise(ended);
        }
    };
    // Whoever is still open then is cut off, as `open` is dropped.
    let _ = timeout(STOP_MAX, all_ended).await;
}

/// Sees one connection through. Whatever goes wrong with it ends it, and concerns nobody else.
async fn attend<A: App>(
    stream: TcpStream,
    guest: Guest,
    desk: Rc<Desk<A>>,
    stopped: watch::Receiver<bool>,
) {
    let _ = converse(stream, &desk, guest.room.limits.idle_max, stopped).await;
    drop(guest);
}

/// Passes a task's panic on, so that the thread ends with it and reports it.
pub fn raise(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        resume_unwind(panic);
    }
}

/// Who is connected.
pub struct Room {
    limits: StreamLimits,
    guests: RefCell<Guests>,
}

struct Guests {
    open: usize,
    by_client: HashMap<IpAddr, usize>,
    counters: Counters<CONNECTION_COUNTERS>,
}

impl Room {
    /// An empty room.
    pub fn new(limits: StreamLimits, counters: Counters<CONNECTION_COUNTERS>) -> Self {
        let guests = Guests { open: 0, by_client: HashMap::new(), counters };
        Self { limits, guests: RefCell::new(guests) }
    }

    /// A place for one more connection of this client, unless there is none.
    fn admit(self: &Rc<Self>, address: IpAddr) -> Option<Guest> {
        let client = client(address);
        let mut guests = self.guests.borrow_mut();
        let theirs = guests.by_client.get(&client).copied().unwrap_or(0);
        if guests.open >= self.limits.connections_max || theirs >= self.limits.per_client_max {
            guests.counters.add(REFUSED, 1);
            return None;
        }
        guests.open += 1;
        guests.by_client.insert(client, theirs + 1);
        guests.counters.add(ACCEPTED, 1);
        Some(Guest { room: self.clone(), client })
    }
}

/// One connection's place; free again when dropped.
struct Guest {
    room: Rc<Room>,
    client: IpAddr,
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut guests = self.room.guests.borrow_mut();
        guests.open -= 1;
        guests.counters.add(CLOSED, 1);
        if let Some(theirs) = guests.by_client.get_mut(&self.client) {
            *theirs -= 1;
            if *theirs == 0 {
                guests.by_client.remove(&self.client);
            }
        }
    }
}

/// Who an address belongs to: whoever has one IPv6 address usually has its /64.
fn client(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
    }
}
