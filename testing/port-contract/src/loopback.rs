//! A port in memory: a queue of datagrams in, the replies out.

use packet::{BURST_MAX, DropReason, Packet, Transport, Verdict, check_source_port};
use port::{Burst, Port, PortCapabilities};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Deferred replies that leave together.
const LATE_MAX: usize = 8;

/// A datagram and who is at its other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerDatagram {
    /// Who sent it, or whom it is for.
    pub peer: SocketAddr,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// A device for tests and simulations: what is pushed is received, what is sent can be popped.
#[derive(Debug)]
pub struct Loopback {
    caps: PortCapabilities,
    received: VecDeque<PeerDatagram>,
    queued: Vec<PeerDatagram>,
    sent: VecDeque<PeerDatagram>,
    buffers: Vec<Vec<u8>>,
    /// Readable while something is to be received; `None`: the device is polled.
    readable: Option<OwnedFd>,
}

impl Loopback {
    /// A port with bursts of 64 packets, each with `room` bytes.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new(room: usize) -> io::Result<Self> {
        let readable = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { readable: Some(readable), ..Self::polled(room) })
    }

    /// The same without a descriptor, as DPDK's devices are.
    pub fn polled(room: usize) -> Self {
        Self {
            caps: PortCapabilities { burst_max: BURST_MAX, room },
            received: VecDeque::new(),
            queued: Vec::new(),
            sent: VecDeque::new(),
            buffers: vec![vec![0; room]; BURST_MAX],
            readable: None,
        }
    }

    /// Lets a datagram arrive.
    pub fn push(&mut self, peer: SocketAddr, payload: &[u8]) {
        self.received.push_back(PeerDatagram { peer, payload: payload.to_vec() });
        if let Some(readable) = &self.readable {
            // Only a counter at its very end refuses, and then it is readable already.
            let _ = rustix::io::write(readable, &1u64.to_ne_bytes());
        }
    }

    /// The oldest datagram sent that was not taken yet.
    pub fn pop(&mut self) -> Option<PeerDatagram> {
        self.sent.pop_front()
    }
}

impl Port for Loopback {
    fn caps(&self) -> &PortCapabilities {
        &self.caps
    }

    fn burst(&mut self, mut app: impl FnMut(&mut [Packet<'_>])) -> io::Result<Burst> {
        let count = self.received.len().min(self.caps.burst_max);
        let mut burst = Burst { received: count, ..Default::default() };
        let mut packets = Vec::with_capacity(count);
        for (datagram, buffer) in self.received.drain(..count).zip(&mut self.buffers) {
            let len = datagram.payload.len();
            if let Err(reason) = check_source_port(datagram.peer.port()) {
                burst.drop(reason);
            } else if len > self.caps.room {
                burst.drop(DropReason::Oversize);
            } else {
                buffer[..len].copy_from_slice(&datagram.payload);
                packets.push(Packet::new(buffer, len, datagram.peer, Transport::Datagram));
            }
        }
        if !packets.is_empty() {
            app(&mut packets);
        }
        for packet in packets {
            match packet.verdict {
                Verdict::Drop(reason) => burst.drop(reason),
                Verdict::Deferred | Verdict::Control | Verdict::Stream => {}
                Verdict::Reply => {
                    burst.replied += 1;
                    self.sent.push_back(datagram(&packet));
                }
            }
        }
        if let Some(readable) = &self.readable
            && self.received.is_empty()
        {
            // Sets the counter to 0; it is there already when nothing was pushed.
            let _ = rustix::io::read(readable, &mut [0; 8]);
        }
        Ok(burst)
    }

    fn queue(&mut self, reply: &Packet<'_>) -> bool {
        let has_room = self.queued.len() < LATE_MAX;
        if has_room {
            self.queued.push(datagram(reply));
        }
        has_room
    }

    fn flush(&mut self, mut reported: impl FnMut(bool)) {
        self.queued.iter().for_each(|_| reported(true));
        self.sent.extend(self.queued.drain(..));
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.readable.as_ref().map(AsFd::as_fd)
    }
}

fn datagram(packet: &Packet<'_>) -> PeerDatagram {
    PeerDatagram { peer: packet.peer, payload: packet.message().to_vec() }
}
