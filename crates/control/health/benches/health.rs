//! What health checks cost, and how fast a dead address is out of answers: `make bench-health`.
//!
//! 1. Four ways to die: a closed port, dropped packets, HTTP 500, and silence behind an open
//!    backlog. From the death until the published image does not name the address; and back.
//! 2. One address in 5,000 sets: from the verdict until every reader has it, beside other changes.
//! 3. 10,000 targets every 10 seconds: CPU time of the prober, and memory.
//!
//! A limit that is passed fails the run.
use compile::{Image, Loader};
use health::{Allow, Check, CheckKind, HealthService, HealthSettings, HttpCheck};
use image::HashKey;
use model::{Change, Edit, Policy, SetRules, SetValue};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, listen, socket_with};
use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wire::{Name, NameBuf, Rtype};
use zone_manager::{
    HealthTarget, HoldPolicy, Lane, MemberClass, PublisherThread, SourceKind, SourceSettings,
    Target, UpdateSender, ZonePublisher,
};

const KINDS: [&str; 4] = ["closed port", "dropped packets", "HTTP 500", "silence"];
/// Targets of each kind.
const EACH: u8 = 50;
const SETS: u32 = 5_000;
const TARGETS: u32 = 10_000;

fn main() -> ExitCode {
    let mut verdict = Verdict { missed: false };
    detection(&mut verdict);
    one_in_many(&mut verdict);
    many_targets(&mut verdict);
    if verdict.missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

struct Verdict {
    missed: bool,
}

impl Verdict {
    fn judge(&mut self, what: &str, value: f64, limit: f64) {
        let missed = if value > limit { "  MISSED" } else { "" };
        println!("{what:54} {value:8.3}  (limit {limit}){missed}");
        self.missed |= value > limit;
    }
}

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}

fn zone() -> Target {
    Target::Zone(name("example.org."))
}

/// A zone manager with an empty zone.
fn start() -> (ZonePublisher, UpdateSender, PublisherThread) {
    let key = Arc::new(HashKey::new(std::array::from_fn(|n| n as u64 * 77 + 5)));
    let (publisher, running) = ZonePublisher::start(Image::new(Arc::clone(&key))).expect("starts");
    let updates = publisher.start_source(SourceSettings {
        name: "bench".into(),
        kind: SourceKind::Store,
        lane: Lane::Normal,
        hold: HoldPolicy::Never,
    });
    let mut loader = Loader::new(key, name("example.org.").as_name(), None);
    let soa = [&b"\x02ns\0\x04root\0"[..], &[0; 20]].concat();
    loader.add(name("example.org.").as_name(), Rtype::SOA, 60, &soa, 0).expect("valid");
    loader.add(name("example.org.").as_name(), Rtype::NS, 60, b"\x02ns\0", 0).expect("valid");
    updates.sync_zone(loader.finish().expect("a zone"), None).wait().expect("published");
    (publisher, updates, running)
}

fn members(at: &str, check: &str, addresses: &[Ipv4Addr]) -> Change {
    let data = addresses.iter().map(|address| Box::from(&address.octets()[..])).collect();
    let policy = Policy::new(SetRules { check: check.into(), ..SetRules::default() });
    Edit::put(name(at), Rtype::A, SetValue { ttl: 30, policy, data }).into()
}

fn apply(updates: &UpdateSender, changes: Vec<Change>) {
    let applied = updates.apply_blocking(zone(), changes).expect("runs").wait().expect("runs");
    applied.results.into_iter().for_each(|result| result.expect("valid"));
}

fn names(publisher: &ZonePublisher, at: &NameBuf, address: Ipv4Addr) -> bool {
    let image = publisher.image();
    let zone = image.zone(name("example.org.").as_name()).expect("published");
    let set = zone.set(at.as_name(), Rtype::A).expect("there");
    set.records().any(|data| data == address.octets())
}

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() * percent).div_ceil(100) - 1]
}

fn check(name: &str, port: u16, kind: CheckKind) -> Check {
    let (interval, timeout) = (Duration::from_secs(1), Duration::from_millis(500));
    Check { name: name.into(), kind, port, interval, timeout, rise: 2, fall: 3, jitter: 10 }
}

