//! What one thread asks of others.
mod home;
mod marked;
mod sending;
mod streamed;

use crate::board::{Board, View};
use crate::commander::Ear;
use crate::dice::Dice;
use crate::limits::{
    ASKS_MAX, DATAGRAM_LEN_MAX, DATAGRAMS_MAX, EVENTS_MAX, RENEWAL_MAX, REPLY_ROOM, ROUNDS_MAX,
    STALE_AFTER, UNFINISHED_TTL,
};
use crate::neighbours::{Life, Neighbours};
use crate::outbox::Outbox;
use crate::sockets::Sockets;
use crate::store::Store;
use crate::streams::{STREAM, Streams};
use crate::telling::{News, Telling};
use crate::tls::Tls;
use crate::waiters::{Client, Place, Waiter, Waiters};
use crate::{Address, Over, Plan};
use answer::{Elsewhere, Lookup, Relayed, relay};
use cache::{Found, Key};
use forward::{Ask, Asked, Event, Forwarder, Group, State, Ticket};
use packet::{Packet, Transport, prefetch};
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
use wire::limits::MESSAGE_LEN_MAX;
use wire::{Name, Suffixes};

/// What epoll tells of the timer, and of who commands.
const TIMER: u64 = u64::MAX;
pub(crate) const BELL: u64 = TIMER - 1;

/// Asks others for one thread, and has what they said. Never waits.
pub struct Asker {
    plan: Plan,
    groups: Vec<Group>,
    addresses: Vec<Address>,
    state: Box<State>,
    asks: Vec<Ask>,
    pub(crate) store: Store,
    sockets: Sockets,
    outbox: Outbox,
    streams: Streams,
    waiters: Waiters,
    /// Who could have a stale answer, and when.
    stale: VecDeque<(Duration, Place)>,
    /// What came of sending, and nobody was told yet.
    failed: Vec<Event>,
    pub(crate) epoll: OwnedFd,
    timer: OwnedFd,
    /// When the timer rings, if it does.
    armed_at: Option<Duration>,
    dice: Dice,
    board: Board,
    suffixes: Suffixes,
    now: Duration,
    telling: Telling,
    /// Where datagrams are read, messages made fit, and late replies composed.
    datagram: Box<[u8]>,
    kept: Box<[u8]>,
    reply: Box<[u8]>,
    /// Nothing: nobody commands.
    pub(crate) ear: Option<Ear>,
    /// Nothing: there are none, and all is asked alone.
    pub(crate) neighbours: Option<Neighbours>,
}

