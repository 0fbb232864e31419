//! Connections to servers: a few for each, every one with many questions on it.
//!
//! A question goes to the connection with the fewest; when even that is busy, another is opened
//! beside it. Their sockets are watched level-triggered: what is left for another turn is told
//! again, behind all others.
use crate::connection::{Connection, Stage, Turn};
use crate::fault::Fault;
use crate::limits::{
    CLOSED_SOON, CONNECTIONS_MAX, CONNECTIONS_PER_SERVER, IDLE, IDLE_MAX, INBOX_CHUNK,
    QUESTIONS_BUSY, SHARE_AGE_MAX,
};
use crate::tls::Tls;
use crate::{Address, Over};
use forward::Loss;
use rustix::event::epoll::{self, EventData};
use std::io::{self, ErrorKind};
use std::mem;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use wire::{HEADER_LEN, OptionCode, Records, Rtype, skip_name};

/// What epoll tells of a connection: its place, and this.
pub(crate) const STREAM: u64 = 1 << 32;

/// The connections of a thread.
#[derive(Debug)]
pub(crate) struct Streams {
    places: Vec<Option<Box<Connection>>>,
    servers: Vec<Server>,
    tls: Option<Tls>,
    /// Where something waits to be sent.
    unsent: Vec<usize>,
    next_number: u32,
    /// When one may have to be closed, if ever.
    look_at: Option<Duration>,
}

/// What is known of connections to a server.
#[derive(Debug)]
pub(crate) struct Server {
    address: Address,
    places: Vec<usize>,
    /// Questions that it takes on one connection, and until when that is believed.
    share: Option<(u32, Duration)>,
    pub(crate) fault: Fault,
    /// Connections that were ever opened.
    pub(crate) opened: u64,
    /// Questions that found no room.
    pub(crate) full: u64,
}

/// A connection that is no more.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) number: u32,
    pub(crate) server: u16,
    /// Of questions whose replies have not come.
    pub(crate) ids: Vec<u16>,
    pub(crate) loss: Loss,
}

impl Server {
    /// Connections that there are.
    pub(crate) fn open(&self) -> usize {
        self.places.len()
    }

    fn share(&self, now: Duration) -> u32 {
        self.share.filter(|(_, until)| *until > now).map_or(u32::MAX, |(share, _)| share)
    }
}

impl Streams {
    pub(crate) fn new(addresses: &[Address], tls: Option<Tls>) -> Self {
        let server = |address: &Address| Server {
            address: address.clone(),
            places: Vec::new(),
            share: None,
            fault: Fault::None,
            opened: 0,
            full: 0,
        };
        Self {
            places: Vec::new(),
            servers: addresses.iter().map(server).collect(),
            tls,
            unsent: Vec::new(),
            // Those of datagrams' sockets are even.
            next_number: 1,
            look_at: None,
        }
    }

    /// Puts a question on a connection to a server; returns the connection's number, and whether
    /// it is open already.
    ///
    /// # Errors
    /// There is no room on any, or no connection can be had.
    pub(crate) fn ask(
        &mut self,
        epoll: BorrowedFd<'_>,
        server: u16,
        (id, question): (u16, &[u8]),
        now: Duration,
    ) -> io::Result<(u32, bool)> {
        let place = self.pick(epoll, server, (id, question.len()), now)?;
        let share = self.servers[usize::from(server)].share(now);
        let connection = self.places[place].as_mut().expect("it was picked");
        connection.ask(id, question, now);
        let told = (connection.number, connection.is_open());
        if connection.asked >= share && connection.is_open() {
            connection.stage = Stage::Retired;
        }
        let ends_at = connection.ends_at();
        self.look_at = Some(self.look_at.map_or(ends_at, |at| at.min(ends_at)));
        if !self.unsent.contains(&place) {
            self.unsent.push(place);
        }
        Ok(told)
    }

