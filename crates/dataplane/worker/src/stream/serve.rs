//! One stream thread: waits for its connections, gives each its turn, and closes those that time
//! out.

use super::SharedState;
use super::budget::Budget;
use super::commands::{LeaveReason, StreamCommand};
use super::connection::{Connection, ConnectionState};
use super::ending::{ACCEPTED, ConnectionCounters, Ending, FAILED, FIRST_ENDING};
use super::responder::StreamBuffers;
use super::{HandedConnection, StreamLimits, listen};
use crate::limits::{
    ACCEPT_PAUSE, ACCEPTS_MAX, BACKLOG_MAX, CROWD_PAUSE, DEFERRED_WAIT_MAX, DRAIN_TIME, EVENTS_MAX,
    HAND_OVER_MAX, STOP_MAX, USED_AGAIN,
};
use crate::{App, clock};
use packet::DropReason;
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

/// Event numbers: commands, the application, then listeners; below, connections by number.
const COMMANDS: u64 = u64::MAX;
const APP: u64 = COMMANDS - 1;
const LISTENERS: u64 = 1 << 63;

/// A stream thread.
pub struct StreamServer<A> {
    index: usize,
    shared: Arc<SharedState>,
    limits: StreamLimits,
    epoll: OwnedFd,
    /// The first thread accepts for all.
    listeners: Vec<TcpListener>,
    /// When accepting continues after an error.
    accept_at: Option<Duration>,
    buffers: StreamBuffers<A>,
    entries: HashMap<u64, ConnectionEntry>,
    /// When to check which connection, the soonest first.
    alarms: BTreeSet<(Duration, u64)>,
    budget: Budget,
    counters: ConnectionCounters,
    shutdown: Option<ShutdownState>,
}

/// A connection, and what was reported about it.
struct ConnectionEntry {
    connection: Connection,
    /// The events that epoll watches.
    watched: EventFlags,
    /// Its entry in `alarms`: its deadline, or sooner.
    alarm: Duration,
    /// Bytes that the budget counts.
    held: usize,
    /// When its last use was reported to the table.
    used: Duration,
}

/// The thread is about to end.
#[derive(Clone, Copy)]
struct ShutdownState {
    how: LeaveReason,
    /// Until when connections without replies to read stay open.
    drain_end: Duration,
    /// Until when connections with replies to read stay open.
    end: Duration,
}

