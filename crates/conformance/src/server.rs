//! Servers: started on a free port of the loopback network, stopped when dropped.

use std::fmt::Write;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::Result;
use crate::client;
use crate::limits::{LOG_LINES_MAX, START_TIMEOUT, STOP_TIMEOUT};
use crate::names::Name;
use crate::zone::Zone;

/// Which program answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Software {
    /// This project's own.
    Dunlin,
    /// Knot DNS (Debian: `knot`).
    Knot,
    /// NLnet Labs' NSD (Debian: `nsd`).
    Nsd,
    /// ISC BIND (Debian: `bind9`).
    Bind,
}

impl Software {
    /// Its name in reports and in `reasons.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dunlin => "dunlin",
            Self::Knot => "knot",
            Self::Nsd => "nsd",
            Self::Bind => "bind",
        }
    }

    /// The software called `name`.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Dunlin, Self::Knot, Self::Nsd, Self::Bind].into_iter().find(|s| s.name() == name)
    }

    /// Its binary, or what to do to have one.
    pub fn binary(self) -> Result<PathBuf> {
        let (file, package) = match self {
            Self::Dunlin => return dunlin(),
            Self::Knot => ("knotd", "knot"),
            Self::Nsd => ("nsd", "nsd"),
            Self::Bind => ("named", "bind9"),
        };
        let path = std::env::var("PATH").unwrap_or_default();
        path.split(':')
            .chain(["/usr/sbin", "/usr/local/sbin"])
            .map(|directory| Path::new(directory).join(file))
            .find(|path| path.is_file())
            .ok_or_else(|| format!("no {file} here (Debian: apt install {package})"))
    }
}

