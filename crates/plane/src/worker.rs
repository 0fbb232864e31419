//! The worker: one thread, its ports, its application.

use crate::counters::{COUNTERS, count, count_done, parked, woken};
use crate::limits::{OWED_MAX, PORTS_MAX, TURNS_LAST_MAX};
use crate::limits::{TURNS_TAKEN_BACK_MAX, TURNS_UNASKED_MAX};
use crate::orders::Orders;
use crate::{App, OnStop, clock};
use door::{Counters, CountersView};
use packet::{Drop, Verdict};
use port::{Burst, Port};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
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
        for _ in 0..TURNS_LAST_MAX {
            if !self.serve()? {
                break;
            }
        }
        self.wait_for_others()?;
        self.app.park();
        Ok(())
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
            let now = clock::now();
            read = Some(now);
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
                let mut turns = 0..TURNS_TAKEN_BACK_MAX;
                // What it can no longer do does not matter.
                while turns.next().is_some() && self.serve_one(place).unwrap_or(false) {}
                send_late(&mut self.ports[place], &mut self.late[place], &mut self.counters);
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
        for (busy, port) in self.busy.iter_mut().zip(&self.ports) {
            *busy |= port.is_stuck();
        }
        let idle = !self.busy[..self.ports.len()].contains(&true);
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
mod tests {
    use super::*;
    use crate::Totals;
    use packet::{Origin, Packet, Transport};
    use port::Loopback;
    use rustix::event::{EventfdFlags, eventfd};
    use std::net::SocketAddr;
    use std::os::fd::{BorrowedFd, OwnedFd};

    struct Echo;

    impl App for Echo {
        fn burst(&mut self, packets: &mut [Packet<'_>], _now: Duration) {
            for packet in packets {
                packet.verdict = Verdict::Reply;
            }
        }

        fn park(&mut self) {}
    }

    /// A worker whose first port has many full bursts to receive and whose second has nothing.
    fn busy_worker(stop: &OnStop) -> Worker<Loopback, Echo> {
        let mut ports = [64, 64].map(|room| Loopback::new(room).unwrap());
        for _ in 0..64 * 100 {
            ports[0].push("192.0.2.1:1053".parse().unwrap(), b"busy");
        }
        Worker::new(ports.into(), Echo, stop.clone()).unwrap()
    }

    #[test]
    fn a_busy_port_does_not_starve_a_quiet_one() {
        let mut worker = busy_worker(&OnStop::new().unwrap());
        assert!(worker.turn().unwrap().is_continue());
        worker.ports[1].push("192.0.2.2:1053".parse().unwrap(), b"quiet");
        let answered = (0..=TURNS_UNASKED_MAX).any(|_| {
            assert!(worker.turn().unwrap().is_continue());
            worker.ports[1].pop().is_some()
        });
        assert!(answered, "not in {TURNS_UNASKED_MAX} turns");
    }

    #[test]
    fn the_order_to_stop_comes_through_to_a_busy_worker() {
        let stop = OnStop::new().unwrap();
        let mut worker = busy_worker(&stop);
        assert!(worker.turn().unwrap().is_continue());
        stop.stop();
        assert!((0..=TURNS_UNASKED_MAX).any(|_| worker.turn().unwrap().is_break()));
    }

    /// Puts every reply off, until somebody rings.
    struct Patient {
        bell: OwnedFd,
        owed: Vec<(SocketAddr, Origin, Vec<u8>)>,
    }

    impl App for Patient {
        fn burst(&mut self, packets: &mut [Packet<'_>], _now: Duration) {
            for packet in packets {
                self.owed.push((packet.peer, packet.origin, packet.message().to_vec()));
                packet.verdict = Verdict::Later;
            }
        }

        fn park(&mut self) {}

        fn as_fd(&self) -> Option<BorrowedFd<'_>> {
            Some(self.bell.as_fd())
        }

