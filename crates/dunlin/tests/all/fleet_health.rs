//! Health of addresses in a fleet: servers that probe, and servers that only answer.
use crate::fleet_node::{Node, answers};
use rustix::process::Signal;
use serde_json::Value;
use std::cell::Cell;
use std::env;
use std::fs;
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use test_support::etcd::Etcd;
use test_support::folder::Folder;
use test_support::wait::{until_true, until_value};

/// The names of the servers that probe.
const PROBERS: [&str; 3] = ["fh-probe-1", "fh-probe-2", "fh-probe-3"];

/// `fall` × interval, with the jitter and the timeout: 3 × 200 ms × 1.1 + 150 ms.
const DETECTION: Duration = Duration::from_millis(810);

/// One server writes, one answers, three probe.
struct Scene {
    etcd: Etcd,
    api: Node,
    dns: Node,
    probers: Vec<Node>,
    /// By the last byte of their addresses, from 1 on.
    targets: Vec<Option<TcpListener>>,
    port: u16,
}

/// A port that is free on the addresses of the targets.
fn listeners(count: u8) -> (u16, Vec<Option<TcpListener>>) {
    let address = |last: u8| format!("127.0.11.{last}");
    loop {
        let first = TcpListener::bind((address(1), 0)).expect("a port");
        let port = first.local_addr().expect("bound").port();
        let others: Result<Vec<_>, _> =
            (2..=count).map(|last| TcpListener::bind((address(last), port))).collect();
        if let Ok(others) = others {
            return (port, [first].into_iter().chain(others).map(Some).collect());
        }
    }
}

impl Scene {
    fn start(test: &str, targets: u8) -> Option<Self> {
        let etcd = Etcd::start_or_skip(1)?;
        let node = |name: &str, roles: &str| {
            let name = format!("{name}-{test}");
            Node::start_as(&name, &etcd, &format!("roles = [{roles:?}]"))
        };
        let mut api = node("fh-api", "api");
        api.token = api.create_token("root");
        let dns = node("fh-dns", "dns");
        let probers = PROBERS.map(|name| node(name, "health")).into();
        let (port, targets) = listeners(targets);
        let scene = Self { etcd, api, dns, probers, targets, port };
        let port = format!("port={}", scene.port);
        let keys = ["kind=tcp", &port, "interval=200ms", "timeout=150ms"];
        let set = scene.api.run(&[&["checks", "set", "web"], &keys[..]].concat(), true);
        assert!(set.status.success(), "{set:?}");
        scene.api.done(&["zones", "create", "fleet.example", "--nameserver", "ns.example.net."]);
        let addresses: Vec<_> =
            (1..=scene.targets.len()).map(|n| format!("127.0.11.{n}")).collect();
        let addresses: Vec<_> = addresses.iter().map(String::as_str).collect();
        let set = ["records", "set", "fleet.example", "www", "A", "--check", "web"];
        scene.api.done(&[&set[..], &addresses].concat());
        until_true("all that live are up", || scene.count("up") == scene.targets.len());
        Some(scene)
    }

    fn has(&self, last: u8) -> bool {
        answers(&self.dns, "www.fleet.example", [127, 0, 11, last])
    }

    /// The targets as the server sees them that only answers.
    fn seen(&self) -> Vec<Value> {
        let output = self.dns.run(&["health", "-o", "json"], true);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        report["targets"].as_array().cloned().unwrap_or_default()
    }

    /// How many findings of probers are in etcd.
    fn findings(&self) -> u64 {
        let output = self.dns.run(&["status", "-o", "json"], true);
        let status: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let sets = status["documents"].as_array().expect("sets of documents");
        let states = sets.iter().find(|set| set["name"] == "states").expect("states");
        states["documents"].as_u64().expect("a number")
    }

    /// How many targets are in this state by the word of two servers.
    fn count(&self, state: &str) -> usize {
        let agreed = |target: &&Value| {
            let vantages = target["vantages"].as_array().cloned().unwrap_or_default();
            vantages.len() == 2
                && vantages.iter().all(|one| one["state"] == state)
                && target["state"] == state
        };
        self.seen().iter().filter(agreed).count()
    }

    /// The servers that probe a target, by their place among all that probe.
    fn probers_of(&self, last: u8) -> Vec<usize> {
        let address = format!("127.0.11.{last}");
        let seen = self.seen();
        let target = seen.iter().find(|target| target["address"] == *address).expect("a target");
        let names = target["vantages"].as_array().expect("vantages");
        let place = |one: &Value| {
            let name = one["server"].as_str().expect("a name");
            PROBERS.iter().position(|prober| name.starts_with(prober)).expect("a prober")
        };
        names.iter().map(place).collect()
    }
}