    /// The place of the connection with the fewest questions, or of another one beside it.
    fn pick(
        &mut self,
        epoll: BorrowedFd<'_>,
        server: u16,
        (id, len): (u16, usize),
        now: Duration,
    ) -> io::Result<usize> {
        let known = &self.servers[usize::from(server)];
        let share = known.share(now);
        let of = |place: usize| self.places[place].as_deref();
        let has_room = |one: &&Connection| one.asked < share && one.has_room(id, len);
        let load = |place: &usize| {
            let one = of(*place).filter(has_room)?;
            Some((!one.is_open(), one.ids.len(), *place))
        };
        let least = known.places.iter().filter_map(load).min();
        let one_opens = known.places.iter().filter_map(|at| of(*at)).any(|one| !one.is_open());
        let is_busy = match least {
            None => true,
            Some((_, questions, _)) => questions >= QUESTIONS_BUSY && !one_opens,
        };
        if is_busy {
            match (self.open(epoll, server, now), least) {
                // The new one is for those who come when it is open.
                (_, Some((_, _, place))) | (Ok(place), None) => return Ok(place),
                (Err(error), None) => {
                    self.servers[usize::from(server)].full += 1;
                    return Err(error);
                }
            }
        }
        least.map(|(_, _, place)| place).ok_or_else(|| ErrorKind::QuotaExceeded.into())
    }

    fn open(&mut self, epoll: BorrowedFd<'_>, server: u16, now: Duration) -> io::Result<usize> {
        let known = &mut self.servers[usize::from(server)];
        let free = self.places.iter().position(Option::is_none);
        let place = free.unwrap_or(self.places.len());
        if place == CONNECTIONS_MAX || known.places.len() == CONNECTIONS_PER_SERVER {
            return Err(ErrorKind::QuotaExceeded.into());
        }
        let opened = Connection::open(known.address.at, (server, self.next_number), IDLE, now);
        let connection = opened.inspect_err(|error| known.fault = error.into())?;
        let data = EventData::new_u64(STREAM | place as u64);
        epoll::add(epoll, &connection, data, connection.watched)?;
        self.next_number = self.next_number.wrapping_add(2);
        known.opened += 1;
        known.places.push(place);
        if place == self.places.len() {
            self.places.push(None);
        }
        self.places[place] = Some(Box::new(connection));
        Ok(place)
    }

    /// Sends what was asked. Where that fails, epoll tells it as well.
    pub(crate) fn flush(&mut self, epoll: BorrowedFd<'_>) {
        let mut unsent = mem::take(&mut self.unsent);
        for place in unsent.drain(..) {
            if let Some(connection) = self.places.get_mut(place).and_then(Option::as_mut) {
                let _ = connection.flush();
                watch(epoll, place, connection);
            }
        }
        self.unsent = unsent;
    }

    /// Whether the next turn of a connection is one of TLS's opening, which takes the processor
    /// longer than any other.
    pub(crate) fn is_heavy(&self, place: usize) -> bool {
        let Some(connection) = self.places.get(place).and_then(Option::as_ref) else {
            return false;
        };
        let over = &self.servers[usize::from(connection.server)].address.over;
        !connection.is_open() && matches!(over, Over::Tls(_))
    }

    /// Sends and receives what can be.
    pub(crate) fn turn(
        &mut self,
        epoll: BorrowedFd<'_>,
        place: usize,
        now: Duration,
    ) -> Option<(&Connection, Turn)> {
        let connection = self.places.get_mut(place)?.as_mut()?;
        let server = &self.servers[usize::from(connection.server)];
        let tls = match &server.address.over {
            Over::Tls(name) => self.tls.as_ref().map(|tls| (tls, name)),
            Over::Udp | Over::Tcp => None,
        };
        let turn = connection.turn(tls, now);
        if turn.opened && connection.asked >= server.share(now) {
            connection.stage = Stage::Retired;
        }
        watch(epoll, place, connection);
        Some((connection, turn))
    }

    /// Takes what came on a connection; also its number and server.
    pub(crate) fn take_inbox(&mut self, place: usize) -> Option<(Vec<u8>, u32, u16)> {
        let connection = self.places.get_mut(place)?.as_mut()?;
        Some((mem::take(&mut connection.inbox), connection.number, connection.server))
    }

    /// Gives back what is no whole message yet.
    pub(crate) fn put_inbox(&mut self, place: usize, mut inbox: Vec<u8>) {
        if let Some(connection) = self.places.get_mut(place).and_then(Option::as_mut)
            && !inbox.is_empty()
        {
            inbox.shrink_to(INBOX_CHUNK);
            connection.inbox = inbox;
        }
    }

