//! Loads by AF_XDP, between two network namespaces.

use test_support::skip;
use test_support::spaces;
use test_support::wait;

use crate::common::{options_at, run, yes};
use lab_echo::{Echo, Model};
use lab_load::arrivals::{Arrivals, Rate, Spacing};
use lab_load::{LoadMode, Options, Path, Report};
use skip::skip;
use spaces::{Spaces, within};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MILLISECOND: u64 = 1_000_000;
/// How long what must happen may take, on a machine that does other things as well.
const PATIENCE: Duration = Duration::from_secs(20);
const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
/// Whole networks that the generator's host asks from.
const SOURCES: [&str; 2] = ["198.51.100.0/24", "2001:db8:98::/64"];
/// Names the generator's namespace to the process that is killed.
const HOST: &str = "DUNLIN_TEST_LOAD_HOST";

/// The ways to all sources; `{s}` and `{c}` are the namespaces. No adjacent host is known yet.
const ROUTES: &str = "
ip -n {s} route add 198.51.100.0/24 via 192.0.2.2
ip -n {s} route add 2001:db8:98::/64 via 2001:db8::2
ip -n {c} route add local 198.51.100.0/24 dev lo
ip -n {c} -6 route add local 2001:db8:98::/64 dev lo
ip netns exec {c} sysctl -qw net.ipv6.ip_nonlocal_bind=1
";

/// A server's host and a generator's, with a wire between them, until this is dropped.
struct Hosts(Spaces);

impl Hosts {
    /// Makes both. Needs root; where it lacks this says so loudly, or fails if nothing may be
    /// skipped.
    fn up() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip("network namespaces need root");
            return None;
        }
        let spaces = Spaces::wired("load", ["numrxqueues 2 numtxqueues 2"; 2]);
        spaces.run(ROUTES);
        Some(Self(spaces))
    }

    /// Whether a program is attached at the generator's end.
    fn has_program(&self) -> bool {
        self.0.told_by("ip -n {c} link show dev c0").unwrap().contains("prog/xdp")
    }

    fn echo(&self, ip: IpAddr, model: Model) -> Echo {
        let netns = Some(self.0.server.clone());
        let at = SocketAddr::new(ip, 5353);
        Echo::start(lab_echo::Options { netns, ..lab_echo::Options::new(at, model) }).unwrap()
    }

    fn load(&self, server: IpAddr) -> Options {
        load_from(&self.0.client, server)
    }
}

/// 10,000 queries, more than twice as many as there are frames, from several sources.
fn load_from(client: &str, server: IpAddr) -> Options {
    let sources = SOURCES[usize::from(server.is_ipv6())].parse().ok();
    Options {
        path: Path::Xdp,
        netns: Some(client.into()),
        when: LoadMode::Closed { outstanding: 64, rate_max: None },
        queries_max: Some(10_000),
        channels: 8,
        sources,
        // As long as it takes, on a machine where others may go before it for seconds.
        length_ns: 120_000 * MILLISECOND,
        timeout_ns: 60_000 * MILLISECOND,
        ..options_at(SocketAddr::new(server, 5353))
    }
}

/// Why a load cannot be run.
fn refused(options: &Options) -> String {
    lab_load::run(options, &AtomicBool::new(false), &mut |_| {}).expect_err("it cannot be run")
}

fn detoured(report: &Report) -> u64 {
    report.threads.iter().map(|thread| thread.detoured).sum()
}

#[test]
fn every_query_is_answered_by_every_echo_over_both_families() {
    let Some(hosts) = Hosts::up() else { return };
    for model in [Model::Recvmmsg, Model::AfXdp, Model::XdpTx] {
        for ip in [V4, V6] {
            let echo = hosts.echo(ip, model);
            let report = run(&hosts.load(ip));
            let counts = report.counts;
            assert_eq!((counts.sent, counts.answered), (10_000, 10_000), "{model:?}: {counts:?}");
            assert_eq!((counts.wrong, counts.unexpected), (0, 0), "{model:?}: {counts:?}");
            assert_eq!(report.threads[0].dropped, 0, "{model:?}");
            // What leaves by a queue of a pair comes by that of its number; XDP_TX goes by that of
            // its CPU, and a network stack by that of a hash.
            assert!(detoured(&report) == 0 || model != Model::AfXdp, "{:?}", report.threads);
            assert!(!hosts.has_program(), "{model:?} {ip}: the program is gone");
            echo.stop().unwrap();
        }
    }
}