impl Asker {
    /// For one thread.
    ///
    /// # Errors
    /// The process has no file descriptor left, or servers are to be asked over TLS and nobody is
    /// trusted.
    pub fn new(plan: Plan) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
        let mut groups = Vec::new();
        let mut addresses = Vec::new();
        for servers in &plan.groups {
            let (first, len) = (addresses.len() as u16, servers.addresses.len() as u16);
            groups.push(Group { first, len, mixes_case: servers.mixes_case });
            addresses.extend(servers.addresses.iter().cloned());
        }
        let tls = tls(&plan, &addresses)?;
        let mut asks = vec![Ask::FREE; ASKS_MAX];
        let mut state = Box::new(State::new(&mut asks));
        let mut forwarder = Forwarder { state: &mut state, asks: &mut asks };
        for (number, address) in (0..).zip(&addresses) {
            forwarder.upstream(number).means = address.means();
        }
        // It rings at once, for the marks.
        ring(&timer, Duration::ZERO)?;
        Ok(Self {
            state,
            asks,
            store: Store::new(plan.cache_len, plan.failure_ttl),
            sockets: Sockets::new(addresses.len()),
            outbox: Outbox::default(),
            streams: Streams::new(&addresses, tls),
            waiters: Waiters::default(),
            stale: VecDeque::new(),
            failed: Vec::new(),
            epoll,
            timer,
            armed_at: Some(Duration::ZERO),
            dice: Dice::new(),
            board: Board::new(addresses.len()),
            suffixes: Suffixes::new(),
            now: Duration::ZERO,
            telling: Telling::default(),
            datagram: vec![0; DATAGRAM_LEN_MAX].into(),
            kept: vec![0; 2 * MESSAGE_LEN_MAX].into(),
            reply: vec![0; MESSAGE_LEN_MAX].into(),
            ear: None,
            neighbours: None,
            plan,
            groups,
            addresses,
        })
    }

    /// Tells the time, by the system's monotonic clock, before questions are asked.
    pub fn begin(&mut self, now: Duration) {
        self.now = now;
    }

    /// What it counts.
    pub fn view(&self) -> View {
        self.board.view()
    }

    /// Whether somebody waits.
    pub fn owes(&self) -> bool {
        self.waiters.len() > 0
    }

    /// Sees to what has come, and to time. `answer` is to answer each packet that waited, by
    /// another batch with this as its elsewhere; it is told when the packet came.
    pub fn tend(
        &mut self,
        now: Duration,
        answer: &mut dyn FnMut(&mut Self, &mut Packet<'_>, Duration),
    ) -> io::Result<()> {
        self.now = now;
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
                    // How often it rang does not matter.
                    let _ = rustix::io::read(&self.timer, &mut [0; 8]);
                    self.armed_at = None;
                }
                BELL => self.obey(),
                home::NEIGHBOURS => self.hear_neighbours(answer),
                place if place >= STREAM => {
                    let place = (place - STREAM) as usize;
                    // One a turn: epoll tells of the others again, and who is answered at once
                    // does not wait for all of them.
                    let (was, is) = (is_heavy, self.streams.is_heavy(place));
                    is_heavy |= is;
                    if !(was && is) {
                        self.take_stream(place, answer);
                    }
                }
                place => self.take_datagrams(place as usize, answer),
            }
        }
        while let Some(event) = self.with(|forwarder, now, dice| forwarder.expire(now, dice)) {
            self.settle(event, answer);
        }
        for event in mem::take(&mut self.failed) {
            self.settle(event, answer);
        }
        self.tell_stale(answer);
        self.send_marks();
        self.sockets.close_rested(now);
        self.end_late_streams(answer);
        self.flush();
        self.tell_board();
        Ok(())
    }

    /// Servers of all groups.
    pub(crate) fn servers(&self) -> usize {
        self.addresses.len()
    }

    pub(crate) fn tell_board(&mut self) {
        let Self { state, asks, board, streams, store, waiters, now, plan, .. } = self;
        board.tell_servers(&mut Forwarder { state, asks }, (streams, &plan.marks), *now);
        board.tell_own(store.state(), waiters.len());
    }

    pub(crate) fn with<T>(
        &mut self,
        act: impl FnOnce(&mut Forwarder<'_>, u64, forward::Dice<'_>) -> T,
    ) -> T {
        let Self { state, asks, dice, now, .. } = self;
        act(&mut Forwarder { state, asks }, now.as_micros() as u64, &mut || dice.throw())
    }

    pub(crate) fn seconds(&self) -> u32 {
        self.now.as_secs() as u32
    }

    /// Receives what came at a socket.
    fn take_datagrams(&mut self, place: usize, answer: Answer<'_>) {
        let mut datagram = mem::take(&mut self.datagram);
        for _ in 0..DATAGRAMS_MAX {
            let Some(socket) = self.sockets.get(place) else { break };
            let (number, server) = (socket.number, socket.server);
            match socket.receive(&mut datagram) {
                Ok((len, expects_more)) => {
                    let message = &datagram[..len];
                    let event = self.with(|forwarder, now, dice| {
                        forwarder.receive(number, server, message, now, dice)
                    });
                    match event {
                        Event::Answer(ticket) => self.learn(ticket, message, answer),
                        event => self.settle(event, answer),
                    }
                    if !expects_more {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    self.with(|forwarder, now, _| forwarder.upstream(server).refuse(now));
                }
                Err(_) => break,
            }
        }
        self.datagram = datagram;
    }

    /// Does what an event asks for, and sends what was ordered.
    fn settle(&mut self, event: Event, answer: Answer<'_>) {
        self.send();
        match event {
            Event::Nothing => {}
            // Whoever has the message learns from it.
            Event::Answer(ticket) | Event::Failure(ticket) => self.fail(ticket, answer),
            Event::Late(ticket) => self.look_after(ticket, answer),
        }
    }

    /// Takes an answer, keeps it, and tells who waits.
    fn learn(&mut self, ticket: Ticket, message: &[u8], answer: Answer<'_>) {
        self.send();
        let now = self.seconds();
        let Self { state, asks, plan, groups, suffixes, kept, store, .. } = self;
        let forwarder = Forwarder { state, asks };
        let Some(ask) = forwarder.get(ticket) else { return };
        let group = groups.iter().position(|group| *group == ask.group()).unwrap_or_default();
        let servers = &plan.groups[group];
        let key = ask.key();
        prefetch(cache::memory(store.lines(), &key));
        let suffix = servers.suffix.as_name();
        let Ok(taken) = relay(&key, suffix, message, &plan.lifetimes, suffixes, kept) else {
            return self.fail(ticket, answer);
        };
        let ttl = if servers.caches { taken.ttl } else { 0 };
        // An alias has to be there when those have answered whose names it leads to.
        let strays = |name: Name<'_>| !plan.is_of(group, name);
        let leads_on =
            ttl < UNFINISHED_TTL && answer::leads_to(&kept[..taken.len], key.name.len(), strays);
        let ttl = if leads_on { UNFINISHED_TTL } else { ttl };
        if ttl == 0 {
            store.let_end(&key, now);
        } else if !ask.is_cut_off() && !plan.marks.has(key.name) {
            store.keep(&key, now, &Relayed { ttl, ..taken }, kept);
        }
        self.tell(News::Answer { ticket, len: taken.len, ttl, made: now }, ticket, answer);
    }

    /// Remembers that nobody could answer, and tells who waits.
    fn fail(&mut self, ticket: Ticket, answer: Answer<'_>) {
        self.fail_for(ticket, None, answer);
    }

    /// The same, where somebody found out before: for as long as he remembers.
    fn fail_for(&mut self, ticket: Ticket, life: Option<Life>, answer: Answer<'_>) {
        let now = self.seconds();
        let Self { state, asks, store, plan, groups, .. } = self;
        let forwarder = Forwarder { state, asks };
        let Some(ask) = forwarder.get(ticket) else { return };
        let key = ask.key();
        let group = groups.iter().position(|group| *group == ask.group()).unwrap_or_default();
        // Of what is cut off nothing is to be known.
        if plan.marks.has(key.name) {
            let server = ask.group().first;
            self.with(|forwarder, now, _| forwarder.upstream(server).excuse(now));
        } else if !ask.is_cut_off() {
            store.fail(&key, now, life, plan.groups[group].caches);
        }
        self.tell(News::Failure(ticket), ticket, answer);
    }

    /// Answers all who wait for a question, which ends.
    fn tell(&mut self, news: News, ticket: Ticket, answer: Answer<'_>) {
        while let Some(place) = self.with(|forwarder, _, _| forwarder.take_waiter(ticket)) {
            let waiter = self.waiters.take(place);
            self.waiters.free(place);
            match waiter {
                Some(Waiter::Client(client)) => self.answer(&client, news, answer),
                Some(Waiter::Peer(peer)) => self.answer_peer(&peer, news, ticket),
                None => {}
            }
        }
        self.with(|forwarder, _, _| forwarder.end(ticket));
    }

    /// Answers with what is stale who has waited long enough for something better.
    fn tell_stale(&mut self, answer: Answer<'_>) {
        while let Some((at, place)) = self.stale.front().copied()
            && at <= self.now
        {
            self.stale.pop_front();
            if let Some(Waiter::Client(client)) = self.waiters.take_exactly(place) {
                self.answer(&client, News::Stale, answer);
            }
        }
    }

    fn answer(&mut self, client: &Client, news: News, answer: Answer<'_>) {
        let mut reply = mem::take(&mut self.reply);
        let room = match client.transport() {
            Transport::Datagram => REPLY_ROOM,
            Transport::Stream => reply.len(),
        };
        let mut packet = client.packet(&mut reply[..room]);
        let (since, rounds) = (Some(client.since), client.rounds + 1);
        self.telling = Telling { news, since, rounds };
        answer(self, &mut packet, client.since);
        self.telling = Telling::default();
        self.reply = reply;
    }

    /// Has the timer ring when there is something to do.
    fn arm(&mut self) {
        let state = &mut *self.state;
        let next = Forwarder { state, asks: &mut self.asks }.next_micros();
        let next = next.map(Duration::from_micros);
        let stale = self.stale.front().map(|(at, _)| *at);
        let at_once = (!self.failed.is_empty()).then_some(self.now);
        let look_at = self.streams.look_at();
        let all = next.into_iter().chain(stale).chain(at_once).chain(look_at);
        let Some(at) = all.min() else { return };
        if self.armed_at.is_some_and(|armed| armed <= at) {
            return;
        }
        if ring(&self.timer, at).is_ok() {
            self.armed_at = Some(at);
        }
    }

    /// What was just found out about a key: it could not be answered, or the answer, with its
    /// length.
    fn news_of(&mut self, key: &Key<'_>) -> Option<Option<(usize, Life)>> {
        let (ticket, answer) = match self.telling.news {
            News::Answer { ticket, len, ttl, made } => (ticket, Some((len, Life { made, ttl }))),
            News::Failure(ticket) => (ticket, None),
            News::None | News::Stale => return None,
        };
        let forwarder = Forwarder { state: &mut self.state, asks: &mut self.asks };
        let own = forwarder.get(ticket)?.key();
        let is_it = (own.hash, own.kind, own.name) == (key.hash, key.kind, key.name);
        is_it.then_some(answer)
    }
}

