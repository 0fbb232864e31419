//! The client of one thread: it queries upstream servers and caches their answers.
mod commands;
mod follow;
mod learning;
mod marks;
mod owner_shard;
mod resolver;
mod restart;
mod sending;
mod streams;

use crate::command_sender::CommandReceiver;
use crate::limits::{DATAGRAM_LEN_MAX, DATAGRAMS_MAX, EVENTS_MAX, QUERIES_MAX, REPLY_ROOM};
use crate::peer_shards::{AnswerLifetime, PeerShards};
use crate::pending_sends::PendingSends;
use crate::random::SecureRandom;
use crate::shard_messages::{PendingMessages, ShardNews};
use crate::sockets::UpstreamSockets;
use crate::status::{StatusView, StatusWriter};
use crate::store::CacheStore;
use crate::streams::{STREAM, UpstreamStreams};
use crate::waiters::{PendingWaiter, WaiterSlot, Waiters, WaitingClient};
use crate::{ResolverPlan, UpstreamAddress};
use cache::CacheKey;
use forward::limits::UPSTREAMS_MAX;
use forward::{ForwardEvent, Forwarder, ForwarderState, PendingQuery, QueryId, UpstreamGroup};
use packet::{Packet, Transport};
use restart::changing;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use wire::Suffixes;
use wire::limits::MESSAGE_LEN_MAX;

/// Event numbers of the timer and of the command ring.
const TIMER: u64 = u64::MAX;
pub(crate) const WAKER: u64 = TIMER - 1;
/// The event number of a descriptor that the caller reads.
const OTHER: u64 = owner_shard::PEER_SHARDS - 1;

/// Queries upstream servers for one thread, and holds its share of the cache. Never waits.
pub struct UpstreamClient {
    plan: ResolverPlan,
    groups: Vec<UpstreamGroup>,
    addresses: Vec<UpstreamAddress>,
    state: Box<ForwarderState>,
    queries: Vec<PendingQuery>,
    pub(crate) store: CacheStore,
    sockets: UpstreamSockets,
    pending_sends: PendingSends,
    streams: UpstreamStreams,
    waiters: Waiters,
    /// Clients that waited when the client restarted.
    abandoned: VecDeque<WaitingClient>,
    /// Clients that get a stale answer at this time.
    stale: VecDeque<(Duration, WaiterSlot)>,
    /// Failures of sending whose waiters were not answered yet.
    failed: Vec<ForwardEvent>,
    pub(crate) epoll: OwnedFd,
    timer: OwnedFd,
    /// When the timer expires, if it is armed.
    armed_at: Option<Duration>,
    random: SecureRandom,
    status: StatusWriter,
    suffixes: Suffixes,
    now: Duration,
    pending_messages: PendingMessages,
    /// Buffers to receive datagrams, to convert messages for the cache, and to compose late
    /// replies.
    datagram: Box<[u8]>,
    message_buf: Box<[u8]>,
    reply: Box<[u8]>,
    /// `None`: no commands are sent.
    pub(crate) receiver: Option<CommandReceiver>,
    /// `None`: all queries are sent by this thread itself.
    pub(crate) peer_shards: Option<PeerShards>,
}