#[test]
fn server_that_only_answers_leaves_out_what_the_probers_find_dead() {
    let Some(mut scene) = Scene::start("seen", 6) else { return };
    for last in 1..=6 {
        assert!(scene.has(last), "127.0.11.{last}");
    }
    // Each target is probed by two of the three, and no server has all.
    let mut by_prober = [0; 3];
    (1..=6).flat_map(|last| scene.probers_of(last)).for_each(|prober| by_prober[prober] += 1);
    assert_eq!(by_prober.iter().sum::<i32>(), 12);
    assert_eq!(scene.findings(), 12, "one for each target and prober");

    scene.targets[0] = None;
    let died = Instant::now();
    until_true("it is left out", || !scene.has(1));
    // How soon depends on what else the machine does.
    let goal = DETECTION + Duration::from_secs(1);
    println!("left out after {:.2?}; the goal is {goal:.2?}", died.elapsed());
    assert!((2..=6).all(|last| scene.has(last)));
    let seen = scene.seen();
    let dead = seen.iter().find(|target| target["address"] == "127.0.11.1").expect("it is listed");
    assert_eq!(dead["reason"], "connection refused", "{dead}");
    let listed = String::from_utf8(scene.dns.run(&["health"], true).stdout).expect("UTF-8");
    assert!(listed.contains("connection refused"), "{listed}");

    // A start without etcd names no dead address.
    let saved = scene.dns.served.folder.join("data/health.state");
    until_true("it is saved", || {
        fs::read_to_string(&saved).is_ok_and(|text| text.contains("down"))
    });
    scene.etcd.kill(0);
    scene.dns.served.signal(Signal::KILL);
    scene.dns.served.status();
    scene.dns = scene.dns.restarted();
    assert!(!scene.has(1) && (2..=6).all(|last| scene.has(last)));
    scene.etcd.start(0);
    scene.targets[0] = Some(TcpListener::bind(("127.0.11.1", scene.port)).expect("its port"));
    until_true("it is answered again", || scene.has(1));
}

/// The names of the zone file, each with an address of its own beside one that all have, and
/// whether their number is the campaign's.
fn names() -> (usize, bool) {
    let names = env::var("DUNLIN_CHECKED_NAMES").ok().and_then(|names| names.parse().ok());
    (names.unwrap_or(200), names.is_some())
}

/// A web server on all of 127.11.0.0/16, which drops connections to dead addresses: those whose
/// third byte is at least that of `dead`.
fn web_server(dead: Arc<AtomicU8>) -> u16 {
    let listener = TcpListener::bind(("0.0.0.0", 0)).expect("a port");
    rustix::net::listen(&listener, 4_096).expect("it listens");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let Ok(SocketAddr::V4(at)) = stream.local_addr() else { continue };
            if at.ip().octets()[2] < dead.load(Ordering::Relaxed) {
                // The request is short, and need not be read before the response.
                let _ = (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                let _ = stream.shutdown(Shutdown::Write);
            }
        }
    });
    port
}

/// A zone file whose names have the addresses of `own`, and 127.11.0.1.
fn zone_of(folder: &Folder, names: usize, own: impl Fn(usize) -> [u8; 4]) -> PathBuf {
    let name = |n: usize| {
        let [a, b, c, d] = own(n);
        format!("n{n} A {a}.{b}.{c}.{d}\nn{n} A 127.11.0.1\n")
    };
    let file = folder.join("checked.zone");
    let names: String = (0..names).map(name).collect();
    fs::write(&file, format!("{}{names}", crate::served::HEAD)).expect("a zone");
    file
}

