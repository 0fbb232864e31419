//! UDP sockets to servers: several for each, with changing ports.
//!
//! Each is connected, so that the kernel accepts datagrams of its server only, and reports ICMP
//! errors.
use crate::limits::{
    RESTING_MAX, SOCKET_AGE_MAX, SOCKET_REST, SOCKET_USES_MAX, SOCKETS_PER_SERVER,
};
use rustix::event::epoll::{self, EventData, EventFlags};
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A UDP socket to a server.
#[derive(Debug)]
pub(crate) struct UpstreamSocket {
    pub(crate) fd: UdpSocket,
    /// A number that no other socket ever has.
    pub(crate) number: u32,
    pub(crate) server: u16,
    uses: u32,
    /// Queries without a reply. A lost reply costs a needless read now and then.
    awaited: u32,
    opened_at: Duration,
}

impl UpstreamSocket {
    /// Receives a datagram; returns its length, and whether more are expected.
    pub(crate) fn receive(&mut self, buf: &mut [u8]) -> io::Result<(usize, bool)> {
        let len = self.fd.recv(buf)?;
        self.awaited = self.awaited.saturating_sub(1);
        Ok((len, self.awaited > 0))
    }
}

/// The sockets of a thread.
#[derive(Debug, Default)]
pub(crate) struct UpstreamSockets {
    slots: Vec<Option<UpstreamSocket>>,
    free: Vec<usize>,
    /// For each server, the slots of the sockets in use.
    used: Vec<Vec<usize>>,
    /// Replaced sockets, and until when they wait for replies.
    resting: VecDeque<(Duration, usize)>,
    next_number: u32,
    /// For each server, how many source ports it has if they never change.
    fixed_ports: Vec<Option<u8>>,
}

impl UpstreamSockets {
    /// Begins with a server and its number of fixed source ports; sockets to another server with
    /// this number, which has no query under way, are closed.
    pub(crate) fn begin(&mut self, server: usize, fixed_ports: Option<u8>) {
        let len = self.used.len().max(server + 1);
        self.used.resize(len, Vec::new());
        self.fixed_ports.resize(len, None);
        self.fixed_ports[server] = fixed_ports;
        for slot in self.used[server].drain(..) {
            self.slots[slot] = None;
            self.free.push(slot);
        }
    }

    /// The socket in a slot, whose number is the event number.
    pub(crate) fn get(&mut self, slot: usize) -> Option<&mut UpstreamSocket> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// A random socket of a server, for `count` queries.
    ///
    /// # Errors
    /// None exists, and none can be opened.
    pub(crate) fn pick(
        &mut self,
        epoll: BorrowedFd<'_>,
        (server, address): (u16, SocketAddr),
        questions: usize,
        now: Duration,
        random: u64,
    ) -> io::Result<&UpstreamSocket> {
        let count = self.used[usize::from(server)].len();
        let fixed = self.fixed_ports[usize::from(server)].map(usize::from);
        let nth = (random % fixed.unwrap_or(SOCKETS_PER_SERVER) as u64) as usize;
        let slot = if nth >= count {
            self.open(epoll, server, address, now).inspect(|slot| {
                self.used[usize::from(server)].push(*slot);
            })?
        } else {
            let slot = self.used[usize::from(server)][nth];
            let is_worn = fixed.is_none()
                && self.get(slot).is_none_or(|socket| {
                    socket.uses >= SOCKET_USES_MAX || now - socket.opened_at >= SOCKET_AGE_MAX
                });
            let has_room = self.resting.len() < RESTING_MAX;
            match (is_worn && has_room).then(|| self.open(epoll, server, address, now)) {
                Some(Ok(other)) => {
                    self.used[usize::from(server)][nth] = other;
                    self.resting.push_back((now + SOCKET_REST, slot));
                    other
                }
                // An old socket is better than none.
                _ => slot,
            }
        };
        let socket = self.slots[slot].as_mut().expect("it is in use");
        socket.uses += questions as u32;
        socket.awaited += questions as u32;
        Ok(socket)
    }

    /// Closes replaced sockets after their time.
    pub(crate) fn close_rested(&mut self, now: Duration) {
        while let Some((until, slot)) = self.resting.front().copied()
            && until <= now
        {
            self.resting.pop_front();
            self.slots[slot] = None;
            self.free.push(slot);
        }
    }

    fn open(
        &mut self,
        epoll: BorrowedFd<'_>,
        server: u16,
        address: SocketAddr,
        opened_at: Duration,
    ) -> io::Result<usize> {
        let any: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let fd = UdpSocket::bind(any)?;
        fd.connect(address)?;
        fd.set_nonblocking(true)?;
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        if let Err(error) = epoll::add(epoll, &fd, EventData::new_u64(slot as u64), EventFlags::IN)
        {
            self.free.push(slot);
            return Err(error.into());
        }
        // Numbers of connections are odd.
        self.next_number = self.next_number.wrapping_add(2);
        let number = self.next_number;
        self.slots[slot] =
            Some(UpstreamSocket { fd, number, server, uses: 0, awaited: 0, opened_at });
        Ok(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::epoll::CreateFlags;
    use std::os::fd::AsFd;

    /// Each is a file descriptor, and streams of clients need some, too.
    #[test]
    fn only_so_many_sockets_rest() {
        let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
        let mut sockets = UpstreamSockets::default();
        sockets.begin(0, None);
        let pick = |sockets: &mut UpstreamSockets, random, now| {
            let uses = SOCKET_USES_MAX as usize;
            let to = (0, address);
            sockets.pick(epoll.as_fd(), to, uses, now, random).unwrap().number
        };
        for random in 0..2 * (SOCKETS_PER_SERVER + RESTING_MAX) as u64 {
            pick(&mut sockets, random, Duration::ZERO);
        }
        assert_eq!(sockets.resting.len(), RESTING_MAX);
        assert_eq!(sockets.slots.len(), SOCKETS_PER_SERVER + RESTING_MAX);
        let before = pick(&mut sockets, 0, Duration::ZERO);
        assert_eq!(pick(&mut sockets, 0, Duration::ZERO), before, "it goes on");
        sockets.close_rested(SOCKET_REST);
        assert_ne!(pick(&mut sockets, 0, SOCKET_REST), before);
    }
}
