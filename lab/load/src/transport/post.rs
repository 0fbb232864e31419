//! Frames: composes queries, and finds the channel of each received answer.

use super::{Batch, Sent};
use crate::clock::Clock;
use netlink::LinkAddress;
use packet::frame::{LinkHeader, ReplyPath, compose, headers_len, read};
use port::Frames;
use std::io;
use std::net::SocketAddr;

/// A port that no channel has.
const NO_CHANNEL: u32 = u32::MAX;

/// A channel: the source of its queries.
#[derive(Debug)]
struct Channel {
    local: SocketAddr,
    transport: ReplyPath,
    /// The next channel with the same port.
    next: u32,
}

/// Frames between channels and a server.
#[derive(Debug)]
pub(super) struct Post<F> {
    frames: F,
    server: SocketAddr,
    /// The addresses of both ends.
    link: [LinkAddress; 2],
    channels: Vec<Channel>,
    /// For each port the channel that had it last.
    by_port: Box<[u32]>,
    /// Whether the device took less than it was given.
    is_full: bool,
    /// Why it can no longer be used.
    failure: Option<io::Error>,
}

impl<F: Frames> Post<F> {
    /// Between these channels and a server.
    pub fn new(
        frames: F,
        server: SocketAddr,
        link: [LinkAddress; 2],
        channels: impl IntoIterator<Item = SocketAddr>,
    ) -> Self {
        let by_port = vec![NO_CHANNEL; 1 << 16].into();
        let (is_full, failure) = (false, None);
        let mut post = Self { frames, server, link, channels: vec![], by_port, is_full, failure };
        for local in channels {
            let channel = post.channel(local);
            post.channels.push(channel);
            post.enter(post.channels.len() - 1);
        }
        post
    }

    pub fn frames(&self) -> &F {
        &self.frames
    }

    fn channel(&self, local: SocketAddr) -> Channel {
        let [from, to] = self.link;
        let transport =
            ReplyPath { link: LinkHeader::new(from, to, local.port()), local: local.ip() };
        Channel { local, transport, next: NO_CHANNEL }
    }

    /// The source address of a channel.
    pub fn local(&self, channel: usize) -> SocketAddr {
        self.channels[channel].local
    }

    /// Changes the source address of a channel.
    pub fn change(&mut self, channel: usize, local: SocketAddr) {
        let (port, next) = (usize::from(self.local(channel).port()), self.channels[channel].next);
        // Out of the channels of its port.
        let first = &mut self.by_port[port];
        if *first == channel as u32 {
            *first = next;
        } else {
            let before = self.channels.iter_mut().find(|other| other.next == channel as u32);
            before.expect("who is not the first has one before it").next = next;
        }
        self.channels[channel] = self.channel(local);
        self.enter(channel);
    }

    /// Puts a channel among those of its port.
    fn enter(&mut self, channel: usize) {
        let first = &mut self.by_port[usize::from(self.channels[channel].local.port())];
        self.channels[channel].next = std::mem::replace(first, channel as u32);
    }

    /// Sends what waits in a batch.
    pub fn send(&mut self, batch: &Batch) -> Sent {
        let (transport, server) = (self.channels[batch.channel].transport, self.server);
        let (head_len, mut taken, mut next) = (headers_len(&transport), 0, batch.done);
        // As many at once as the device has flush; the rest again.
        while next < batch.ends.len() {
            let (begin, before) = (next, taken);
            while next < batch.ends.len()
                && self.frames.queue(|room| {
                    let query = batch.query(next);
                    let (head, rest) = room.split_at_mut_checked(head_len)?;
                    let rest = rest.get_mut(..query.len())?;
                    rest.copy_from_slice(query);
                    compose(head, rest, &transport, server).then_some(head_len + query.len())
                })
            {
                next += 1;
            }
            // Behind the first that it does not take, it takes none.
            self.frames.flush(|is_taken| taken += usize::from(is_taken));
            if taken - before < next - begin || next == begin {
                break;
            }
        }
        self.is_full = batch.done + taken < batch.ends.len();
        Sent { taken, refused: false }
    }

    /// Whether it must be triggered soon to continue sending.
    pub fn is_stuck(&self) -> bool {
        self.is_full || self.frames.is_stuck()
    }

    /// Shows the messages that came from the server. Returns how many frames came.
    pub fn receive(&mut self, clock: &Clock, each: &mut impl FnMut(usize, u64, &[u8])) -> usize {
        let Self { frames, server, channels, by_port, .. } = self;
        let lane_of = |to: SocketAddr| {
            let mut at = by_port[usize::from(to.port())];
            while let Some(channel) = channels.get(at as usize) {
                if channel.local.ip() == to.ip() {
                    return Some(at as usize);
                }
                at = channel.next;
            }
            None
        };
        let exchange = frames.burst(|came| {
            let now = clock.now();
            for frame in came {
                // A socket would not have received a damaged frame or one of another peer either.
                let Ok(datagram) = read(&frame.buf[..frame.len]) else { continue };
                let to = SocketAddr::new(datagram.way.local, datagram.local_port());
                if let Some(channel) = lane_of(to).filter(|_| datagram.peer == *server) {
                    each(channel, now, &frame.buf[datagram.at..datagram.at + datagram.len]);
                }
            }
        });
        match exchange {
            Ok(exchange) => exchange.received,
            Err(error) => {
                self.failure = Some(error);
                0
            }
        }
    }

    /// Why it can no longer send or receive.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }
}

#[cfg(test)]
mod tests;
