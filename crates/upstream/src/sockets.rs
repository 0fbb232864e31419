//! UDP sockets to servers: several for each, with ports that change.
//!
//! Each is connected, so that the kernel takes datagrams from its server only, and tells when
//! nobody is there.
use crate::limits::{
    RESTING_MAX, SOCKET_AGE_MAX, SOCKET_REST, SOCKET_USES_MAX, SOCKETS_PER_SERVER,
};
use rustix::event::epoll::{self, EventData, EventFlags};
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A socket to a server.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) fd: UdpSocket,
    /// Tells it from every other one there ever was.
    pub(crate) number: u32,
    pub(crate) server: u16,
    uses: u32,
    /// Questions that were not answered yet. Where one never is, that costs a look for nothing now
    /// and then.
    awaited: u32,
    opened_at: Duration,
}

impl Socket {
    /// Receives a datagram; tells its length, and whether more are expected.
    pub(crate) fn receive(&mut self, buf: &mut [u8]) -> io::Result<(usize, bool)> {
        let len = self.fd.recv(buf)?;
        self.awaited = self.awaited.saturating_sub(1);
        Ok((len, self.awaited > 0))
    }
}

/// The sockets of a thread.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    places: Vec<Option<Socket>>,
    free: Vec<usize>,
    /// For each server, the places of those in use.
    used: Vec<Vec<usize>>,
    /// Those that are no longer used, and until when replies are awaited there.
    resting: VecDeque<(Duration, usize)>,
    next_number: u32,
}

impl Sockets {
    pub(crate) fn new(servers: usize) -> Self {
        Self { used: vec![Vec::new(); servers], ..Self::default() }
    }

    /// The socket at a place, of which epoll tells by the place's number.
    pub(crate) fn get(&mut self, place: usize) -> Option<&mut Socket> {
        self.places.get_mut(place)?.as_mut()
    }

    /// One of a server's sockets, any of them, for so many questions.
    ///
    /// # Errors
    /// None could be opened, and none is there.
    pub(crate) fn pick(
        &mut self,
        epoll: BorrowedFd<'_>,
        (server, address): (u16, SocketAddr),
        questions: usize,
        now: Duration,
        random: u64,
    ) -> io::Result<&Socket> {
        let count = self.used[usize::from(server)].len();
        let nth = (random % SOCKETS_PER_SERVER as u64) as usize;
        let place = if nth >= count {
            self.open(epoll, server, address, now).inspect(|place| {
                self.used[usize::from(server)].push(*place);
            })?
        } else {
            let place = self.used[usize::from(server)][nth];
            let is_worn = self.get(place).is_none_or(|socket| {
                socket.uses >= SOCKET_USES_MAX || now - socket.opened_at >= SOCKET_AGE_MAX
            });
            let has_room = self.resting.len() < RESTING_MAX;
            match (is_worn && has_room).then(|| self.open(epoll, server, address, now)) {
                Some(Ok(other)) => {
                    self.used[usize::from(server)][nth] = other;
                    self.resting.push_back((now + SOCKET_REST, place));
                    other
                }
                // A worn socket is better than none.
                _ => place,
            }
        };
        let socket = self.places[place].as_mut().expect("it is in use");
        socket.uses += questions as u32;
        socket.awaited += questions as u32;
        Ok(socket)
    }

    /// Closes those whose rest is over.
    pub(crate) fn close_rested(&mut self, now: Duration) {
        while let Some((until, place)) = self.resting.front().copied()
            && until <= now
        {
            self.resting.pop_front();
            self.places[place] = None;
            self.free.push(place);
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
        let place = self.free.pop().unwrap_or(self.places.len());
        if place == self.places.len() {
            self.places.push(None);
        }
        if let Err(error) = epoll::add(epoll, &fd, EventData::new_u64(place as u64), EventFlags::IN)
        {
            self.free.push(place);
            return Err(error.into());
        }
        // Those of connections are odd.
        self.next_number = self.next_number.wrapping_add(2);
        let number = self.next_number;
        self.places[place] = Some(Socket { fd, number, server, uses: 0, awaited: 0, opened_at });
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::epoll::CreateFlags;
    use std::os::fd::AsFd;

    /// However many questions there are: each is a file, and clients' streams need some, too.
    #[test]
    fn only_so_many_sockets_rest() {
        let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
        let mut sockets = Sockets::new(1);
        let pick = |sockets: &mut Sockets, random, now| {
            let uses = SOCKET_USES_MAX as usize;
            let to = (0, address);
            sockets.pick(epoll.as_fd(), to, uses, now, random).unwrap().number
        };
        for random in 0..2 * (SOCKETS_PER_SERVER + RESTING_MAX) as u64 {
            pick(&mut sockets, random, Duration::ZERO);
        }
        assert_eq!(sockets.resting.len(), RESTING_MAX);
        assert_eq!(sockets.places.len(), SOCKETS_PER_SERVER + RESTING_MAX);
        let before = pick(&mut sockets, 0, Duration::ZERO);
        assert_eq!(pick(&mut sockets, 0, Duration::ZERO), before, "it goes on");
        sockets.close_rested(SOCKET_REST);
        assert_ne!(pick(&mut sockets, 0, SOCKET_REST), before);
    }
}
