//! `dunlin-lab echo` as a command: its processes and threads, what it writes, and how it ends.

use test_support::ports;
use test_support::wait;

use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

/// How long what must happen may take, on a machine that does other things as well.
const PATIENCE: Duration = Duration::from_secs(20);

fn address() -> SocketAddr {
    ports::free_address(Ipv4Addr::LOCALHOST).into()
}

fn command(listen: SocketAddr, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dunlin-lab"));
    command.args(["echo", "--listen", &listen.to_string()]).args(words.split_whitespace());
    command
}

/// A running echo that writes JSON.
struct Echo {
    child: Child,
    out: BufReader<ChildStdout>,
    listen: SocketAddr,
    header: Value,
}

impl Echo {
    fn start(words: &str) -> Self {
        let listen = address();
        let mut command = command(listen, words);
        let child = command.args(["-o", "json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut echo = Self { child, out, listen, header: Value::Null };
        echo.header = echo.line();
        assert_eq!(echo.header["type"], "header");
        echo
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    fn signal(&self, signal: &str) {
        kill(signal, self.child.id());
    }

    fn processes(&self) -> Vec<u32> {
        let id = self.child.id();
        let path = format!("/proc/{id}/task/{id}/children");
        let text = std::fs::read_to_string(path).unwrap();
        text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }

    /// Waits for its end: the status, what it still wrote, and what it complained of.
    fn end(mut self) -> (Option<i32>, Vec<Value>, String) {
        let (mut rest, mut errors) = (String::new(), String::new());
        self.out.read_to_string(&mut rest).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        let status = self.child.wait().unwrap().code();
        (status, rest.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), errors)
    }
}

fn kill(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

/// Asks from `count` sockets once each; all must be answered.
fn ask(server: SocketAddr, count: usize) {
    let clients: Vec<_> = (0..count).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    for client in &clients {
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.send_to(b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\0", server).unwrap();
    }
    for client in &clients {
        let mut buffer = [0; 64];
        let (len, from) = client.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..len], from), (&b"\x12\x34\x81\x00\0\x01\0\0\0\0\0\0"[..], server));
    }
}

/// Waits until none of these is there any more.
fn assert_gone(processes: &[u32]) {
    let is_there = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // A process that has ended is a zombie until its parent collects it.
        !status.is_empty() && !status.contains(") Z ")
    };
    let left = || processes.iter().filter(|pid| is_there(pid)).collect::<Vec<_>>();
    wait::until_value("no process is left", left, Vec::is_empty);
}

#[test]
fn processes_and_threads_share_the_work_and_add_up() {
    for (words, signal) in [("", "-TERM"), ("--shared", "-INT"), ("--model epoll", "-HUP")] {
        let mut echo = Echo::start(&format!("--processes 2 --threads 2 -i 100ms {words}"));
        assert_eq!((&echo.header["processes"], &echo.header["threads"]), (&2.into(), &2.into()));
        ask(echo.listen, 64);
        assert_eq!(echo.line()["type"], "stats_periodic");
        let processes = echo.processes();
        assert_eq!(processes.len(), 2);
        echo.signal(signal);
        let (status, lines, errors) = echo.end();
        assert_eq!((status, errors.as_str()), (Some(0), ""), "{words} {signal}");
        assert_gone(&processes);
        let sum = lines.last().unwrap();
        assert_eq!((&sum["type"], &sum["queries"]), (&"stats_sum".into(), &64.into()), "{sum}");
        let threads = sum["threads"].as_array().unwrap();
        let places: BTreeSet<_> = threads
            .iter()
            .map(|thread| (thread["process"].as_u64(), thread["thread"].as_u64()))
            .collect();
        assert_eq!(places.len(), 4, "{sum}");
        let responses = threads.iter().map(|thread| thread["responses"].as_u64().unwrap());
        assert_eq!(responses.sum::<u64>(), 64, "{sum}");
        assert!(sum["cpu_ns"].as_u64().unwrap() > 0, "{sum}");
    }
}

