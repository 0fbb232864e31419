//! One stream thread: waits for its connections, gives each its turn, and closes those that take
//! too long.

use super::Shared;
use super::budget::Budget;
use super::connection::{Connection, State};
use super::desk::Desk;
use super::ending::{ACCEPTED, ConnectionCounters, Ending, FAILED, FIRST_ENDING};
use super::mailbox::{Leave, Order};
use super::{Handed, StreamLimits, listen};
use crate::counters::{parked, woken};
use crate::limits::{
    ACCEPT_PAUSE, ACCEPTS_MAX, BACKLOG_MAX, CROWD_PAUSE, EVENTS_MAX, HAND_OVER_MAX, LAST_CALL,
    OWED_MAX, STOP_MAX, USED_AGAIN,
};
use crate::{App, clock};
use packet::Drop;
use port::Burst;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::mem;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// What epoll tells of: our mailbox, the application, listeners from here on, and below,
/// connections by number.
const MAILBOX: u64 = u64::MAX;
const APP: u64 = MAILBOX - 1;
const LISTENERS: u64 = 1 << 63;

/// A stream thread.
pub struct Server<A> {
    index: usize,
    shared: Arc<Shared>,
    limits: StreamLimits,
    epoll: OwnedFd,
    /// The first thread accepts for all.
    listeners: Vec<TcpListener>,
    /// When accepting goes on after an error.
    rests_until: Option<Duration>,
    desk: Desk<A>,
    guests: HashMap<u64, Guest>,
    /// When to look at which connection again, the soonest first.
    alarms: BTreeSet<(Duration, u64)>,
    budget: Budget,
    counters: ConnectionCounters,
    leaving: Option<Leaving>,
}

/// A connection, and what was told of it to whom.
struct Guest {
    connection: Connection,
    /// What epoll watches for.
    watched: EventFlags,
    /// Its entry in `alarms`: its deadline, or sooner.
    alarm: Duration,
    /// Octets the budget knows of.
    held: usize,
    /// When the room was told last that it is used.
    used: Duration,
}

/// The thread is about to end.
#[derive(Clone, Copy)]
struct Leaving {
    how: Leave,
    /// Until when it listens to who has no replies to read.
    last_call: Duration,
    /// Until when it waits for those who have.
    end: Duration,
}

