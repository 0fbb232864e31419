//! The holder of the sockets: a server that is killed is started again by it, and a Pod waits
//! beside the one that replaces it.
use crate::served::{HEAD, NOERROR, Served, binary, rcode, short_socket, text, zone};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use test_support::skip::skip;
use test_support::wait;

/// A server in a PID namespace of its own, as in a container: its holder is the first process.
const CONTAINER: [&str; 6] =
    ["--pid", "--fork", "--kill-child", "sh", "-c", "exec \"$0\" \"$@\" --hot-restart=if-running"];

fn config(socket: &Path) -> String {
    let keys = "hold_sockets = true\ndrain = \"0s\"\n";
    format!("{keys}[admin]\nsocket = {socket:?}\n{}", zone("held.test"))
}

const FILES: [(&str, &str); 1] = [("held.test.zone", HEAD)];

fn status(socket: &Path) -> Option<Value> {
    let args = ["status", "-o", "json", "--socket"];
    let output = binary().args(args).arg(socket).output().expect("it runs");
    serde_json::from_slice(&output.stdout).ok()
}

/// The process that serves, as it names itself.
fn serving(socket: &Path) -> Option<i32> {
    status(socket)?["pid"].as_i64()?.try_into().ok()
}

fn pid(number: i32) -> Pid {
    Pid::from_raw(number).expect("a process")
}

fn expect_answers(served: &Served) {
    assert_eq!(rcode(&served.ask("ns.held.test")), NOERROR);
    assert_eq!(rcode(&served.ask_over_tcp("ns.held.test")), NOERROR);
}

#[test]
fn killed_server_is_started_again_and_a_stopped_one_leaves_nothing() {
    let socket = short_socket("held");
    let mut served = Served::start("held", &config(&socket), &FILES);
    let holder = Pid::from_child(&served.child);
    let mut old = serving(&socket).expect("a server");
    assert_ne!(pid(old), holder, "the server is its child");
    for round in 0..2 {
        kill_process(pid(old), Signal::KILL).expect("it runs");
        // Queries of this time wait.
        expect_answers(&served);
        let is_new = |new: &Option<i32>| new.is_some_and(|new| new != old);
        let new = wait::until_value("the next server", || serving(&socket), is_new);
        old = new.expect("a server");
        let status = fs::read_to_string(format!("/proc/{}/status", holder.as_raw_pid()));
        let status = status.expect("the holder runs");
        let none = "CapEff:\t0000000000000000";
        assert!(status.contains(none) && status.contains("NoNewPrivs:\t1"), "{round}: {status}");
    }
    served.expect_line("was killed by signal 9", "sockets");
    // A reload reaches the server.
    served.signal(Signal::HUP);
    let reloads = || status(&socket).map(|status| status["config"]["reloads"].clone());
    wait::until_eq("a reload", reloads, Some(1.into()));
    served.end();
    assert!(test_kill_process(pid(old)).is_err(), "the server has ended before its holder");
    assert!(!socket.exists());
}

#[test]
fn server_ends_with_its_holder_and_one_that_never_served_is_not_started_again() {
    let socket = short_socket("held-ends");
    let served = Served::start("held-ends", &config(&socket), &FILES);
    let server = pid(serving(&socket).expect("a server"));
    served.signal(Signal::KILL);
    wait::until_true("the end of the server", || test_kill_process(server).is_err());

    let file = served.folder.join("dunlin.toml");
    let wrong = fs::read_to_string(&file).expect("a config");
    let wrong = wrong.replace("listen = [\"127.0.0.1:0\"]", "listen = [\"192.0.2.99:53\"]");
    fs::write(&file, wrong).expect("a config");
    let output = binary().args(["serve", "-c"]).arg(&file).output().expect("it runs");
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert_eq!(told.matches("cannot listen on 192.0.2.99:53").count(), 1, "{told}");
}

/// The command of a server in a container of its own.
pub fn container() -> Command {
    let mut command = Command::new("unshare");
    command.args(CONTAINER).arg(env!("CARGO_BIN_EXE_dunlin"));
    command
}

/// The only child of a process, if it has one.
fn child(pid: u32) -> Option<i32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    children.ok()?.split_whitespace().next()?.parse().ok()
}

/// A server in a container of its own.
pub struct Container {
    served: Served,
    /// Its holder, as this namespace numbers it.
    holder: i32,
    socket: PathBuf,
}

impl Container {
    pub fn new(served: Served, socket: &Path) -> Self {
        let holder = child(served.child.id()).expect("unshare runs");
        Self { served, holder, socket: socket.to_owned() }
    }

    /// The server, as this namespace numbers it.
    pub fn server(&self) -> Option<i32> {
        child(self.holder.unsigned_abs())
    }

    /// What a probe in this container says.
    pub fn probe(&self, what: &str) -> Output {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.holder.to_string(), "--pid", env!("CARGO_BIN_EXE_dunlin")]);
        command.args(["status", "--probe", what, "--socket"]).arg(&self.socket);
        command.output().expect("nsenter runs")
    }

    fn expect(&self, is_ready: bool, is_alive: bool) {
        for (what, expected) in [("ready", is_ready), ("alive", is_alive)] {
            let output = self.probe(what);
            assert_eq!(output.status.success(), expected, "{what}: {output:?}");
        }
    }

    pub fn end(mut self) {
        kill_process(pid(self.holder), Signal::TERM).expect("it runs");
        assert_eq!(self.served.status(), Some(0));
    }
}

/// As the Pods of a node during an update of its DaemonSet.
#[test]
fn replaced_container_waits_for_its_end_and_serves_again_if_the_new_one_goes() {
    if !rustix::process::geteuid().is_root() {
        return skip("PID namespaces: run it as root");
    }
    let socket = short_socket("held-container");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("held-container");
    let served = Served::start_by(&mut container(), &folder, &config(&socket), &FILES);
    let first = Container::new(served, &socket);
    first.expect(true, true);
    let second = Container::new(Served::spawn(&mut container(), &folder), &socket);
    assert_eq!(first.served.address, second.served.address, "the same sockets");
    second.expect(true, true);
    first.expect(false, true);
    let told = text(&first.probe("ready").stderr);
    assert!(told.contains("another container"), "{told}");
    first.end();
    expect_answers(&second.served);

    let third = Container::new(Served::spawn(&mut container(), &folder), &socket);
    second.expect(false, true);
    third.end();
    wait::until_true("the one that waited serves", || second.probe("ready").status.success());
    second.end();
}