    /// Notes that a message came on a connection, and tells its id; nothing where it is a reply to
    /// nothing.
    pub(crate) fn take_reply(&mut self, place: usize, message: &[u8]) -> Option<u16> {
        let connection = self.places.get_mut(place)?.as_mut()?;
        let id = u16::from_be_bytes(*message.first_chunk()?);
        connection.take_reply(id).then_some(())?;
        if connection.answered == 1 {
            self.servers[usize::from(connection.server)].fault = Fault::None;
            match idle_max(message) {
                Some(Duration::ZERO) => connection.stage = Stage::Retired,
                // It goes first: a question that meets the server's end would be asked in vain.
                Some(idle) => {
                    connection.idle_max = idle.min(IDLE_MAX) * 3 / 4;
                    let ends_at = connection.heard_at + connection.idle_max;
                    self.look_at = self.look_at.map(|at| at.min(ends_at));
                }
                None => {}
            }
        }
        Some(id)
    }

    /// Whether a connection is done with: no more is asked there, and all is answered.
    pub(crate) fn is_done(&self, place: usize) -> bool {
        let connection = self.places.get(place).and_then(Option::as_ref);
        connection.is_some_and(|one| one.stage == Stage::Retired && one.ids.is_empty())
    }

    /// Ends a connection, for this reason.
    pub(crate) fn end(&mut self, place: usize, fault: Fault, now: Duration) -> Option<Ended> {
        let connection = self.places.get_mut(place)?.take()?;
        let known = &mut self.servers[usize::from(connection.server)];
        known.places.retain(|other| *other != place);
        let Connection { number, server, answered, heard_at, .. } = *connection;
        let was_good = connection.is_open() && answered > 0;
        let loss = match fault {
            Fault::None => Loss::Closed,
            Fault::Closed if was_good => {
                if !connection.ids.is_empty() && now - heard_at < CLOSED_SOON {
                    known.share = Some((answered, now + SHARE_AGE_MAX));
                }
                Loss::Closed
            }
            Fault::Closed | Fault::Nonsense => Loss::Failed,
            _ if connection.is_open() => Loss::Failed,
            // It cannot be opened.
            _ => Loss::Refused,
        };
        if loss != Loss::Closed {
            known.fault = fault;
        }
        let ids = connection.ids.clone();
        connection.close();
        Some(Ended { number, server, ids, loss })
    }

    /// A connection whose time is over, and why.
    pub(crate) fn late(&mut self, now: Duration) -> Option<(usize, Fault)> {
        if self.look_at.is_none_or(|at| at > now) {
            return None;
        }
        let all = self.places.iter().enumerate();
        let ends = all.filter_map(|(place, one)| Some((place, one.as_ref()?.ends_at())));
        let next = ends.min_by_key(|(_, at)| *at);
        self.look_at = next.map(|(_, at)| at);
        let (place, _) = next.filter(|(_, at)| *at <= now)?;
        let connection = self.places[place].as_ref()?;
        let is_idle = connection.is_open() && connection.ids.is_empty();
        Some((place, if is_idle { Fault::None } else { Fault::Silent }))
    }

    /// When [`late`](Self::late) is worth calling next, if ever.
    pub(crate) fn look_at(&self) -> Option<Duration> {
        self.look_at
    }

    /// What is known of connections to a server.
    pub(crate) fn server(&self, number: usize) -> &Server {
        &self.servers[number]
    }
}

/// Has epoll watch a connection for what it waits for.
fn watch(epoll: BorrowedFd<'_>, place: usize, connection: &mut Connection) {
    let flags = connection.to_watch();
    if flags != connection.watched {
        let data = EventData::new_u64(STREAM | place as u64);
        // It is among those watched, and there is no other way to fail.
        if epoll::modify(epoll, &*connection, data, flags).is_ok() {
            connection.watched = flags;
        }
    }
}