fn probing(publisher: &ZonePublisher, checks: Vec<Check>) -> HealthService {
    let prefixes = vec!["127.0.0.0/8".parse().expect("a prefix")];
    let allow = Allow { prefixes, own: Vec::new() };
    let settings = HealthSettings {
        checks,
        allow: Some(allow),
        ttl_max: Duration::from_secs(30),
        folder: None,
        find_user: |_| Err(String::new()),
        read_check: |_, _| Err(String::new()),
        api_checks: health::checks_in(None),
        endpoints: health::endpoints_in(None),
        fleet: None,
        webhook: None,
        avoided_cpus: Vec::new(),
    };
    HealthService::start(publisher, settings).expect("starts")
}

/// The address of a target: of a kind, or of all kinds one that never dies.
fn address(kind: usize, number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 77, kind as u8, number)
}

/// Servers of all kinds, and those that are dead now.
struct Servers {
    ports: [u16; 4],
    dead: Arc<Mutex<HashSet<Ipv4Addr>>>,
    /// Of the kinds with a listener for each address.
    listening: Mutex<Vec<((usize, u8), Listening)>>,
}

/// A listener that is closed when this is dropped, or whose backlog is full.
struct Listening {
    stop: Arc<AtomicBool>,
    _filling: Vec<rustix::fd::OwnedFd>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Servers {
    fn start() -> Self {
        let dead = Arc::<Mutex<HashSet<Ipv4Addr>>>::default();
        let http = |is_silent: bool| {
            let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
            let port = listener.local_addr().expect("bound").port();
            let dead = Arc::clone(&dead);
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let dead = Arc::clone(&dead);
                    thread::spawn(move || respond(stream, &dead, is_silent));
                }
            });
            port
        };
        let free = || {
            let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
            listener.local_addr().expect("bound").port()
        };
        let ports = [free(), free(), http(false), http(true)];
        let servers = Self { ports, dead, listening: Mutex::default() };
        for number in 0..=EACH {
            servers.set(0, number, true);
            servers.set(1, number, true);
        }
        servers
    }

    fn set(&self, kind: usize, number: u8, is_alive: bool) {
        let address = address(kind, number);
        let mut listening = self.listening.lock().expect("no panic");
        match (kind, is_alive) {
            (0 | 1, true) => {
                listening.retain(|(key, _)| *key != (kind, number));
                let accepting = accept(SocketAddrV4::new(address, self.ports[kind]));
                listening.push(((kind, number), accepting));
            }
            (0, false) => listening.retain(|(key, _)| *key != (kind, number)),
            (1, false) => {
                listening.retain(|(key, _)| *key != (kind, number));
                let full = fill(SocketAddrV4::new(address, self.ports[kind]));
                listening.push(((kind, number), full));
            }
            (_, true) => drop(self.dead.lock().expect("no panic").remove(&address)),
            (_, false) => drop(self.dead.lock().expect("no panic").insert(address)),
        }
    }
}

fn respond(mut stream: TcpStream, dead: &Mutex<HashSet<Ipv4Addr>>, is_silent: bool) {
    let Ok(IpAddr::V4(local)) = stream.local_addr().map(|local| local.ip()) else { return };
    let is_dead = || dead.lock().expect("no panic").contains(&local);
    if stream.read(&mut [0; 1_024]).unwrap_or(0) == 0 {
        return;
    }
    let status = match (is_dead(), is_silent) {
        (true, true) => return thread::sleep(Duration::from_secs(2)),
        (true, false) => "500 Internal Server Error",
        (false, _) => "200 OK",
    };
    let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

fn bound(address: SocketAddrV4, flags: SocketFlags) -> rustix::fd::OwnedFd {
    let flags = flags | SocketFlags::CLOEXEC;
    let socket =
        socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).expect("a socket");
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true).expect("settable");
    let until = Instant::now() + Duration::from_secs(5);
    while bind(&socket, &address).is_err() {
        assert!(Instant::now() < until, "{address} stays in use");
        thread::sleep(Duration::from_millis(1));
    }
    socket
}

/// Accepts connections until it is dropped.
fn accept(address: SocketAddrV4) -> Listening {
    let socket = bound(address, SocketFlags::NONBLOCK);
    listen(&socket, 16).expect("a listener");
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            match rustix::net::accept(&socket) {
                Ok(stream) => drop(stream),
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
    });
    Listening { stop, _filling: Vec::new() }
}

