//! Three members of etcd and three servers, each a host on a switch, and the load on them.
use crate::served::{Served, ask_within, binary, exchange, query, rcode, request};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use test_support::etcd::Etcd;
use test_support::operator::Operator;
use test_support::spaces::Lan;
use test_support::wait;

/// The members of etcd are the first hosts, the servers the next.
pub const MEMBERS: usize = 3;
pub const SERVERS: usize = 3;
/// The names whose addresses count up. Each is written through one server only.
const NAMES: usize = 30;
/// The names that no write changes.
const FILLERS: u32 = 400;
/// How long a server may take for an answer or a response before it counts as silent.
const SILENCE: Duration = Duration::from_secs(10);

/// Between two writes of a writer, and after one that was refused.
const WRITE_PAUSE: Duration = Duration::from_millis(10);
const REFUSED_PAUSE: Duration = Duration::from_millis(60);

/// The user of etcd that the servers are.
pub const USER: &str = "dunlin";

/// A name, as its writer and the readers of all servers see it.
#[derive(Default)]
struct Counter {
    /// The newest value that was sent, and that a server has confirmed.
    sent: AtomicU32,
    confirmed: AtomicU32,
    /// The newest value that each server has answered.
    answered: [AtomicU32; SERVERS],
}

/// What the threads of the load share.
#[derive(Default)]
pub struct Load {
    counters: [Counter; NAMES],
    serials: [AtomicU32; SERVERS],
    /// Servers that do not run, or are stopped; and how often that has changed.
    pub away: [AtomicBool; SERVERS],
    pub changes: [AtomicU32; SERVERS],
    /// etcd is set back: the next answers may be older.
    is_rewound: AtomicBool,
    is_over: AtomicBool,
    pub answers: AtomicU64,
    pub writes: AtomicU64,
    pub refusals: AtomicU64,
    /// Queries without an answer.
    pub silences: AtomicU64,
}

/// The servers of the fleet, and what they run on.
pub struct Bed {
    pub lan: Lan,
    pub etcd: Etcd,
    pub operator: Operator,
    pub servers: Vec<Option<Served>>,
    pub load: Arc<Load>,
    folder: PathBuf,
    /// The next value of the markers.
    marker: u32,
}

/// The library that sets the clock of a process.
fn faketime() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").expect("libraries").flatten();
    let files = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    files.into_iter().find(|file| file.is_file()).expect("libfaketime: scripts/require test")
}

/// Replaces a file at once: it is read meanwhile.
fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    fs::write(&new, text).expect("a file");
    fs::rename(&new, file).expect("a file");
}

