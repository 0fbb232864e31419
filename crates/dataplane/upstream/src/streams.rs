//! Connections to servers: a few for each, with many queries on each.
//!
//! A query goes to the connection with the fewest queries. If that is busy, another one is opened.
//! Sockets are watched level-triggered: work that is left for the next turn is reported again,
//! behind the others.
use crate::connection::{ConnectionEvents, ConnectionStage, UpstreamConnection};
use crate::fault::TlsFault;
use crate::limits::{
    CLOSE_DELAY_SHORT, CONNECTIONS_MAX, CONNECTIONS_PER_SERVER, IDLE, IDLE_MAX, INBOX_CHUNK,
    QUERIES_BUSY, SHARE_AGE_MAX,
};
use crate::tls::TlsClient;
use crate::{QueryTransport, UpstreamAddress};
use forward::StreamLoss;
use rustix::event::epoll::{self, EventData};
use std::io::{self, ErrorKind};
use std::mem;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use wire::{HEADER_LEN, OptionCode, Records, Rtype, skip_name};

/// Added to the slot of a connection for its event number.
pub(crate) const STREAM: u64 = 1 << 32;

/// The connections of a thread.
#[derive(Debug)]
pub(crate) struct UpstreamStreams {
    slots: Vec<Option<Box<UpstreamConnection>>>,
    servers: Vec<UpstreamState>,
    tls: Option<TlsClient>,
    /// Slots of connections with bytes to send.
    unsent: Vec<usize>,
    next_number: u32,
    /// When the next connection may time out.
    look_at: Option<Duration>,
}

/// The connections to a server.
#[derive(Debug)]
pub(crate) struct UpstreamState {
    address: UpstreamAddress,
    slots: Vec<usize>,
    /// Queries that it accepts on one connection, and until when that is assumed.
    share: Option<(u32, Duration)>,
    /// Connection and ID of the last probe.
    probe: Option<(u32, u16)>,
    pub(crate) fault: TlsFault,
    /// Connections opened so far.
    pub(crate) opened: u64,
    /// Queries that found no room.
    pub(crate) full: u64,
}

/// A connection that has ended.
#[derive(Debug)]
pub(crate) struct EndedConnection {
    pub(crate) number: u32,
    pub(crate) server: u16,
    /// IDs of queries without a reply.
    pub(crate) ids: Vec<u16>,
    pub(crate) loss: StreamLoss,
}

impl UpstreamState {
    /// The number of connections.
    pub(crate) fn open(&self) -> usize {
        self.slots.len()
    }

    fn share(&self, now: Duration) -> u32 {
        self.share.filter(|(_, until)| *until > now).map_or(u32::MAX, |(share, _)| share)
    }
}

impl UpstreamStreams {
    pub(crate) fn new(tls: Option<TlsClient>) -> Self {
        Self {
            slots: Vec::new(),
            servers: Vec::new(),
            tls,
            unsent: Vec::new(),
            // Numbers of UDP sockets are even.
            next_number: 1,
            look_at: None,
        }
    }

    /// Whether servers over TLS cannot be queried.
    pub(crate) fn lacks_tls(&self) -> bool {
        self.tls.is_none()
    }

    pub(crate) fn set_tls(&mut self, tls: Option<TlsClient>) {
        self.tls = tls;
    }

    /// Begins with a server; connections to another server with this number, which has no query
    /// under way, are closed.
    pub(crate) fn begin(&mut self, server: usize, address: &UpstreamAddress) {
        let new = || UpstreamState {
            address: address.clone(),
            slots: Vec::new(),
            share: None,
            probe: None,
            fault: TlsFault::None,
            opened: 0,
            full: 0,
        };
        self.servers.resize_with(self.servers.len().max(server + 1), new);
        for slot in mem::replace(&mut self.servers[server], new()).slots {
            if let Some(connection) = self.slots[slot].take() {
                connection.close();
            }
        }
    }

