//! Workers on ports in memory, turn by turn.

use super::*;
use crate::WorkerTotals;
use crate::port_changes::{PortChangeSender, wait};
use packet::{Ingress, Packet, Transport};
use port_contract::Loopback;
use rustix::event::{EventfdFlags, eventfd};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

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
fn busy_worker(stop: &StopHook) -> Worker<Loopback, Echo> {
    let mut ports = [64, 64].map(|room| Loopback::new(room).unwrap());
    for _ in 0..64 * 100 {
        ports[0].push("192.0.2.1:1053".parse().unwrap(), b"busy");
    }
    Worker::new(ports.into(), Echo, stop.clone()).unwrap()
}

#[test]
fn a_busy_port_does_not_starve_a_quiet_one() {
    let mut worker = busy_worker(&StopHook::new().unwrap());
    assert!(worker.turn().unwrap().is_continue());
    worker.ports[1].push("192.0.2.2:1053".parse().unwrap(), b"quiet");
    let answered = (0..=TURNS_UNPOLLED_MAX).any(|_| {
        assert!(worker.turn().unwrap().is_continue());
        worker.ports[1].pop().is_some()
    });
    assert!(answered, "not in {TURNS_UNPOLLED_MAX} turns");
}

#[test]
fn the_order_to_stop_comes_through_to_a_busy_worker() {
    let stop = StopHook::new().unwrap();
    let mut worker = busy_worker(&stop);
    assert!(worker.turn().unwrap().is_continue());
    stop.stop();
    assert!((0..=TURNS_UNPOLLED_MAX).any(|_| worker.turn().unwrap().is_break()));
}

/// Echoes, and counts how often its thread parks.
#[derive(Default)]
struct CountingEcho(Arc<AtomicU32>);

