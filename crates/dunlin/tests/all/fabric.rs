//! `dunlin fabric` as a command, between network namespaces.
use crate::served::binary;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use test_support::skip::skip;
use test_support::spaces::{Lan, Spaces, within};
use test_support::wait;

/// CAP_NET_ADMIN, CAP_SYS_PTRACE, CAP_SYS_ADMIN and CAP_BPF (`linux/capability.h`).
const FOLLOW: u64 = 1 << 12 | 1 << 19 | 1 << 21 | 1 << 39;

/// A command that watches, and ends with this.
struct Watching {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Watching {
    fn start(lan: &Lan, arguments: &[&str]) -> Self {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &lan.switch]).arg(env!("CARGO_BIN_EXE_dunlin"));
        command.args(["fabric", "watch", "-o", "json", "--interval", "100ms"]).args(arguments);
        let mut child = command.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    fn report(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Its effective capabilities.
    fn capabilities(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let hex = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        u64::from_str_radix(hex.trim(), 16).unwrap()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // SIGKILL.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn is_root() -> bool {
    if !rustix::process::geteuid().is_root() {
        skip("it needs root");
        return false;
    }
    true
}

fn attached(lan: &Lan) -> Vec<String> {
    within(&lan.switch, || bpf::attached_names("h0").unwrap())
}

#[test]
fn nothing_is_left_of_a_killed_watcher_and_capabilities_are_dropped_once_it_has_attached() {
    if !is_root() {
        return;
    }
    let lan = Lan::new("fabric-k", 2);
    for round in 0..100 {
        let arguments: &[&str] = if round % 2 == 0 { &[] } else { &["--follow", "--switch"] };
        let mut watching = Watching::start(&lan, arguments);
        let report = watching.report();
        assert_eq!(report["interfaces"], 2, "{report}");
        let expected = if round % 2 == 0 { 0 } else { FOLLOW };
        assert_eq!(watching.capabilities(), expected);
        assert_eq!(attached(&lan), ["from_container", "to_container"]);
        drop(watching);
        wait::until_true("the programs are gone", || attached(&lan).is_empty());
    }
}

#[test]
fn watcher_names_containers_and_follows_those_that_come() {
    if !is_root() {
        return;
    }
    let lan = Lan::new("fabric-n", 2);
    let mut watching = Watching::start(&lan, &["--follow"]);
    watching.report();
    let add = "link add h9 type veth peer name eth1 netns";
    let words: Vec<_> = add.split_whitespace().chain([lan.hosts[1].space.as_str()]).collect();
    within(&lan.switch, || assert!(Command::new("ip").args(&words).status().unwrap().success()));
    wait::until_true("the new wire is watched", || watching.report()["interfaces"] == 3);
    let ping = || {
        let to = lan.hosts[1].address.to_string();
        let sent = Command::new("ping").args(["-qc1", "-W5", &to]).stdout(Stdio::null()).status();
        assert!(sent.unwrap().success());
    };
    let [one, other] = [0, 1].map(|host: usize| Value::from(lan.hosts[host].space.as_str()));
    within(&lan.hosts[0].space, ping);
    wait::until_true("both directions are reported", || {
        let report = watching.report();
        let pairs = report["pairs"].as_array().unwrap();
        let has = |from: &Value, to: &Value| {
            pairs.iter().any(|pair| &pair["from"] == from && &pair["to"] == to)
        };
        has(&one, &other) && has(&other, &one)
    });
}

#[test]
fn switch_needs_follow_and_a_place_without_containers_is_an_error() {
    let refused = binary().args(["fabric", "watch", "--switch"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    if !is_root() {
        return;
    }
    let spaces = Spaces::new("fabric-e");
    let program = env!("CARGO_BIN_EXE_dunlin");
    let words = ["netns", "exec", &spaces.server, program, "fabric", "watch"];
    let refused = Command::new("ip").args(words).args(["--count", "1"]).output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{told}");
    assert!(told.contains("there are no containers") && told.contains("--follow"), "{told}");
}