/// Has a timer ring once, at this time of the monotonic clock.
fn ring(timer: &OwnedFd, at: Duration) -> io::Result<()> {
    // All zero would disarm it.
    let at = at.max(Duration::from_nanos(1));
    let value = Timespec { tv_sec: at.as_secs() as i64, tv_nsec: at.subsec_nanos().into() };
    let interval = Timespec { tv_sec: 0, tv_nsec: 0 };
    let times = Itimerspec { it_interval: interval, it_value: value };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &times)?;
    Ok(())
}

/// What it takes to speak TLS, if that has to be spoken.
fn tls(plan: &Plan, addresses: &[Address]) -> io::Result<Option<Tls>> {
    if addresses.iter().all(|address| !matches!(address.over, Over::Tls(_))) {
        return Ok(None);
    }
    let nobody = || io::Error::other("TLS is to be spoken, and nobody's certificates are believed");
    let trust = plan.trust.as_ref().ok_or_else(nobody)?;
    Tls::new(trust).map(Some).map_err(io::Error::other)
}

/// See [`Asker::tend`].
type Answer<'a> = &'a mut dyn FnMut(&mut Asker, &mut Packet<'_>, Duration);

impl AsFd for Asker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Elsewhere for Asker {
    fn prefetch(&self, key: &Key<'_>) {
        prefetch(cache::memory(self.store.lines(), key));
    }

    fn find(&mut self, key: &Key<'_>) -> Option<Found<'_>> {
        let news = self.news_of(key);
        if let Some(Some((len, life))) = news {
            let message = &self.kept[..len];
            // Good for who has waited, however short its life is.
            let age = self.seconds().saturating_sub(life.made);
            let ttl = life.ttl.max(age + 1);
            return Some(Found { message, age, ttl, uses: 0, may_renew: false, map: 0 });
        }
        let (now, stale_max) = (self.seconds(), self.plan.stale_max);
        self.store.lend().into_found(key, now).filter(|found| {
            if found.is_fresh() && news.is_none() {
                return true;
            }
            // Who is told of a failure first hears what it is, and not that it is remembered.
            let is_failure = answer::is_failure(found.message, key.name.len());
            !is_failure && (found.is_fresh() || found.age - found.ttl < stale_max)
        })
    }

    fn count(&mut self, lookup: Lookup) {
        self.board.count(lookup);
    }

    fn ask(&mut self, key: &Key<'_>, group: u16, packet: &Packet<'_>) -> bool {
        let Telling { news, since, rounds } = self.telling;
        if matches!(news, News::Stale) || self.news_of(key).is_some() || rounds > ROUNDS_MAX {
            return false;
        }
        if self.comes_back(key, group, packet.client.ip()) {
            return false;
        }
        let now = self.seconds();
        let mut cache = self.store.lend();
        let known = cache.find(key, now);
        let known = known.filter(|found| !answer::is_failure(found.message, key.name.len()));
        let stale = known.map(|found| found.may_renew);
        // Somebody tried in vain not long ago.
        if stale == Some(false) {
            return false;
        }
        let client = Client::new(packet, since.unwrap_or(self.now), rounds);
        let waiter = client.map(Waiter::Client);
        let Some(place) = waiter.and_then(|waiter| self.waiters.put(waiter)) else { return false };
        let number = place.number;
        let asked = self.ask_at_home(key, group, Some(number), false);
        if asked != Asked::Waits {
            self.waiters.free(number);
            return false;
        }
        if stale.is_some() {
            self.stale.push_back((self.now + STALE_AFTER, place));
        }
        self.send();
        true
    }

    fn renew(&mut self, key: &Key<'_>, group: u16) {
        let now = self.seconds();
        self.store.lend().hold(key, now + RENEWAL_MAX);
        self.ask_at_home(key, group, None, true);
        self.send();
    }

    fn confirm(&mut self, key: &Key<'_>, map: u32) {
        self.store.lend().confirm(key, map);
    }
}