impl<A: App> StreamServer<A> {
    /// The thread with this number.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn new(
        index: usize,
        shared: Arc<SharedState>,
        listeners: Vec<TcpListener>,
        buffers: StreamBuffers<A>,
        counters: ConnectionCounters,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let command_queue = &shared.command_queues[index];
        epoll::add(&epoll, command_queue, EventData::new_u64(COMMANDS), EventFlags::IN)?;
        for (nth, listener) in listeners.iter().enumerate() {
            listen::prepare(listener)?;
            epoll::add(&epoll, listener, listening(nth), EventFlags::IN)?;
        }
        if let Some(app) = buffers.responder.app.as_fd() {
            epoll::add(&epoll, app, EventData::new_u64(APP), EventFlags::IN)?;
        }
        let limits = shared.limits;
        let budget = Budget::new(limits.memory_max / shared.command_queues.len());
        Ok(Self {
            index,
            shared,
            limits,
            epoll,
            listeners,
            accept_at: None,
            buffers,
            entries: HashMap::new(),
            alarms: BTreeSet::new(),
            budget,
            counters,
            shutdown: None,
        })
    }

    /// Serves until the command to end, and until all connections have ended.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub fn run(mut self) -> io::Result<()> {
        let nothing = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [nothing; EVENTS_MAX];
        while self.shutdown.is_none() || !self.entries.is_empty() {
            let count = self.wait(&mut events)?;
            for event in &events[..count] {
                match event.data.u64() {
                    COMMANDS => self.apply_commands()?,
                    APP => self.poll_deferred(),
                    id if id >= LISTENERS => self.accept((id - LISTENERS) as usize)?,
                    id => self.serve(id),
                }
            }
            self.check_deadlines()?;
        }
        self.buffers.responder.app.park();
        Ok(())
    }

    /// Waits for events; returns their number.
    fn wait(&mut self, events: &mut [Event]) -> io::Result<usize> {
        let alarm = self.alarms.first().map(|(alarm, _)| *alarm);
        let next = alarm.into_iter().chain(self.accept_at).min();
        let timeout = next.map(|next| {
            // Rounded up: just before the time there would be nothing to do yet.
            let millis = next.saturating_sub(clock::now()).as_micros().div_ceil(1_000) as i64;
            Timespec { tv_sec: millis / 1_000, tv_nsec: millis % 1_000 * 1_000_000 }
        });
        self.buffers.responder.app.park();
        match epoll::wait(&self.epoll, events, timeout.as_ref()) {
            Err(Errno::INTR) => Ok(0),
            waited => Ok(waited?),
        }
    }

    /// Applies the commands.
    fn apply_commands(&mut self) -> io::Result<()> {
        for command in self.shared.command_queues[self.index].take() {
            match command {
                StreamCommand::Serve(id, handed) => self.start_connection(id, handed),
                StreamCommand::Evict(id) => self.end(id, Ending::Evicted),
                StreamCommand::Leave(how) if self.shutdown.is_none() => self.leave(how)?,
                StreamCommand::Leave(_) => {}
            }
        }
        Ok(())
    }

    /// Accepts some connections, and deals them out.
    fn accept(&mut self, nth: usize) -> io::Result<()> {
        let Some(listener) = self.listeners.get(nth) else {
            return Ok(());
        };
        let now = clock::now();
        for _ in 0..ACCEPTS_MAX {
            if self.shared.table.is_crowded() {
                return self.pause_accepting(now + CROWD_PAUSE);
            }
            match listener.accept() {
                Ok((stream, peer)) => self.shared.deal(stream.into(), peer, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_about_one(&error) => {}
                // No descriptor or memory is left, which is temporary.
                Err(_) => {
                    self.counters.add(FAILED, 1);
                    return self.pause_accepting(now + ACCEPT_PAUSE);
                }
            }
        }
        Ok(())
    }

    /// Pauses accepting until then.
    fn pause_accepting(&mut self, until: Duration) -> io::Result<()> {
        self.accept_at = Some(until);
        self.watch_listeners(EventFlags::empty())
    }

    fn watch_listeners(&self, flags: EventFlags) -> io::Result<()> {
        for (nth, listener) in self.listeners.iter().enumerate() {
            epoll::modify(&self.epoll, listener, listening(nth), flags)?;
        }
        Ok(())
    }

    /// Starts to serve an admitted connection.
    fn start_connection(&mut self, id: u64, handed: HandedConnection) {
        self.counters.add(ACCEPTED, 1);
        let now = clock::now();
        if !self.shared.table.renew(id, now) {
            // It was evicted before it arrived here.
            self.shared.table.leave(id);
            return self.counters.add(FIRST_ENDING + Ending::Evicted as usize, 1);
        }
        let connection = Connection::new(handed, now).and_then(|connection| {
            epoll::add(&self.epoll, &connection, EventData::new_u64(id), EventFlags::IN)?;
            Ok(connection)
        });
        let Ok(connection) = connection else {
            self.counters.add(FIRST_ENDING + Ending::Error as usize, 1);
            return self.shared.table.leave(id);
        };
        let (watched, alarm) = (EventFlags::IN, Duration::MAX);
        self.alarms.insert((alarm, id));
        self.entries.insert(id, ConnectionEntry { connection, watched, alarm, held: 0, used: now });
        self.settle(id);
    }

    /// Gives a connection its turn.
    fn serve(&mut self, id: u64) {
        // It may have ended since the kernel reported the event.
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let before = entry.connection.client();
        let turn = match self.shutdown {
            Some(ShutdownState { how: LeaveReason::HandOver, .. }) => {
                entry.connection.send(&mut self.buffers.responder).map(|_| ())
            }
            _ => entry.connection.turn(id, &mut self.buffers),
        };
        if let Err(ending) = turn {
            return self.end(id, ending);
        }
        let client = entry.connection.client();
        if client != before {
            self.budget.forget(id, mem::take(&mut entry.held), &mut self.counters);
            let loser = self.shared.table.identify(id, client, entry.connection.since());
            self.shared.evict(loser);
        }
        self.settle(id);
    }

    /// Sends deferred replies that are ready.
    fn poll_deferred(&mut self) {
        let mut late = Vec::new();
        self.buffers.responder.app.poll_deferred(clock::now(), &mut |packet, took| {
            late.push((packet.origin.place, packet.message().to_vec(), packet.verdict, took));
        });
        for (id, message, verdict, took) in late {
            let responder = &mut self.buffers.responder;
            let Some(entry) = self.entries.get_mut(&id) else {
                // The connection has ended.
                let mut burst = Burst::default();
                burst.drop(DropReason::Unsent);
                responder.count_late(&burst, took);
                continue;
            };
            match entry.connection.take_late(&message, verdict, took, responder) {
                Ok(()) => self.settle(id),
                Err(ending) => self.end(id, ending),
            }
        }
    }

    /// Updates epoll, the budget and the alarm after a change of a connection.
    fn settle(&mut self, id: u64) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let (state, since) = (entry.connection.state(), entry.connection.since());
        let shutdown = self.shutdown.map(|shutdown| shutdown.how);
        if shutdown == Some(LeaveReason::HandOver) && entry.connection.is_at_boundary() {
            return self.hand_over(id);
        }
        if entry.connection.is_passed_on() {
            return self.pass_on(id);
        }
        let watched = match state {
            ConnectionState::Replying => EventFlags::OUT,
            ConnectionState::Idle | ConnectionState::Asking | ConnectionState::Deferred => {
                EventFlags::IN
            }
            ConnectionState::DeferredOnly => EventFlags::empty(),
        };
        if watched != entry.watched {
            entry.watched = watched;
            let data = EventData::new_u64(id);
            if epoll::modify(&self.epoll, &entry.connection, data, watched).is_err() {
                return self.end(id, Ending::Error);
            }
        }
        if since.saturating_sub(entry.used) >= USED_AGAIN {
            entry.used = since;
            self.shared.table.renew(id, since);
        }
        let deadline = deadline(&self.limits, self.shutdown.as_ref(), &entry.connection);
        if deadline < entry.alarm {
            self.alarms.remove(&(entry.alarm, id));
            self.alarms.insert((deadline, id));
            entry.alarm = deadline;
        }
        let held = entry.connection.held();
        if held > 0 || entry.held > 0 {
            let client = entry.connection.client();
            let change = (entry.held, held);
            entry.held = held;
            self.budget.change((id, client), change, since, &mut self.counters);
            while let Some(loser) = self.budget.loser() {
                self.end(loser, Ending::Budget);
            }
        }
    }

    /// Ends connections that timed out, and accepts again after a pause.
    fn check_deadlines(&mut self) -> io::Result<()> {
        let now = clock::now();
        if self.accept_at.is_some_and(|until| until <= now) {
            self.accept_at = None;
            self.watch_listeners(EventFlags::IN)?;
        }
        while let Some(&(alarm, id)) = self.alarms.first()
            && alarm <= now
        {
            self.alarms.pop_first();
            let Some(entry) = self.entries.get_mut(&id) else {
                continue;
            };
            // Alarms are not moved with every query, but when they expire.
            let deadline = deadline(&self.limits, self.shutdown.as_ref(), &entry.connection);
            if deadline > now {
                entry.alarm = deadline;
                self.alarms.insert((deadline, id));
                continue;
            }
            self.end(id, self.late(id));
        }
        Ok(())
    }

    /// The reason why a connection timed out.
    fn late(&self, id: u64) -> Ending {
        match self.entries.get(&id).map(|entry| entry.connection.state()) {
            Some(ConnectionState::Replying) => Ending::SlowReader,
            _ if self.shutdown.is_some() => Ending::Stopped,
            Some(ConnectionState::Asking) => Ending::SlowQuery,
            _ => Ending::Idle,
        }
    }

    /// Closes a connection.
    fn end(&mut self, id: u64, ending: Ending) {
        if let Some(connection) = self.close_gently(id, ending) {
            connection.end(&mut self.buffers.responder);
        }
    }

    /// Gives a connection to the new process.
    fn hand_over(&mut self, id: u64) {
        let Some(connection) = self.close_gently(id, Ending::HandedOver) else {
            return;
        };
        // The connection lives on, and would still wake this thread while it waits for slow
        // readers.
        if epoll::delete(&self.epoll, &connection).is_ok() {
            self.shared.give(connection.hand_over());
        }
    }

    /// Gives a connection to the control plane.
    fn pass_on(&mut self, id: u64) {
        let Some(connection) = self.close_gently(id, Ending::Transfer) else {
            return;
        };
        if epoll::delete(&self.epoll, &connection).is_ok() {
            self.buffers.responder.app.take_connection(connection.hand_over());
        }
    }

    /// Removes a connection.
    fn close_gently(&mut self, id: u64, ending: Ending) -> Option<Connection> {
        let entry = self.entries.remove(&id)?;
        self.alarms.remove(&(entry.alarm, id));
        self.budget.forget(id, entry.held, &mut self.counters);
        self.shared.table.leave(id);
        self.counters.add(FIRST_ENDING + ending as usize, 1);
        Some(entry.connection)
    }

    /// Stops accepting, and ends every connection as soon as possible.
    fn leave(&mut self, how: LeaveReason) -> io::Result<()> {
        if how == LeaveReason::Stop {
            // The kernel has already connected clients that wait to be accepted.
            for nth in 0..self.listeners.len() {
                for _ in 0..BACKLOG_MAX as usize / ACCEPTS_MAX {
                    self.accept(nth)?;
                }
            }
        }
        self.accept_at = None;
        self.listeners.clear();
        if self.index == 0 {
            // No more connections are dealt out, so the other threads may end.
            for other in &self.shared.command_queues[1..] {
                other.put(StreamCommand::Leave(how));
            }
        }
        let now = clock::now();
        let (drain_end, end) = match how {
            LeaveReason::Stop => (now + DRAIN_TIME, now + STOP_MAX),
            LeaveReason::HandOver => (now, now + HAND_OVER_MAX),
        };
        self.shutdown = Some(ShutdownState { how, drain_end, end });
        // The last connection may have been dealt to this thread.
        self.apply_commands()?;
        let all: Vec<u64> = self.entries.keys().copied().collect();
        all.into_iter().for_each(|id| self.settle(id));
        Ok(())
    }
}

/// The event number of a listener.
fn listening(nth: usize) -> EventData {
    EventData::new_u64(LISTENERS + nth as u64)
}

/// Until when a connection may remain in its state. Single bytes do not extend it: only whole
/// queries do, and replies that were read.
fn deadline(
    limits: &StreamLimits,
    shutdown: Option<&ShutdownState>,
    connection: &Connection,
) -> Duration {
    let (patience, end) = match connection.state() {
        ConnectionState::Replying => (limits.reply_max, shutdown.map(|shutdown| shutdown.end)),
        ConnectionState::Asking => (limits.query_max, shutdown.map(|shutdown| shutdown.drain_end)),
        ConnectionState::Idle => (limits.idle_max, shutdown.map(|shutdown| shutdown.drain_end)),
        // The server must answer, not the client.
        ConnectionState::Deferred | ConnectionState::DeferredOnly => {
            (DEFERRED_WAIT_MAX, shutdown.map(|shutdown| shutdown.end))
        }
    };
    (connection.since() + patience).min(end.unwrap_or(Duration::MAX))
}

/// Whether an error of accept is about the new connection only: accept(2) passes on pending network
/// errors.
fn is_about_one(error: &io::Error) -> bool {
    !matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
    )
}
