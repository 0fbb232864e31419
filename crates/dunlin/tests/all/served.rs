//! A running server, and queries to it: for the tests of the binary.
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use test_support::wait::{self, deadline};

/// The begin of a zone file.
pub const HEAD: &str = "$TTL 60\n@ SOA ns root 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";
pub const NOERROR: u8 = 0;
pub const SERVFAIL: u8 = 2;
pub const REFUSED: u8 = 5;

/// A running server in its own folder, ended when dropped.
pub struct Served {
    pub child: Child,
    pub folder: PathBuf,
    /// The lines of its log, each a JSON object.
    lines: Receiver<Value>,
    pub address: SocketAddr,
    /// The log lines before it served.
    pub start: Vec<String>,
}

impl Served {
    /// Starts a server on these files; `dunlin.toml` gets a listening address.
    pub fn start(test: &str, config: &str, files: &[(&str, &str)]) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        Self::start_by(&mut binary(), &folder, config, files)
    }

    /// Starts a server by a command without its arguments, on files in this folder. Keys of
    /// `[server]` come first in the config.
    pub fn start_by(
        command: &mut Command,
        folder: &Path,
        config: &str,
        files: &[(&str, &str)],
    ) -> Self {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).expect("a folder");
        for (file, text) in files {
            fs::write(folder.join(file), text).expect("a file");
        }
        let data_dir = match config.contains("data_dir") {
            true => String::new(),
            false => format!("data_dir = \"{}\"\n", folder.join("data").display()),
        };
        // Text before the first table belongs to [server].
        let of_server = format!("\n{config}");
        let of_server = of_server.split("\n[").next();
        let has = |key| of_server.is_some_and(|keys| keys.contains(key));
        let listen = if has("listen = ") { "" } else { "listen = [\"127.0.0.1:0\"]\n" };
        let workers = if has("workers = ") { "" } else { "workers = 2\n" };
        let config =
            format!("log.format = \"json\"\n[server]\n{listen}{workers}{data_dir}{config}");
        fs::write(folder.join("dunlin.toml"), config).expect("a file");
        Self::spawn(command, folder)
    }

    /// Starts the server again on its files, after it has ended.
    pub fn restarted(self) -> Self {
        self.restarted_by(&mut binary())
    }

    /// The same by a command without its arguments.
    pub fn restarted_by(mut self, command: &mut Command) -> Self {
        self.status();
        Self::spawn(command, &self.folder)
    }

    /// Starts a server by a command without its arguments, on the files of a folder.
    pub fn spawn(command: &mut Command, folder: &Path) -> Self {
        let mut child = command
            .args(["serve", "-c"])
            .arg(folder.join("dunlin.toml"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let (sender, lines) = channel();
        let log = BufReader::new(child.stderr.take().expect("a pipe"));
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut served = Self { child, folder: folder.into(), lines, address, start: Vec::new() };
        let (serving, before) = served.read_to_line("serving", "listen");
        served.start = before;
        // A server without the role `dns` has no address.
        let listen = serving["listen"].as_str().expect("text");
        let first = listen.split(' ').next().filter(|first| !first.is_empty());
        served.address = first.map_or(address, |first| first.parse().expect(listen));
        served
    }

    /// Waits for the next line that has both words in its message or fields.
    pub fn expect_line(&self, word: &str, other: &str) -> Value {
        self.read_to_line(word, other).0
    }

    /// Like `expect_line`, with the lines before it.
    fn read_to_line(&self, word: &str, other: &str) -> (Value, Vec<String>) {
        let until = Instant::now() + deadline();
        let mut seen = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no line with {word} and {other} after {seen:#?}");
            };
            let text = line.to_string();
            if text.contains(word) && text.contains(other) {
                return (line, seen);
            }
            seen.push(text);
        }
    }

    /// The lines since the last one that was read.
    pub fn new_lines(&self) -> Vec<Value> {
        self.lines.try_iter().collect()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// The admin socket in the current config.
    pub fn socket(&self) -> Option<PathBuf> {
        let file = self.folder.join("dunlin.toml");
        // A test may have put a pipe there, which would block.
        let config = file.is_file().then(|| fs::read_to_string(file).ok()).flatten()?;
        let path = config.split("socket = \"").nth(1)?.split('"').next()?;
        (!path.is_empty()).then(|| path.into())
    }

    /// The address of its API; `None`: it has none.
    pub fn api(&self) -> Option<String> {
        let line = self.start.iter().find(|line| line.contains("the API listens"))?;
        let line: Value = serde_json::from_str(line).expect("JSON");
        Some(line["address"].as_str().expect("an address").to_owned())
    }

    /// A command over its API, with a token, or over its admin socket.
    pub fn command(&self, token: &str, args: &[&str]) -> Command {
        let mut command = binary();
        command.env("DUNLIN_TOKEN", token).args(args).stdin(Stdio::null());
        if let Some(socket) = self.socket() {
            command.env("DUNLIN_SOCKET", socket);
        }
        if let Some(api) = self.api() {
            command.env("DUNLIN_API", format!("http://{api}"));
        }
        command
    }

    /// Waits for the end; returns the exit status.
    pub fn status(&mut self) -> Option<i32> {
        wait::until_exit("the server", &mut self.child).code()
    }

    /// Sends SIGTERM; the server must end without an error.
    pub fn end(&mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.status(), Some(0));
    }

    /// Queries an A record over UDP; returns the whole reply.
    pub fn ask(&self, name: &str) -> Vec<u8> {
        ask(self.address, name)
    }

    /// Queries an A record over TCP.
    pub fn ask_over_tcp(&self, name: &str) -> Vec<u8> {
        ask_over_tcp(self.address, name)
    }

    /// Queries until the answer is this address: file changes are noticed a little later.
    pub fn expect_address(&self, name: &str, address: [u8; 4]) {
        wait::until_value(
            &format!("{name} A {address:?}"),
            || self.ask(name),
            |reply| rcode(reply) == NOERROR && holds(reply, &address),
        );
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A killed server leaves its socket, unless a new process has it.
        if let Some(socket) = self.socket().filter(|socket| UnixStream::connect(socket).is_err()) {
            let _ = fs::remove_file(socket);
        }
    }
}

