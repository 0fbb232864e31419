//! The worker: one thread with its ports and its application.

use crate::counters::{COUNTERS, count, count_done};
use crate::limits::{DEFERRED_WAIT_MAX, PORTS_MAX, TURNS_LAST_MAX};
use crate::limits::{POLL_PAUSE_MAX, POLL_PAUSE_MIN, POLLS_WITHOUT_PAUSE};
use crate::limits::{STUCK_PAUSE, TURNS_TAKEN_BACK_MAX, TURNS_UNPOLLED_MAX};
use crate::port_changes::PortChanges;
use crate::{App, StopHook, clock};
use packet::{DropReason, Verdict};
use port::{Burst, Port};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::mem;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;
use sync::{Counters, CountersView};

/// Serves its ports until it is stopped. Waits for nothing else.
pub struct Worker<P, A> {
    ports: Vec<P>,
    /// Which ports may have more to receive: always those without a descriptor.
    busy: [bool; PORTS_MAX],
    /// Whether nothing was received since the ports were polled.
    is_quiet: bool,
    /// How often in turn nothing was.
    quiet_polls: u32,
    /// For each port: times since the packets of its queued deferred replies were received.
    late: Vec<Vec<Duration>>,
    app: A,
    stop: StopHook,
    /// The number of its own ports; the others are lent.
    own: usize,
    port_changes: Option<PortChanges<P>>,
    /// Turns until quiet ports are polled again.
    turns_unpolled: u32,
    counters: Counters<COUNTERS>,
}

