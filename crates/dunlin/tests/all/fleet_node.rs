//! A server of a fleet whose store is in a real etcd.
use crate::served::{Served, done, rcode, refused, request, short_socket};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output};
use test_support::etcd::Etcd;

/// A server of the fleet.
pub struct Node {
    pub served: Served,
    pub socket: PathBuf,
    pub token: String,
}

impl Node {
    pub fn start(test: &str, etcd: &Etcd) -> Self {
        let mut node = Self::start_as(test, etcd, "");
        // All servers share their principals.
        node.token = node.create_token(test);
        node
    }

    /// A server with these further keys of `[server]`, and without a token.
    pub fn start_as(test: &str, etcd: &Etcd, keys: &str) -> Self {
        Self::start_with(test, etcd, keys, "")
    }

    /// The same with more sections.
    pub fn start_with(test: &str, etcd: &Etcd, keys: &str, sections: &str) -> Self {
        let sections = format!("[health]\nallow = [\"127.0.11.0/24\"]\n{sections}");
        Self::start_without_health(test, etcd, keys, &sections)
    }

    /// The same without `[health]`, unless the sections have it.
    pub fn start_without_health(test: &str, etcd: &Etcd, keys: &str, sections: &str) -> Self {
        Self::start_at(test, &etcd.endpoints(), keys, sections)
    }

    /// The same with an etcd at these URLs.
    pub fn start_at(test: &str, endpoints: &[String], keys: &str, sections: &str) -> Self {
        let socket = short_socket(test);
        let config = format!(
            "drain = \"0s\"\nname = \"{test}\"\n{keys}\n[admin]\nsocket = \"{}\"\n\
             [store]\nkind = \"etcd\"\n[etcd]\nendpoints = {endpoints:?}\n\
             [api]\nlisten = \"127.0.0.1:0\"\n{sections}\n",
            socket.display()
        );
        Self { served: Served::start(test, &config, &[]), socket, token: String::new() }
    }

    pub fn create_token(&self, principal: &str) -> String {
        let grants = "read,write,zones,operate *";
        let args = ["token", "create", principal, "--grant", grants];
        done(&args, &self.run(&args, true)).trim().to_owned()
    }

    pub fn restarted(self) -> Self {
        Self { served: self.served.restarted(), ..self }
    }

    /// The address of its API.
    pub fn api(&self) -> String {
        self.served.api().expect("said")
    }

    /// The status of a request with this token.
    pub fn status_of(&self, token: &str) -> String {
        let mut stream = TcpStream::connect(self.api()).expect("a connection");
        let request = "GET /v1/zones HTTP/1.1\r\nHost: test\r\nConnection: close\r\n";
        write!(stream, "{request}Authorization: Bearer {token}\r\n\r\n").expect("sent");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("a response");
        reply.split(' ').nth(1).unwrap_or_default().to_owned()
    }

    pub fn command(&self, args: &[&str], is_local: bool) -> Command {
        let mut command = self.served.command(&self.token, args);
        if is_local {
            command.arg("--socket").arg(&self.socket);
        }
        command
    }

    pub fn run(&self, args: &[&str], is_local: bool) -> Output {
        self.command(args, is_local).output().expect("the binary runs")
    }

    pub fn done(&self, args: &[&str]) -> String {
        done(args, &self.run(args, false))
    }

    pub fn refused(&self, args: &[&str]) -> String {
        refused(args, &self.run(args, false))
    }

    /// The fleet as this server sees it.
    pub fn fleet(&self) -> serde_json::Value {
        let output = self.run(&["fleet", "-o", "json"], true);
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// The response to a request at the local socket.
    pub fn local(&self, method: &str, path: &str, body: &str) -> String {
        request(&self.socket, method, path, body).expect("a response")
    }

    /// The sockets that it listens on: transport and address.
    pub fn listening(&self) -> Vec<String> {
        let ss = Command::new("ss").args(["-H", "-l", "-n", "-t", "-u", "-p"]).output();
        let ss = String::from_utf8(ss.expect("ss of iproute2").stdout).expect("UTF-8");
        let own = format!("pid={},", self.served.child.id());
        let mut found: Vec<String> = ss
            .lines()
            .filter(|line| line.contains(&own))
            .map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                format!("{} {}", words[0], words[4])
            })
            .collect();
        found.sort();
        found.dedup();
        found
    }

    pub fn set(&self, name: &str, address: &str) {
        self.done(&["records", "set", "fleet.example", name, "A", "--ttl", "60", address]);
    }
}

pub fn answers(node: &Node, name: &str, address: [u8; 4]) -> bool {
    let reply = node.served.ask(name);
    rcode(&reply) == 0 && reply.windows(4).any(|bytes| bytes == address)
}