/// `DUNLIN_BIN`, or what cargo builds now, in the profile of the test.
fn dunlin() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("DUNLIN_BIN") {
        return Ok(path.into());
    }
    let test = std::env::current_exe().map_err(|e| e.to_string())?;
    let profile = test.ancestors().nth(2).ok_or("a test lies in target/PROFILE/deps")?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package", "dunlin"]);
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let built = cargo.status().map_err(|e| format!("cargo: {e}"))?;
    if built.success() { Ok(profile.join("dunlin")) } else { Err("dunlin does not build".into()) }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    /// Which program.
    pub software: Software,
    /// Where it answers, over UDP and TCP.
    pub address: SocketAddr,
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts `software` on `zones` and waits until it answers with authority for each of them.
    pub fn start(software: Software, zones: &[Zone], directory: &Path) -> Result<Self> {
        let directory = directory.join(software.name());
        std::fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        let address = free_address()?;
        let config = directory.join("config");
        let text = match software {
            Software::Dunlin => config_dunlin(zones, address),
            Software::Knot => config_knot(zones, address, &directory),
            Software::Nsd => config_nsd(zones, address, &directory),
            Software::Bind => config_bind(zones, address, &directory),
        };
        std::fs::write(&config, text).map_err(|e| format!("{}: {e}", config.display()))?;
        let log = directory.join("log");
        let output = File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let again = output.try_clone().map_err(|e| e.to_string())?;
        let mut command = Command::new(software.binary()?);
        match software {
            Software::Dunlin => command.args(["serve", "-c"]).arg(&config),
            Software::Knot => command.arg("-c").arg(&config),
            Software::Nsd => command.args(["-d", "-c"]).arg(&config),
            Software::Bind => command.args(["-g", "-n", "1", "-c"]).arg(&config),
        };
        command.current_dir(&directory).stdin(Stdio::null()).stdout(output).stderr(again);
        let child = command.spawn().map_err(|e| format!("{}: {e}", software.name()))?;
        let mut server = Self { software, address, child, log };
        server.wait_for(zones.iter().map(|zone| &zone.name))?;
        Ok(server)
    }

    /// Asks the process to read its zones again.
    pub fn reload(&self) -> Result<()> {
        kill_process(self.pid(), Signal::HUP).map_err(|e| e.to_string())
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn wait_for<'a>(&mut self, zones: impl Iterator<Item = &'a Name>) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        for zone in zones {
            while !client::is_authority(self.address, zone) {
                let ended = self.child.try_wait().map_err(|e| e.to_string())?;
                if ended.is_some() || Instant::now() > deadline {
                    let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                    let name = self.software.name();
                    let log = log.lines().rev().take(LOG_LINES_MAX).collect::<Vec<_>>().join("\n");
                    return Err(format!("{name} does not serve {zone} ({ended:?}):\n{log}"));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let deadline = Instant::now() + STOP_TIMEOUT;
        let asked = kill_process(self.pid(), Signal::TERM);
        while asked.is_ok() && Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // A process that has ended meanwhile is no failure: there is nothing left to stop.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address that nobody listens on, over UDP or TCP. It is 127.0.0.1, because BIND binds only to
/// addresses which an interface has.
fn free_address() -> Result<SocketAddr> {
    for _ in 0..100 {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|e| e.to_string())?;
        let address = udp.local_addr().map_err(|e| e.to_string())?;
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err("no port is free for both UDP and TCP".into())
}

fn config_dunlin(zones: &[Zone], address: SocketAddr) -> String {
    let mut text = format!("[server]\nlisten = [\"{address}\"]\nlocal_zones = false\n");
    for Zone { name, file, .. } in zones {
        let name = name.fmt_with_dot();
        writeln!(text, "[[zone]]\nname = \"{name}\"\nfile = {file:?}").unwrap();
    }
    text
}

fn config_knot(zones: &[Zone], address: SocketAddr, directory: &Path) -> String {
    let (ip, port) = (address.ip(), address.port());
    let mut text = format!(
        "server:\n  rundir: {directory:?}\n  listen: {ip}@{port}\n  udp-workers: 1\n  \
         tcp-workers: 1\n  background-workers: 1\n  udp-max-payload: 1232\n  version: \"\"\n  \
         identity: \"\"\nlog:\n  - target: stderr\n    any: warning\n\
         database:\n  storage: {directory:?}\n\
         template:\n  - id: default\n    storage: {directory:?}\n    journal-content: none\n    \
         zonefile-sync: -1\n    semantic-checks: off\nzone:\n"
    );
    for Zone { name, file, .. } in zones {
        writeln!(text, "  - domain: {name}.\n    file: {file:?}").unwrap();
    }
    text.replace("domain: ..", "domain: .")
}

fn config_nsd(zones: &[Zone], address: SocketAddr, directory: &Path) -> String {
    let (ip, port) = (address.ip(), address.port());
    let mut text = format!(
        "server:\n  ip-address: {ip}@{port}\n  server-count: 1\n  username: \"\"\n  \
         chroot: \"\"\n  zonesdir: {directory:?}\n  database: \"\"\n  pidfile: \"\"\n  \
         zonelistfile: \"{0}/zone.list\"\n  xfrdfile: \"{0}/xfrd.state\"\n  \
         xfrdir: {directory:?}\n  cookie-secret-file: \"{0}/cookie\"\n  hide-version: yes\n  \
         ipv4-edns-size: 1232\n  rrl-ratelimit: 0\n  minimal-responses: yes\n  tcp-count: 64\n\
         remote-control:\n  control-enable: no\n",
        directory.display()
    );
    for Zone { name, file, .. } in zones {
        let name = name.fmt_with_dot();
        writeln!(text, "zone:\n  name: \"{name}\"\n  zonefile: {file:?}").unwrap();
    }
    text
}

fn config_bind(zones: &[Zone], address: SocketAddr, directory: &Path) -> String {
    let (ip, port) = (address.ip(), address.port());
    let mut text = format!(
        "options {{\n  directory {directory:?};\n  listen-on port {port} {{ {ip}; }};\n  \
         listen-on-v6 {{ none; }};\n  pid-file none;\n  lock-file none;\n  \
         session-keyfile none;\n  managed-keys-directory {directory:?};\n  recursion no;\n  \
         dnssec-validation no;\n  empty-zones-enable no;\n  notify no;\n  \
         allow-query {{ any; }};\n  \
         check-names primary ignore;\n  check-integrity no;\n  check-sibling no;\n  \
         check-mx ignore;\n  check-srv-cname ignore;\n  check-mx-cname ignore;\n  \
         minimal-responses no-auth;\n  edns-udp-size 1232;\n  max-udp-size 1232;\n  \
         answer-cookie no;\n  zero-no-soa-ttl no;\n  max-records-per-type 0;\n  \
         max-types-per-name 0;\n  version none;\n  hostname none;\n  server-id none;\n  \
         querylog no;\n}};\ncontrols {{ }};\n\
         logging {{ category default {{ default_stderr; }}; \
         category query-errors {{ null; }}; }};\n"
    );
    for Zone { name, file, .. } in zones {
        let name = name.fmt_with_dot();
        writeln!(text, "zone \"{name}\" {{ type primary; file {file:?}; }};").unwrap();
    }
    text
}