/// How long a server lets a connection be idle, if its reply says so (RFC 7828 §3.1).
fn idle_max(message: &[u8]) -> Option<Duration> {
    let count =
        |at: usize| Some(usize::from(u16::from_be_bytes(*message.get(at..)?.first_chunk()?)));
    let records_at = skip_name(message, HEADER_LEN).ok()? + 4;
    let records = Records::new(message, records_at, count(6)? + count(8)? + count(10)?);
    let opt = records.flatten().find(|record| record.rtype == Rtype::OPT)?;
    let mut options = opt.data();
    while let Some(([c0, c1, l0, l1], rest)) = options.split_first_chunk() {
        let (data, rest) = rest.split_at_checked(u16::from_be_bytes([*l0, *l1]).into())?;
        if u16::from_be_bytes([*c0, *c1]) == OptionCode::TCP_KEEPALIVE.0 {
            let tenths = u16::from_be_bytes(*data.first_chunk()?);
            return Some(Duration::from_millis(100) * u32::from(tenths));
        }
        options = rest;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::QUESTIONS_MAX;
    use rustix::event::epoll::CreateFlags;
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    /// The listener never takes them, so none is answered; on loopback they open all the same.
    #[test]
    fn what_finds_no_room_is_told_and_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let mut streams = Streams::new(&[Address { at, over: Over::Tcp }], None);
        let epoll = epoll::create(CreateFlags::CLOEXEC).expect("an epoll");
        let mut ask = |id: usize| {
            let id = id as u16;
            let question = [&id.to_be_bytes()[..], &[0; 10]].concat();
            let asked = streams.ask(epoll.as_fd(), 0, (id, &question), Duration::ZERO);
            streams.flush(epoll.as_fd());
            for place in (0..CONNECTIONS_PER_SERVER).filter(|_| id.is_multiple_of(64)) {
                streams.turn(epoll.as_fd(), place, Duration::ZERO);
            }
            asked
        };
        let room = CONNECTIONS_PER_SERVER * QUESTIONS_MAX;
        let mut numbers: Vec<u32> = (0..room).map(|id| ask(id).expect("room").0).collect();
        assert!(ask(room).is_err());
        numbers.sort_unstable();
        let each = numbers.chunk_by(|a, b| a == b).map(<[u32]>::len).collect::<Vec<_>>();
        assert_eq!(each, [QUESTIONS_MAX; CONNECTIONS_PER_SERVER], "an id is on one once");
        assert_eq!((streams.server(0).full, streams.server(0).open()), (1, CONNECTIONS_PER_SERVER));
        let ended = streams.end(0, Fault::Closed, Duration::ZERO).expect("it was there");
        assert_eq!((ended.ids.len(), ended.loss), (QUESTIONS_MAX, Loss::Failed));
        assert!(streams.ask(epoll.as_fd(), 0, (0, &[0; 12]), Duration::ZERO).is_ok());
    }

    #[test]
    fn an_id_is_on_a_connection_once() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let mut streams = Streams::new(&[Address { at, over: Over::Tcp }], None);
        let epoll = epoll::create(CreateFlags::CLOEXEC).expect("an epoll");
        let mut ask = || streams.ask(epoll.as_fd(), 0, (7, &[0; 12]), Duration::ZERO);
        let (first, second) = (ask().expect("room").0, ask().expect("room").0);
        assert_ne!(first, second);
    }

    #[test]
    fn a_server_says_how_long_it_waits() {
        let head = b"\0\x07\x81\x80\0\x01\0\0\0\0\0\x01\x01a\0\0\x01\0\x01";
        let with = |options: &[u8]| {
            let len = (options.len() as u16).to_be_bytes();
            idle_max(&[&head[..], b"\0\0\x29\x04\xd0\0\0\0\0", &len, options].concat())
        };
        assert_eq!(with(b"\0\x0b\0\x02\0\x64"), Some(Duration::from_secs(10)));
        assert_eq!(with(b"\0\x0c\0\x01\0\0\x0b\0\x02\0\x01"), Some(Duration::from_millis(100)));
        for silent in [&b""[..], b"\0\x0b\0\0", b"\0\x0b\0\x09\0\x64", b"\0\x0b"] {
            assert_eq!(with(silent), None, "{silent:?}");
        }
        assert_eq!(idle_max(b"short"), None);
    }
}