#[test]
fn the_intervals_add_up_to_the_sum() {
    let echo = Echo::start("--seconds 1 -i 300ms");
    ask(echo.listen, 20);
    let (status, mut lines, _) = echo.end();
    assert_eq!(status, Some(0));
    let sum = lines.pop().unwrap();
    let of = |line: &Value| line["responses"].as_u64().unwrap();
    assert!((3..=5).contains(&lines.len()), "{lines:?}");
    assert_eq!((lines.iter().map(of).sum::<u64>(), of(&sum)), (20, 20));
}

#[test]
fn death_of_one_process_ends_the_echo_with_an_error() {
    let echo = Echo::start("--processes 3");
    let processes = echo.processes();
    kill("-KILL", processes[1]);
    let (status, _, errors) = echo.end();
    assert_eq!(status, Some(1), "{errors}");
    let wanted = format!("process 1 (PID {}) died: killed by signal 9", processes[1]);
    assert!(errors.contains(&wanted), "{errors}");
    assert_gone(&processes);
}

#[test]
fn nothing_is_left_when_it_is_killed() {
    let echo = Echo::start("--processes 2 --model spin");
    let processes = echo.processes();
    assert_eq!(processes.len(), 2);
    echo.signal("-KILL");
    assert_eq!(echo.end().0, None);
    assert_gone(&processes);
}

fn run(words: &str) -> Output {
    command(address(), words).output().unwrap()
}

#[test]
fn invalid_options_are_refused_with_a_remedy() {
    for (words, status, told) in [
        ("--cpus 0-1023", 2, "is not one that this process may use"),
        ("--batch 2 --model blocking", 2, "a batch of 1; leave it out"),
        ("--threads 0", 2, "at least one thread"),
        ("--netns no-such-one", 2, "`ip netns list` shows those there are"),
        ("--model af_packet", 2, "possible values: blocking, spin, recvmmsg"),
        ("--receive-buffer 4", 2, "expected a size such as"),
        ("--busy-poll 4", 2, "expected a time such as"),
    ] {
        let output = run(words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words}: {errors}");
        assert!(errors.contains(told), "{words}: {errors}");
        assert!(output.stdout.is_empty(), "{words}");
    }
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let output = command(taken.local_addr().unwrap(), "").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("ss -lunp"), "{output:?}");
}

#[test]
fn without_a_terminal_lines_and_options_are_written() {
    let output = run("--seconds 1 -i 400ms --threads 2 --spin-ns 5000 --receive-buffer 64KiB");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains('\u{1b}'), "{text}");
    for part in [
        "by recvmmsg: processes: 1, threads of each: 2, a socket each",
        "queues of 64.0 KiB",
        "made slow: spends 5 µs on each query",
        " SECONDS  RECEIVED/s  ANSWERED/s",
        "\n     0.4           0           0",
        "answered 0 of 0 received in 1.0 s: 0 a second",
        "CPU time of its threads: 0.0",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn on_a_terminal_it_writes_a_table_over_itself() {
    let made = Command::new("script").arg("--version").stdout(Stdio::null()).status();
    if let Err(why) = &made {
        assert!(std::env::var_os("DUNLIN_REQUIRE_ALL").is_none(), "script: {why}");
        eprintln!("SKIPPED: script is not installed (bsdutils): {why}");
        return;
    }
    let echo = format!(
        "stty cols 80 rows 8; {} echo --listen {} --threads 9 --seconds 1 -i 300ms",
        env!("CARGO_BIN_EXE_dunlin-lab"),
        address()
    );
    let output = Command::new("script")
        .args(["--quiet", "--return", "--flush", "--command", &echo, "/dev/null"])
        .env("TERM", "xterm-256color")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    // Eight rows: a head, four threads, how many are not shown, all together, and the cursor's.
    assert!(text.matches("\u{1b}[7A\u{1b}[J").count() >= 2, "{text:?}");
    assert!(text.contains("… and 5 more"), "{text:?}");
    assert!(text.contains("answered 0 of 0 received"), "{text:?}");
}