        fn tend(&mut self, _now: Duration, send: &mut dyn FnMut(&Packet<'_>, Duration)) {
            if rustix::io::read(&self.bell, &mut [0; 8]).is_err() {
                return;
            }
            for (peer, origin, mut octets) in self.owed.drain(..) {
                let len = octets.len();
                let mut packet = Packet::new(&mut octets, len, peer, Transport::Datagram);
                packet.origin = origin;
                packet.verdict = match packet.message() {
                    b"drop" => Verdict::Drop(Drop::Short),
                    _ => Verdict::Reply,
                };
                send(&packet, Duration::from_millis(7));
            }
        }

        fn owes(&self) -> bool {
            !self.owed.is_empty()
        }
    }

    fn patient_worker(stop: &OnStop) -> (Worker<Loopback, Patient>, OwnedFd) {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let mut ports = [64, 64].map(|room| Loopback::new(room).unwrap());
        for (port, text) in ports.iter_mut().zip([&b"reply"[..], b"drop"]) {
            port.push("192.0.2.1:1053".parse().unwrap(), text);
        }
        let app = Patient { bell: bell.try_clone().unwrap(), owed: Vec::new() };
        (Worker::new(ports.into(), app, stop.clone()).unwrap(), bell)
    }

    #[test]
    fn a_reply_that_is_put_off_leaves_where_its_question_came() {
        let (mut worker, bell) = patient_worker(&OnStop::new().unwrap());
        assert!(worker.turn().unwrap().is_continue());
        let totals = Totals::sum([&worker.counters()]);
        assert_eq!((totals.received, totals.replied), (2, 0));
        assert_eq!(totals.latency.counts.iter().sum::<u64>(), 0);
        assert!(worker.ports[0].pop().is_none());
        rustix::io::write(&bell, &1u64.to_ne_bytes()).unwrap();
        assert!(worker.turn().unwrap().is_continue());
        assert_eq!(worker.ports[0].pop().unwrap().payload, b"reply");
        let totals = Totals::sum([&worker.counters()]);
        assert_eq!((totals.replied, totals.dropped[Drop::Short as usize]), (1, 1));
        assert_eq!(totals.latency.sum, Duration::from_millis(14));
    }

    #[test]
    fn replies_that_are_owed_are_not_behind_all_that_comes() {
        let (mut worker, bell) = patient_worker(&OnStop::new().unwrap());
        for _ in 0..64 * TURNS_UNASKED_MAX {
            worker.ports[0].push("192.0.2.1:1053".parse().unwrap(), b"busy");
        }
        assert!(worker.turn().unwrap().is_continue());
        assert!(worker.ports[0].pop().is_none());
        rustix::io::write(&bell, &1u64.to_ne_bytes()).unwrap();
        assert!(worker.turn().unwrap().is_continue());
        assert_eq!(worker.ports[0].pop().unwrap().payload, b"reply");
    }

    #[test]
    fn replies_that_are_owed_are_sent_before_the_end() {
        let stop = OnStop::new().unwrap();
        let (worker, bell) = patient_worker(&stop);
        let counters = worker.counters();
        stop.stop();
        let running = std::thread::spawn(move || worker.run().unwrap());
        while Totals::sum([&counters]).received < 2 {
            std::thread::yield_now();
        }
        rustix::io::write(&bell, &1u64.to_ne_bytes()).unwrap();
        running.join().unwrap();
        assert_eq!(Totals::sum([&counters]).replied, 1);
    }

    #[test]
    fn a_worker_has_ports_and_not_too_many() {
        let ports = |count| (0..count).map(|_| Loopback::new(64).unwrap()).collect::<Vec<_>>();
        for (count, fine) in [(0, false), (PORTS_MAX, true), (PORTS_MAX + 1, false)] {
            assert_eq!(Worker::new(ports(count), Echo, OnStop::new().unwrap()).is_ok(), fine);
        }
    }
}
