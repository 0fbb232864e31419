//! Zones of primaries: BIND, Knot, NSD and PowerDNS, with TSIG, changes and kills.
use crate::served::{Process, Served, binary, short_socket, text};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use test_support::ports::free_address;
use test_support::skip::skip;
use test_support::wait::{until_exit, until_ok, until_true};

const ZONE: &str = "z.example";
const SECRET: &str = "dGhpcyBpcyBhIHNlY3JldCBvZiB0aGUgdGVzdHM=";

#[derive(Clone, Copy, Debug)]
enum Software {
    Bind,
    Knot,
    Nsd,
    PowerDns,
}

/// A primary on files in its folder.
struct Primary {
    software: Software,
    folder: PathBuf,
    address: SocketAddrV4,
    process: Option<Process>,
}

impl Primary {
    /// Starts it; `None`: it is not installed. It notifies `secondary`.
    fn start(software: Software, folder: &Path, secondary: SocketAddrV4) -> Option<Self> {
        let address = free_address(Ipv4Addr::LOCALHOST);
        let mut this = Self { software, folder: folder.into(), address, process: None };
        fs::write(folder.join("config"), this.config(secondary)).expect("a file");
        if matches!(software, Software::PowerDns) {
            this.create_database()?;
        }
        this.run().then_some(this)
    }

    fn config(&self, secondary: SocketAddrV4) -> String {
        let (port, notified, folder) = (self.address.port(), secondary.port(), &self.folder);
        let dir = folder.display();
        match self.software {
            Software::Bind => format!(
                "key \"transfer\" {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};\n\
                 options {{ directory \"{dir}\"; listen-on port {port} {{ 127.0.0.1; }};\n\
                 listen-on-v6 {{ none; }}; recursion no; dnssec-validation no; pid-file none;\n\
                 session-keyfile none; notify explicit; notify-delay 0;\n\
                 also-notify {{ 127.0.0.1 port {notified}; }};\n\
                 allow-transfer {{ key transfer; }}; ixfr-from-differences yes; }};\n\
                 controls {{ }};\nzone \"{ZONE}\" {{ type primary; file \"zone\"; }};\n"
            ),
            Software::Knot => format!(
                "server:\n  rundir: {folder:?}\n  listen: 127.0.0.1@{port}\n\
                 database:\n  storage: {folder:?}\n\
                 key:\n  - id: transfer.\n    algorithm: hmac-sha256\n    secret: {SECRET}\n\
                 remote:\n  - id: dunlin\n    address: 127.0.0.1@{notified}\n\
                 acl:\n  - id: transfer\n    key: transfer.\n    action: transfer\n\
                 template:\n  - id: default\n    storage: {folder:?}\n    zonefile-sync: -1\n    \
                 zonefile-load: difference\n    journal-content: changes\n\
                 zone:\n  - domain: {ZONE}\n    file: zone\n    notify: dunlin\n    acl: transfer\n"
            ),
            Software::Nsd => format!(
                "server:\n  ip-address: 127.0.0.1@{port}\n  server-count: 1\n  username: \"\"\n  \
                 chroot: \"\"\n  zonesdir: \"{dir}\"\n  database: \"\"\n  \
                 pidfile: \"{dir}/pid\"\n  \
                 zonelistfile: \"{dir}/list\"\n  xfrdfile: \"{dir}/xfrd\"\n  xfrdir: \"{dir}\"\n  \
                 rrl-ratelimit: 0\nremote-control:\n  control-enable: no\n\
                 key:\n  name: \"transfer\"\n  algorithm: hmac-sha256\n  secret: \"{SECRET}\"\n\
                 zone:\n  name: \"{ZONE}\"\n  zonefile: \"zone\"\n  create-ixfr: yes\n  \
                 provide-xfr: 127.0.0.1 transfer\n  notify: 127.0.0.1@{notified} NOKEY\n"
            ),
            Software::PowerDns => format!(
                "launch=gsqlite3\ngsqlite3-database={dir}/zones.sqlite\nlocal-address=127.0.0.1\n\
                 local-port={port}\nsocket-dir={dir}\ndaemon=no\nguardian=no\nprimary=yes\n\
                 cache-ttl=0\nquery-cache-ttl=0\nnegquery-cache-ttl=0\nallow-axfr-ips=\n\
                 zone-cache-refresh-interval=0\nzone-metadata-cache-ttl=0\ndisable-axfr=no\n"
            ),
        }
    }