    /// The numbers of servers are below this.
    pub(crate) fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Adds a query to a connection; returns the connection's number, and whether it is open
    /// already.
    ///
    /// # Errors
    /// No connection has room, and none can be opened.
    pub(crate) fn query(
        &mut self,
        epoll: BorrowedFd<'_>,
        server: u16,
        (id, question): (u16, &[u8]),
        now: Duration,
    ) -> io::Result<(u32, bool)> {
        let slot = self.pick(epoll, server, (id, question.len()), now)?;
        let share = self.servers[usize::from(server)].share(now);
        let connection = self.slots[slot].as_mut().expect("it was picked");
        connection.query(id, question, now);
        let reported = (connection.number, connection.is_open());
        if connection.asked >= share && connection.is_open() {
            connection.stage = ConnectionStage::Retired;
        }
        let ends_at = connection.ends_at();
        self.look_at = Some(self.look_at.map_or(ends_at, |at| at.min(ends_at)));
        if !self.unsent.contains(&slot) {
            self.unsent.push(slot);
        }
        Ok(reported)
    }

    /// The slot of the connection with the fewest queries, or of a new one.
    fn pick(
        &mut self,
        epoll: BorrowedFd<'_>,
        server: u16,
        (id, len): (u16, usize),
        now: Duration,
    ) -> io::Result<usize> {
        let known = &self.servers[usize::from(server)];
        let share = known.share(now);
        let of = |slot: usize| self.slots[slot].as_deref();
        let has_room = |one: &&UpstreamConnection| one.asked < share && one.has_room(id, len);
        let load = |slot: &usize| {
            let one = of(*slot).filter(has_room)?;
            Some((!one.is_open(), one.ids.len(), *slot))
        };
        let least = known.slots.iter().filter_map(load).min();
        let one_opens = known.slots.iter().filter_map(|at| of(*at)).any(|one| !one.is_open());
        let is_busy = match least {
            None => true,
            Some((_, questions, _)) => questions >= QUERIES_BUSY && !one_opens,
        };
        if is_busy {
            match (self.open(epoll, server, now), least) {
                // The new one is for later queries, when it is open.
                (_, Some((_, _, slot))) | (Ok(slot), None) => return Ok(slot),
                (Err(error), None) => {
                    self.servers[usize::from(server)].full += 1;
                    return Err(error);
                }
            }
        }
        least.map(|(_, _, slot)| slot).ok_or_else(|| ErrorKind::QuotaExceeded.into())
    }