impl Bed {
    /// Starts everything in a namespace of the switch, which is the calling thread's.
    pub fn start(lan: Lan, folder: &Path) -> Option<Self> {
        let quota = format!("--quota-backend-bytes={}", 64 << 20);
        let etcd = Etcd::start_on(&lan.hosts[..MEMBERS], &[&quota])?;
        let mut operator = Operator::of(&etcd);
        operator.guard(USER, "first", "/dunlin/");
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).expect("a folder");
        let load = Arc::new(Load::default());
        let folder = folder.to_owned();
        let mut bed = Self { lan, etcd, operator, servers: Vec::new(), load, folder, marker: 0 };
        bed.set_password("first");
        for number in 0..SERVERS {
            bed.set_clock(number, 0);
            let keys = format!(
                "listen = [\"{}:53\"]\ndrain = \"0s\"\nname = \"server-{number}\"\n\
                 [admin]\nsocket = \"{}\"\n[store]\nkind = \"etcd\"\n[etcd]\nendpoints = {:?}\n\
                 user = {USER:?}\npassword_file = \"{}\"\n[api]\nlisten = \"127.0.0.1:8053\"\n\
                 [health]\nallow = [\"192.0.2.0/24\"]\n",
                bed.lan.hosts[MEMBERS + number].address,
                bed.socket(number).display(),
                bed.etcd.endpoints(),
                bed.folder.join("password").display(),
            );
            let folder = bed.folder.join(format!("server-{number}"));
            let served = Served::start_by(&mut bed.command(number), &folder, &keys, &[]);
            bed.servers.push(Some(served));
        }
        bed.fill();
        Some(bed)
    }

    fn socket(&self, server: usize) -> PathBuf {
        self.folder.join(format!("{server}.sock"))
    }

    fn address(&self, server: usize) -> SocketAddr {
        SocketAddr::new(self.lan.hosts[MEMBERS + server].address.into(), 53)
    }

    /// A server on its host, with a clock of its own.
    fn command(&self, server: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.lan.hosts[MEMBERS + server].space, "env"]);
        command.arg(format!("LD_PRELOAD={}", faketime().display()));
        command.arg(format!("FAKETIME_TIMESTAMP_FILE={}", self.clock(server).display()));
        // The clock that measures how long something takes is never set.
        command.args(["FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_CACHE_DURATION=1"]);
        command.arg(env!("CARGO_BIN_EXE_dunlin"));
        command
    }

    fn clock(&self, server: usize) -> PathBuf {
        self.folder.join(format!("{server}.clock"))
    }

    /// Sets the clock of a server this many seconds ahead of ours.
    pub fn set_clock(&self, server: usize, seconds: i32) {
        replace(&self.clock(server), &format!("{seconds:+}s\n"));
    }

    /// Sets what the servers take for their password.
    pub fn set_password(&self, password: &str) {
        replace(&self.folder.join("password"), &format!("{password}\n"));
    }

    /// Starts a server that was killed.
    pub fn restart(&mut self, server: usize) {
        let served = self.servers[server].take().expect("it ran");
        let mut command = self.command(server);
        self.servers[server] = Some(served.restarted_by(&mut command));
    }

    /// Runs a command beside a server.
    pub fn run(&self, server: usize, args: &[&str]) -> Output {
        let mut command = binary();
        command.args(args).arg("--socket").arg(self.socket(server));
        command.output().expect("the binary runs")
    }

    /// The status and the response of a server.
    pub fn request(&self, server: usize, method: &str, path: &str, body: &str) -> (u16, String) {
        let sent = send(&self.socket(server), method, path, body);
        sent.unwrap_or_else(|why| (0, why.to_string()))
    }

    /// Gives a name an address, through a server.
    pub fn set(&self, server: usize, name: &str, value: u32) -> (u16, String) {
        let sent = set(&self.socket(server), name, value);
        sent.unwrap_or_else(|why| (0, why.to_string()))
    }

    /// Starts a reader and a writer of each server.
    pub fn start_load(&self) -> Vec<JoinHandle<()>> {
        let mut threads = Vec::new();
        for server in 0..SERVERS {
            let (load, at) = (Arc::clone(&self.load), self.address(server));
            threads.push(thread::spawn(move || load.read(server, at)));
            let (load, socket) = (Arc::clone(&self.load), self.socket(server));
            threads.push(thread::spawn(move || load.write(server, &socket)));
        }
        threads
    }

    /// Creates the zone and its names.
    fn fill(&self) {
        let made = r#"{"nameservers":["ns.example.net."]}"#;
        let (status, text) = self.request(0, "PUT", "/v1/zones/fleet.example", made);
        assert_eq!(status, 200, "{text}");
        self.put_fillers();
        for name in 0..NAMES {
            let (status, text) = self.set(0, &counter_name(name), 1);
            assert_eq!(status, 200, "{text}");
            self.load.counters[name].sent.store(1, Relaxed);
        }
        for marker in 0..SERVERS {
            let (status, text) = self.set(0, &marker_name(marker), 1);
            assert_eq!(status, 200, "{text}");
        }
    }

    /// Writes the names that nothing else changes.
    pub fn put_fillers(&self) {
        let change = |n: u32| {
            format!(
                "{{\"name\":\"f{n}.fleet.example\",\"type\":\"A\",\
                 \"put\":{{\"ttl\":5,\"data\":[\"192.0.2.1\"]}}}}"
            )
        };
        let changes: Vec<String> = (0..FILLERS).map(change).collect();
        let body = format!("{{\"changes\":[{}]}}", changes.join(","));
        wait::until_ok("the fillers are written", || {
            match self.request(0, "PATCH", "/v1/zones/fleet.example/rrsets", &body) {
                (200, _) => Ok(()),
                // Many writers wait.
                (503, text) => Err(text),
                (status, text) => panic!("{status} {text}"),
            }
        });
    }

    /// Writes through every server until each succeeds, and waits until all answer what was
    /// written; returns the time since `from`.
    pub fn agree(&mut self, from: Instant) -> Duration {
        self.marker += 1;
        let value = self.marker;
        for server in 0..SERVERS {
            let set = || self.set(server, &marker_name(server), value);
            let what = format!("server {server} takes a write");
            wait::until_value(&what, set, |(status, _)| *status == 200);
        }
        for server in 0..SERVERS {
            for marker in 0..SERVERS {
                let name = marker_name(marker);
                let answered = || address_of(self.address(server), &name);
                wait::until_eq(&format!("{name} by server {server}"), answered, Some(value));
            }
        }
        from.elapsed()
    }

    /// What the servers have logged since the last time.
    pub fn show_logs(&self) {
        for served in self.servers.iter().flatten() {
            for line in served.new_lines() {
                println!("  {} {line}", served.address);
            }
        }
    }

    /// Forgets what etcd will not have any more. Nothing may be confirmed meanwhile.
    pub fn rewind(&self, is_rewound: bool) {
        self.load.is_rewound.store(is_rewound, Relaxed);
        for counter in &self.load.counters {
            counter.confirmed.store(0, Relaxed);
            counter.answered.iter().for_each(|answered| answered.store(0, Relaxed));
        }
    }

    /// Every server answers the same, and nothing that was confirmed is lost.
    pub fn compare(&self) {
        for (number, counter) in self.load.counters.iter().enumerate() {
            let name = counter_name(number);
            let found: Vec<Option<u32>> =
                (0..SERVERS).map(|server| address_of(self.address(server), &name)).collect();
            assert!(found.iter().all(|value| *value == found[0]), "{name}: {found:?}");
            let confirmed = counter.confirmed.load(Relaxed);
            assert!(found[0] >= Some(confirmed), "{name}: {found:?}, {confirmed} was confirmed");
        }
    }
}