    fn create_database(&self) -> Option<()> {
        let schema = "/usr/share/doc/pdns-backend-sqlite3/schema.sqlite3.sql";
        let schema = fs::read(schema).ok()?;
        fs::copy(self.folder.join("config"), self.folder.join("pdns.conf")).expect("a copy");
        let mut sqlite = Command::new("sqlite3");
        sqlite.arg(self.folder.join("zones.sqlite")).stdin(Stdio::piped());
        let mut sqlite = sqlite.spawn().ok()?;
        sqlite.stdin.take()?.write_all(&schema).ok()?;
        until_exit("sqlite3", &mut sqlite).success().then_some(())?;
        self.pdnsutil(&["load-zone", ZONE, "zone"])?;
        self.pdnsutil(&["set-kind", ZONE, "primary"])?;
        self.pdnsutil(&["import-tsig-key", "transfer", "hmac-sha256", SECRET])?;
        self.pdnsutil(&["activate-tsig-key", ZONE, "transfer", "primary"])
    }

    fn pdnsutil(&self, args: &[&str]) -> Option<()> {
        let mut command = Command::new("pdnsutil");
        command.arg(format!("--config-dir={}", self.folder.display())).args(args);
        let output = command.current_dir(&self.folder).output().ok()?;
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        Some(())
    }

    /// Starts its process; `false`: it is not installed.
    fn run(&mut self) -> bool {
        let (program, args): (&str, &[&str]) = match self.software {
            Software::Bind => ("/usr/sbin/named", &["-g", "-n", "1", "-c", "config"]),
            Software::Knot => ("/usr/sbin/knotd", &["-c", "config"]),
            Software::Nsd => ("/usr/sbin/nsd", &["-d", "-c", "config"]),
            Software::PowerDns => ("/usr/sbin/pdns_server", &["--config-dir=."]),
        };
        let log = fs::File::options().create(true).append(true).open(self.folder.join("log"));
        let log = log.expect("a file");
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.folder).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a file")).stderr(log);
        let Ok(child) = command.spawn() else { return false };
        self.process = Some(Process(child));
        until_ok("the primary listens", || TcpStream::connect(self.address));
        true
    }

    fn kill(&mut self) {
        let Some(Process(child)) = &mut self.process else { return };
        child.kill().expect("it runs");
        until_exit("the primary", child);
        self.process = None;
        // After a kill, BIND refuses a zone whose file is newer than its journal.
        let _ = fs::remove_file(self.folder.join("zone.jnl"));
        // Its helper processes may end after it.
        until_true("its port is free", || TcpStream::connect(self.address).is_err());
        assert!(self.run());
    }

    /// Makes it load its zone file.
    fn reload(&self) {
        if let Software::PowerDns = self.software {
            self.pdnsutil(&["load-zone", ZONE, "zone"]);
        } else if let Some(Process(child)) = &self.process {
            let pid = rustix::process::Pid::from_child(child);
            rustix::process::kill_process(pid, Signal::HUP).expect("it runs");
        }
    }
}

/// A zone that changes at random.
struct Zone {
    random: fastrand::Rng,
    serial: u32,
    records: BTreeMap<String, String>,
}

impl Zone {
    fn new(seed: u64) -> Self {
        let records = [("@ NS", "ns.z.example."), ("ns A", "192.0.2.1")];
        let records = records.map(|(name, data)| (name.to_owned(), data.to_owned())).into();
        let mut zone = Self { random: fastrand::Rng::with_seed(seed), serial: 1, records };
        (0..40).for_each(|_| zone.change_one());
        zone
    }

    fn change_one(&mut self) {
        let number = self.random.u8(1..100);
        let (key, data) = match self.random.u8(..4) {
            0 => (format!("t{number} TXT"), format!("\"a{}\"", self.random.u16(..))),
            1 => (format!("m{number}.sub MX"), format!("10 h{}.test.", self.random.u8(..9))),
            _ => (format!("a{number} A"), format!("198.51.100.{}", self.random.u8(..))),
        };
        match self.random.bool() || self.records.len() < 30 {
            true => drop(self.records.insert(key, data)),
            false => drop(self.records.remove(&key)),
        }
    }

    fn change(&mut self) {
        self.serial += self.random.u32(1..4);
        (0..self.random.u8(1..12)).for_each(|_| self.change_one());
    }

    fn text(&self) -> String {
        let serial = self.serial;
        let mut text = format!(
            "$ORIGIN {ZONE}.\n$TTL 60\n@ SOA ns.z.example. root.z.example. {serial} 2 2 1000 60\n"
        );
        for (key, data) in &self.records {
            let (name, rtype) = key.split_once(' ').expect("a type");
            writeln!(text, "{name} {rtype} {data}").expect("a String takes all");
        }
        text
    }