/// A listener whose backlog is full: the kernel drops the packets of new connections.
fn fill(address: SocketAddrV4) -> Listening {
    let listener = bound(address, SocketFlags::empty());
    listen(&listener, 0).expect("a listener");
    let mut filling = vec![listener];
    for _ in 0..3 {
        let (flags, family) = (SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, AddressFamily::INET);
        let socket = socket_with(family, SocketType::STREAM, flags, None).expect("a socket");
        let _ = connect(&socket, &address);
        filling.push(socket);
    }
    Listening { stop: Arc::default(), _filling: filling }
}

/// Part 1.
fn detection(verdict: &mut Verdict) {
    let servers = Servers::start();
    let http = || {
        CheckKind::Http(HttpCheck {
            path: "/".into(),
            host: String::new(),
            status: vec![200..=299],
            body: String::new(),
            tls: None,
        })
    };
    let kinds = [CheckKind::Tcp, CheckKind::Tcp, http(), http()];
    let checks: Vec<Check> = kinds
        .into_iter()
        .enumerate()
        .map(|(kind, of)| check(&format!("k{kind}"), servers.ports[kind], of))
        .collect();
    let (fall, rise) = (checks[0].fall, checks[0].rise);
    let bound = |rounds: u8| {
        let rounds = checks[0].interval.mul_f64(f64::from(rounds) * 1.1);
        (rounds + checks[0].timeout + Duration::from_millis(100)).as_secs_f64()
    };
    let bounds = [bound(fall), bound(rise)];
    let (publisher, updates, _running) = start();
    let prober = probing(&publisher, checks);
    let all: Vec<(usize, u8)> =
        (0..KINDS.len()).flat_map(|kind| (0..EACH).map(move |number| (kind, number))).collect();
    // Each set has a member that never dies.
    let set = |(kind, number): (usize, u8)| {
        let addresses = [address(kind, number), address(kind, EACH)];
        members(&owner((kind, number)).to_string(), &format!("k{kind}"), &addresses)
    };
    apply(&updates, all.iter().map(|target| set(*target)).collect());
    let wanted = (KINDS.len() * (usize::from(EACH) + 1)) as u64;
    while prober.status().up < wanted {
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_secs(2));
    for (is_alive, what, limit) in [(false, "out of answers", bounds[0]), (true, "back", bounds[1])]
    {
        let mut took = change_all(&servers, &publisher, &all, is_alive);
        for (kind, times) in KINDS.iter().zip(&mut took) {
            let (median, p99) = (percentile(times, 50), percentile(times, 99));
            println!("{kind}: {what} after {:.2} s (p50)", median.as_secs_f64());
            verdict.judge(&format!("{kind}: {what}, s (p99)"), p99.as_secs_f64(), limit);
        }
    }
    prober.stop();
}

fn owner((kind, number): (usize, u8)) -> NameBuf {
    name(&format!("n{number}.k{kind}.example.org."))
}

/// Lets all targets die or live, spread over three seconds. Returns how long each took until the
/// published image had that, by kind.
fn change_all(
    servers: &Servers,
    publisher: &ZonePublisher,
    all: &[(usize, u8)],
    is_alive: bool,
) -> [Vec<Duration>; 4] {
    let begin = Instant::now();
    let due = |at: usize| Duration::from_millis((at as u64 * 2_617) % 3_000);
    let mut changes: Vec<_> =
        all.iter().enumerate().map(|(at, target)| (due(at), *target)).collect();
    changes.sort_unstable();
    let (mut changes, mut waiting) = (changes.into_iter().peekable(), Vec::new());
    let mut took: [Vec<Duration>; 4] = Default::default();
    while changes.peek().is_some() || !waiting.is_empty() {
        while let Some((_, target)) = changes.next_if(|(due, _)| *due <= begin.elapsed()) {
            servers.set(target.0, target.1, is_alive);
            waiting.push((Instant::now(), target, owner(target)));
        }
        waiting.retain(|(since, (kind, number), owner)| {
            let is_done = names(publisher, owner, address(*kind, *number)) == is_alive;
            if is_done {
                took[*kind].push(since.elapsed());
            }
            !is_done
        });
        assert!(begin.elapsed() < Duration::from_secs(60), "{} wait", waiting.len());
        thread::sleep(Duration::from_millis(2));
    }
    took
}

