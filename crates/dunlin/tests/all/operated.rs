//! A server with a store and an API, as its operator has it: with commands and a token.
use crate::served::{Served, done, short_socket, text};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Output, Stdio};
use test_support::wait::deadline;

/// The server, and a token with all grants.
pub struct Operated {
    pub served: Served,
    pub token: String,
}

/// A config with an admin socket, a store, an API, and further sections.
pub fn config(test: &str, more: &str) -> String {
    let socket = short_socket(test);
    format!(
        "drain = \"0s\"\n[admin]\nsocket = \"{}\"\n[store]\nkind = \"redb\"\n[api]\n\
         listen = \"127.0.0.1:0\"\n{more}",
        socket.display()
    )
}

impl Operated {
    /// Creates the token.
    pub fn new(served: Served) -> Self {
        let mut operated = Self { served, token: String::new() };
        let created = operated.done(&["token", "create", "root", "--grant", "read,write,zones *"]);
        operated.token = created.trim().to_owned();
        assert!(operated.token.starts_with("dunlin_"), "{created}");
        operated
    }

    /// Ends the server, and starts it again on its files.
    pub fn restarted(mut self) -> Self {
        self.served.end();
        Self { served: self.served.restarted(), ..self }
    }

    /// Runs a command over the API, or over the admin socket if it is one of those.
    pub fn run(&self, args: &[&str]) -> Output {
        self.served.command(&self.token, args).output().expect("the binary runs")
    }

    /// Runs a command that must succeed; returns what it prints.
    pub fn done(&self, args: &[&str]) -> String {
        done(args, &self.run(args))
    }

    /// The same with this standard input.
    pub fn done_with(&self, args: &[&str], input: &str) -> String {
        let mut command = self.served.command(&self.token, args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(input.as_bytes()).expect("it reads");
        drop(stdin);
        done(args, &child.wait_with_output().expect("it ends"))
    }

    /// Runs a command that must fail; returns what it prints.
    pub fn refused(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        text(&[output.stdout, output.stderr].concat())
    }

    /// Sends a request to the API; returns the status and the whole response.
    pub fn http(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        http(&self.served, &self.token, method, path, body)
    }
}

/// The same by the holder of a token.
pub fn http(served: &Served, token: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    let host = served.api().expect("an API");
    let mut stream = TcpStream::connect(&host).expect("connected");
    stream.set_read_timeout(Some(deadline())).expect("a timeout");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("a reply");
    let status = reply.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), reply)
}
