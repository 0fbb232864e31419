//! Queries whose replies are put off.
use crate::limits::QUERY_LEN_MAX;
use forward::Ticket;
use forward::limits::WAITERS_MAX;
use packet::{Origin, Packet, Transport};
use std::net::SocketAddr;
use std::time::Duration;

/// Who waits.
#[derive(Clone, Debug)]
pub(crate) enum Waiter {
    /// A client.
    Client(Client),
    /// Another asker of the process.
    Peer(Peer),
}

/// Another asker, by its number, and its own number of the question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) from: usize,
    pub(crate) ticket: Ticket,
}

/// A query as it came, and when.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    peer: SocketAddr,
    client: SocketAddr,
    transport: Transport,
    origin: Origin,
    query: Box<[u8]>,
    pub(crate) since: Duration,
    /// How often it had to wait for somebody.
    pub(crate) rounds: u8,
}

impl Client {
    /// Nothing where the query is too long.
    pub(crate) fn new(packet: &Packet<'_>, since: Duration, rounds: u8) -> Option<Self> {
        let Packet { peer, client, transport, origin, .. } = *packet;
        let query = packet.message();
        let query = (query.len() <= QUERY_LEN_MAX).then(|| query.into())?;
        Some(Self { peer, client, transport, origin, query, since, rounds })
    }

    /// The packet as it came, in a buffer that has room for its reply.
    pub(crate) fn packet<'b>(&self, buf: &'b mut [u8]) -> Packet<'b> {
        let len = self.query.len();
        buf[..len].copy_from_slice(&self.query);
        let mut packet = Packet::new(buf, len, self.peer, self.transport);
        (packet.client, packet.origin) = (self.client, self.origin);
        packet
    }

    pub(crate) fn transport(&self) -> Transport {
        self.transport
    }
}

/// Where one waits, and which of all that ever waited it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) number: u16,
    serial: u64,
}

/// Those of a thread. They grow as they are needed, up to [`WAITERS_MAX`].
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// Nothing: who waits was answered already, or the place is free.
    places: Vec<Option<(u64, Waiter)>>,
    free: Vec<u16>,
    clients: usize,
    peers: usize,
    serial: u64,
}

impl Waiters {
    /// Notes one; nothing where there are too many.
    pub(crate) fn put(&mut self, waiter: Waiter) -> Option<Place> {
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.places.len() < WAITERS_MAX => {
                self.places.push(None);
                self.places.len() as u16 - 1
            }
            None => return None,
        };
        self.serial += 1;
        *self.count(&waiter) += 1;
        self.places[usize::from(number)] = Some((self.serial, waiter));
        Some(Place { number, serial: self.serial })
    }

    /// Takes who waits at a place, which stays taken.
    pub(crate) fn take(&mut self, number: u16) -> Option<Waiter> {
        let (_, waiter) = self.places.get_mut(usize::from(number))?.take()?;
        *self.count(&waiter) -= 1;
        Some(waiter)
    }

    /// The same, if it is who it was.
    pub(crate) fn take_exactly(&mut self, place: Place) -> Option<Waiter> {
        let (serial, _) = self.places.get(usize::from(place.number))?.as_ref()?;
        if *serial == place.serial { self.take(place.number) } else { None }
    }

    /// Frees a place.
    pub(crate) fn free(&mut self, number: u16) {
        self.take(number);
        self.free.push(number);
    }

    /// Clients that wait.
    pub(crate) fn len(&self) -> usize {
        self.clients
    }

    /// Questions of other askers that wait.
    pub(crate) fn peers(&self) -> usize {
        self.peers
    }

    /// All other askers that wait.
    pub(crate) fn all_peers(&self) -> impl Iterator<Item = Peer> {
        let waiters = self.places.iter().flatten().map(|(_, waiter)| waiter);
        waiters.filter_map(|waiter| match waiter {
            Waiter::Peer(peer) => Some(*peer),
            Waiter::Client(_) => None,
        })
    }

    fn count(&mut self, waiter: &Waiter) -> &mut usize {
        match waiter {
            Waiter::Client(_) => &mut self.clients,
            Waiter::Peer(_) => &mut self.peers,
        }
    }
}
