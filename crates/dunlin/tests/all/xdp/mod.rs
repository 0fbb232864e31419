//! A server on AF_XDP, queried from the other end of a pair of interfaces. Needs root.
mod dispatcher;

use crate::pair::{Wire, is_root};
use crate::served::zone;
use crate::served::{HEAD, NOERROR, Served, ask, ask_over_tcp, binary, holds, query, rcode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use test_support::wait;

const AT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 53);
/// The begin of the section of the server.
const XDP: &str = "port = \"xdp\"\nlisten = [\"192.0.2.1:53\"]\nuser = \"65534\"\n\
                   group = \"65534\"\nxdp.interface = \"s0\"\n";

/// The section of the metrics.
const OPS: &str = "[ops]\nlisten = \"127.0.0.1:9153\"\n";

fn folder(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("dunlin-{test}-{}", std::process::id()))
}

/// The server keeps the privileges of the start.
fn as_root() -> String {
    XDP.replace("user = \"65534\"\ngroup = \"65534\"\n", "")
}

/// Starts a server in the server's namespace, with these keys first.
fn serve(wire: &Wire, folder: &Path, keys: &str) -> Served {
    serve_by(&mut wire.command(&program()), folder, keys)
}

fn program() -> String {
    binary().get_program().to_str().expect("a path").to_owned()
}

fn serve_by(command: &mut Command, folder: &Path, keys: &str) -> Served {
    let config = keys.replace("xdp.interface", "\n[xdp]\ninterface")
        + &format!("[admin]\nsocket = \"{}\"\n", folder.join("admin").display())
        + &zone("a.test");
    Served::start_by(command, folder, &config, &[("a.test.zone", HEAD)])
}

fn status(folder: &Path) -> Value {
    let socket = folder.join("admin");
    let asked = Command::new(binary().get_program())
        .args(["status", "-o", "json", "--socket"])
        .arg(socket)
        .output()
        .expect("it runs");
    serde_json::from_slice(&asked.stdout).expect("a status")
}

fn metrics(wire: &Wire) -> String {
    wire.in_server(|| {
        let mut stream = TcpStream::connect("127.0.0.1:9153").expect("connected");
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("metrics");
        text
    })
}

/// The niceness of threads whose names begin so, once there are any: a thread sets its own name.
fn nicenesses(served: &Served, name: &str) -> Vec<i64> {
    // The seventeenth field after the name (proc_pid_stat(5)).
    let nice = |stat: &str| stat.rsplit(") ").next()?.split(' ').nth(16)?.parse().ok();
    let found = || -> Vec<_> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", served.child.id()));
        let tasks = tasks.expect("threads").flatten();
        let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
        let of_name = stats.filter(|stat| stat.contains(&format!("({name}")));
        of_name.map(|stat| nice(&stat).expect("a niceness")).collect()
    };
    wait::until_value(&format!("threads {name}"), found, |found| !found.is_empty())
}

fn is_answer(reply: &[u8]) -> bool {
    rcode(reply) == NOERROR && holds(reply, &[192, 0, 2, 1])
}

