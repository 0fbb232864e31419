//! Deferred queries.
use crate::limits::QUERY_LEN_MAX;
use crate::shares::WaiterShares;
use forward::QueryId;
use forward::limits::WAITERS_MAX;
use packet::{Ingress, Packet, QueryContext, Transport};
use std::net::SocketAddr;
use std::time::Duration;

/// A waiter.
#[derive(Clone, Debug)]
pub(crate) enum PendingWaiter {
    /// A client.
    Client(WaitingClient),
    /// Another shard of the process.
    Peer(PeerQuery),
}

/// The number of the other shard, and its own ID of the query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerQuery {
    pub(crate) from: usize,
    pub(crate) query_id: QueryId,
}

/// A query as received, and its time.
#[derive(Clone, Debug)]
pub(crate) struct WaitingClient {
    peer: SocketAddr,
    context: QueryContext,
    origin: Ingress,
    query: Box<[u8]>,
    pub(crate) since: Duration,
    /// How often it was deferred.
    pub(crate) rounds: u8,
}

impl WaitingClient {
    /// `None` if the query is too long.
    pub(crate) fn new(packet: &Packet<'_>, since: Duration, rounds: u8) -> Option<Self> {
        let Packet { peer, context, origin, .. } = *packet;
        let query = packet.message();
        let query = (query.len() <= QUERY_LEN_MAX).then(|| query.into())?;
        Some(Self { peer, context, origin, query, since, rounds })
    }

    /// The packet as received, in a buffer with room for its reply.
    pub(crate) fn packet<'b>(&self, buf: &'b mut [u8]) -> Packet<'b> {
        let len = self.query.len();
        buf[..len].copy_from_slice(&self.query);
        let mut packet = Packet::new(buf, len, self.peer, self.context.transport);
        (packet.context, packet.origin) = (self.context, self.origin);
        packet
    }

    pub(crate) fn transport(&self) -> Transport {
        self.context.transport
    }
}

/// The slot of a waiter, and its serial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaiterSlot {
    pub(crate) number: u16,
    serial: u64,
}

/// The waiters of a thread, up to [`WAITERS_MAX`].
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// `None`: the waiter was answered already, or the slot is free.
    slots: Vec<Option<(u64, PendingWaiter)>>,
    free: Vec<u16>,
    clients: usize,
    peers: usize,
    serial: u64,
    shares: WaiterShares,
}

impl Waiters {
    /// Whether a client may have one more waiting query, with room for `room` queries: no client
    /// has more than the room left.
    pub(crate) fn has_share(&self, client: &WaitingClient, room: usize) -> bool {
        let room = room.min(WAITERS_MAX - self.clients - self.peers);
        self.shares.of(client.context.client.ip()) < room
    }

    /// Adds a waiter; `None` if there are too many.
    pub(crate) fn put(&mut self, waiter: PendingWaiter) -> Option<WaiterSlot> {
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.slots.len() < WAITERS_MAX => {
                self.slots.push(None);
                self.slots.len() as u16 - 1
            }
            None => return None,
        };
        self.serial += 1;
        *self.count(&waiter) += 1;
        if let PendingWaiter::Client(client) = &waiter {
            self.shares.add(client.context.client.ip());
        }
        self.slots[usize::from(number)] = Some((self.serial, waiter));
        Some(WaiterSlot { number, serial: self.serial })
    }

    /// Takes the waiter of a slot, which stays in use.
    pub(crate) fn take(&mut self, number: u16) -> Option<PendingWaiter> {
        let (_, waiter) = self.slots.get_mut(usize::from(number))?.take()?;
        *self.count(&waiter) -= 1;
        if let PendingWaiter::Client(client) = &waiter {
            self.shares.remove(client.context.client.ip());
        }
        Some(waiter)
    }

    /// The same, if the waiter is still the same.
    pub(crate) fn take_exactly(&mut self, slot: WaiterSlot) -> Option<PendingWaiter> {
        let (serial, _) = self.slots.get(usize::from(slot.number))?.as_ref()?;
        if *serial == slot.serial { self.take(slot.number) } else { None }
    }

    /// Frees a slot.
    pub(crate) fn free(&mut self, number: u16) {
        self.take(number);
        self.free.push(number);
    }

    /// Waiting clients.
    pub(crate) fn len(&self) -> usize {
        self.clients
    }

    /// Waiting queries of other shards.
    pub(crate) fn peers(&self) -> usize {
        self.peers
    }

    /// All waiting queries of other shards.
    pub(crate) fn all_peers(&self) -> impl Iterator<Item = PeerQuery> {
        let waiters = self.slots.iter().flatten().map(|(_, waiter)| waiter);
        waiters.filter_map(|waiter| match waiter {
            PendingWaiter::Peer(peer) => Some(*peer),
            PendingWaiter::Client(_) => None,
        })
    }

    /// All waiting clients.
    pub(crate) fn into_clients(self) -> impl Iterator<Item = WaitingClient> {
        let waiters = self.slots.into_iter().flatten().map(|(_, waiter)| waiter);
        waiters.filter_map(|waiter| match waiter {
            PendingWaiter::Client(client) => Some(client),
            PendingWaiter::Peer(_) => None,
        })
    }

    fn count(&mut self, waiter: &PendingWaiter) -> &mut usize {
        match waiter {
            PendingWaiter::Client(_) => &mut self.clients,
            PendingWaiter::Peer(_) => &mut self.peers,
        }
    }
}