/// Part 2.
fn one_in_many(verdict: &mut Verdict) {
    let (publisher, updates, _running) = start();
    let shared = Ipv4Addr::new(10, 0, 0, 1);
    let set = |number: u32| {
        let own = Ipv4Addr::from(0x0a01_0000 + number);
        members(&format!("n{number}.example.org."), "web", &[shared, own])
    };
    (0..SETS).step_by(1_000).for_each(|first| {
        apply(&updates, (first..first + 1_000).map(set).collect());
    });
    let own = (0..SETS).map(|number| Ipv4Addr::from(0x0a01_0000 + number));
    let target = |address: Ipv4Addr| HealthTarget { check: "web".into(), address: address.into() };
    let up = own.chain([shared]).map(|address| (target(address), Some(MemberClass::Up)));
    publisher.report_health(up.collect()).wait().expect("runs");
    let done = AtomicBool::new(false);
    let (mut took, mut others) = thread::scope(|scope| {
        for _ in 0..2 {
            let mut reader = publisher.reader().expect("a reader");
            let done = &done;
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    reader.refresh();
                    thread::sleep(Duration::from_micros(100));
                }
            });
        }
        let changing = scope.spawn(|| {
            let mut took = Vec::new();
            for number in 0u32.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let began = Instant::now();
                let address = Ipv4Addr::from(number).octets();
                let data = vec![Box::from(&address[..])];
                let change = Edit::put(name("x.example.org."), Rtype::A, SetValue::new(5, data));
                apply(&updates, vec![change.into()]);
                took.push(began.elapsed());
                thread::sleep(Duration::from_millis(1));
            }
            took
        });
        let mut took = Vec::new();
        for round in 0..40 {
            let class = [MemberClass::DownOnceUp, MemberClass::Up][round % 2];
            let began = Instant::now();
            let verdicts = vec![(target(shared), Some(class))];
            let sequence = publisher.report_health(verdicts).wait().expect("runs");
            publisher.wait_live(sequence).wait().expect("runs");
            took.push(began.elapsed());
            let at = name(&format!("n{}.example.org.", round * 97));
            assert_eq!(names(&publisher, &at, shared), class == MemberClass::Up);
            thread::sleep(Duration::from_millis(20));
        }
        done.store(true, Ordering::Relaxed);
        (took, changing.join().expect("no panic"))
    });
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    println!("{SETS} sets: live after {:.1} ms (p50)", millis(percentile(&mut took, 50)));
    verdict.judge(
        "an address in 5,000 sets: live, ms (most)",
        millis(percentile(&mut took, 100)),
        200.0,
    );
    let held_up = millis(percentile(&mut others, 99));
    verdict.judge("another change meanwhile, ms (p99)", held_up, 200.0);
}

/// CPU time of the threads of this name, in seconds.
fn cpu_seconds(thread: &str) -> f64 {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux").flatten();
    let ticks = tasks.filter_map(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let (head, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
        head.ends_with(&format!("({thread}")).then_some(ticks(11)? + ticks(12)?)
    });
    ticks.sum::<f64>() / 100.0
}

fn resident_bytes() -> f64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: f64 = statm.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("pages");
    pages * 4_096.0
}

/// Part 3.
fn many_targets(verdict: &mut Verdict) {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || listener.incoming().flatten().for_each(drop));
    let (publisher, updates, _running) = start();
    let every_ten = Check {
        interval: Duration::from_secs(10),
        timeout: Duration::from_secs(2),
        ..check("web", port, CheckKind::Tcp)
    };
    let prober = probing(&publisher, vec![every_ten]);
    let before = resident_bytes();
    for first in (0..TARGETS).step_by(100) {
        let addresses: Vec<_> =
            (first..first + 100).map(|n| Ipv4Addr::from(0x7f64_0000 + n)).collect();
        apply(&updates, vec![members(&format!("n{first}.example.org."), "web", &addresses)]);
    }
    while prober.status().up < TARGETS.into() {
        thread::sleep(Duration::from_millis(100));
    }
    let bytes = (resident_bytes() - before) / f64::from(TARGETS);
    let (began, cpu) = (Instant::now(), cpu_seconds(health::THREAD));
    thread::sleep(Duration::from_secs(20));
    let share = (cpu_seconds(health::THREAD) - cpu) / began.elapsed().as_secs_f64();
    let status = prober.status();
    println!(
        "{} probes passed, {} failed, {} skipped",
        status.passed, status.failed, status.skipped
    );
    verdict.judge("10,000 targets every 10 s: share of one core", share, 0.2);
    verdict.judge("memory for each target with its set, bytes", bytes, 1_024.0);
    verdict.judge("failed or skipped probes", (status.failed + status.skipped) as f64, 0.0);
    prober.stop();
}
