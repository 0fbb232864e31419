//! The worker: one thread, its ports, its application.

use crate::counters::{COUNTERS, count, count_done, parked, woken};
use crate::limits::{OWED_MAX, PORTS_MAX, TURNS_LAST_MAX};
use crate::limits::{STUCK_PAUSE, TURNS_TAKEN_BACK_MAX, TURNS_UNASKED_MAX};
use crate::orders::Orders;
use crate::{App, OnStop, clock};
use door::{Counters, CountersView};
use packet::{Drop, Verdict};
use port::{Burst, Port};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

/// Serves its ports until it is told to stop. Waits for nothing but them.
pub struct Worker<P, A> {
    ports: Vec<P>,
    /// Which ports may have more to receive.
    busy: [bool; PORTS_MAX],
    /// Of each port: how long ago those came whose replies were put off and are queued there.
    late: Vec<Vec<Duration>>,
    app: A,
    stop: OnStop,
    /// How many ports it began with: the others are lent.
    own: usize,
    orders: Option<Orders<P>>,
    /// Turns until the ports that are not busy are asked again.
    unasked: u32,
    counters: Counters<COUNTERS>,
}

impl<P: Port, A: App> Worker<P, A> {
    /// A worker for `ports`, which stops once `stop` is readable.
    ///
    /// # Errors
    /// There are no ports or more than [`PORTS_MAX`].
    pub fn new(ports: Vec<P>, app: A, stop: OnStop) -> io::Result<Self> {
        if ports.is_empty() || ports.len() > PORTS_MAX {
            let message = format!("a worker has 1 to {PORTS_MAX} ports, not {}", ports.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let (busy, late) = ([false; PORTS_MAX], vec![Vec::new(); ports.len()]);
        let (own, counters) = (ports.len(), Counters::new());
        Ok(Self { ports, busy, late, app, stop, own, orders: None, unasked: 0, counters })
    }

    /// The same worker, which carries out these orders when its `stop` is rung.
    pub(crate) fn obeying(mut self, orders: Orders<P>) -> Self {
        self.orders = Some(orders);
        self
    }

    /// What the worker counts.
    pub fn counters(&self) -> CountersView<COUNTERS> {
        self.counters.view()
    }

    /// Takes turns until it is told to stop, then answers what has arrived by then.
    ///
    /// # Errors
    /// A port can no longer be used.
    pub fn run(mut self) -> io::Result<()> {
        while self.turn()?.is_continue() {}
        self.busy.fill(true);
        self.finish()?;
        self.wait_for_others()?;
        // What was put off may not have left, either.
        self.finish()?;
        self.app.park();
        Ok(())
    }

    /// Serves until nothing has come and nothing waits to leave, so many turns at most.
    fn finish(&mut self) -> io::Result<()> {
        for _ in 0..TURNS_LAST_MAX {
            if self.serve()? {
                continue;
            }
            if !self.find_stuck() {
                break;
            }
            thread::sleep(STUCK_PAUSE);
        }
        Ok(())
    }

    /// Counts ports at which replies wait among the busy ones, and tells whether any is busy.
    fn find_stuck(&mut self) -> bool {
        for (busy, port) in self.busy.iter_mut().zip(&self.ports) {
            *busy |= port.is_stuck();
        }
        self.busy[..self.ports.len()].contains(&true)
    }

    /// Sends the last replies that were put off.
    fn wait_for_others(&mut self) -> io::Result<()> {
        let end = clock::now() + OWED_MAX;
        while self.app.owes() && clock::now() < end {
            self.app.park();
            if let Some(fd) = self.app.as_fd() {
                let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
                poll_for(&mut fds, Some(OWED_MAX))?;
            }
            self.tend();
        }
        Ok(())
    }

    /// One burst from each port that has something; waits first if none has.
    ///
    /// # Errors
    /// A port can no longer be used.
    pub fn turn(&mut self) -> io::Result<ControlFlow<()>> {
        if self.unasked == 0 && self.ask()?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let more = self.serve()?;
        self.unasked = if more { self.unasked - 1 } else { 0 };
        if more && self.app.owes() {
            // Who takes in more than is finished ends with nothing but what comes too late.
            self.tend();
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Receives from and replies to each busy port once, and tells whether any is still busy.
    fn serve(&mut self) -> io::Result<bool> {
        let mut more = false;
        for place in 0..self.ports.len() {
            if self.busy[place] {
                self.busy[place] = self.serve_one(place)?;
                more |= self.busy[place];
            }
        }
        Ok(more)
    }

    /// Receives from a port once and replies to it, and tells whether there may be more.
    #[inline]
    fn serve_one(&mut self, place: usize) -> io::Result<bool> {
        let Self { ports, app, counters, .. } = self;
        let port = &mut ports[place];
        let mut read = None;
        let burst = port.burst(|packets| {
            let now = *read.get_or_insert_with(clock::now);
            packets.iter_mut().for_each(|packet| packet.origin.place = place as u64);
            app.burst(packets, now);
        })?;
        if burst.received > 0 {
            // A burst of which nothing could be answered was not shown, and took no time.
            let took = read.map_or(Duration::ZERO, |read| clock::now().saturating_sub(read));
            count(counters, &burst, took);
        }
        // A burst that is not full has emptied the queue.
        Ok(burst.received == port.caps().burst_max)
    }

    /// Carries out what was ordered.
    #[cold]
    fn obey(&mut self) {
        while let Some(order) = self.orders.as_ref().and_then(|orders| orders.try_recv().ok()) {
            for place in self.own..self.ports.len() {
                self.finish_one(place);
            }
            self.ports.truncate(self.own);
            self.ports.extend(order.ports);
            assert!(self.ports.len() <= PORTS_MAX, "who lends counts them");
            self.late.resize_with(self.ports.len(), Vec::new);
            // What came to those that are lent may have come before they were.
            self.busy[self.own..].fill(false);
            self.busy[self.own..self.ports.len()].fill(true);
        }
    }

    /// Answers what a port has received before it is taken back.
    fn finish_one(&mut self, place: usize) {
        for _ in 0..TURNS_TAKEN_BACK_MAX {
            // What it can no longer do does not matter.
            if self.serve_one(place).unwrap_or(false) {
                continue;
            }
            if !self.ports[place].is_stuck() {
                break;
            }
            thread::sleep(STUCK_PAUSE);
        }
    }

    /// Sends replies that were put off, and are known now.
    fn tend(&mut self) {
        let Self { ports, late, app, counters, .. } = self;
        app.tend(clock::now(), &mut |packet, took| {
            if let Verdict::Drop(reason) = packet.verdict {
                return count_one(counters, Err(reason), took);
            }
            let place = packet.origin.place as usize;
            let Some((port, late)) = ports.get_mut(place).zip(late.get_mut(place)) else {
                return count_one(counters, Err(Drop::Unsent), took);
            };
            if !port.queue(packet) {
                send_late(port, late, counters);
                if !port.queue(packet) {
                    return count_one(counters, Err(Drop::Unsent), took);
                }
            }
            late.push(took);
        });
        for (port, late) in ports.iter_mut().zip(late).filter(|(_, late)| !late.is_empty()) {
            send_late(port, late, counters);
        }
    }

    /// Finds out which ports have something to receive; waits for one if none is busy.
    #[cold]
    fn ask(&mut self) -> io::Result<ControlFlow<()>> {
        self.unasked = TURNS_UNASKED_MAX;
        let idle = !self.find_stuck();
        if idle {
            self.app.park();
            parked(&mut self.counters);
        }
        // Most workers have few ports: what is asked then fits a cache line or two.
        let asked = match self.ports.len() {
            0..3 => self.poll::<4>(idle),
            3..15 => self.poll::<16>(idle),
            _ => self.poll::<{ PORTS_MAX + 2 }>(idle),
        };
        if idle {
            woken(&mut self.counters);
        }
        let asked = asked?;
        if asked.is_called {
            self.tend();
        }
        if asked.is_rung {
            if self.stop.hear() {
                return Ok(ControlFlow::Break(()));
            }
            self.obey();
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Asks up to `N - 2` ports, whether to stop, and whether the application has something to do.
    ///
    /// poll and not epoll: epoll stays in the sockets' wake-up lists while the worker is busy, and
    /// so costs the kernel a call for every packet that arrives.
    fn poll<const N: usize>(&mut self, wait: bool) -> io::Result<Asked> {
        let stop = self.stop.as_fd();
        let count = self.ports.len();
        let mut fds: [PollFd<'_>; N] = std::array::from_fn(|index| {
            let port = self.ports.get(index).map(|port| port.as_fd());
            let other = if index > count { self.app.as_fd() } else { None };
            PollFd::from_borrowed_fd(port.or(other).unwrap_or(stop), PollFlags::IN)
        });
        let fds = &mut fds[..count + 1 + usize::from(self.app.as_fd().is_some())];
        if !poll_for(fds, (!wait).then_some(Duration::ZERO))? {
            return Ok(Asked::default());
        }
        let (ports, others) = fds.split_at(count);
        for (busy, fd) in self.busy.iter_mut().zip(ports) {
            // An error is read, and judged, by receiving.
            *busy |= !fd.revents().is_empty();
        }
        let mut others = others.iter().map(|fd| !fd.revents().is_empty());
        let mut is_ready = || others.next().unwrap_or_default();
        Ok(Asked { is_rung: is_ready(), is_called: is_ready() })
    }
}

/// Sends what is queued at a port, of which `late` tells how long ago each came.
fn send_late(port: &mut impl Port, late: &mut Vec<Duration>, counters: &mut Counters<COUNTERS>) {
    let mut late = late.drain(..);
    port.flush(|taken| {
        let took = late.next().expect("each was queued");
        count_one(counters, if taken { Ok(()) } else { Err(Drop::Unsent) }, took);
    });
}

/// Counts what became of one packet.
fn count_one(counters: &mut Counters<COUNTERS>, done: Result<(), Drop>, took: Duration) {
    let mut burst = Burst::default();
    match done {
        Ok(()) => burst.replied = 1,
        Err(reason) => burst.drop(reason),
    }
    count_done(counters, &burst, took);
}

/// What is to be done besides serving ports.
#[derive(Clone, Copy, Default)]
struct Asked {
    is_rung: bool,
    is_called: bool,
}

/// Waits, for ever or so long; false where a signal ended that.
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