#[test]
fn query_on_af_xdp_is_answered() {
    if !is_root() {
        return;
    }
    let (wire, folder) = (Wire::new(), folder("xdp"));
    let mut served = serve(&wire, &folder, &(XDP.to_owned() + OPS));
    assert!(served.start.iter().any(|line| line.contains("AF_XDP attached")));
    for _ in 0..10 {
        assert!(is_answer(&wire.in_client(|| ask(AT, "ns.a.test"))));
    }
    assert!(is_answer(&wire.in_client(|| ask_over_tcp(AT, "ns.a.test"))));
    wire.ping("192.0.2.1");
    let status = status(&folder);
    let xdp = &status["xdp"];
    assert_eq!((&xdp["interface"], &xdp["mode"]), (&"s0".into(), &"native".into()));
    assert_eq!(xdp["failed"], Value::Null);
    assert_eq!((&xdp["passed"]["taken"], &xdp["passed"]["unchecked"]), (&10.into(), &0.into()));
    assert!(xdp["queues"][0]["lost"].as_object().expect("counts").values().all(|n| *n == 0));
    let metrics = metrics(&wire);
    for line in [
        "dunlin_xdp_state{interface=\"s0\",mode=\"native\"} 1",
        "dunlin_xdp_packets_total{interface=\"s0\",result=\"taken\"} 10",
        "dunlin_xdp_lost_total{interface=\"s0\",queue=\"0\",reason=\"ring_full\"} 0",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
    assert!(wire.has_program());
    served.end();
    assert!(!wire.has_program());
    let _ = std::fs::remove_dir_all(folder);
}

/// Workers run before the kernel's receiving threads while there are queues; other threads do not.
#[test]
fn workers_have_the_configured_niceness() {
    if !is_root() {
        return;
    }
    let as_root = as_root();
    let elsewhere = as_root.replace("\"s0\"", "\"lo\"");
    let other = format!("{as_root}nice = -3\n");
    for (keys, wanted) in [(&as_root, -10), (&other, -3), (&elsewhere, 0)] {
        let (wire, folder) = (Wire::new(), folder("xdp-nice"));
        let served = serve(&wire, &folder, keys);
        assert!(nicenesses(&served, "worker-").iter().all(|nice| *nice == wanted));
        assert!(nicenesses(&served, "streams-").iter().all(|nice| *nice == 0));
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// If the kernel shares CPUs between sessions, a server that leads its session raises the
/// session's share; in another process's session it only warns. A leader outside of the server's
/// PID namespace has no number there. In the session of the first process, as in CI, there is no
/// share.
#[test]
fn leader_of_a_session_raises_its_share() {
    let enabled = "/proc/sys/kernel/sched_autogroup_enabled";
    let before = std::fs::read_to_string(enabled).unwrap_or_default();
    if !is_root() || before.is_empty() {
        return; // a kernel that shares between threads alone
    }
    std::fs::write(enabled, "1").expect("root may");
    let starters = [&["setsid"][..], &["env"], &["unshare", "--pid", "--fork", "--kill-child"]];
    let groups = starters.map(|starter| {
        let (wire, folder) = (Wire::new(), folder("xdp-session"));
        let mut command = wire.command(starter[0]);
        command.args(&starter[1..]).arg(program());
        let served = serve_by(&mut command, &folder, &as_root());
        let told = served.start.iter().any(|line| line.contains("only within this session"));
        let group = std::fs::read_to_string(format!("/proc/{}/autogroup", served.child.id()));
        let _ = std::fs::remove_dir_all(folder);
        (group.expect("a group"), told)
    });
    std::fs::write(enabled, before).expect("as it was");
    let [(own, of_own), others @ ..] = &groups;
    assert!(own.trim_end().ends_with(" nice -10") && !of_own, "{groups:?}");
    for (shared, of_shared) in others {
        assert!(shared.is_empty() || shared.trim_end().ends_with(" nice 0"), "{groups:?}");
        assert_eq!(*of_shared, !shared.is_empty(), "{groups:?}");
    }
}

#[test]
fn listed_queues_are_distributed_to_the_workers() {
    if !is_root() {
        return;
    }
    // Sixty-four clients; the kernel spreads them over both queues.
    for (keys, queues) in [("", vec![0, 1]), ("queues = \"1\"\n", vec![1])] {
        let (wire, folder) = (Wire::with_queues(2, 2), folder("xdp-queues"));
        let _served = serve(&wire, &folder, &(XDP.to_owned() + keys));
        for _ in 0..64 {
            assert!(is_answer(&wire.in_client(|| ask(AT, "ns.a.test"))));
        }
        let status = status(&folder);
        let xdp = &status["xdp"];
        let served = xdp["queues"].as_array().expect("queues").iter();
        assert_eq!(served.map(|of| of["queue"].clone()).collect::<Vec<_>>(), queues);
        let [taken, left] =
            ["taken", "socket"].map(|of| xdp["passed"][of].as_u64().expect("a count"));
        assert_eq!(taken + left, 64);
        assert!(taken > 0 && (left == 0) == (queues.len() == 2), "{taken} {left}");
        if left == 0 {
            let workers = status["threads"].as_array().expect("threads").iter().take(2);
            assert!(
                workers.map(|of| of["received"].as_u64()).all(|count| count > Some(0)),
                "{status}"
            );
        }
        let _ = std::fs::remove_dir_all(folder);
    }
}

#[test]
fn interface_without_af_xdp_is_served_by_sockets_with_a_reason() {
    if !is_root() {
        return;
    }
    let (wire, folder) = (Wire::new(), folder("xdp-none"));
    let served = serve(&wire, &folder, &(XDP.replace("\"s0\"", "\"lo\"") + OPS));
    assert!(served.start.iter().any(|line| line.contains("only sockets serve")));
    assert!(is_answer(&wire.in_client(|| ask(AT, "ns.a.test"))));
    let xdp = &status(&folder)["xdp"];
    let failed = xdp["failed"].as_str().expect("a reason");
    assert!(failed.contains("lower its MTU"), "{failed}");
    let line = "dunlin_xdp_state{interface=\"lo\",mode=\"socket\"} 1";
    assert!(metrics(&wire).contains(line));
    drop(served);
    // Another program is attached; once it is gone, a reload is enough.
    let other = wire.in_server(|| {
        let interface = port_xdp::Interface::find("s0").expect("an interface");
        port_xdp::FilterProgram::attach(&interface, &port_xdp::FilterRules::default())
            .expect("attached")
    });
    let served = serve(&wire, &folder, &as_root());
    let failed = status(&folder)["xdp"]["failed"].to_string();
    assert!(failed.contains("another XDP program is attached to s0"), "{failed}");
    assert!(is_answer(&wire.in_client(|| ask(AT, "ns.a.test"))));
    drop(other);
    served.signal(Signal::HUP);
    served.expect_line("AF_XDP attached", "s0");
    assert!(is_answer(&wire.in_client(|| ask(AT, "ns.a.test"))));
    assert_eq!(status(&folder)["xdp"]["passed"]["taken"], 1);
    let _ = std::fs::remove_dir_all(folder);
}

/// Clients that send one query after another, until they are stopped.
struct Load {
    stop: Arc<AtomicBool>,
    /// Correctly answered queries so far.
    answered: Arc<AtomicU64>,
    clients: Vec<JoinHandle<[u64; 3]>>,
}

impl Load {
    fn start(wire: &Wire) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let client = |number: u8| {
            let socket = wire.client(AT);
            let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
            // A slow reply is not a lost one.
            socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
            std::thread::spawn(move || ask_on(&socket, number, &stop, &answered))
        };
        let clients = (0..2).map(client).collect();
        Self { clients, stop: Arc::clone(&stop), answered: Arc::clone(&answered) }
    }

    /// Waits for this many more answers.
    fn wait(&self, more: u64) {
        let wanted = self.answered.load(Ordering::Relaxed) + more;
        let answered = || self.answered.load(Ordering::Relaxed);
        wait::until_value(&format!("{wanted} answers"), answered, |count| *count >= wanted);
    }

    /// Queries that were answered correctly, wrongly, and not at all.
    fn stop(self) -> [u64; 3] {
        self.stop.store(true, Ordering::Relaxed);
        let counts = self.clients.into_iter().map(|client| client.join().expect("it ends"));
        counts.fold([0; 3], |sum, of| std::array::from_fn(|n| sum[n] + of[n]))
    }
}

fn ask_on(socket: &UdpSocket, number: u8, stop: &AtomicBool, answered: &AtomicU64) -> [u64; 3] {
    let (mut counts, mut id) = ([0; 3], 0u8);
    let mut reply = [0; 512];
    while !stop.load(Ordering::Relaxed) {
        id = id.wrapping_add(1);
        let mut question = query("ns.a.test");
        question[..2].copy_from_slice(&[number, id]);
        // A late reply to an earlier query is skipped.
        let asked = socket.send(&question).and_then(|_| {
            let mut heard = socket.recv(&mut reply);
            while heard.is_ok() && reply[..2] != [number, id] {
                heard = socket.recv(&mut reply);
            }
            heard
        });
        let outcome = match asked {
            Ok(len) if !is_answer(&reply[..len]) => 1,
            Ok(_) => 0,
            Err(_) => 2,
        };
        counts[outcome] += 1;
        answered.fetch_add(u64::from(outcome == 0), Ordering::Relaxed);
    }
    counts
}

/// A TCP stream of iperf3 through the interface.
struct Stream {
    server: Child,
    client: Child,
}

impl Stream {
    fn start(wire: &Wire) -> Option<Self> {
        if Command::new("iperf3").arg("-v").output().is_err() {
            crate::pair::skip("no iperf3 beside it (Debian: apt install iperf3)");
            return None;
        }
        let quiet = |command: &mut Command| {
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("iperf3")
        };
        let server = quiet(wire.command("iperf3").arg("-s"));
        // A client that only connects is dropped by iperf3.
        let connect = || wire.in_client(|| TcpStream::connect("192.0.2.1:5201"));
        wait::until_ok("iperf3 listens", connect);
        // Limited, so that queries get their share of the machine.
        let words = ["-c", "192.0.2.1", "-t", "3600", "-b", "50M", "-J"];
        Some(Self { server, client: quiet(wire.client_command("iperf3").args(words)) })
    }

    /// Ends it; returns the transferred bytes.
    fn stop(mut self) -> u64 {
        assert!(self.client.try_wait().expect("a child").is_none(), "it was cut");
        kill_process(Pid::from_child(&self.client), Signal::INT).expect("it runs");
        let output = self.client.wait_with_output().expect("it ends");
        let _ = self.server.kill().and_then(|()| self.server.wait().map(drop));
        let told: Value = serde_json::from_slice(&output.stdout).expect("a report");
        let sum = told["end"]["sum_received"]["bytes"].as_u64().unwrap_or_default();
        sum.max(told["end"]["sum_sent"]["bytes"].as_u64().unwrap_or_default())
    }
}

/// A number from an environment variable of a campaign, or the default.
fn times(variable: &str, otherwise: u32) -> u32 {
    let told = std::env::var(variable).ok().map(|count| count.parse().expect("a number"));
    told.unwrap_or(otherwise)
}

/// The kernel's objects of a program: itself and its tables.
fn things_of(program: &str) -> Vec<[String; 2]> {
    let output = bpftool(&["-j", "prog", "show", "id", program]);
    let told: Value = serde_json::from_slice(&output.stdout).expect("bpftool tells");
    let maps = told["map_ids"].as_array().expect("tables").iter();
    let maps = maps.map(|id| ["map".to_owned(), id.to_string()]);
    [["prog".to_owned(), program.to_owned()]].into_iter().chain(maps).collect()
}

fn bpftool(words: &[&str]) -> std::process::Output {
    let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new("bpftool").args(words).env("PATH", path).output();
    output.expect("bpftool is there (Debian: apt install bpftool)")
}

/// Waits until the kernel has freed these objects and the sockets, which it does in the background.
fn expect_gone<'a>(wire: &Wire, things: impl Iterator<Item = &'a [String; 2]> + Clone) {
    let is_there = |[kind, id]: &[String; 2]| bpftool(&[kind, "show", "id", id]).status.success();
    let left = || {
        let things: Vec<_> = things.clone().filter(|thing| is_there(thing)).collect();
        (wire.sockets(), things)
    };
    wait::until_value("nothing is left in the kernel", left, |(sockets, things)| {
        *sockets == 0 && things.is_empty()
    });
}

fn files_of(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).expect("its files").count()
}

