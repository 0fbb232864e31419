//! Frames: queries in those that leave, and whose lane those that come are for.

use super::super::{Batch, Sent};
use super::route::Address;
use crate::clock::Clock;
use packet::frame::{Link, Way, compose, headers_len, read};
use port::Frames;
use std::io;
use std::net::SocketAddr;

/// A port that no lane has.
const NOBODY: u32 = u32::MAX;

/// A lane: where it asks from.
#[derive(Debug)]
struct Lane {
    local: SocketAddr,
    way: Way,
    /// The next lane with the same port.
    next: u32,
}

/// Frames between lanes and a server.
#[derive(Debug)]
pub(super) struct Post<F> {
    frames: F,
    server: SocketAddr,
    /// Who sends, and to whom.
    link: [Address; 2],
    lanes: Vec<Lane>,
    /// For each port the lane that had it last.
    by_port: Box<[u32]>,
    /// Whether the device took less than it was given.
    is_full: bool,
    /// Why it can no longer be used.
    failure: Option<io::Error>,
}

impl<F: Frames> Post<F> {
    /// Between these lanes and a server.
    pub fn new(
        frames: F,
        server: SocketAddr,
        link: [Address; 2],
        lanes: impl IntoIterator<Item = SocketAddr>,
    ) -> Self {
        let by_port = vec![NOBODY; 1 << 16].into();
        let (is_full, failure) = (false, None);
        let mut post = Self { frames, server, link, lanes: vec![], by_port, is_full, failure };
        for local in lanes {
            let lane = post.lane(local);
            post.lanes.push(lane);
            post.enter(post.lanes.len() - 1);
        }
        post
    }

    pub fn frames(&self) -> &F {
        &self.frames
    }

    fn lane(&self, local: SocketAddr) -> Lane {
        let [from, to] = self.link;
        let way = Way { link: Link::new(from, to, local.port()), local: local.ip() };
        Lane { local, way, next: NOBODY }
    }

    /// Where a lane asks from.
    pub fn local(&self, lane: usize) -> SocketAddr {
        self.lanes[lane].local
    }

    /// Has a lane ask from elsewhere.
    pub fn change(&mut self, lane: usize, local: SocketAddr) {
        let (port, next) = (usize::from(self.local(lane).port()), self.lanes[lane].next);
        // Out of the lanes of its port.
        let first = &mut self.by_port[port];
        if *first == lane as u32 {
            *first = next;
        } else {
            let before = self.lanes.iter_mut().find(|other| other.next == lane as u32);
            before.expect("who is not the first has one before it").next = next;
        }
        self.lanes[lane] = self.lane(local);
        self.enter(lane);
    }

    /// Puts a lane among those of its port.
    fn enter(&mut self, lane: usize) {
        let first = &mut self.by_port[usize::from(self.lanes[lane].local.port())];
        self.lanes[lane].next = std::mem::replace(first, lane as u32);
    }

    /// Sends what waits in a batch.
    pub fn send(&mut self, batch: &Batch) -> Sent {
        let (way, server) = (self.lanes[batch.lane].way, self.server);
        let (head_len, mut taken, mut next) = (headers_len(&way), 0, batch.done);
        // As many at once as the device has flush; the rest again.
        while next < batch.ends.len() {
            let (begin, before) = (next, taken);
            while next < batch.ends.len()
                && self.frames.queue(|room| {
                    let query = batch.query(next);
                    let (head, rest) = room.split_at_mut_checked(head_len)?;
                    let rest = rest.get_mut(..query.len())?;
                    rest.copy_from_slice(query);
                    compose(head, rest, &way, server).then_some(head_len + query.len())
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

    /// Whether it goes on sending only if it is asked to soon.
    pub fn is_stuck(&self) -> bool {
        self.is_full || self.frames.is_stuck()
    }

    /// Shows the messages that came from the server. Returns how many frames came.
    pub fn receive(&mut self, clock: &Clock, each: &mut impl FnMut(usize, u64, &[u8])) -> usize {
        let Self { frames, server, lanes, by_port, .. } = self;
        let lane_of = |to: SocketAddr| {
            let mut at = by_port[usize::from(to.port())];
            while let Some(lane) = lanes.get(at as usize) {
                if lane.local.ip() == to.ip() {
                    return Some(at as usize);
                }
                at = lane.next;
            }
            None
        };
        let exchange = frames.burst(|came| {
            let now = clock.now();
            for frame in came {
                // What is damaged, or from somebody else, a socket would not have had either.
                let Ok(datagram) = read(&frame.buf[..frame.len]) else { continue };
                let to = SocketAddr::new(datagram.way.local, datagram.local_port());
                if let Some(lane) = lane_of(to).filter(|_| datagram.peer == *server) {
                    each(lane, now, &frame.buf[datagram.at..datagram.at + datagram.len]);
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

    /// Why nothing can be sent or received any more.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }
}

#[cfg(test)]
mod tests;
