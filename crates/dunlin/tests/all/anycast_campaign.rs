//! `make campaign-anycast`: servers with announced addresses that end, hang or are flooded, many
//! times.
use crate::anycast_bed::{ADDRESSES, Bed, GONE_MAX, SILENT_MAX, missing, server, signal};
use crate::served::{Process, Served, query};
use rustix::process::Signal;
use std::env;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};
use test_support::spaces::within;
use test_support::thread::StoppedThread;
use test_support::wait;

/// An orderly daemon withdraws in that time after `kill -9`.
const KILLED_P99: Duration = Duration::from_millis(100);
/// The kernel removes the routes of a killed keeper, and BIRD looks each second.
const SCANNED_MAX: Duration = Duration::from_secs(2);
/// Offered queries for each answered one.
const FLOOD: u64 = 3;

/// A number from the environment.
pub fn number(variable: &str, default: usize) -> usize {
    env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

/// How long withdrawals and announcements took.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted[(sorted.len() * percent).div_ceil(100) - 1]
    }

    fn print(&self, what: &str) {
        let [p50, p99, most] = [50, 99, 100].map(|percent| self.percentile(percent).as_millis());
        let count = self.0.len();
        println!("{what}: {count} times, p50 {p50} ms, p99 {p99} ms, most {most} ms");
    }
}

/// Ends or hangs a server so often, and waits until it announces again.
fn repeat(
    bed: &mut Bed,
    what: &str,
    times: usize,
    mut act: impl FnMut(&mut Bed) -> Duration,
) -> Times {
    let (mut withdrawn, mut announced) = (Times::default(), Times::default());
    for _ in 0..times {
        withdrawn.0.push(act(bed));
        announced.0.push(bed.wait_for_routes(2, "announced again"));
    }
    withdrawn.print(&format!("{what}: withdrawn at the neighbor"));
    announced.print(&format!("{what}: announced again"));
    withdrawn
}

fn start(bed: &mut Bed) {
    bed.served = Served::spawn(&mut server(&bed.spaces.server), &bed.folder);
}

#[test]
#[ignore = "campaign: make campaign-anycast-ends"]
fn servers_that_end_or_hang_are_withdrawn_each_time() {
    assert_eq!(missing(), None);
    let (kills, hangs) = (number("DUNLIN_KILLS", 50), number("DUNLIN_HANGS", 20));
    let mut bed = Bed::start("anycast-ends", "hold_down = \"1s\"");
    let killed = repeat(&mut bed, "kill -9", kills, |bed| {
        bed.served.child.kill().expect("it runs");
        let took = bed.wait_for_routes(0, "withdrawn");
        start(bed);
        took
    });
    let stopped = repeat(&mut bed, "SIGSTOP", hangs, |bed| {
        bed.served.signal(Signal::STOP);
        let took = bed.wait_for_routes(0, "withdrawn");
        bed.served.signal(Signal::CONT);
        took
    });
    let wedged = repeat(&mut bed, "a worker that hangs", hangs, |bed| {
        let hung = StoppedThread::stop(bed.served.child.id(), "worker-0");
        let took = bed.wait_for_routes(0, "withdrawn");
        drop(hung);
        // It would be held down longer each time.
        bed.served.child.kill().expect("it runs");
        bed.served.status();
        start(bed);
        took
    });
    let keeper = repeat(&mut bed, "keeper killed", hangs, |bed| {
        let (_, keeper) = wait::until("starter and keeper", || bed.processes());
        signal(keeper, Signal::KILL);
        bed.wait_for_routes(0, "withdrawn")
    });
    assert!(killed.percentile(99) <= KILLED_P99, "kill -9");
    assert!(killed.percentile(100) <= GONE_MAX, "kill -9");
    for times in [stopped, wedged] {
        assert!(times.percentile(100) <= SILENT_MAX, "{:?}", times.0);
    }
    assert!(keeper.percentile(100) <= SCANNED_MAX, "{:?}", keeper.0);
}

/// What the kernel reports of addresses and routes.
struct Monitor {
    lines: Receiver<String>,
    _process: Process,
}

