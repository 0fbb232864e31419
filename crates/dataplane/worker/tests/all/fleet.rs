//! Workers on real sockets.

use packet::{DropReason, Packet, Verdict};
use port_socket::{SocketPort, bind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use test_support::wait;
use worker::limits::PORTS_MAX;
use worker::{App, FailureCause, OnFailure, ThreadFailure, WorkerSetup, WorkerTotals, Workers};

/// Sends back what it gets; drops what is empty; panics when told to.
#[derive(Clone)]
struct Echo {
    parked: Arc<AtomicUsize>,
}

impl Echo {
    fn new() -> Self {
        Self { parked: Arc::default() }
    }
}

impl App for Echo {
    fn burst(&mut self, packets: &mut [Packet<'_>], _now: Duration) {
        for packet in packets {
            assert!(packet.message() != b"panic", "told to");
            packet.verdict = match packet.len {
                0 => Verdict::Drop(DropReason::Short),
                _ => Verdict::Reply,
            };
        }
    }

    fn park(&mut self) {
        self.parked.fetch_add(1, Ordering::SeqCst);
    }
}

struct Running {
    workers: Workers<SocketPort>,
    addresses: Vec<SocketAddr>,
    failures: mpsc::Receiver<ThreadFailure>,
    app: Echo,
}

/// `workers` workers that share the ports `listen`.
fn start(workers: usize, listen: &[&str]) -> Running {
    let app = Echo::new();
    let mut addresses = Vec::new();
    let mut setups: Vec<_> = (0..workers)
        .map(|_| WorkerSetup { ports: Vec::new(), app: app.clone(), cpu: None })
        .collect();
    for address in listen {
        let mut address: SocketAddr = address.parse().unwrap();
        for setup in &mut setups {
            let port = SocketPort::new(bind(address).unwrap()).unwrap();
            address = port.address();
            setup.ports.push(port);
        }
        addresses.push(address);
    }
    let (sender, failures) = mpsc::channel();
    let on_failure: OnFailure = Arc::new(move |failure| sender.send(failure).unwrap());
    let workers = Workers::start(setups, on_failure).unwrap();
    Running { workers, addresses, failures, app }
}

/// So many more ports, and their addresses, which no other test takes once they are closed.
fn open(count: usize, address: &str) -> (Vec<SocketPort>, Vec<SocketAddr>) {
    let open = |_| SocketPort::new(bind(address.parse().unwrap()).unwrap()).unwrap();
    let ports: Vec<_> = (0..count).map(open).collect();
    let addresses = ports.iter().map(SocketPort::address).collect();
    (ports, addresses)
}

#[test]
fn ports_are_replaced_while_a_worker_serves() {
    let Running { workers, addresses, failures, .. } = start(2, &["127.0.0.1:0"]);
    let asks = |server: SocketAddr| {
        // A closed port refuses at once, so that only an open one may take its time.
        let client = client(server);
        let _ = client.send(b"question");
        client.recv(&mut [0; 16]).is_ok()
    };
    let lent = |count: usize| -> (Vec<Vec<SocketPort>>, Vec<SocketAddr>) {
        let (ports, addresses) = open(count, "127.0.93.1:0");
        (ports.into_iter().map(|port| vec![port]).collect(), addresses)
    };
    for round in 0..5 {
        // One more worker than has any in some rounds, and others in place of the last ones.
        let (ports, others) = lent(1 + round % 2);
        workers.lend(ports).unwrap();
        assert!(others.iter().all(|other| asks(*other)), "round {round}");
        // What comes before they are taken back is answered.
        let last = client(others[0]);
        last.send(b"just before").unwrap();
        let (ports, next) = lent(2);
        workers.lend(ports).unwrap();
        assert_eq!(last.recv(&mut [0; 16]).unwrap(), 11);
        assert!(others.iter().all(|other| !asks(*other)), "they are closed");
        assert!(next.iter().all(|other| asks(*other)));
        workers.lend(Vec::new()).unwrap();
        assert!(next.iter().all(|other| !asks(*other)));
        assert!(asks(addresses[0]));
    }
    let counters = workers.counters().to_vec();
    workers.stop();
    let totals = WorkerTotals::sum(&counters);
    assert_eq!((totals.received, totals.replied), (totals.received, totals.received));
    assert!(failures.try_recv().is_err());
}

/// Where no other test opens ports: it would take a closed one of this test.
const OTHERS: &str = "127.0.94.1:0";

#[test]
fn more_ports_than_a_worker_can_serve_are_refused() {
    let Running { workers, .. } = start(2, &["127.0.0.1:0"]);
    let room = PORTS_MAX - 1;
    let (ports, addresses) = open(room, OTHERS);
    workers.lend(vec![Vec::new(), ports]).unwrap();
    let error = workers.lend(vec![Vec::new(), open(room + 1, OTHERS).0]).expect_err("one too many");
    assert!(error.to_string().contains("worker-1 would have 129 ports"), "{error}");
    // What was lent before is served as before, to the last.
    for address in addresses {
        assert_eq!(ask(&client(address), b"still here"), b"still here");
    }
}

fn client(server: SocketAddr) -> UdpSocket {
    let any = if server.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
    let client = UdpSocket::bind(any).unwrap();
    client.connect(server).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    client
}

fn ask(client: &UdpSocket, message: &[u8]) -> Vec<u8> {
    let mut buf = [0; 2048];
    client.send(message).unwrap();
    let len = client.recv(&mut buf).unwrap();
    buf[..len].to_vec()
}

#[test]
fn every_worker_and_address_answers_and_counts() {
    let running = start(2, &["127.0.0.1:0", "[::1]:0"]);
    let rounds = 40;
    for &address in &running.addresses {
        for round in 0..rounds {
            // A new source port each time, so that both workers get some.
            let client = client(address);
            client.send(b"").unwrap();
            let message = format!("round {round}");
            assert_eq!(ask(&client, message.as_bytes()), message.as_bytes());
        }
    }
    let views = running.workers.counters().to_vec();
    running.workers.stop();
    assert!(running.failures.try_recv().is_err());
    let totals = WorkerTotals::sum(&views);
    let asked = 2 * rounds;
    assert_eq!((totals.received, totals.replied), (2 * asked, asked));
    assert_eq!(totals.dropped[DropReason::Short as usize], asked);
    assert_eq!(totals.received, totals.replied + totals.dropped.iter().sum::<u64>());
    assert_eq!(totals.received, totals.latency.counts.iter().sum::<u64>());
    assert!(totals.latency.sum > Duration::ZERO);
    for (worker, view) in views.iter().enumerate() {
        assert!(WorkerTotals::sum([view]).replied > 0, "worker {worker} got nothing");
    }
    assert!(running.app.parked.load(Ordering::SeqCst) > 0);
}

#[test]
fn one_worker_serves_many_sockets_of_one_address() {
    // As many as a predecessor's workers had: the kernel goes on spreading clients over all.
    let running = start(1, &["127.0.0.1:0"]);
    let address = running.addresses[0];
    let port = || SocketPort::new(bind(address).unwrap()).unwrap();
    let app = Echo::new();
    let setup = WorkerSetup { ports: (0..20).map(|_| port()).collect(), app, cpu: None };
    let new_process = Workers::start(vec![setup], Arc::new(|_| {})).unwrap();
    running.workers.stop();
    for _ in 0..100 {
        assert_eq!(ask(&client(address), b"any text"), b"any text");
    }
    let counters = new_process.counters().to_vec();
    new_process.stop();
    assert_eq!(WorkerTotals::sum(&counters).replied, 100);
}

#[test]
fn idle_worker_is_parked() {
    let running = start(1, &["127.0.0.1:0"]);
    let client = client(running.addresses[0]);
    for _ in 0..3 {
        let before = running.app.parked.load(Ordering::SeqCst);
        ask(&client, b"wake up");
        wait::until_true("it parks after its answer", || {
            running.app.parked.load(Ordering::SeqCst) > before
        });
    }
}

#[test]
fn panicking_worker_is_reported_and_others_continue() {
    let running = start(2, &["127.0.0.1:0"]);
    client(running.addresses[0]).send(b"panic").unwrap();
    let failure = running.failures.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(failure.thread.starts_with("worker-"), "{failure}");
    assert!(
        matches!(&failure.cause, FailureCause::Panic(message) if message.ends_with(": told to")),
        "{failure}"
    );
    // The dead worker's socket is closed, so the other one gets everything.
    for _ in 0..8 {
        assert_eq!(ask(&client(running.addresses[0]), b"still here"), b"still here");
    }
    running.workers.stop();
}

#[test]
fn received_queries_are_answered_before_the_end() {
    let running = start(1, &["127.0.0.1:0"]);
    let client = client(running.addresses[0]);
    for _ in 0..100 {
        client.send(b"late").unwrap();
    }
    running.workers.stop();
    let mut buf = [0; 16];
    for answered in 0..100 {
        assert_eq!(client.recv(&mut buf).unwrap(), 4, "after {answered}");
    }
}

#[test]
fn worker_whose_cpu_was_taken_runs_on_another() {
    let port = SocketPort::new(bind("127.0.0.1:0".parse().unwrap()).unwrap()).unwrap();
    let client = client(port.address());
    let app = Echo::new();
    let cpu = Some(cpu::limits::CPUS_MAX - 1);
    let on_failure: OnFailure = Arc::new(|failure| panic!("{failure}"));
    let workers =
        Workers::start(vec![WorkerSetup { ports: vec![port], app, cpu }], on_failure).unwrap();
    client.send(b"there").unwrap();
    assert_eq!(client.recv(&mut [0; 16]).unwrap(), 5);
    workers.stop();
}