impl<P: Port, A: App> Worker<P, A> {
    /// A worker for `ports`, which stops once `stop` is readable.
    ///
    /// # Errors
    /// There are no ports or more than [`PORTS_MAX`].
    pub fn new(ports: Vec<P>, app: A, stop: StopHook) -> io::Result<Self> {
        if ports.is_empty() || ports.len() > PORTS_MAX {
            let message = format!("a worker has 1 to {PORTS_MAX} ports, not {}", ports.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let (busy, late) = ([false; PORTS_MAX], vec![Vec::new(); ports.len()]);
        let (own, counters) = (ports.len(), Counters::new());
        Ok(Self {
            ports,
            busy,
            is_quiet: true,
            quiet_polls: 0,
            late,
            app,
            stop,
            own,
            port_changes: None,
            turns_unpolled: 0,
            counters,
        })
    }

    /// Adds a receiver of port changes, which are applied when `stop` wakes the worker.
    pub(crate) fn with_port_changes(mut self, port_changes: PortChanges<P>) -> Self {
        self.port_changes = Some(port_changes);
        self
    }

    /// The worker's counters.
    pub fn counters(&self) -> CountersView<COUNTERS> {
        self.counters.view()
    }

    /// Takes turns until it is stopped, then answers what has arrived by then.
    ///
    /// # Errors
    /// A port can no longer be used.
    pub fn run(mut self) -> io::Result<()> {
        while self.turn()?.is_continue() {}
        self.busy.fill(true);
        self.finish()?;
        self.finish_deferred()?;
        // Deferred replies may be queued at ports, too.
        self.finish()?;
        self.app.park();
        Ok(())
    }

    /// Serves until nothing arrives and nothing waits to be sent, for a limited number of turns.
    fn finish(&mut self) -> io::Result<()> {
        for _ in 0..TURNS_LAST_MAX {
            if self.serve()? {
                continue;
            }
            if !self.mark_stuck() {
                break;
            }
            thread::sleep(STUCK_PAUSE);
        }
        Ok(())
    }

    /// Marks ports with unsent replies as busy; returns whether there are any.
    fn mark_stuck(&mut self) -> bool {
        let mut found = false;
        for (busy, port) in self.busy.iter_mut().zip(&self.ports) {
            if port.is_stuck() {
                (*busy, found) = (true, true);
            }
        }
        found
    }

    /// Whether any port may have more to receive.
    fn is_busy(&self) -> bool {
        self.busy[..self.ports.len()].contains(&true)
    }

    /// Sends the last deferred replies.
    fn finish_deferred(&mut self) -> io::Result<()> {
        let end = clock::now() + DEFERRED_WAIT_MAX;
        while self.app.has_deferred() && clock::now() < end {
            self.app.park();
            if let Some(fd) = self.app.as_fd() {
                let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
                poll_for(&mut fds, Some(DEFERRED_WAIT_MAX))?;
            }
            self.poll_deferred();
        }
        Ok(())
    }

    /// One burst from each busy port; waits first if none is busy.
    ///
    /// # Errors
    /// A port can no longer be used.
    pub fn turn(&mut self) -> io::Result<ControlFlow<()>> {
        if self.turns_unpolled == 0 && self.poll_ports()?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.serve()?;
        let more = self.is_busy();
        self.turns_unpolled = if more { self.turns_unpolled - 1 } else { 0 };
        if more && self.app.has_deferred() {
            // Otherwise a busy worker would finish its deferred queries too late.
            self.poll_deferred();
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Receives from and replies to each busy port once; returns whether any has more to receive.
    fn serve(&mut self) -> io::Result<bool> {
        let mut more = false;
        for place in 0..self.ports.len() {
            if self.busy[place] {
                let has_more = self.serve_one(place)?;
                more |= has_more;
                self.busy[place] = has_more || self.ports[place].as_fd().is_none();
            }
        }
        Ok(more)
    }

    /// Receives from a port once and replies; returns whether there may be more.
    #[inline]
    fn serve_one(&mut self, place: usize) -> io::Result<bool> {
        let Self { ports, app, counters, is_quiet, .. } = self;
        let port = &mut ports[place];
        let mut read = None;
        let burst = port.burst(|packets| {
            let now = *read.get_or_insert_with(clock::now);
            packets.iter_mut().for_each(|packet| packet.origin.place = place as u64);
            app.burst(packets, now);
        })?;
        if burst.received > 0 {
            *is_quiet = false;
            // If no packet of a burst could be answered, the application did not see it, and it
            // took no time.
            let took = read.map_or(Duration::ZERO, |read| clock::now().saturating_sub(read));
            count(counters, &burst, took);
        }
        // A burst that is not full has emptied the queue.
        Ok(burst.received == port.caps().burst_max)
    }

    /// Applies port changes.
    #[cold]
    fn apply_port_changes(&mut self) {
        while let Some(change) =
            self.port_changes.as_ref().and_then(|port_changes| port_changes.try_recv().ok())
        {
            for place in self.own..self.ports.len() {
                self.finish_one(place);
            }
            self.ports.truncate(self.own);
            self.ports.extend(change.ports);
            assert!(self.ports.len() <= PORTS_MAX, "who lends counts them");
            self.late.resize_with(self.ports.len(), Vec::new);
            // Packets may have arrived at lent ports before they were lent.
            self.busy[self.own..].fill(false);
            self.busy[self.own..self.ports.len()].fill(true);
        }
    }

    /// Answers what a port has received before it is removed.
    fn finish_one(&mut self, place: usize) {
        for _ in 0..TURNS_TAKEN_BACK_MAX {
            // Its errors no longer matter.
            if self.serve_one(place).unwrap_or(false) {
                continue;
            }
            if !self.ports[place].is_stuck() {
                break;
            }
            thread::sleep(STUCK_PAUSE);
        }
    }

    /// Sends deferred replies that are ready.
    fn poll_deferred(&mut self) {
        let Self { ports, late, app, counters, .. } = self;
        app.poll_deferred(clock::now(), &mut |packet, took| {
            if let Verdict::Drop(reason) = packet.verdict {
                return count_one(counters, Err(reason), took);
            }
            let place = packet.origin.place as usize;
            let Some((port, late)) = ports.get_mut(place).zip(late.get_mut(place)) else {
                return count_one(counters, Err(DropReason::Unsent), took);
            };
            if !port.queue(packet) {
                send_late(port, late, counters);
                if !port.queue(packet) {
                    return count_one(counters, Err(DropReason::Unsent), took);
                }
            }
            late.push(took);
        });
        for (port, late) in ports.iter_mut().zip(late).filter(|(_, late)| !late.is_empty()) {
            send_late(port, late, counters);
        }
    }

    /// Finds out which ports have something to receive; waits if none is busy. A worker that must
    /// poll a port waits for a moment at most; it parks if it received nothing.
    #[cold]
    fn poll_ports(&mut self) -> io::Result<ControlFlow<()>> {
        self.turns_unpolled = TURNS_UNPOLLED_MAX;
        for (busy, port) in self.busy.iter_mut().zip(&self.ports) {
            *busy |= port.is_stuck() || port.as_fd().is_none();
        }
        let waits = !self.is_busy();
        let is_quiet = mem::replace(&mut self.is_quiet, true);
        if is_quiet || waits {
            self.app.park();
        }
        self.quiet_polls = if is_quiet { self.quiet_polls.saturating_add(1) } else { 0 };
        let time = (!waits).then(|| self.pause());
        // Most workers have few ports, so that the array fits a cache line or two.
        let asked = match self.ports.len() {
            0..3 => self.poll::<4>(time),
            3..15 => self.poll::<16>(time),
            _ => self.poll::<{ PORTS_MAX + 2 }>(time),
        }?;
        if asked.is_called {
            self.poll_deferred();
        }
        if asked.is_rung {
            if self.stop.take_stop() {
                return Ok(ControlFlow::Break(()));
            }
            self.apply_port_changes();
        }
        Ok(ControlFlow::Continue(()))
    }

    /// How long a worker with busy ports may wait for others: if each of them is polled and has
    /// received nothing for a while, longer and longer.
    fn pause(&self) -> Duration {
        let Some(pauses) = self.quiet_polls.checked_sub(POLLS_WITHOUT_PAUSE) else {
            return Duration::ZERO;
        };
        let may_pause = |port: &P| port.as_fd().is_none() && port.may_pause() && !port.is_stuck();
        let mut ports = self.busy.iter().zip(&self.ports);
        match ports.all(|(busy, port)| !busy || may_pause(port)) {
            true => POLL_PAUSE_MIN.saturating_mul(1 << pauses.min(16)).min(POLL_PAUSE_MAX),
            false => Duration::ZERO,
        }
    }

    /// Polls up to `N - 2` ports, the stop hook, and the application, for a time or until one is
    /// ready.
    ///
    /// poll and not epoll: epoll would stay in the sockets' wait queues while the worker is busy,
    /// and cost the kernel a call for every packet.
    fn poll<const N: usize>(&mut self, time: Option<Duration>) -> io::Result<ControlRequests> {
        let stop = self.stop.as_fd();
        let count = self.ports.len();
        let mut fds: [PollFd<'_>; N] = std::array::from_fn(|index| {
            let fd = match self.ports.get(index) {
                // A port without a descriptor has that of the stop hook, which is as good as none:
                // it is busy anyway.
                Some(port) => port.as_fd(),
                None if index > count => self.app.as_fd(),
                None => None,
            };
            PollFd::from_borrowed_fd(fd.unwrap_or(stop), PollFlags::IN)
        });
        let fds = &mut fds[..count + 1 + usize::from(self.app.as_fd().is_some())];
        if !poll_for(fds, time)? {
            return Ok(ControlRequests::default());
        }
        let (ports, others) = fds.split_at(count);
        for (busy, fd) in self.busy.iter_mut().zip(ports) {
            // Errors are read, and judged, by receiving.
            *busy |= !fd.revents().is_empty();
        }
        let mut others = others.iter().map(|fd| !fd.revents().is_empty());
        let mut is_ready = || others.next().unwrap_or_default();
        Ok(ControlRequests { is_rung: is_ready(), is_called: is_ready() })
    }
}

/// Sends the replies queued at a port; `late` has the times since they were received.
fn send_late(port: &mut impl Port, late: &mut Vec<Duration>, counters: &mut Counters<COUNTERS>) {
    let mut late = late.drain(..);
    port.flush(|taken| {
        // Each was queued with its time, unless that panicked.
        let took = late.next().unwrap_or_default();
        count_one(counters, if taken { Ok(()) } else { Err(DropReason::Unsent) }, took);
    });
}

/// Counts the result of one packet.
fn count_one(counters: &mut Counters<COUNTERS>, done: Result<(), DropReason>, took: Duration) {
    let mut burst = Burst::default();
    match done {
        Ok(()) => burst.replied = 1,
        Err(reason) => burst.drop(reason),
    }
    count_done(counters, &burst, took);
}

/// Work besides serving ports.
#[derive(Clone, Copy, Default)]
struct ControlRequests {
    is_rung: bool,
    is_called: bool,
}

/// Waits for this time, or forever; false if a signal interrupted it.
fn poll_for(fds: &mut [PollFd<'_>], time: Option<Duration>) -> io::Result<bool> {
    let time = time.map(|time| Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: time.subsec_nanos().into(),
    });
    match poll(fds, time.as_ref()) {
        Err(rustix::io::Errno::INTR) => Ok(false),
        result => Ok(result.map(|_| true)?),
    }
}

#[cfg(test)]
mod tests;
