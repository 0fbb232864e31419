//! BIND, Knot and NSD as secondaries: they follow what is written over REST, by NOTIFY and IXFR.
use crate::served::Process;
use crate::transfer::{records, served};
use crate::update::{Scene, lacks_tools};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::process::{Command, Stdio};
use test_support::ports::free_address;
use test_support::skip::skip;
use test_support::wait;

/// A server of other software that has `z.example` from this one.
struct Secondary {
    name: &'static str,
    address: SocketAddrV4,
    /// The last serial that it answered.
    serial: u32,
    _process: Process,
}

/// What the config of a secondary names.
struct Names<'n> {
    folder: &'n Path,
    /// The port of this server, and that of the secondary.
    ports: (u16, u16),
    secret: &'n str,
    /// The file with the key, as BIND reads it.
    key: &'n Path,
}

type Config = fn(&Names<'_>) -> String;

/// Each software: its name, its program with arguments before the config, and the config.
const SOFTWARE: [(&str, &[&str], Config); 3] = [
    ("knot", &["knotd", "-c"], knot),
    ("bind", &["named", "-g", "-n", "1", "-c"], bind),
    ("nsd", &["nsd", "-d", "-c"], nsd),
];

fn knot(names: &Names<'_>) -> String {
    let Names { folder, ports: (ours, theirs), secret, .. } = names;
    let folder = folder.display();
    format!(
        "server:\n  rundir: {folder}\n  listen: 127.0.0.1@{theirs}\n\
         database:\n  storage: {folder}\n\
         key:\n  - id: sec\n    algorithm: hmac-sha256\n    secret: {secret}\n\
         remote:\n  - id: dunlin\n    address: 127.0.0.1@{ours}\n    key: sec\n\
         acl:\n  - id: notify\n    key: sec\n    action: notify\n\
         \x20 - id: read\n    address: 127.0.0.1\n    action: transfer\n\
         zone:\n  - domain: z.example\n    storage: {folder}\n    master: dunlin\n    \
         acl: [notify, read]\n"
    )
}

fn bind(names: &Names<'_>) -> String {
    let Names { folder, ports: (ours, theirs), key, .. } = names;
    let (folder, key) = (folder.display(), key.display());
    format!(
        "include \"{key}\";\noptions {{ directory \"{folder}\"; listen-on port {theirs} \
         {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; pid-file none; session-keyfile none; \
         recursion no; dnssec-validation no; allow-transfer {{ any; }}; }};\ncontrols {{}};\n\
         zone \"z.example\" {{ type secondary; file \"z\"; primaries port {ours} \
         {{ 127.0.0.1 key sec; }}; }};\n"
    )
}

fn nsd(names: &Names<'_>) -> String {
    let Names { folder, ports: (ours, theirs), secret, .. } = names;
    let folder = folder.display();
    format!(
        "server:\n  ip-address: 127.0.0.1\n  port: {theirs}\n  username: \"\"\n  \
         zonesdir: {folder}\n  xfrdir: {folder}\n  xfrdfile: {folder}/xfrd\n  \
         zonelistfile: {folder}/list\n  pidfile: {folder}/pid\n  cookie-secret-file: \"\"\n  \
         database: \"\"\n  verbosity: 2\nremote-control:\n  control-enable: no\n\
         key:\n  name: sec\n  algorithm: hmac-sha256\n  secret: \"{secret}\"\n\
         zone:\n  name: z.example\n  zonefile: z\n  request-xfr: 127.0.0.1@{ours} sec\n  \
         allow-notify: 127.0.0.1 sec\n  provide-xfr: 127.0.0.1 NOKEY\n"
    )
}

impl Secondary {
    /// Starts each software that is here.
    fn start_all(scene: &Scene, key: &Path, addresses: &[SocketAddrV4]) -> Vec<Self> {
        let ours = scene.served.address.port();
        let text = fs::read_to_string(key).expect("a key");
        let secret = text.split("secret \"").nth(1).and_then(|rest| rest.split('"').next());
        let secret = secret.expect("a secret");
        let mut all = Vec::new();
        for ((name, program, config), address) in SOFTWARE.into_iter().zip(addresses) {
            let folder = scene.file(name);
            fs::create_dir_all(&folder).expect("a folder");
            let names = Names { folder: &folder, ports: (ours, address.port()), secret, key };
            let file = folder.join("config");
            fs::write(&file, config(&names)).expect("a config");
            let log = File::create(folder.join("log")).expect("a log");
            let mut command = Command::new(program[0]);
            command.env("PATH", "/usr/sbin:/usr/local/sbin:/usr/bin:/bin");
            command.args(&program[1..]).arg(&file).stdin(Stdio::null());
            command.stdout(log.try_clone().expect("a descriptor")).stderr(log);
            match command.spawn() {
                Ok(child) => {
                    let (address, _process) = (*address, Process(child));
                    all.push(Self { name, address, serial: 0, _process });
                }
                Err(_) => skip(&format!("{name} (Debian: {name} or {name}9)")),
            }
        }
        all
    }

    fn dig(&self, args: &[&str]) -> String {
        let (port, ip) = (self.address.port().to_string(), self.address.ip().to_string());
        let mut command = Command::new("dig");
        command.args([&format!("@{ip}"), "-p", &port, "+tries=1", "+time=2", "+noedns"]);
        let output = command.args(args).output().expect("dig runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Notes its serial, which only grows.
    fn read_serial(&mut self) -> u32 {
        let soa = self.dig(&["+short", "z.example", "SOA"]);
        let serial = soa.split(' ').nth(2).and_then(|serial| serial.parse().ok()).unwrap_or(0);
        if serial != 0 {
            assert!(serial >= self.serial, "{}: {serial} after {}", self.name, self.serial);
            self.serial = serial;
        }
        serial
    }

    /// Waits until it has this version of the zone.
    fn await_zone(&mut self, serial: u32, expected: &BTreeSet<String>) {
        let what = format!("serial {serial} of {}", self.name);
        wait::until_eq(&what, || self.read_serial(), serial);
        let zone = self.dig(&["+noall", "+answer", "+onesoa", "z.example", "AXFR"]);
        let zone: BTreeSet<String> = records(&zone);
        let differ: Vec<_> = zone.symmetric_difference(expected).take(5).collect();
        assert!(differ.is_empty(), "{}: {differ:?}", self.name);
    }
}

/// Writes random content to the zone.
fn change(scene: &Scene, random: &mut fastrand::Rng) {
    let (mut text, file) = ("@ 60 NS ns.z.example.\nns 60 A 192.0.2.1\n".to_owned(), "random.zone");
    for number in 0..random.u8(1..60) {
        let owner = random.u8(..) % 100;
        // The TTL of a set is one.
        let ttl = 60 + u32::from(owner) % 2;
        let _ = match number % 3 {
            0 => writeln!(text, "n{owner} {ttl} TXT \"text {number}; of \\\"{owner}\\\"\""),
            1 => writeln!(text, "*.w{owner} {ttl} MX 10 n{number}"),
            _ => writeln!(text, "a{owner} 60 A 10.0.{owner}.{number}"),
        };
    }
    let file = scene.file(file);
    fs::write(&file, text).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let args = ["records", "import", "z.example", file, "--replace", "--accept-loss", "--yes"];
    scene.api(&args);
}

fn follow(test: &str, rounds: usize) {
    if lacks_tools() {
        return;
    }
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let addresses: Vec<_> = SOFTWARE.iter().map(|_| free_address(Ipv4Addr::LOCALHOST)).collect();
    let targets: Vec<String> = addresses.iter().map(|at| format!("\"{at}#sec\"")).collect();
    let notify = targets.join(", ");
    let config = format!("[transfer]\nenabled = true\nnotify = [{notify}]\n");
    let scene = Scene::start_with(test, &config);
    let key = scene.key("sec", "read z.example", "--tsig");
    change(&scene, &mut random);
    let mut all = Secondary::start_all(&scene, &key, &addresses);
    for round in 0..rounds {
        change(&scene, &mut random);
        if round % 5 == 0 || round + 1 == rounds {
            let (serial, zone) = (scene.serial().parse().expect("a serial"), served(&scene));
            all.iter_mut().for_each(|secondary| secondary.await_zone(serial, &zone));
        }
    }
    let status = scene.local(&["status", "-o", "json"]).replace([' ', '\n'], "");
    let count = |name: &str| -> u64 {
        let text = status.split(&format!("\"{name}\":")).nth(1).unwrap_or_default();
        text.split([',', '}']).next().and_then(|count| count.parse().ok()).unwrap_or_default()
    };
    assert!(all.is_empty() || count("incremental") > 0, "{status}");
    assert!(all.is_empty() || count("acknowledged") > 0, "{status}");
}

#[test]
fn secondaries_follow_random_changes_by_notify_and_ixfr() {
    follow("secondaries", 15);
}

#[test]
#[ignore = "slow: a thousand random changes, some minutes"]
fn secondaries_follow_a_thousand_random_changes() {
    follow("secondaries-many", 1_000);
}
