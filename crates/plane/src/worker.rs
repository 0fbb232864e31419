//! The worker: one thread, its ports, its application.

use crate::counters::{COUNTERS, count, parked, woken};
use crate::limits::{PORTS_MAX, TURNS_LAST_MAX, TURNS_UNASKED_MAX};
use crate::{App, OnStop, clock};
use door::{Counters, CountersView};
use port::Port;
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
    app: A,
    stop: OnStop,
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
        let busy = [false; PORTS_MAX];
        Ok(Self { ports, busy, app, stop, unasked: 0, counters: Counters::new() })
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
        self.app.park();
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
        Ok(ControlFlow::Continue(()))
    }

    /// Receives from and replies to each busy port once, and tells whether any is still busy.
    fn serve(&mut self) -> io::Result<bool> {
        let mut more = false;
        for (port, busy) in self.ports.iter_mut().zip(&mut self.busy).filter(|(_, busy)| **busy) {
            let mut read = None;
            let burst = port.burst(|packets| {
                let now = clock::now();
                read = Some(now);
                self.app.burst(packets, now);
            })?;
            if burst.received > 0 {
                // A burst of which nothing could be answered was not shown, and took no time.
                let took = read.map_or(Duration::ZERO, |read| clock::now().saturating_sub(read));
                count(&mut self.counters, &burst, took);
            }
            // A burst that is not full has emptied the queue.
            *busy = burst.received == port.caps().burst_max;
            more |= *busy;
        }
        Ok(more)
    }

    /// Finds out which ports have something to receive; waits for one if none is busy.
    #[cold]
    fn ask(&mut self) -> io::Result<ControlFlow<()>> {
        self.unasked = TURNS_UNASKED_MAX;
        let idle = !self.busy[..self.ports.len()].contains(&true);
        if idle {
            self.app.park();
            parked(&mut self.counters);
        }
        // Most workers have few ports: what is asked then fits a cache line or two.
        let asked = match self.ports.len() {
            0..4 => self.poll::<4>(idle),
            4..16 => self.poll::<16>(idle),
            _ => self.poll::<{ PORTS_MAX + 1 }>(idle),
        };
        if idle {
            woken(&mut self.counters);
        }
        asked
    }

    /// Asks up to `N - 1` ports, and whether to stop.
    ///
    /// poll and not epoll: epoll stays in the sockets' wake-up lists while the worker is busy, and
    /// so costs the kernel a call for every packet that arrives.
    fn poll<const N: usize>(&mut self, wait: bool) -> io::Result<ControlFlow<()>> {
        let stop = self.stop.as_fd();
        let mut fds: [PollFd<'_>; N] = std::array::from_fn(|index| {
            let fd = self.ports.get(index).map_or(stop, |port| port.as_fd());
            PollFd::from_borrowed_fd(fd, PollFlags::IN)
        });
        let fds = &mut fds[..=self.ports.len()];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(fds, (!wait).then_some(&at_once)) {
            Err(rustix::io::Errno::INTR) => return Ok(ControlFlow::Continue(())),
            result => result?,
        };
        let (stop, ports) = fds.split_last().expect("the last one is there to stop");
        for (busy, fd) in self.busy.iter_mut().zip(ports) {
            // An error is read, and judged, by receiving.
            *busy |= !fd.revents().is_empty();
        }
        let stopped = !stop.revents().is_empty();
        Ok(if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Packet, Verdict};
    use port::Loopback;

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

    #[test]
    fn a_worker_has_ports_and_not_too_many() {
        let ports = |count| (0..count).map(|_| Loopback::new(64).unwrap()).collect::<Vec<_>>();
        for (count, fine) in [(0, false), (PORTS_MAX, true), (PORTS_MAX + 1, false)] {
            assert_eq!(Worker::new(ports(count), Echo, OnStop::new().unwrap()).is_ok(), fine);
        }
    }
}