#[test]
fn permanent_neighbor_entries_stay() {
    let Some(hosts) = Hosts::up() else { return };
    let told = hosts.0.told_by("ip -n {s} -o link show dev s0").unwrap();
    let address = told.split("link/ether ").nth(1).unwrap().split_whitespace().next().unwrap();
    hosts.0.run("ip -n {c} link set c0 arp off");
    hosts.0.run(&format!("ip -n {{c}} neigh add 192.0.2.1 lladdr {address} dev c0 nud permanent"));
    hosts.0.run("ip -n {s} neigh add 192.0.2.2 lladdr 02:00:00:00:00:09 dev s0 nud permanent");
    // No host is there, and no address is resolved: every frame that leaves has a target.
    let options = Options { queries_max: Some(100), timeout_ns: MILLISECOND, ..hosts.load(V4) };
    assert_eq!(run(&options).counts.timeouts, 100);
    let known = hosts.0.told_by("ip -n {c} neigh show 192.0.2.1 dev c0").unwrap();
    assert!(known.contains("PERMANENT"), "{known}");
}

#[test]
fn an_open_loop_keeps_its_plan_and_waits_without_work() {
    let Some(hosts) = Hosts::up() else { return };
    let _echo = hosts.echo(V4, Model::Recvmmsg);
    let arrivals = Arrivals { rate: Rate::Constant(500.0), spacing: Spacing::Even, burst: 1 };
    let options = Options {
        when: LoadMode::Open(arrivals),
        length_ns: 200 * MILLISECOND,
        queries_max: None,
        sources: None,
        ..hosts.load(V4)
    };
    let report = run(&options);
    assert_eq!((report.counts.planned, report.counts.answered), (100, 100), "{:?}", report.counts);
    // 60 µs before each of 100 queries are spent waking up; the rest of 200 ms is slept through.
    let used = report.threads[0].cpu_ns;
    assert!(used < 100 * MILLISECOND, "{used} ns of CPU time");
    assert!(report.times.service.min() > 0 && report.times.lateness.len() == 100);
}

#[test]
fn threads_receive_answers_of_other_queues() {
    let Some(hosts) = Hosts::up() else { return };
    let _echo = hosts.echo(V4, Model::Recvmmsg);
    let report = run(&Options { threads: 2, channels: 32, ..hosts.load(V4) });
    assert_eq!(
        (report.counts.answered, report.counts.unexpected),
        (10_000, 0),
        "{:?}",
        report.threads
    );
    assert!(report.threads.iter().all(|thread| thread.counts.answered > 0));
    let error = refused(&Options { threads: 3, ..hosts.load(V4) });
    assert!(error.contains("c0 has queues for 2 threads, not 3"), "{error}");
}

#[test]
fn answers_to_replaced_sockets_are_ignored() {
    let Some(hosts) = Hosts::up() else { return };
    let _echo = hosts.echo(V6, Model::Recvmmsg);
    let churn_ns = Some(MILLISECOND);
    let when = LoadMode::Closed { outstanding: 8, rate_max: Some(20_000.0) };
    let report = run(&Options { churn_ns, when, queries_max: Some(4_000), ..hosts.load(V6) });
    assert_eq!(
        (report.counts.answered, report.counts.unexpected),
        (4_000, 0),
        "{:?}",
        report.threads
    );
}

/// A server that gives `count` answers of this many bytes, until no query arrives for a while.
fn serve(socket: &UdpSocket, bytes: usize, count: usize) {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 512];
    for _ in 0..count {
        let Ok((len, peer)) = socket.recv_from(&mut buffer) else { return };
        let mut answer = yes(&buffer[..len]);
        answer.resize(bytes, 0);
        socket.send_to(&answer, peer).unwrap();
    }
}

#[test]
fn answers_in_fragments_come_through_the_stack() {
    let Some(hosts) = Hosts::up() else { return };
    let cases = [(V4, 1_300), (V4, 1_470), (V4, 3_000), (V6, 1_300), (V6, 3_000)];
    for (port, (ip, bytes)) in (5_353..).zip(cases) {
        // A process that another test begins meanwhile has what is open here for a moment: none
        // has the port of the one before.
        let server = SocketAddr::new(ip, port);
        let socket = within(&hosts.0.server, || UdpSocket::bind(server).unwrap());
        let report = std::thread::scope(|scope| {
            scope.spawn(|| serve(&socket, bytes, 50));
            let when = LoadMode::Closed { outstanding: 5, rate_max: None };
            run(&Options { server, queries_max: Some(50), when, ..hosts.load(ip) })
        });
        assert_eq!((report.counts.answered, report.counts.unexpected), (50, 0), "{ip} {bytes}");
        assert!(bytes < 1_400 || detoured(&report) == 50, "{ip} {bytes}: {:?}", report.threads);
    }
}