fn counter_name(number: usize) -> String {
    format!("n{number}.fleet.example")
}

fn marker_name(number: usize) -> String {
    format!("m{number}.fleet.example")
}

/// Gives a name an address, through a server; returns the status and the response.
fn set(socket: &Path, name: &str, value: u32) -> io::Result<(u16, String)> {
    let [_, a, b, c] = value.to_be_bytes();
    let path = format!("/v1/zones/fleet.example/rrsets/{name}/A");
    send(socket, "PUT", &path, &format!("{{\"ttl\":5,\"data\":[\"10.{a}.{b}.{c}\"]}}"))
}

fn send(socket: &Path, method: &str, path: &str, body: &str) -> io::Result<(u16, String)> {
    let text = request(socket, method, path, body)?;
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or(io::ErrorKind::UnexpectedEof)?, text))
}

/// The address in an answer with one record, as a number.
fn read_address(reply: &[u8], name: &str) -> Option<u32> {
    let at = 12 + name.len() + 2 + 4 + 12;
    let data = reply.get(at..at + 4).filter(|_| reply[7] == 1)?;
    Some(u32::from_be_bytes([0, data[1], data[2], data[3]]))
}

fn address_of(server: SocketAddr, name: &str) -> Option<u32> {
    read_address(&ask_within(server, name, SILENCE)?, name)
}

impl Load {
    /// Ends all threads.
    pub fn end(&self) {
        self.is_over.store(true, Relaxed);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    /// Queries a server, and checks each answer.
    fn read(&self, server: usize, at: SocketAddr) {
        let mut names = (0..NAMES).cycle();
        while !self.is_over() {
            thread::sleep(Duration::from_millis(3));
            let was_away = self.away[server].load(Relaxed);
            let changes = self.changes[server].load(Relaxed);
            let was_rewound = self.is_rewound.load(Relaxed);
            let number = names.next().unwrap_or_default();
            let counter = &self.counters[number];
            let before = counter.answered[server].load(Relaxed);
            let name = counter_name(number);
            let Some(reply) = ask_within(at, &name, SILENCE) else {
                let is_silent = !was_away && self.changes[server].load(Relaxed) == changes;
                self.silences.fetch_add(u64::from(is_silent), Relaxed);
                continue;
            };
            let value = read_address(&reply, &name);
            assert_eq!(rcode(&reply), 0, "server {server}, {name}");
            let value = value.unwrap_or_else(|| panic!("server {server}, {name}: {reply:?}"));
            let sent = counter.sent.load(Relaxed);
            assert!((1..=sent).contains(&value), "server {server}, {name}: {value} of {sent}");
            self.answers.fetch_add(1, Relaxed);
            if !was_rewound && !self.is_rewound.load(Relaxed) {
                assert!(value >= before, "server {server}, {name}: {value} after {before}");
                counter.answered[server].store(value, Relaxed);
            }
            if number == 0 {
                self.read_serial(server, at);
            }
        }
    }

    /// No serial is ever lower than before.
    fn read_serial(&self, server: usize, at: SocketAddr) {
        let mut soa = query("fleet.example");
        let qtype = soa.len() - 14;
        soa[qtype] = 6;
        let Some(reply) = exchange(at, &soa, SILENCE) else { return };
        assert_eq!(rcode(&reply), 0, "server {server}, SOA");
        // The record's last 20 bytes are five numbers; the option of EDNS has 11.
        let end = reply.len() - 11;
        let serial: [u8; 4] = reply[end - 20..end - 16].try_into().expect("four");
        let (serial, before) = (u32::from_be_bytes(serial), self.serials[server].load(Relaxed));
        assert!(serial >= before, "server {server}: serial {serial} after {before}");
        self.serials[server].store(serial, Relaxed);
    }

    /// Counts names up through a server.
    fn write(&self, server: usize, socket: &Path) {
        let mut names = (server..NAMES).step_by(SERVERS).cycle();
        let mut pause = WRITE_PAUSE;
        while !self.is_over() {
            thread::sleep(pause);
            pause = WRITE_PAUSE;
            let number = names.next().unwrap_or_default();
            let counter = &self.counters[number];
            let value = counter.sent.fetch_add(1, Relaxed) + 1;
            match set(socket, &counter_name(number), value) {
                Ok((200, _)) => {
                    self.writes.fetch_add(1, Relaxed);
                    counter.confirmed.store(value, Relaxed);
                }
                // Killed, out of space, or etcd is away.
                Err(_) | Ok((503 | 504 | 507, _)) => {
                    self.refusals.fetch_add(1, Relaxed);
                    pause = REFUSED_PAUSE;
                }
                Ok((status, text)) => panic!("server {server}: {status} {text}"),
            }
        }
    }
}