#[test]
fn interface_is_attached_and_detached_while_dunlin_serves() {
    if !is_root() {
        return;
    }
    let (wire, folder) = (Wire::new(), folder("xdp-hot"));
    let mut served = serve(&wire, &folder, &as_root());
    let file = folder.join("dunlin.toml");
    let with = std::fs::read_to_string(&file).expect("the config");
    let without = with.replace("port = \"xdp\"", "port = \"socket\"");
    let (load, stream) = (Load::start(&wire), Stream::start(&wire));
    let mut files = Vec::new();
    for round in 0..times("DUNLIN_ATTACHES", 6) {
        let program = wire.program().expect("attached");
        let things = things_of(&program);
        assert_eq!(wire.sockets(), 1);
        std::fs::write(&file, &without).expect("written");
        served.signal(Signal::HUP);
        served.expect_line("reloaded", "server.port");
        assert!(!wire.has_program(), "round {round}");
        expect_gone(&wire, things.iter());
        files.push(files_of(served.child.id()));
        assert_eq!(status(&folder)["xdp"], Value::Null);
        wire.ping("192.0.2.1");
        assert!(is_answer(&wire.in_client(|| ask(AT, "ns.a.test"))));
        std::fs::write(&file, &with).expect("written");
        served.signal(Signal::HUP);
        served.expect_line("reloaded", "server.port");
        assert!(wire.has_program(), "round {round}: {}", status(&folder)["xdp"]);
        wire.ping("192.0.2.1");
        assert!(is_answer(&wire.in_client(|| ask_over_tcp(AT, "ns.a.test"))));
        assert!(is_answer(&wire.in_client(|| ask(AT, "ns.a.test"))));
    }
    assert!(files.iter().all(|count| count.abs_diff(files[0]) <= 2), "{files:?}");
    let [answered, wrong, lost] = load.stop();
    eprintln!("attached and detached: {answered} answered, {wrong} wrong, {lost} not at all");
    let changes = 2 * files.len() as u64;
    // Queries in the device's queue may be lost when a program is attached or detached.
    assert!(answered > 1_000 && wrong == 0 && lost <= 2 * changes, "{answered} {wrong} {lost}");
    assert!(stream.is_none_or(|stream| stream.stop() > 1_000_000));
    served.signal(Signal::INT);
    served.status();
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn passed_traffic_never_breaks_however_the_server_ends() {
    if !is_root() {
        return;
    }
    let (wire, folder) = (Wire::new(), folder("xdp-kill"));
    let (load, stream) = (Load::start(&wire), Stream::start(&wire));
    for round in 0..=times("DUNLIN_KILLS", 3) {
        let mut served = serve(&wire, &folder, XDP);
        assert!(is_answer(&wire.in_client(|| ask(AT, "ns.a.test"))));
        let things = things_of(&wire.program().expect("attached"));
        wire.ping("192.0.2.1");
        load.wait(50);
        // The first server ends by SIGTERM, the others are killed.
        served.signal(if round == 0 { Signal::INT } else { Signal::KILL });
        served.status();
        assert!(!wire.has_program(), "round {round}");
        expect_gone(&wire, things.iter());
        wire.ping("192.0.2.1");
    }
    let [answered, wrong, lost] = load.stop();
    eprintln!("killed: {answered} answered, {wrong} wrong, {lost} not at all");
    assert!(answered > 100 && wrong == 0, "{answered} answered, {wrong} wrong");
    assert!(stream.is_none_or(|stream| stream.stop() > 1_000_000));
    let _ = std::fs::remove_dir_all(folder);
}