/// A process, killed when dropped.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself, which the test notices.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The admin socket of a test: the path of a unix socket is short.
pub fn short_socket(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("dunlin-{test}-{}.sock", std::process::id()))
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The output of a command that must succeed.
pub fn done(args: &[&str], output: &Output) -> String {
    assert!(output.status.success(), "{args:?}: {output:?}");
    text(&output.stdout)
}

/// The error of a command that must fail.
pub fn refused(args: &[&str], output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
    text(&output.stderr)
}

/// The binary under test: `DUNLIN_BIN`, for figures of a release, or the one of this build.
pub fn binary() -> Command {
    let built = || env!("CARGO_BIN_EXE_dunlin").into();
    Command::new(std::env::var_os("DUNLIN_BIN").unwrap_or_else(built))
}

/// The response to a request with JSON at a local socket.
pub fn request(socket: &Path, method: &str, path: &str, body: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(deadline()))?;
    let len = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: dunlin\r\nContent-Type: application/json\r\n\
         Content-Length: {len}\r\nConnection: close\r\n\r\n{body}"
    )?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

/// Queries a server for an A record over UDP; returns the whole reply.
pub fn ask(address: SocketAddr, name: &str) -> Vec<u8> {
    ask_within(address, name, deadline()).expect("a reply")
}

/// Like `ask`; `None` if no reply came within `patience`.
pub fn ask_within(address: SocketAddr, name: &str, patience: Duration) -> Option<Vec<u8>> {
    exchange(address, &query(name), patience)
}

/// The reply to a query over UDP; `None`: none came within `patience`.
pub fn exchange(address: SocketAddr, query: &[u8], patience: Duration) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    socket.set_read_timeout(Some(patience)).expect("a timeout");
    socket.send_to(query, address).expect("sent");
    let mut reply = vec![0; 4096];
    let len = socket.recv(&mut reply).ok()?;
    reply.truncate(len);
    Some(reply)
}

/// Queries a server for an A record over TCP.
pub fn ask_over_tcp(address: SocketAddr, name: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(deadline())).expect("a timeout");
    let query = query(name);
    stream.write_all(&(query.len() as u16).to_be_bytes()).expect("sent");
    stream.write_all(&query).expect("sent");
    let mut len = [0; 2];
    stream.read_exact(&mut len).expect("a length");
    let mut reply = vec![0; u16::from_be_bytes(len).into()];
    stream.read_exact(&mut reply).expect("a reply");
    reply
}

/// A query for an A record, with an OPT record.
pub fn query(name: &str) -> Vec<u8> {
    let mut query = vec![0x12, 0x34, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    for label in name.split('.') {
        query.push(label.len() as u8);
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, 1, 0, 1]);
    query.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
    query
}

pub fn rcode(reply: &[u8]) -> u8 {
    reply[3] & 15
}

pub fn holds(reply: &[u8], bytes: &[u8]) -> bool {
    reply.windows(bytes.len()).any(|window| window == bytes)
}

pub fn zone(name: &str) -> String {
    format!("[[zone]]\nname = \"{name}\"\nfile = \"{name}.zone\"\n")
}
