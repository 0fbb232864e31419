//! Servers: started on a free port of the loopback network, stopped when dropped.

use std::fmt::Write;
use std::fs::OpenOptions;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use lab_host::counters::{self, Socket};
use rustix::process::{Pid, Signal, kill_process};
use test_support::wait;

use crate::Result;
use crate::client;
use crate::limits::LOG_LINES_MAX;
use crate::names::Name;
use crate::ports::free_address;
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
    /// CoreDNS, which `scripts/require` builds; it serves what its sections say.
    CoreDns,
}

impl Software {
    /// Its name in reports and in `reasons.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dunlin => "dunlin",
            Self::Knot => "knot",
            Self::Nsd => "nsd",
            Self::Bind => "bind",
            Self::CoreDns => "coredns",
        }
    }

    /// The software called `name`.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Dunlin, Self::Knot, Self::Nsd, Self::Bind, Self::CoreDns];
        all.into_iter().find(|software| software.name() == name)
    }

    /// Its binary, or what to do to have one.
    pub fn binary(self) -> Result<PathBuf> {
        let (file, package) = match self {
            Self::Dunlin => return dunlin(),
            Self::Knot => ("knotd", "knot"),
            Self::Nsd => ("nsd", "nsd"),
            Self::Bind => ("named", "bind9"),
            Self::CoreDns => return test_support::tools::go("coredns", "COREDNS"),
        };
        find_binary(file, package)
    }
}

/// A program's binary, or what to do to have one.
pub fn find_binary(file: &str, package: &str) -> Result<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/usr/local/sbin"])
        .map(|directory| Path::new(directory).join(file))
        .find(|path| path.is_file())
        .ok_or_else(|| format!("no {file} here (Debian: apt install {package})"))
}

/// `DUNLIN_BIN`, or what cargo last built beside this program, if no source has changed since.
fn dunlin() -> Result<PathBuf> {
    static FOUND: OnceLock<Result<PathBuf>> = OnceLock::new();
    FOUND
        .get_or_init(|| std::env::var_os("DUNLIN_BIN").map_or_else(built, |p| Ok(p.into())))
        .clone()
}

fn built() -> Result<PathBuf> {
    let remedy = "run `cargo build --package dunlin` in the profile of the tests, or \
                  `cargo test --workspace`, which does";
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    // A test lies in target/PROFILE/deps, a program in target/PROFILE.
    let beside = own.ancestors().skip(1).take(2).map(|folder| folder.join("dunlin"));
    let program = beside
        .into_iter()
        .find(|path| path.is_file())
        .ok_or_else(|| format!("no dunlin beside {}: {remedy}", own.display()))?;
    match newer_source(&program) {
        None => Ok(program),
        Some(file) => {
            Err(format!("{} is older than {}: {remedy}", program.display(), file.display()))
        }
    }
}

/// A source of a program that was changed after the program was built. Cargo lists the sources
/// beside the program.
fn newer_source(program: &Path) -> Option<PathBuf> {
    let changed = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
    let built = changed(program)?;
    let list = std::fs::read_to_string(program.with_extension("d")).ok()?;
    let (_, sources) = list.split_once(": ")?;
    // A space in a path stands behind a backslash.
    let sources = sources.trim_end().replace("\\ ", "\0");
    let mut sources = sources.split(' ').map(|path| PathBuf::from(path.replace('\0', " ")));
    sources.find(|source| changed(source).is_some_and(|at| at > built))
}

/// What to start, and how.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Which program.
    pub software: Software,
    /// What it serves.
    pub zones: &'a [Zone],
    /// Where it answers; nothing: on a free port of 127.0.0.1.
    pub address: Option<SocketAddrV4>,
    /// Lines for Dunlin's `[server]`.
    pub keys: &'a str,
    /// Further sections of Dunlin's config, but for `[admin]`; the plugins of CoreDNS.
    pub sections: &'a str,
    /// A command that runs it, such as `ip netns exec NAME`, which becomes the server itself.
    pub within: &'a [&'a str],
}

