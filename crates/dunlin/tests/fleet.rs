//! Servers that share their records through a real etcd, as their users see them.
mod served;

use rustix::process::Signal;
use served::{PATIENCE, Served, binary, rcode};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use test_support::etcd::Etcd;

/// A server of the fleet.
struct Node {
    served: Served,
    socket: PathBuf,
    token: String,
}

impl Node {
    fn start(test: &str, etcd: &Etcd) -> Self {
        let socket =
            std::env::temp_dir().join(format!("dunlin-{test}-{}.sock", std::process::id()));
        let endpoints = etcd.endpoints();
        let config = format!(
            "drain = \"0s\"\n[admin]\nsocket = \"{}\"\n[store]\nkind = \"etcd\"\n\
             [etcd]\nendpoints = {endpoints:?}\n[api]\nlisten = \"127.0.0.1:0\"\n",
            socket.display()
        );
        let mut node =
            Self { served: Served::start(test, &config, &[]), socket, token: String::new() };
        node.create_token();
        node
    }

    fn create_token(&mut self) {
        let created = self.run(&["token", "create", "root", "--grant", "read,write,zones *"], true);
        assert!(created.status.success(), "{created:?}");
        self.token = String::from_utf8(created.stdout).expect("UTF-8").trim().to_owned();
    }

    fn restarted(self) -> Self {
        Self { served: self.served.restarted(), ..self }
    }

    fn command(&self, args: &[&str], is_local: bool) -> Command {
        let line = self.served.start.iter().find(|line| line.contains("the API listens"));
        let line: serde_json::Value = serde_json::from_str(line.expect("said")).expect("JSON");
        let api = format!("http://{}", line["address"].as_str().expect("an address"));
        let mut command = binary();
        command.env("DUNLIN_API", api).env("DUNLIN_TOKEN", &self.token).args(args);
        if is_local {
            command.arg("--socket").arg(&self.socket);
        }
        command
    }

    fn run(&self, args: &[&str], is_local: bool) -> Output {
        self.command(args, is_local).stdin(Stdio::null()).output().expect("the binary runs")
    }

    fn done(&self, args: &[&str]) -> String {
        let output = self.run(args, false);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    fn refused(&self, args: &[&str]) -> String {
        let output = self.run(args, false);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        String::from_utf8(output.stderr).expect("UTF-8")
    }

    fn set(&self, name: &str, address: &str) {
        self.done(&["records", "set", "fleet.example", name, "A", "--ttl", "60", address]);
    }
}

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn answers(node: &Node, name: &str, address: [u8; 4]) -> bool {
    let reply = node.served.ask(name);
    rcode(&reply) == 0 && reply.windows(4).any(|bytes| bytes == address)
}

#[test]
fn record_written_on_one_server_is_answered_by_the_other_and_without_etcd() {
    let Some(mut etcd) = Etcd::start_or_skip(1) else { return };
    let first = Node::start("fleet-first", &etcd);
    let second = Node::start("fleet-second", &etcd);
    first.done(&["zones", "create", "fleet.example", "--nameserver", "ns.example.net."]);
    first.set("www", "192.0.2.7");
    eventually("the other answers", || answers(&second, "www.fleet.example", [192, 0, 2, 7]));
    second.set("www", "192.0.2.8");
    eventually("the first answers", || answers(&first, "www.fleet.example", [192, 0, 2, 8]));
    etcd.kill(0);
    let refusal = |node: &Node| {
        let why = ["records", "set", "fleet.example", "www", "A", "--ttl", "60", "192.0.2.9"];
        node.refused(&why)
    };
    let why = refusal(&first);
    assert!(why.contains("etcd at http://127.0.0.1:"), "{why}");
    assert!(answers(&first, "www.fleet.example", [192, 0, 2, 8]), "answers go on");
    let mut second = second;
    second.served.signal(Signal::KILL);
    second.served.status();
    let second = second.restarted();
    assert!(answers(&second, "www.fleet.example", [192, 0, 2, 8]), "a start needs no etcd");
    eventually("the status says so", || {
        let status = second.run(&["status"], true);
        String::from_utf8_lossy(&status.stdout).contains("etcd at http://127.0.0.1:")
    });
    etcd.start(0);
    eventually("writes are accepted again", || {
        let set = ["records", "set", "fleet.example", "www", "A", "--ttl", "60", "192.0.2.10"];
        second.run(&set, false).status.success()
    });
    eventually("the first answers", || answers(&first, "www.fleet.example", [192, 0, 2, 10]));
}