/// A quarter of the addresses die together with one of three servers that probe them.
#[test]
#[ignore = "slow: three servers probe 201 addresses every second"]
fn dead_addresses_of_a_file_zone_are_left_out_also_if_a_prober_dies_with_them() {
    /// 3 × 1 s × 1.1 + 0.5 s, and what it takes to tell all servers.
    const GOAL: Duration = Duration::from_secs(4);
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let dead = Arc::new(AtomicU8::new(u8::MAX));
    let port = web_server(Arc::clone(&dead));
    let (names, is_campaign) = names();
    let (eighth, first_dead) = (names.div_ceil(8), 6 * names.div_ceil(8));
    let own = |n: usize| [127, 11, 1 + (n / eighth) as u8, (n % eighth) as u8];
    let folder = Folder::new("fleet-default-check");
    let file = zone_of(&folder, names, own);
    let sections = format!(
        "[health]\nallow = [\"127.11.0.0/16\"]\n[check.web]\nkind = \"http\"\nport = {port}\n\
         path = \"/\"\ninterval = \"1s\"\ntimeout = \"500ms\"\n[[zone]]\n\
         name = \"checked.example\"\nfile = {file:?}\n[zone.check]\nname = \"web\"\n\
         except = [\"ns.checked.example\"]\n"
    );
    let node = |name: &str, roles: &str| {
        Node::start_without_health(name, &etcd, &format!("roles = [{roles:?}]"), &sections)
    };
    let dns = node("fd-dns", "dns");
    let mut probers = ["fd-probe-1", "fd-probe-2", "fd-probe-3"].map(|name| node(name, "health"));
    let states = || {
        let output = dns.run(&["health", "-o", "json"], true);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let targets = report["targets"].as_array().cloned().unwrap_or_default();
        let is_up = |by: &Vec<Value>| by.len() == 2 && by.iter().all(|one| one["state"] == "up");
        let by_both = |one: &&Value| one["vantages"].as_array().is_some_and(is_up);
        (targets.len(), targets.iter().filter(by_both).count())
    };
    // An address that all names have is one target, and so are those of each.
    until_value("targets that are up", states, |states| *states == (1 + names, 1 + names));
    let has = |n: usize| answers(&dns, &format!("n{n}.checked.example"), own(n));
    assert!((0..names).all(has), "all are answered");

    dead.store(1 + 6, Ordering::Relaxed);
    let died = Instant::now();
    probers[0].served.signal(Signal::KILL);
    // What is left out once is not looked at again until all are.
    let left = Cell::new(first_dead);
    until_true("a quarter is left out", || {
        while left.get() < names && !has(left.get()) {
            left.set(left.get() + 1);
        }
        left.get() == names
    });
    let took = died.elapsed();
    // How soon depends on what else the machine does.
    println!("{names} names: left out after {took:.2?}; the goal is {GOAL:.2?}");
    assert!(!is_campaign || took <= GOAL, "{took:?}");
    assert!((first_dead..names).all(|n| !has(n)), "what is left out stays so");
    assert!((0..first_dead).all(has), "those that live are answered");
    let shared = |n: usize| answers(&dns, &format!("n{n}.checked.example"), [127, 11, 0, 1]);
    assert!((0..names).all(shared), "and so is what all names have");
    probers[0].served.status();
}

#[test]
fn one_prober_alone_takes_nothing_down_and_a_killed_one_is_replaced() {
    let Some(mut scene) = Scene::start("vote", 3) else { return };
    // One of its two probers is stopped: the other one's word is not enough.
    let [one, other] = scene.probers_of(1)[..] else { panic!("two probers") };
    scene.probers[one].served.signal(Signal::STOP);
    scene.targets[0] = None;
    let died = Instant::now();
    until_true("the other one says so", || {
        let seen = scene.seen();
        let target = seen.iter().find(|target| target["address"] == "127.0.11.1").expect("there");
        let vantages = target["vantages"].as_array().expect("vantages").clone();
        // It has replaced the stopped one once that is not a member.
        vantages.iter().any(|vantage| vantage["state"] == "down")
    });
    assert_ne!(one, other);
    // The word of the stopped one does not count once it is silent. Once it is not a member, the
    // third one takes its place.
    until_true("it is left out", || !scene.has(1));
    println!("left out {:.2?} after both died; the lease lasts 10 s", died.elapsed());
    until_true("the third one probes it", || !scene.probers_of(1).contains(&one));
    assert!(scene.has(2) && scene.has(3));
    let now = scene.probers_of(1);
    assert!(!now.contains(&one) && now.len() == 2, "{now:?}");

    // What the stopped one said before does not count when it continues.
    scene.probers[one].served.signal(Signal::CONT);
    until_true("it is a member again", || scene.probers_of(1).contains(&one));
    let name = PROBERS[one];
    until_true("it finds the dead one itself", || {
        assert!(!scene.has(1), "a dead address is named");
        let seen = scene.seen();
        let target = seen.iter().find(|target| target["address"] == "127.0.11.1").expect("there");
        let vantages = target["vantages"].as_array().expect("vantages");
        vantages.iter().any(|one| {
            one["server"].as_str().is_some_and(|server| server.starts_with(name))
                && one["state"] == "down"
        })
    });
    // Without any prober, addresses that are down stay down, and the others are unknown.
    for prober in &mut scene.probers {
        prober.served.signal(Signal::KILL);
        prober.served.status();
    }
    until_true("none is a member", || {
        scene.seen().iter().all(|target| target["vantages"].is_null())
    });
    let in_state = |state: &str| {
        let seen = scene.seen();
        seen.iter().filter(|target| target["state"] == *state).count()
    };
    until_true("two are unknown", || in_state("unknown") == 2 && in_state("down") == 1);
    assert!(!scene.has(1) && scene.has(2) && scene.has(3));
    let listed = String::from_utf8(scene.dns.run(&["health"], true).stdout).expect("UTF-8");
    assert!(listed.contains("none with the role `health` is a member"), "{listed}");
}