    /// Its records as a dump has them.
    fn lines(&self) -> BTreeSet<String> {
        let line = |(key, data): (&String, &String)| {
            let (name, rtype) = key.split_once(' ').expect("a type");
            let name = if name == "@" { format!("{ZONE}.") } else { format!("{name}.{ZONE}.") };
            format!("{name} {rtype} {data}")
        };
        let soa = format!("{ZONE}. SOA ns.{ZONE}. root.{ZONE}. {} 2 2 1000 60", self.serial);
        self.records.iter().map(line).chain([soa]).collect()
    }
}

/// What Dunlin serves: its serial, and each record without its TTL and class.
fn served(socket: &str) -> Result<(u32, BTreeSet<String>), String> {
    let mut command = binary();
    command.args(["zones", "dump", ZONE, "--socket", socket]);
    let output = command.output().map_err(|why| why.to_string())?;
    if !output.status.success() {
        return Err(text(&output.stderr));
    }
    let (mut serial, mut lines) = (None, BTreeSet::new());
    for line in text(&output.stdout).lines().filter(|line| !line.starts_with([';', '$'])) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_type = |word: &&str| ["SOA", "NS", "A", "TXT", "MX"].contains(word);
        let at = words.iter().position(is_type).ok_or(line)?;
        if words[at] == "SOA" {
            serial = words[at + 3].parse().ok();
        }
        lines.insert(format!("{} {}", words[0], words[at..].join(" ")));
    }
    Ok((serial.ok_or("no SOA")?, lines))
}

/// Follows a primary through random changes, with kills of both sides.
fn follow(software: Software, rounds: usize) {
    let test = format!("secondary_{software:?}").to_lowercase();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}_primary"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let seed = fastrand::u64(..);
    println!("{software:?}: seed {seed}");
    let mut zone = Zone::new(seed);
    fs::write(folder.join("zone"), zone.text()).expect("a file");
    let listen = free_address(Ipv4Addr::LOCALHOST);
    let Some(mut primary) = Primary::start(software, &folder, listen) else {
        return skip(&format!("{software:?} as a primary"));
    };
    let socket = short_socket(&test).to_str().expect("UTF-8").to_owned();
    let config = format!(
        "listen = [\"{listen}\"]\ndrain = \"0s\"\n[admin]\nsocket = \"{socket}\"\n[[zone]]\n\
         name = \"{ZONE}\"\nprimaries = [\"{}\"]\nkey_file = \"transfer.key\"\n",
        primary.address
    );
    let key = format!("key \"transfer\" {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};\n");
    let mut dunlin = Served::start(&test, &config, &[("transfer.key", &key)]);
    let mut last = 0;
    for round in 0..=rounds {
        let what = format!("{software:?}: round {round}, serial {}, seed {seed}", zone.serial);
        until_ok(&what, || {
            let (serial, lines) = served(&socket)?;
            assert!(serial >= last, "{what}: the serial goes back from {last} to {serial}");
            last = serial;
            let differs = lines.symmetric_difference(&zone.lines()).cloned().collect::<Vec<_>>();
            if differs.is_empty() { Ok(()) } else { Err(format!("{differs:?}")) }
        });
        if round == rounds {
            break;
        }
        zone.change();
        let new = folder.join("zone.new");
        fs::write(&new, zone.text()).expect("a file");
        fs::rename(new, folder.join("zone")).expect("a file");
        primary.reload();
        match round % 3 {
            1 => primary.kill(),
            2 => {
                dunlin.signal(Signal::KILL);
                dunlin = dunlin.restarted();
            }
            _ => {}
        }
    }
    dunlin.end();
}

#[test]
fn zones_of_bind_are_followed_through_changes_and_kills() {
    follow(Software::Bind, 6);
}

#[test]
fn zones_of_knot_are_followed_through_changes_and_kills() {
    follow(Software::Knot, 6);
}

#[test]
fn zones_of_nsd_are_followed_through_changes_and_kills() {
    follow(Software::Nsd, 6);
}

#[test]
fn zones_of_powerdns_are_followed_through_changes_and_kills() {
    follow(Software::PowerDns, 6);
}

#[test]
#[ignore = "campaign: make campaign-kill-secondary"]
fn zones_are_followed_through_a_thousand_changes_and_kills() {
    for software in [Software::Bind, Software::Knot, Software::Nsd, Software::PowerDns] {
        follow(software, 1_000);
    }
}