    fn open(&mut self, epoll: BorrowedFd<'_>, server: u16, now: Duration) -> io::Result<usize> {
        let known = &mut self.servers[usize::from(server)];
        let free = self.slots.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.slots.len());
        if slot == CONNECTIONS_MAX || known.slots.len() == CONNECTIONS_PER_SERVER {
            return Err(ErrorKind::QuotaExceeded.into());
        }
        let opened =
            UpstreamConnection::open(known.address.at, (server, self.next_number), IDLE, now);
        let connection = opened.inspect_err(|error| known.fault = error.into())?;
        let data = EventData::new_u64(STREAM | slot as u64);
        epoll::add(epoll, &connection, data, connection.watched)?;
        self.next_number = self.next_number.wrapping_add(2);
        known.opened += 1;
        known.slots.push(slot);
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(Box::new(connection));
        Ok(slot)
    }

    /// Sends the added queries. epoll reports failures.
    pub(crate) fn flush(&mut self, epoll: BorrowedFd<'_>) {
        let mut unsent = mem::take(&mut self.unsent);
        for slot in unsent.drain(..) {
            if let Some(connection) = self.slots.get_mut(slot).and_then(Option::as_mut) {
                let _ = connection.flush();
                watch(epoll, slot, connection);
            }
        }
        self.unsent = unsent;
    }

    /// Whether the next turn of a connection is part of a TLS handshake, which takes more processor
    /// time than any other.
    pub(crate) fn is_heavy(&self, slot: usize) -> bool {
        let Some(connection) = self.slots.get(slot).and_then(Option::as_ref) else {
            return false;
        };
        let over = &self.servers[usize::from(connection.server)].address.over;
        !connection.is_open() && matches!(over, QueryTransport::Tls(_))
    }

    /// Sends and receives on a connection.
    pub(crate) fn turn(
        &mut self,
        epoll: BorrowedFd<'_>,
        slot: usize,
        now: Duration,
    ) -> Option<(&UpstreamConnection, ConnectionEvents)> {
        let connection = self.slots.get_mut(slot)?.as_mut()?;
        let server = &self.servers[usize::from(connection.server)];
        let tls = match &server.address.over {
            QueryTransport::Tls(name) => self.tls.as_ref().map(|tls| (tls, name)),
            QueryTransport::Udp | QueryTransport::Tcp => None,
        };
        let turn = connection.turn(tls, now);
        if turn.opened && connection.asked >= server.share(now) {
            connection.stage = ConnectionStage::Retired;
        }
        watch(epoll, slot, connection);
        Some((connection, turn))
    }

    /// Takes the received bytes of a connection; also its number and server.
    pub(crate) fn take_inbox(&mut self, slot: usize) -> Option<(Vec<u8>, u32, u16)> {
        let connection = self.slots.get_mut(slot)?.as_mut()?;
        Some((mem::take(&mut connection.inbox), connection.number, connection.server))
    }

    /// Returns the bytes of an incomplete message.
    pub(crate) fn put_inbox(&mut self, slot: usize, mut inbox: Vec<u8>) {
        if let Some(connection) = self.slots.get_mut(slot).and_then(Option::as_mut)
            && !inbox.is_empty()
        {
            inbox.shrink_to(INBOX_CHUNK);
            connection.inbox = inbox;
        }
    }

    /// Removes the ID of a received message and returns it; `None` if no query has it.
    pub(crate) fn take_reply(&mut self, slot: usize, message: &[u8]) -> Option<u16> {
        let connection = self.slots.get_mut(slot)?.as_mut()?;
        let id = u16::from_be_bytes(*message.first_chunk()?);
        connection.take_reply(id).then_some(())?;
        if connection.answered == 1 {
            self.servers[usize::from(connection.server)].fault = TlsFault::None;
            match idle_max(message) {
                Some(Duration::ZERO) => connection.stage = ConnectionStage::Retired,
                // It is closed first: a query could meet the close by the server.
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

    /// Abandons a query on the connection with this number.
    pub(crate) fn give_up(&mut self, number: u32, id: u16) {
        let mut all = self.slots.iter_mut().flatten();
        if let Some(connection) = all.find(|connection| connection.number == number) {
            connection.give_up(id);
            // It may be idle or done now.
            let ends_at = connection.ends_at();
            self.look_at = self.look_at.map(|at| at.min(ends_at));
        }
    }

    /// Sets the last probe of a server; the one before it is abandoned.
    pub(crate) fn record_probe(&mut self, server: u16, number: u32, id: u16) {
        let before = self.servers[usize::from(server)].probe.replace((number, id));
        if let Some((number, id)) = before {
            self.give_up(number, id);
        }
    }

    /// Whether a connection gets no more queries and has no outstanding ones.
    pub(crate) fn is_done(&self, slot: usize) -> bool {
        let connection = self.slots.get(slot).and_then(Option::as_ref);
        connection.is_some_and(|one| one.stage == ConnectionStage::Retired && one.ids.is_empty())
    }

    /// Closes a connection for this reason.
    pub(crate) fn end(
        &mut self,
        slot: usize,
        fault: TlsFault,
        now: Duration,
    ) -> Option<EndedConnection> {
        let connection = self.slots.get_mut(slot)?.take()?;
        let known = &mut self.servers[usize::from(connection.server)];
        known.slots.retain(|other| *other != slot);
        let UpstreamConnection { number, server, answered, heard_at, .. } = *connection;
        let was_good = connection.is_open() && answered > 0;
        let loss = match fault {
            TlsFault::None => StreamLoss::Closed,
            TlsFault::Closed if was_good => {
                if !connection.ids.is_empty() && now - heard_at < CLOSE_DELAY_SHORT {
                    known.share = Some((answered, now + SHARE_AGE_MAX));
                }
                StreamLoss::Closed
            }
            TlsFault::Closed | TlsFault::Nonsense => StreamLoss::Failed,
            _ if connection.is_open() => StreamLoss::Failed,
            // It cannot be opened.
            _ => StreamLoss::Refused,
        };
        if loss != StreamLoss::Closed {
            known.fault = fault;
        }
        let ids = connection.ids.clone();
        connection.close();
        Some(EndedConnection { number, server, ids, loss })
    }

    /// A connection that timed out, and why.
    pub(crate) fn late(&mut self, now: Duration) -> Option<(usize, TlsFault)> {
        if self.look_at.is_none_or(|at| at > now) {
            return None;
        }
        let all = self.slots.iter().enumerate();
        let ends = all.filter_map(|(slot, one)| Some((slot, one.as_ref()?.ends_at())));
        let next = ends.min_by_key(|(_, at)| *at);
        self.look_at = next.map(|(_, at)| at);
        let (slot, _) = next.filter(|(_, at)| *at <= now)?;
        let connection = self.slots[slot].as_ref()?;
        let is_idle = connection.is_idle();
        Some((slot, if is_idle { TlsFault::None } else { TlsFault::Silent }))
    }

    /// When [`late`](Self::late) should be called next.
    pub(crate) fn look_at(&self) -> Option<Duration> {
        self.look_at
    }

    /// The connections to a server.
    pub(crate) fn server(&self, number: usize) -> &UpstreamState {
        &self.servers[number]
    }
}

/// Updates the events that epoll watches for a connection.
fn watch(epoll: BorrowedFd<'_>, slot: usize, connection: &mut UpstreamConnection) {
    let flags = connection.to_watch();
    if flags != connection.watched {
        let data = EventData::new_u64(STREAM | slot as u64);
        // It is registered, so this does not fail.
        if epoll::modify(epoll, &*connection, data, flags).is_ok() {
            connection.watched = flags;
        }
    }
}

/// The idle timeout of a server's reply (RFC 7828 §3.1).
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
    use crate::limits::QUERIES_PER_CONNECTION_MAX;
    use rustix::event::epoll::CreateFlags;
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    /// The listener never accepts them, so none is answered; on loopback they open all the same.
    #[test]
    fn query_without_room_is_reported_and_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let mut streams = UpstreamStreams::new(None);
        streams.begin(0, &UpstreamAddress { at, over: QueryTransport::Tcp });
        let epoll = epoll::create(CreateFlags::CLOEXEC).expect("an epoll");
        let mut query = |id: usize| {
            let id = id as u16;
            let question = [&id.to_be_bytes()[..], &[0; 10]].concat();
            let asked = streams.query(epoll.as_fd(), 0, (id, &question), Duration::ZERO);
            streams.flush(epoll.as_fd());
            for slot in (0..CONNECTIONS_PER_SERVER).filter(|_| id.is_multiple_of(64)) {
                streams.turn(epoll.as_fd(), slot, Duration::ZERO);
            }
            asked
        };
        let room = CONNECTIONS_PER_SERVER * QUERIES_PER_CONNECTION_MAX;
        let mut numbers: Vec<u32> = (0..room).map(|id| query(id).expect("room").0).collect();
        assert!(query(room).is_err());
        numbers.sort_unstable();
        let each = numbers.chunk_by(|a, b| a == b).map(<[u32]>::len).collect::<Vec<_>>();
        assert_eq!(
            each, [QUERIES_PER_CONNECTION_MAX; CONNECTIONS_PER_SERVER],
            "an id is on one once"
        );
        assert_eq!((streams.server(0).full, streams.server(0).open()), (1, CONNECTIONS_PER_SERVER));
        let ended = streams.end(0, TlsFault::Closed, Duration::ZERO).expect("it was there");
        assert_eq!((ended.ids.len(), ended.loss), (QUERIES_PER_CONNECTION_MAX, StreamLoss::Failed));
        assert!(streams.query(epoll.as_fd(), 0, (0, &[0; 12]), Duration::ZERO).is_ok());
    }

    #[test]
    fn an_id_is_on_a_connection_once() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let mut streams = UpstreamStreams::new(None);
        streams.begin(0, &UpstreamAddress { at, over: QueryTransport::Tcp });
        let epoll = epoll::create(CreateFlags::CLOEXEC).expect("an epoll");
        let mut query = || streams.query(epoll.as_fd(), 0, (7, &[0; 12]), Duration::ZERO);
        let (first, second) = (query().expect("room").0, query().expect("room").0);
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