impl<'a> Launch<'a> {
    /// `software` on `zones`, all else at its default.
    pub fn new(software: Software, zones: &'a [Zone]) -> Self {
        Self { software, zones, address: None, keys: "", sections: "", within: &[] }
    }

    fn config(&self, address: SocketAddrV4, directory: &Path) -> String {
        match self.software {
            Software::Dunlin => config_dunlin(self, address, directory),
            Software::Knot => config_knot(self.zones, address, directory),
            Software::Nsd => config_nsd(self.zones, address, directory),
            Software::Bind => config_bind(self.zones, address, directory),
            Software::CoreDns => config_coredns(self, address),
        }
    }

    /// The command that serves `config`, which writes to `log`.
    fn command(&self, config: &Path, log: &Path) -> Result<Command> {
        let binary = self.software.binary()?;
        let mut command = match self.within {
            [] => Command::new(binary),
            [first, others @ ..] => {
                let mut command = Command::new(first);
                command.args(others).arg(binary);
                command
            }
        };
        match self.software {
            Software::Dunlin => command.args(["serve", "-c"]).arg(config),
            Software::Knot => command.arg("-c").arg(config),
            Software::Nsd => command.args(["-d", "-c"]).arg(config),
            Software::Bind => command.args(["-g", "-n", "1", "-c"]).arg(config),
            Software::CoreDns => command.arg("-conf").arg(config),
        };
        let output = OpenOptions::new().create(true).append(true).open(log);
        let output = output.map_err(|e| format!("{}: {e}", log.display()))?;
        let again = output.try_clone().map_err(|e| e.to_string())?;
        command.stdin(Stdio::null()).stdout(output).stderr(again);
        Ok(command)
    }