#[test]
fn other_clients_on_the_host_are_not_disturbed() {
    let Some(hosts) = Hosts::up() else { return };
    let _echo = hosts.echo(V4, Model::Recvmmsg);
    let other = within(&hosts.0.client, || UdpSocket::bind("0.0.0.0:0").unwrap());
    other.connect((V4, 5353)).unwrap();
    other.set_read_timeout(Some(PATIENCE)).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let (mut asked, mut buffer) = (0, [0; 512]);
            while !over.load(Ordering::Relaxed) || asked == 0 {
                other.send(&[&[7; 2][..], &[0; 15]].concat()).unwrap();
                assert_eq!(other.recv(&mut buffer).unwrap(), 17);
                asked += 1;
            }
        });
        let counts = run(&hosts.load(V4)).counts;
        over.store(true, Ordering::Relaxed);
        assert_eq!((counts.answered, counts.unexpected), (10_000, 0), "{counts:?}");
        asking.join().unwrap();
    });
    hosts.0.run("ip netns exec {c} ping -c 1 -W 5 192.0.2.1");
}

#[test]
fn without_a_listener_all_queries_time_out_and_frames_return() {
    let Some(hosts) = Hosts::up() else { return };
    let options = Options {
        timeout_ns: 20 * MILLISECOND,
        when: LoadMode::Closed { outstanding: 2_000, rate_max: None },
        ..hosts.load(V4)
    };
    let counts = run(&options).counts;
    assert_eq!((counts.sent, counts.answered, counts.timeouts), (10_000, 0, 10_000), "{counts:?}");
}

#[test]
fn invalid_options_are_refused_with_a_remedy() {
    let Some(hosts) = Hosts::up() else { return };
    let load = hosts.load(V4);
    let ours = SocketAddr::new("192.0.2.2".parse().unwrap(), 53);
    let error = refused(&Options { server: ours, sources: None, ..load.clone() });
    assert!(error.contains("is this host itself") && error.contains("--netns"), "{error}");
    let interface = |name: &str| Options { interface: Some(name.into()), ..load.clone() };
    let error = refused(&interface("nosuch0"));
    assert!(error.contains("no interface \"nosuch0\""), "{error}");
    assert!(refused(&interface("lo")).contains("does not carry Ethernet"), "{error}");
    let unreachable = SocketAddr::new("192.0.2.9".parse().unwrap(), 53);
    let error = refused(&Options { server: unreachable, ..load.clone() });
    assert!(error.contains("192.0.2.9 does not tell its link address on c0"), "{error}");
    let unreachable = SocketAddr::new("203.0.113.1".parse().unwrap(), 53);
    let error = refused(&Options { server: unreachable, sources: None, ..load.clone() });
    assert!(error.contains("203.0.113.1"), "{error}");
    assert!(!hosts.has_program(), "nothing stays of what failed");
    let _theirs = within(&hosts.0.client, || {
        let interface = port_xdp::Interface::find("c0").unwrap();
        port_xdp::FilterProgram::attach(&interface, &port_xdp::FilterRules::default()).unwrap()
    });
    let error = refused(&load);
    assert!(error.contains("another XDP program is attached to c0"), "{error}");
}

#[test]
fn a_killed_generator_leaves_no_program() {
    if let Ok(client) = std::env::var(HOST) {
        // This process is the generator.
        let load = load_from(&client, V4);
        run(&Options { queries_max: None, length_ns: 60_000 * MILLISECOND, ..load });
        panic!("it was not killed");
    }
    let Some(hosts) = Hosts::up() else { return };
    let echo = hosts.echo(V4, Model::Recvmmsg);
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "xdp::a_killed_generator_leaves_no_program"])
        .env(HOST, &hosts.0.client)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let until = |is: bool| wait::until_eq("a program is attached", || hosts.has_program(), is);
    until(true);
    wait::until_true("it generates", || echo.snapshot().total().received > 0);
    victim.kill().unwrap();
    let ended = victim.wait().unwrap();
    assert_eq!(ended.signal(), Some(9), "it generated until it was killed: {ended}");
    until(false);
    // The interface works on, and the next one finds it free.
    let counts = run(&hosts.load(V4)).counts;
    assert_eq!(counts.answered, 10_000, "{counts:?}");
}