impl<A: App> Server<A> {
    /// The thread of this number.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn new(
        index: usize,
        shared: Arc<Shared>,
        listeners: Vec<TcpListener>,
        desk: Desk<A>,
        counters: ConnectionCounters,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mailbox = &shared.mailboxes[index];
        epoll::add(&epoll, mailbox, EventData::new_u64(MAILBOX), EventFlags::IN)?;
        for (nth, listener) in listeners.iter().enumerate() {
            listen::prepare(listener)?;
            epoll::add(&epoll, listener, listening(nth), EventFlags::IN)?;
        }
        if let Some(app) = desk.clerk.app.as_fd() {
            epoll::add(&epoll, app, EventData::new_u64(APP), EventFlags::IN)?;
        }
        let limits = shared.limits;
        let budget = Budget::new(limits.memory_max / shared.mailboxes.len());
        Ok(Self {
            index,
            shared,
            limits,
            epoll,
            listeners,
            rests_until: None,
            desk,
            guests: HashMap::new(),
            alarms: BTreeSet::new(),
            budget,
            counters,
            leaving: None,
        })
    }

    /// Serves until it is told to leave, and nobody is left.
    ///
    /// # Errors
    /// The kernel does not let us wait any more.
    pub fn run(mut self) -> io::Result<()> {
        let nothing = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [nothing; EVENTS_MAX];
        while self.leaving.is_none() || !self.guests.is_empty() {
            let count = self.wait(&mut events)?;
            for event in &events[..count] {
                match event.data.u64() {
                    MAILBOX => self.obey()?,
                    APP => self.tend(),
                    id if id >= LISTENERS => self.accept((id - LISTENERS) as usize)?,
                    id => self.serve(id),
                }
            }
            self.look_at_the_clock()?;
        }
        self.desk.clerk.app.park();
        Ok(())
    }

    /// Waits until something is to be done, and returns how many events tell what.
    fn wait(&mut self, events: &mut [Event]) -> io::Result<usize> {
        let alarm = self.alarms.first().map(|(alarm, _)| *alarm);
        let next = alarm.into_iter().chain(self.rests_until).min();
        let timeout = next.map(|next| {
            // Rounded up: just before the time there would be nothing to do yet.
            let millis = next.saturating_sub(clock::now()).as_micros().div_ceil(1_000) as i64;
            Timespec { tv_sec: millis / 1_000, tv_nsec: millis % 1_000 * 1_000_000 }
        });
        self.desk.clerk.app.park();
        parked(&mut self.desk.clerk.counters);
        let waited = epoll::wait(&self.epoll, events, timeout.as_ref());
        woken(&mut self.desk.clerk.counters);
        match waited {
            Err(Errno::INTR) => Ok(0),
            waited => Ok(waited?),
        }
    }

    /// Does what the mailbox says.
    fn obey(&mut self) -> io::Result<()> {
        for order in self.shared.mailboxes[self.index].take() {
            match order {
                Order::Serve(id, handed) => self.welcome(id, handed),
                Order::Evict(id) => self.end(id, Ending::Evicted),
                Order::Leave(how) if self.leaving.is_none() => self.leave(how)?,
                Order::Leave(_) => {}
            }
        }
        Ok(())
    }

    /// Accepts some of those who wait, and deals them out.
    fn accept(&mut self, nth: usize) -> io::Result<()> {
        let Some(listener) = self.listeners.get(nth) else {
            return Ok(());
        };
        let now = clock::now();
        for _ in 0..ACCEPTS_MAX {
            if self.shared.room.is_crowded() {
                return self.rest(now + CROWD_PAUSE);
            }
            match listener.accept() {
                Ok((stream, peer)) => self.shared.deal(stream.into(), peer, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_about_one(&error) => {}
                // We are out of descriptors or memory, which passes.
                Err(_) => {
                    self.counters.add(FAILED, 1);
                    return self.rest(now + ACCEPT_PAUSE);
                }
            }
        }
        Ok(())
    }

    /// Accepts nobody until then.
    fn rest(&mut self, until: Duration) -> io::Result<()> {
        self.rests_until = Some(until);
        self.watch_listeners(EventFlags::empty())
    }

    fn watch_listeners(&self, flags: EventFlags) -> io::Result<()> {
        for (nth, listener) in self.listeners.iter().enumerate() {
            epoll::modify(&self.epoll, listener, listening(nth), flags)?;
        }
        Ok(())
    }

    /// Begins to serve a connection that has its place in the room.
    fn welcome(&mut self, id: u64, handed: Handed) {
        self.counters.add(ACCEPTED, 1);
        let now = clock::now();
        if !self.shared.room.renew(id, now) {
            // It lost its place before it got here.
            self.shared.room.leave(id);
            return self.counters.add(FIRST_ENDING + Ending::Evicted as usize, 1);
        }
        let connection = Connection::new(handed, now).and_then(|connection| {
            epoll::add(&self.epoll, &connection, EventData::new_u64(id), EventFlags::IN)?;
            Ok(connection)
        });
        let Ok(connection) = connection else {
            self.counters.add(FIRST_ENDING + Ending::Error as usize, 1);
            return self.shared.room.leave(id);
        };
        let (watched, alarm) = (EventFlags::IN, Duration::MAX);
        self.alarms.insert((alarm, id));
        self.guests.insert(id, Guest { connection, watched, alarm, held: 0, used: now });
        self.settle(id);
    }

    /// Gives a connection its turn.
    fn serve(&mut self, id: u64) {
        // It may have ended since the kernel told of it.
        let Some(guest) = self.guests.get_mut(&id) else {
            return;
        };
        let before = guest.connection.client();
        let turn = match self.leaving {
            Some(Leaving { how: Leave::HandOver, .. }) => {
                guest.connection.send(&mut self.desk.clerk).map(|_| ())
            }
            _ => guest.connection.turn(id, &mut self.desk),
        };
        if let Err(ending) = turn {
            return self.end(id, ending);
        }
        let client = guest.connection.client();
        if client != before {
            self.budget.forget(id, mem::take(&mut guest.held), &mut self.counters);
            let loser = self.shared.room.identify(id, client, guest.connection.since());
            self.shared.evict(loser);
        }
        self.settle(id);
    }

    /// Sends replies that were put off, and are known now.
    fn tend(&mut self) {
        let mut late = Vec::new();
        self.desk.clerk.app.tend(clock::now(), &mut |packet, took| {
            late.push((packet.origin.place, packet.message().to_vec(), packet.verdict, took));
        });
        for (id, message, verdict, took) in late {
            let clerk = &mut self.desk.clerk;
            let Some(guest) = self.guests.get_mut(&id) else {
                // Nobody is there to be told any more.
                let mut burst = Burst::default();
                burst.drop(Drop::Unsent);
                clerk.count_late(&burst, took);
                continue;
            };
            match guest.connection.take_late(&message, verdict, took, clerk) {
                Ok(()) => self.settle(id),
                Err(ending) => self.end(id, ending),
            }
        }
    }

    /// Tells everybody concerned how a connection is now.
    fn settle(&mut self, id: u64) {
        let Some(guest) = self.guests.get_mut(&id) else {
            return;
        };
        let (state, since) = (guest.connection.state(), guest.connection.since());
        let leaving = self.leaving.map(|leaving| leaving.how);
        if leaving == Some(Leave::HandOver) && guest.connection.is_at_boundary() {
            return self.hand_over(id);
        }
        let watched = match state {
            State::Replying => EventFlags::OUT,
            State::Idle | State::Asking | State::Owed => EventFlags::IN,
            State::OwedMuch => EventFlags::empty(),
        };
        if watched != guest.watched {
            guest.watched = watched;
            let data = EventData::new_u64(id);
            if epoll::modify(&self.epoll, &guest.connection, data, watched).is_err() {
                return self.end(id, Ending::Error);
            }
        }
        if since.saturating_sub(guest.used) >= USED_AGAIN {
            guest.used = since;
            self.shared.room.renew(id, since);
        }
        let deadline = deadline(&self.limits, self.leaving.as_ref(), &guest.connection);
        if deadline < guest.alarm {
            self.alarms.remove(&(guest.alarm, id));
            self.alarms.insert((deadline, id));
            guest.alarm = deadline;
        }
        let held = guest.connection.held();
        if held > 0 || guest.held > 0 {
            let client = guest.connection.client();
            let change = (guest.held, held);
            guest.held = held;
            self.budget.change((id, client), change, since, &mut self.counters);
            while let Some(loser) = self.budget.loser() {
                self.end(loser, Ending::Budget);
            }
        }
    }

    /// Ends connections whose time is over, and accepts again when that has rested.
    fn look_at_the_clock(&mut self) -> io::Result<()> {
        let now = clock::now();
        if self.rests_until.is_some_and(|until| until <= now) {
            self.rests_until = None;
            self.watch_listeners(EventFlags::IN)?;
        }
        while let Some(&(alarm, id)) = self.alarms.first()
            && alarm <= now
        {
            self.alarms.pop_first();
            let Some(guest) = self.guests.get_mut(&id) else {
                continue;
            };
            // Alarms are not put off with every query, but when they ring.
            let deadline = deadline(&self.limits, self.leaving.as_ref(), &guest.connection);
            if deadline > now {
                guest.alarm = deadline;
                self.alarms.insert((deadline, id));
                continue;
            }
            self.end(id, self.late(id));
        }
        Ok(())
    }

    /// Why a connection whose time is over ends.
    fn late(&self, id: u64) -> Ending {
        match self.guests.get(&id).map(|guest| guest.connection.state()) {
            Some(State::Replying) => Ending::SlowReader,
            _ if self.leaving.is_some() => Ending::Stopped,
            Some(State::Asking) => Ending::SlowQuery,
            _ => Ending::Idle,
        }
    }

    /// Closes a connection.
    fn end(&mut self, id: u64, ending: Ending) {
        if let Some(connection) = self.part_with(id, ending) {
            connection.end(&mut self.desk.clerk);
        }
    }

    /// Gives a connection to the successor.
    fn hand_over(&mut self, id: u64) {
        let Some(connection) = self.part_with(id, Ending::HandedOver) else {
            return;
        };
        // The connection lives on, and would go on waking us while we wait for slow readers.
        if epoll::delete(&self.epoll, &connection).is_ok() {
            self.shared.give(connection.hand_over());
        }
    }

    /// Forgets a connection.
    fn part_with(&mut self, id: u64, ending: Ending) -> Option<Connection> {
        let guest = self.guests.remove(&id)?;
        self.alarms.remove(&(guest.alarm, id));
        self.budget.forget(id, guest.held, &mut self.counters);
        self.shared.room.leave(id);
        self.counters.add(FIRST_ENDING + ending as usize, 1);
        Some(guest.connection)
    }

    /// Accepts no more, and lets go of every connection as soon as it may.
    fn leave(&mut self, how: Leave) -> io::Result<()> {
        if how == Leave::Stop {
            // Who waits has been told by the kernel that we are connected.
            for nth in 0..self.listeners.len() {
                for _ in 0..BACKLOG_MAX as usize / ACCEPTS_MAX {
                    self.accept(nth)?;
                }
            }
        }
        self.rests_until = None;
        self.listeners.clear();
        if self.index == 0 {
            // Now that nothing more is dealt out, the others may leave too.
            for other in &self.shared.mailboxes[1..] {
                other.put(Order::Leave(how));
            }
        }
        let now = clock::now();
        let (last_call, end) = match how {
            Leave::Stop => (now + LAST_CALL, now + STOP_MAX),
            Leave::HandOver => (now, now + HAND_OVER_MAX),
        };
        self.leaving = Some(Leaving { how, last_call, end });
        // What was dealt out last may be ours.
        self.obey()?;
        let all: Vec<u64> = self.guests.keys().copied().collect();
        all.into_iter().for_each(|id| self.settle(id));
        Ok(())
    }
}

/// What epoll tells of a listener.
fn listening(nth: usize) -> EventData {
    EventData::new_u64(LISTENERS + nth as u64)
}

/// Until when a connection may be as it is. Octets do not put it off: only whole queries, and
/// replies that were read, do.
fn deadline(limits: &StreamLimits, leaving: Option<&Leaving>, connection: &Connection) -> Duration {
    let (patience, end) = match connection.state() {
        State::Replying => (limits.reply_max, leaving.map(|leaving| leaving.end)),
        State::Asking => (limits.query_max, leaving.map(|leaving| leaving.last_call)),
        State::Idle => (limits.idle_max, leaving.map(|leaving| leaving.last_call)),
        // It is ours to answer.
        State::Owed | State::OwedMuch => (OWED_MAX, leaving.map(|leaving| leaving.end)),
    };
    (connection.since() + patience).min(end.unwrap_or(Duration::MAX))
}

/// Whether an error of accepting is about the connection that would have been accepted: accept(2)
/// passes on what the network had to say of it.
fn is_about_one(error: &io::Error) -> bool {
    !matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
    )
}