    /// Starts it and waits until it answers with authority for each zone.
    pub fn start(self, directory: &Path) -> Result<Server> {
        let software = self.software;
        let directory = directory.join(software.name());
        std::fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        // BIND binds only to addresses which an interface has.
        let address = self.address.unwrap_or_else(|| free_address(Ipv4Addr::LOCALHOST));
        let (config, log) = (directory.join("config"), directory.join("log"));
        let text = self.config(address, &directory);
        std::fs::write(&config, text).map_err(|e| format!("{}: {e}", config.display()))?;
        let mut command = self.command(&config, &log)?;
        let child = command.current_dir(&directory).spawn();
        let child = child.map_err(|e| format!("{}: {e}", software.name()))?;
        let mut server = Server { software, address, config, child, log };
        server.wait_for(self.zones.iter().map(|zone| &zone.name))?;
        Ok(server)
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    /// Which program.
    pub software: Software,
    /// Where it answers, over UDP and TCP.
    pub address: SocketAddrV4,
    /// The config it was started with.
    pub config: PathBuf,
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts `software` on `zones` and waits until it answers with authority for each of them.
    pub fn start(software: Software, zones: &[Zone], directory: &Path) -> Result<Self> {
        Launch::new(software, zones).start(directory)
    }

    /// Writes the config again, in one step, as `launch` says.
    pub fn rewrite_config(&self, launch: &Launch<'_>) -> Result<()> {
        let new = self.config.with_extension("new");
        let directory = self.config.parent().ok_or("a config lies in a directory")?;
        let text = launch.config(self.address, directory);
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &self.config));
        written.map_err(|e| format!("{}: {e}", self.config.display()))
    }

    /// Does a hot restart with the config of `launch`, and waits until the old process has ended
    /// with success.
    pub fn hot_restart(&mut self, launch: &Launch<'_>) -> Result<()> {
        self.rewrite_config(launch)?;
        let mut command = launch.command(&self.config, &self.log)?;
        let child = command.arg("--hot-restart").spawn().map_err(|e| e.to_string())?;
        let mut old_process = std::mem::replace(&mut self.child, child);
        let ended = wait::try_until_ok("the end of the old process", || {
            old_process.try_wait().map_err(|e| e.to_string())?.ok_or("it runs".to_owned())
        });
        let failure = match ended {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => format!("the old process ended with {status}"),
            Err(why) => {
                let _ = old_process.kill();
                let _ = old_process.wait();
                why
            }
        };
        Err(format!("{failure}; the log ends:\n{}", self.log_end()))
    }

    /// Starts a new process with the config of `launch`. Once this many UDP sockets are bound to
    /// the server's address, does something, and kills the process.
    pub fn kill_new_process(
        &self,
        launch: &Launch<'_>,
        sockets: usize,
        before_the_kill: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.rewrite_config(launch)?;
        let mut command = launch.command(&self.config, &self.log)?;
        let mut child = command.arg("--hot-restart").spawn().map_err(|e| e.to_string())?;
        let done = wait::try_until_ok(&format!("{sockets} UDP sockets"), || {
            let bound = udp_sockets(self.address.port());
            if bound == sockets { Ok(()) } else { Err(bound) }
        });
        let done = done.and_then(|()| before_the_kill());
        // A process that ended by itself, which would be wrong, shows in what follows.
        let _ = child.kill();
        child.wait().map_err(|e| e.to_string())?;
        done.map_err(|why| format!("{why}:\n{}", self.log_end()))
    }

    /// Kills the server that a holder has started, and waits for the next one.
    pub fn kill_held(&self) -> Result<()> {
        let id = |status: serde_json::Value| status["pid"].as_i64();
        let old = id(self.status()?);
        let pid = old.and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let pid =
            pid.filter(|pid| *pid != self.pid()).ok_or("the server is no child of a holder")?;
        kill_process(pid, Signal::KILL).map_err(|e| e.to_string())?;
        wait::try_until_ok("the next server", || match self.status() {
            Ok(status) if id(status.clone()).is_some_and(|new| Some(new) != old) => Ok(()),
            Ok(_) => Err("the same process".to_owned()),
            Err(why) => Err(why),
        })
    }

    /// The status from the admin socket.
    pub fn status(&self) -> Result<serde_json::Value> {
        let directory = self.config.parent().ok_or("a config lies in a directory")?;
        let mut command = Command::new(self.software.binary()?);
        command.args(["status", "-o", "json", "--socket"]).arg(admin_socket(directory));
        // An exit status of 1 reports a zone that is not current, and is not a failure here.
        let output = command.output().map_err(|e| format!("dunlin status: {e}"))?;
        serde_json::from_slice(&output.stdout)
            .map_err(|e| format!("dunlin status: {e}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    /// The process's id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Fails when the process has ended.
    pub fn check_alive(&mut self) -> Result<()> {
        match self.child.try_wait().map_err(|e| e.to_string())? {
            None => Ok(()),
            Some(status) => Err(format!("it ended with {status}:\n{}", self.log_end())),
        }
    }

    /// The last lines of the log.
    pub fn log_end(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join("\n")
    }

    /// Asks the process to read its config and its zones again.
    pub fn reload(&self) -> Result<()> {
        kill_process(self.pid(), Signal::HUP).map_err(|e| e.to_string())
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits until it answers for each zone, and Dunlin, which may have none, also its commands.
    fn wait_for<'a>(&mut self, zones: impl Iterator<Item = &'a Name>) -> Result<()> {
        let address = self.address;
        for zone in zones {
            self.wait_until(&zone.to_string(), || client::is_authority(address, zone))?;
        }
        let directory = self.config.parent().ok_or("a config lies in a directory")?;
        let socket = admin_socket(directory);
        let is_other = self.software != Software::Dunlin;
        self.wait_until("commands", || is_other || UnixStream::connect(&socket).is_ok())
    }

    fn wait_until(&mut self, what: &str, is_so: impl Fn() -> bool) -> Result<()> {
        let what = format!("{} serves {what}", self.software.name());
        wait::try_until_ok(&what, || match self.check_alive() {
            Ok(()) if is_so() => Ok(Ok(())),
            Ok(()) => Err(self.log_end()),
            Err(ended) => Ok(Err(ended)),
        })?
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A process that has ended meanwhile is not a failure: there is nothing left to stop.
        let asked = kill_process(self.pid(), Signal::TERM);
        let has_ended = asked.is_ok_and(|()| {
            let ended = || matches!(self.child.try_wait(), Ok(Some(_))).then_some(()).ok_or("no");
            wait::try_until_ok("the end of a server", ended).is_ok()
        });
        if !has_ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// How many UDP sockets of this host are bound to a port, over IPv4.
fn udp_sockets(port: u16) -> usize {
    let is_there = |socket: &Socket| !socket.is_ipv6 && socket.port == port;
    counters::sockets().into_iter().filter(is_there).count()
}

/// Where a Dunlin in `directory` is asked and told.
fn admin_socket(directory: &Path) -> PathBuf {
    directory.join("admin.sock")
}

fn config_dunlin(launch: &Launch<'_>, address: SocketAddrV4, directory: &Path) -> String {
    let Launch { keys, sections, .. } = launch;
    let socket = admin_socket(directory);
    let mut text = format!(
        "[server]\nlisten = [\"{address}\"]\nlocal_zones = false\ndata_dir = {directory:?}\n\
         drain = \"0s\"\n{keys}\n[admin]\nsocket = {socket:?}\n{sections}\n"
    );
    for Zone { name, file, .. } in launch.zones {
        let name = name.fmt_with_dot();
        writeln!(text, "[[zone]]\nname = \"{name}\"\nfile = {file:?}").unwrap();
    }
    text
}

fn config_coredns(launch: &Launch<'_>, address: SocketAddrV4) -> String {
    let (ip, port) = (address.ip(), address.port());
    format!(".:{port} {{\n bind {ip}\n errors\n {}\n}}\n", launch.sections)
}

fn config_knot(zones: &[Zone], address: SocketAddrV4, directory: &Path) -> String {
    let (ip, port) = (address.ip(), address.port());
    let mut text = format!(
        "server:\n  rundir: {directory:?}\n  listen: {ip}@{port}\n  udp-workers: 1\n  \
         tcp-workers: 1\n  background-workers: 1\n  udp-max-payload: 1232\n  version: \"\"\n  \
         identity: \"\"\n  nsid: \"here\"\nlog:\n  - target: stderr\n    any: warning\n\
         database:\n  storage: {directory:?}\n\
         template:\n  - id: default\n    storage: {directory:?}\n    journal-content: none\n    \
         zonefile-sync: -1\n    semantic-checks: off\nzone:\n"
    );
    for Zone { name, file, .. } in zones {
        writeln!(text, "  - domain: {name}.\n    file: {file:?}").unwrap();
    }
    text.replace("domain: ..", "domain: .")
}

fn config_nsd(zones: &[Zone], address: SocketAddrV4, directory: &Path) -> String {
    let (ip, port) = (address.ip(), address.port());
    let mut text = format!(
        "server:\n  ip-address: {ip}@{port}\n  server-count: 1\n  username: \"\"\n  \
         chroot: \"\"\n  zonesdir: {directory:?}\n  database: \"\"\n  pidfile: \"\"\n  \
         zonelistfile: \"{0}/zone.list\"\n  xfrdfile: \"{0}/xfrd.state\"\n  \
         xfrdir: {directory:?}\n  cookie-secret-file: \"{0}/cookie\"\n  \
         answer-cookie: yes\n  nsid: \"ascii_here\"\n  hide-version: yes\n  \
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

fn config_bind(zones: &[Zone], address: SocketAddrV4, directory: &Path) -> String {
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
         zero-no-soa-ttl no;\n  max-records-per-type 0;\n  \
         max-types-per-name 0;\n  version none;\n  hostname none;\n  server-id \"here\";\n  \
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