impl App for CountingEcho {
    fn burst(&mut self, packets: &mut [Packet<'_>], now: Duration) {
        Echo.burst(packets, now);
    }

    fn park(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn port_without_a_descriptor_is_polled_and_its_worker_parks_while_it_is_quiet() {
    let (stop, parks) = (StopHook::new().unwrap(), Arc::default());
    let ports = vec![Loopback::new(64).unwrap(), Loopback::polled(64)];
    let app = CountingEcho(Arc::clone(&parks));
    let mut worker = Worker::new(ports, app, stop.clone()).unwrap();
    for _ in 0..=TURNS_UNPOLLED_MAX {
        assert!(worker.turn().unwrap().is_continue(), "it would wait forever");
    }
    assert_eq!(parks.load(Ordering::Relaxed), 2);
    for (place, text) in [(1, b"polled"), (0, b"socket")] {
        worker.ports[place].push("192.0.2.1:1053".parse().unwrap(), text);
        let answered = (0..=TURNS_UNPOLLED_MAX).any(|_| {
            assert!(worker.turn().unwrap().is_continue());
            worker.ports[place].pop().is_some()
        });
        assert!(answered, "port {place}");
    }
    // What has arrived is answered before the end, which comes soon.
    worker.ports[1].push("192.0.2.1:1053".parse().unwrap(), b"last");
    let counters = worker.counters();
    stop.stop();
    worker.run().unwrap();
    assert_eq!(WorkerTotals::sum([&counters]).replied, 3);
}

#[test]
fn pauses_between_polls_grow_while_nothing_comes_and_end_with_the_next_query() {
    let (stop, parks) = (StopHook::new().unwrap(), Arc::default());
    let ports = vec![Loopback::new(64).unwrap(), Loopback::polled(64)];
    let mut worker = Worker::new(ports, CountingEcho(parks), stop).unwrap();
    let polls = |worker: &mut Worker<_, _>, count: u32| {
        (0..count * TURNS_UNPOLLED_MAX).for_each(|_| assert!(worker.turn().unwrap().is_continue()));
        worker.pause()
    };
    assert_eq!(polls(&mut worker, POLLS_WITHOUT_PAUSE - 1), Duration::ZERO);
    assert_eq!(polls(&mut worker, 1), POLL_PAUSE_MIN);
    assert_eq!(polls(&mut worker, 2), 4 * POLL_PAUSE_MIN);
    assert_eq!(polls(&mut worker, 8), POLL_PAUSE_MAX);
    // The other port cannot be polled, so a query of it ends the pause by itself.
    worker.ports[0].push("192.0.2.1:1053".parse().unwrap(), b"socket");
    polls(&mut worker, 1);
    assert!(worker.ports[0].pop().is_some());
    polls(&mut worker, 1);
    assert_eq!(worker.pause(), Duration::ZERO);
}

/// Defers every reply until it is woken.
struct DeferringApp {
    waker: OwnedFd,
    deferred: Vec<(SocketAddr, Ingress, Vec<u8>)>,
}

impl App for DeferringApp {
    fn burst(&mut self, packets: &mut [Packet<'_>], _now: Duration) {
        for packet in packets {
            self.deferred.push((packet.peer, packet.origin, packet.message().to_vec()));
            packet.verdict = Verdict::Deferred;
        }
    }

    fn park(&mut self) {}

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.waker.as_fd())
    }

    fn poll_deferred(&mut self, _now: Duration, send: &mut dyn FnMut(&Packet<'_>, Duration)) {
        if rustix::io::read(&self.waker, &mut [0; 8]).is_err() {
            return;
        }
        for (peer, origin, mut bytes) in self.deferred.drain(..) {
            let len = bytes.len();
            let mut packet = Packet::new(&mut bytes, len, peer, Transport::Datagram);
            packet.origin = origin;
            packet.verdict = match packet.message() {
                b"drop" => Verdict::Drop(DropReason::Short),
                _ => Verdict::Reply,
            };
            send(&packet, Duration::from_millis(7));
        }
    }

    fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }
}

/// A port whose replies are sent some bursts after they were taken.
struct SlowPort {
    port: Loopback,
    waiting: u32,
    left: Arc<AtomicBool>,
}

impl SlowPort {
    fn asked(left: &Arc<AtomicBool>) -> Self {
        let mut port = Loopback::new(64).unwrap();
        port.push("192.0.2.1:1053".parse().unwrap(), b"question");
        Self { port, waiting: 0, left: left.clone() }
    }
}

impl Port for SlowPort {
    fn caps(&self) -> &port::PortCapabilities {
        self.port.caps()
    }

    fn burst(&mut self, app: impl FnMut(&mut [Packet<'_>])) -> io::Result<Burst> {
        let burst = self.port.burst(app)?;
        self.waiting = if burst.replied > 0 { 20 } else { self.waiting.saturating_sub(1) };
        self.left.store(self.waiting == 0, Ordering::Relaxed);
        Ok(burst)
    }

    fn queue(&mut self, reply: &Packet<'_>) -> bool {
        self.port.queue(reply)
    }

    fn flush(&mut self, reported: impl FnMut(bool)) {
        self.port.flush(reported);
    }

    fn is_stuck(&self) -> bool {
        self.waiting > 0
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.port.as_fd()
    }
}

#[test]
fn replies_that_wait_at_a_port_leave_before_it_goes() {
    // The port is removed.
    let (stop, left) = (StopHook::new().unwrap(), Arc::new(AtomicBool::new(true)));
    let (buffers, port_changes) = PortChangeSender::new(stop.clone());
    let own = SlowPort::asked(&Arc::default());
    let mut worker =
        Worker::new(vec![own], Echo, stop.clone()).unwrap().with_port_changes(port_changes);
    for lent in [vec![SlowPort::asked(&left)], Vec::new()] {
        let done = buffers.send(lent).unwrap();
        while wait(&done, Duration::ZERO).is_err() {
            assert!(worker.turn().unwrap().is_continue());
        }
    }
    assert!(left.load(Ordering::Relaxed), "it was answered, and the reply was not waited for");
    // The worker ends.
    let left = Arc::new(AtomicBool::new(true));
    let worker = Worker::new(vec![SlowPort::asked(&left)], Echo, stop.clone()).unwrap();
    stop.stop();
    worker.run().unwrap();
    assert!(left.load(Ordering::Relaxed));
}

fn patient_worker(stop: &StopHook) -> (Worker<Loopback, DeferringApp>, OwnedFd) {
    let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    let mut ports = [64, 64].map(|room| Loopback::new(room).unwrap());
    for (port, text) in ports.iter_mut().zip([&b"reply"[..], b"drop"]) {
        port.push("192.0.2.1:1053".parse().unwrap(), text);
    }
    let app = DeferringApp { waker: waker.try_clone().unwrap(), deferred: Vec::new() };
    (Worker::new(ports.into(), app, stop.clone()).unwrap(), waker)
}

#[test]
fn deferred_reply_uses_the_ingress_port() {
    let (mut worker, waker) = patient_worker(&StopHook::new().unwrap());
    assert!(worker.turn().unwrap().is_continue());
    let totals = WorkerTotals::sum([&worker.counters()]);
    assert_eq!((totals.received, totals.replied), (2, 0));
    assert_eq!(totals.latency.counts.iter().sum::<u64>(), 0);
    assert!(worker.ports[0].pop().is_none());
    rustix::io::write(&waker, &1u64.to_ne_bytes()).unwrap();
    assert!(worker.turn().unwrap().is_continue());
    assert_eq!(worker.ports[0].pop().unwrap().payload, b"reply");
    let totals = WorkerTotals::sum([&worker.counters()]);
    assert_eq!((totals.replied, totals.dropped[DropReason::Short as usize]), (1, 1));
    assert_eq!(totals.latency.sum, Duration::from_millis(14));
}

#[test]
fn replies_that_are_owed_are_not_behind_all_that_comes() {
    let (mut worker, waker) = patient_worker(&StopHook::new().unwrap());
    for _ in 0..64 * TURNS_UNPOLLED_MAX {
        worker.ports[0].push("192.0.2.1:1053".parse().unwrap(), b"busy");
    }
    assert!(worker.turn().unwrap().is_continue());
    assert!(worker.ports[0].pop().is_none());
    rustix::io::write(&waker, &1u64.to_ne_bytes()).unwrap();
    assert!(worker.turn().unwrap().is_continue());
    assert_eq!(worker.ports[0].pop().unwrap().payload, b"reply");
}

#[test]
fn replies_that_are_owed_are_sent_before_the_end() {
    let stop = StopHook::new().unwrap();
    let (worker, waker) = patient_worker(&stop);
    let counters = worker.counters();
    stop.stop();
    let running = std::thread::spawn(move || worker.run().unwrap());
    while WorkerTotals::sum([&counters]).received < 2 {
        std::thread::yield_now();
    }
    rustix::io::write(&waker, &1u64.to_ne_bytes()).unwrap();
    running.join().unwrap();
    assert_eq!(WorkerTotals::sum([&counters]).replied, 1);
}

#[test]
fn a_worker_has_ports_and_not_too_many() {
    let ports = |count| (0..count).map(|_| Loopback::new(64).unwrap()).collect::<Vec<_>>();
    for (count, fine) in [(0, false), (PORTS_MAX, true), (PORTS_MAX + 1, false)] {
        assert_eq!(Worker::new(ports(count), Echo, StopHook::new().unwrap()).is_ok(), fine);
    }
}