impl Monitor {
    fn start(bed: &Bed) -> Self {
        let mut command = Command::new("ip");
        command.args(["-n", &bed.spaces.server, "monitor", "address", "route"]);
        let mut process = command.stdout(Stdio::piped()).spawn().expect("ip runs");
        let (sender, lines) = channel();
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        thread::spawn(move || {
            output.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        let monitor = Self { lines, _process: Process(process) };
        wait::until("the monitor reports", || {
            for act in ["add", "del"] {
                bed.spaces.run(&format!("ip -n {{s}} addr {act} 203.0.113.1/32 dev lo"));
            }
            monitor.lines.try_recv().ok()
        });
        monitor
    }

    /// Reads until both addresses have a route in the table. Panics if one comes before its
    /// address.
    fn expect_addresses_first(&self) {
        let (mut on_interface, mut in_table) = ([false; 2], [false; 2]);
        while in_table != [true; 2] {
            let line = self.lines.recv_timeout(wait::deadline()).expect("a report");
            let Some(nth) = ADDRESSES.iter().position(|one| line.contains(one)) else { continue };
            if line.contains(" inet") {
                on_interface[nth] = !line.starts_with("Deleted");
            } else if line.contains("table 153") && !line.starts_with("Deleted") {
                assert!(on_interface[nth], "{line} before its address");
                in_table[nth] = true;
            }
        }
    }
}

#[test]
#[ignore = "campaign: make campaign-anycast-left"]
fn nothing_is_left_and_addresses_come_before_routes_each_time() {
    assert_eq!(missing(), None);
    let times = number("DUNLIN_KILLS", 100);
    let mut bed = Bed::start("anycast-left", "");
    for _ in 0..times {
        let (starter, keeper) = wait::until("starter and keeper", || bed.processes());
        let server = bed.served.child.id();
        [server, starter, keeper].into_iter().for_each(|pid| signal(pid, Signal::KILL));
        bed.expect_nothing_left((starter, keeper));
        bed.wait_for_routes(0, "withdrawn");
        for address in ADDRESSES {
            bed.spaces.run(&format!("ip -n {{s}} addr del {address} dev lo"));
        }
        let monitor = Monitor::start(&bed);
        start(&mut bed);
        monitor.expect_addresses_first();
        bed.wait_for_routes(2, "announced");
    }
    println!("all processes killed {times} times: nothing left, each address before its route");
}

/// The responses that the server has sent, and its withdrawals.
fn replied(bed: &Bed) -> (u64, u64) {
    let (_, status) = bed.status();
    let threads = status["threads"].as_array().expect("threads");
    let replied = threads.iter().filter_map(|thread| thread["replied"].as_u64()).sum();
    (replied, status["anycast"]["withdrawals"].as_u64().expect("a number"))
}

#[test]
#[ignore = "campaign: make campaign-anycast-flood"]
fn flood_withdraws_nothing() {
    assert_eq!(missing(), None);
    let length = Duration::from_secs(number("DUNLIN_SECONDS", 60) as u64);
    let bed = Bed::start("anycast-flood", "");
    let (updates, (before, _)) = (bed.updates(), replied(&bed));
    let at: SocketAddr = format!("{}:53", ADDRESSES[0]).parse().expect("an address");
    let begun = Instant::now();
    let flood = || {
        let message = query("ns.a.test");
        let mut sent = 0_u64;
        within(&bed.spaces.client, || {
            let sockets: Vec<UdpSocket> = (0..16)
                .map(|_| UdpSocket::bind("192.0.2.2:0").expect("a socket"))
                .inspect(|socket| socket.connect(at).expect("a route"))
                .collect();
            while begun.elapsed() < length {
                // A full queue drops; that is the flood's own.
                sent +=
                    sockets.iter().filter(|socket| socket.send(&message).is_ok()).count() as u64;
            }
        });
        sent
    };
    let sent: u64 = thread::scope(|scope| {
        let senders = [scope.spawn(flood), scope.spawn(flood)];
        senders.into_iter().map(|sender| sender.join().expect("it ends")).sum()
    });
    let (after, withdrawals) = replied(&bed);
    let answered = after - before;
    let seconds = begun.elapsed().as_secs().max(1);
    println!(
        "flood: {} queries/s offered, {} answered, {withdrawals} withdrawals",
        sent / seconds,
        answered / seconds
    );
    assert!(sent >= FLOOD * answered, "no flood: {sent} sent, {answered} answered");
    assert_eq!((withdrawals, bed.routes(), bed.updates()), (0, 2, updates));
}