impl UpstreamClient {
    /// The client of one thread.
    ///
    /// # Errors
    /// No file descriptor is left, or TLS is configured without trust anchors.
    pub fn new(plan: ResolverPlan) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
        let tls = follow::tls(&plan)?;
        let mut queries = vec![PendingQuery::FREE; QUERIES_MAX];
        let state = Box::new(ForwarderState::new(&mut queries));
        // It expires at once, to send the marks.
        arm_timer(&timer, Duration::ZERO)?;
        let mut client = Self {
            state,
            queries,
            store: CacheStore::new(plan.cache_len, plan.failure_ttl),
            sockets: UpstreamSockets::default(),
            pending_sends: PendingSends::default(),
            streams: UpstreamStreams::new(tls),
            waiters: Waiters::default(),
            abandoned: VecDeque::new(),
            stale: VecDeque::new(),
            failed: Vec::new(),
            epoll,
            timer,
            armed_at: Some(Duration::ZERO),
            random: SecureRandom::new(),
            status: StatusWriter::new(UPSTREAMS_MAX),
            suffixes: Suffixes::new(),
            now: Duration::ZERO,
            pending_messages: PendingMessages::default(),
            datagram: vec![0; DATAGRAM_LEN_MAX].into(),
            message_buf: vec![0; 2 * MESSAGE_LEN_MAX].into(),
            reply: vec![0; MESSAGE_LEN_MAX].into(),
            receiver: None,
            peer_shards: None,
            plan: ResolverPlan { groups: Vec::new(), ..plan.clone() },
            groups: Vec::new(),
            addresses: Vec::new(),
        };
        client.begin_groups(&plan);
        Ok(client)
    }

    /// Sets the time of the monotonic clock before a burst.
    pub fn begin(&mut self, now: Duration) {
        self.now = now;
    }

    /// The counters.
    pub fn view(&self) -> StatusView {
        self.status.view()
    }

    /// Becomes readable when another descriptor is, too, which the caller reads.
    ///
    /// # Errors
    /// The kernel has no memory left.
    pub fn watch(&self, other: impl AsFd) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, other, EventData::new_u64(OTHER), EventFlags::IN)?)
    }

    /// Whether clients wait.
    pub fn has_deferred(&self) -> bool {
        self.waiters.len() > 0 || !self.abandoned.is_empty()
    }

    /// Handles I/O events and time. `answer` gets each packet that waited, with its time of
    /// arrival, and must pass it to [`answer::batch`](answer::batch()) with this resolver.
    pub fn poll_deferred(
        &mut self,
        now: Duration,
        answer: &mut dyn FnMut(&mut Self, &mut Packet<'_>, Duration),
    ) -> io::Result<()> {
        changing(|| self.poll(now, answer))
    }

    fn poll(&mut self, now: Duration, answer: AnswerCallback<'_>) -> io::Result<()> {
        self.now = now;
        while let Some(client) = self.abandoned.pop_front() {
            // No server is queried for it any more.
            self.answer(&client, ShardNews::Stale, answer);
        }
        let nothing = epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [nothing; EVENTS_MAX];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let count = match epoll::wait(&self.epoll, &mut events, Some(&at_once)) {
            Err(rustix::io::Errno::INTR) => 0,
            waited => waited?,
        };
        let mut is_heavy = false;
        for event in &events[..count] {
            match event.data.u64() {
                TIMER => {
                    // The number of expirations does not matter.
                    let _ = rustix::io::read(&self.timer, &mut [0; 8]);
                    self.armed_at = None;
                }
                WAKER => self.apply_commands(),
                owner_shard::PEER_SHARDS => self.receive_from_peers(answer),
                OTHER => {}
                slot if slot >= STREAM => {
                    let slot = (slot - STREAM) as usize;
                    // At most one TLS handshake a turn, so that other clients do not wait for all
                    // of them. epoll reports the others again.
                    let (was, is) = (is_heavy, self.streams.is_heavy(slot));
                    is_heavy |= is;
                    if !(was && is) {
                        self.take_stream(slot, answer);
                    }
                }
                slot => self.take_datagrams(slot as usize, answer),
            }
        }
        while let Some(event) = self.with(|forwarder, now, random| forwarder.expire(now, random)) {
            self.settle(event, answer);
        }
        for event in mem::take(&mut self.failed) {
            self.settle(event, answer);
        }
        self.answer_stale(answer);
        self.send_marks();
        self.sockets.close_rested(now);
        self.end_late_streams(answer);
        self.flush();
        self.publish_status();
        Ok(())
    }

    /// The numbers of servers are below this.
    pub(crate) fn servers(&self) -> usize {
        self.addresses.len()
    }

    pub(crate) fn publish_status(&mut self) {
        let Self { state, queries, status, streams, store, waiters, now, plan, .. } = self;
        status.publish_servers(&mut Forwarder { state, queries }, (streams, &plan.marks), *now);
        status.publish_own(store.state(), waiters.len());
    }

    pub(crate) fn with<T>(
        &mut self,
        act: impl FnOnce(&mut Forwarder<'_>, u64, forward::RandomSource<'_>) -> T,
    ) -> T {
        let Self { state, queries, random, now, .. } = self;
        act(&mut Forwarder { state, queries }, now.as_micros() as u64, &mut || random.next_u64())
    }

    pub(crate) fn seconds(&self) -> u32 {
        self.now.as_secs() as u32
    }

    /// Receives the datagrams of a socket.
    fn take_datagrams(&mut self, slot: usize, answer: AnswerCallback<'_>) {
        let mut datagram = mem::take(&mut self.datagram);
        for _ in 0..DATAGRAMS_MAX {
            let Some(socket) = self.sockets.get(slot) else { break };
            let (number, server) = (socket.number, socket.server);
            match socket.receive(&mut datagram) {
                Ok((len, expects_more)) => {
                    let message = &datagram[..len];
                    let event = self.with(|forwarder, now, random| {
                        forwarder.receive(number, server, message, now, random)
                    });
                    match event {
                        ForwardEvent::Answer(query_id) => self.learn(query_id, message, answer),
                        ForwardEvent::LateAnswer(belated) => self.learn_late(&belated, message),
                        event => self.settle(event, answer),
                    }
                    if !expects_more {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    self.with(|forwarder, now, _| {
                        forwarder.upstream(server).record_unreachable(now)
                    });
                }
                Err(_) => break,
            }
        }
        self.datagram = datagram;
    }

    /// Handles an event, and sends transmissions.
    fn settle(&mut self, event: ForwardEvent, answer: AnswerCallback<'_>) {
        self.send();
        match event {
            // The caller has handled the message.
            ForwardEvent::Nothing | ForwardEvent::LateAnswer(_) => {}
            ForwardEvent::Answer(query_id) | ForwardEvent::Failure(query_id) => {
                self.fail(query_id, answer)
            }
            ForwardEvent::Late(query_id) => self.check_owner(query_id, answer),
        }
    }

    /// Answers all waiters of a query, and ends it.
    fn answer_waiters(&mut self, news: ShardNews, query_id: QueryId, answer: AnswerCallback<'_>) {
        while let Some(slot) = self.with(|forwarder, _, _| forwarder.take_waiter(query_id)) {
            let waiter = self.waiters.take(slot);
            self.waiters.free(slot);
            match waiter {
                Some(PendingWaiter::Client(client)) => self.answer(&client, news, answer),
                Some(PendingWaiter::Peer(peer)) => self.answer_peer(&peer, news, query_id),
                None => {}
            }
        }
        self.give_up(query_id);
        self.with(|forwarder, _, _| forwarder.end(query_id));
    }

    /// Answers clients that waited long enough with stale entries.
    fn answer_stale(&mut self, answer: AnswerCallback<'_>) {
        while let Some((at, slot)) = self.stale.front().copied()
            && at <= self.now
        {
            self.stale.pop_front();
            if let Some(PendingWaiter::Client(client)) = self.waiters.take_exactly(slot) {
                self.answer(&client, ShardNews::Stale, answer);
            }
        }
    }

    fn answer(&mut self, client: &WaitingClient, news: ShardNews, answer: AnswerCallback<'_>) {
        let mut reply = mem::take(&mut self.reply);
        let room = match client.transport() {
            Transport::Datagram => REPLY_ROOM,
            Transport::Stream => reply.len(),
        };
        let mut packet = client.packet(&mut reply[..room]);
        let (since, rounds) = (Some(client.since), client.rounds + 1);
        self.pending_messages = PendingMessages { news, since, rounds };
        answer(self, &mut packet, client.since);
        self.pending_messages = PendingMessages::default();
        self.reply = reply;
    }

    /// Arms the timer for the next event.
    fn arm(&mut self) {
        let state = &mut *self.state;
        let next = Forwarder { state, queries: &mut self.queries }.next_micros();
        let next = next.map(Duration::from_micros);
        let stale = self.stale.front().map(|(at, _)| *at);
        let at_once = (!self.failed.is_empty()).then_some(self.now);
        let look_at = self.streams.look_at();
        let all = next.into_iter().chain(stale).chain(at_once).chain(look_at);
        let Some(at) = all.min() else { return };
        if self.armed_at.is_some_and(|armed| armed <= at) {
            return;
        }
        if arm_timer(&self.timer, at).is_ok() {
            self.armed_at = Some(at);
        }
    }

    /// The news about a key: a failure, or the answer with its length.
    fn news_for(&mut self, key: &CacheKey<'_>) -> Option<Option<(usize, AnswerLifetime)>> {
        let (query_id, answer) = match self.pending_messages.news {
            ShardNews::Answer { query_id, len, ttl, made } => {
                (query_id, Some((len, AnswerLifetime { made, ttl })))
            }
            ShardNews::Failure(query_id) => (query_id, None),
            ShardNews::None | ShardNews::Stale => return None,
        };
        let forwarder = Forwarder { state: &mut self.state, queries: &mut self.queries };
        let own = forwarder.get(query_id)?.key();
        let is_it = (own.hash, own.kind, own.name) == (key.hash, key.kind, key.name);
        is_it.then_some(answer)
    }
}

/// Arms a timer for this time of the monotonic clock.
fn arm_timer(timer: &OwnedFd, at: Duration) -> io::Result<()> {
    // Zero would disarm it.
    let at = at.max(Duration::from_nanos(1));
    let value = Timespec { tv_sec: at.as_secs() as i64, tv_nsec: at.subsec_nanos().into() };
    let interval = Timespec { tv_sec: 0, tv_nsec: 0 };
    let times = Itimerspec { it_interval: interval, it_value: value };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &times)?;
    Ok(())
}

/// See [`UpstreamClient::poll_deferred`].
type AnswerCallback<'a> = &'a mut dyn FnMut(&mut UpstreamClient, &mut Packet<'_>, Duration);

impl AsFd for UpstreamClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
