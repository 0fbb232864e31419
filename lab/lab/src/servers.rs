//! The servers that are compared: each from the same zone file, on the same CPUs, at the same
//! address.
//!
//! One file for each server. Settings other than zone, address and threads have a reason there;
//! everything else has the default of the package.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{self, Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cpu::CpuList;
use lab_echo::Model;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::limits::{LOG_LINES_MAX, START_BYTES, START_TIMEOUT, STOP_TIMEOUT, VERSION_BYTES_MAX};

mod bind;
mod coredns;
mod dnsdist;
mod dnsmasq;
mod dunlin;
mod knot;
mod nsd;
mod question;
mod unbound;
mod zone;

pub use question::{ask, ask_bytes};
pub use zone::Zone;

/// A server that is compared.
#[derive(Debug)]
pub struct ServerKind {
    /// Its name on the command line and in tables.
    pub name: &'static str,
    /// Its program.
    pub program: &'static str,
    /// How to install it.
    pub package: &'static str,
    /// A comment that a fair reading of its results needs; empty for an authoritative server.
    pub remark: &'static str,
    /// The echo with the same I/O model, which its figures are compared with.
    pub model: Model,
    /// Whether it uses more than one CPU for UDP.
    pub threaded: bool,
    /// Whether it attaches an XDP program, so that no other such server can run at the same time.
    pub has_program: bool,
    config: fn(&ServerSetup) -> Result<String>,
    /// Its config as a forwarder of all names to another server; `None`: it cannot forward.
    forward: Option<fn(&ServerSetup, SocketAddr) -> String>,
    words: fn(&ServerSetup, &Path) -> Vec<OsString>,
    environment: fn(&ServerSetup) -> Vec<(&'static str, String)>,
    version: &'static [&'static str],
}

/// The servers that serve a zone over sockets, in the order of tables.
pub const ALL: [&ServerKind; 7] = [
    &dunlin::KIND,
    &knot::KIND,
    &nsd::KIND,
    &bind::KIND,
    &unbound::KIND,
    &dnsmasq::KIND,
    &coredns::KIND,
];

/// The servers that are compared only on request: with AF_XDP, a forwarder that serves no zone, and
/// a Dunlin with its own zone, for comparison with forwarders.
pub const OTHERS: [&ServerKind; 4] = [&dunlin::XDP, &knot::XDP, &dnsdist::KIND, &dunlin::WITH_ZONE];

/// The zone of a server, and where it runs.
#[derive(Clone, Debug)]
pub struct ServerSetup {
    /// Where it answers, UDP.
    pub address: SocketAddr,
    /// The CPUs it may use.
    pub cpus: CpuList,
    /// Its threads or processes that answer; `None`: one for each CPU.
    pub threads: Option<usize>,
    /// The zone that it serves.
    pub zone: Zone,
    /// A folder of its own, for its config and files.
    pub folder: PathBuf,
    /// The network namespace of the server.
    pub netns: Option<String>,
    /// The interface to its clients, for a server that has a program there.
    pub interface: Option<String>,
}

impl ServerSetup {
    fn interface(&self) -> Result<&str> {
        self.interface.as_deref().ok_or_else(|| "the interface to the clients is unknown".into())
    }

    fn threads(&self) -> usize {
        self.threads.unwrap_or(self.cpus.as_slice().len())
    }
}

/// The version that a server reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Its version, one line.
    pub version: String,
    /// The build options that it reports.
    pub build: String,
}

impl ServerKind {
    /// The server with this name.
    ///
    /// # Errors
    /// There is none; the error lists the names.
    pub fn named(name: &str) -> Result<&'static Self> {
        let all = || ALL.into_iter().chain(OTHERS);
        all().find(|kind| kind.name == name).ok_or_else(|| {
            let names: Vec<_> = all().map(|kind| kind.name).collect();
            format!("no server is called {name:?}; there are {}", names.join(", "))
        })
    }

    /// Its program, in `PATH` or where administrators' programs are.
    ///
    /// # Errors
    /// It is not installed; the error says how to install it.
    pub fn find(&self) -> Result<PathBuf> {
        let path = std::env::var("PATH").unwrap_or_default();
        path.split(':')
            .chain(["/usr/sbin", "/usr/local/sbin"])
            .map(|folder| Path::new(folder).join(self.program))
            .find(|path| path.is_file())
            .ok_or_else(|| {
                format!(
                    "{} is not here: {}, or --binary {}=PATH",
                    self.program, self.package, self.name
                )
            })
    }

    /// Its program: of these, by names of servers, or as [`Self::find`].
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn binary(&self, own: &BTreeMap<String, PathBuf>) -> Result<PathBuf> {
        // Several servers use the same program.
        let named = |kind: &&Self| kind.program == self.program;
        let names = ALL.into_iter().filter(named).map(|kind| kind.name);
        let found = [self.name].into_iter().chain(names).find_map(|name| own.get(name));
        found.map_or_else(|| self.find(), |path| Ok(path.clone()))
    }

    /// The version that `binary` reports.
    ///
    /// # Errors
    /// It cannot be run.
    pub fn version(&self, binary: &Path) -> Result<Version> {
        let told = |e| format!("{} {}: {e}", binary.display(), self.version.join(" "));
        let output = Command::new(binary).args(self.version).output().map_err(told)?;
        let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.push_str(&String::from_utf8_lossy(&output.stderr));
        let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
        let version = lines.next().unwrap_or_default().to_owned();
        let mut build = lines.collect::<Vec<_>>().join("\n");
        build.truncate(build.floor_char_boundary(VERSION_BYTES_MAX));
        Ok(Version { version, build })
    }

    /// Starts `binary` at `setup` and waits until `ask_from`, a network namespace, has an answer.
    ///
    /// # Errors
    /// Its config cannot be written, it cannot be run, it ends, or it does not answer in time; with
    /// the end of its log.
    pub fn start(
        &self,
        binary: &Path,
        setup: &ServerSetup,
        ask_from: Option<&str>,
    ) -> Result<Server> {
        self.start_with(&(self.config)(setup)?, binary, setup, ask_from)
    }

    /// As [`Self::start`], with this text as its config.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(
        &self,
        config_text: &str,
        binary: &Path,
        setup: &ServerSetup,
        ask_from: Option<&str>,
    ) -> Result<Server> {
        let told = |path: &Path, e| format!("{}: {e}", path.display());
        fs::create_dir_all(&setup.folder).map_err(|e| told(&setup.folder, e))?;
        let config = setup.folder.join(format!("{}.conf", self.name));
        fs::write(&config, config_text).map_err(|e| told(&config, e))?;
        let log = setup.folder.join(format!("{}.log", self.name));
        let output = File::create(&log).map_err(|e| told(&log, e))?;
        let errors = output.try_clone().map_err(|e| told(&log, e))?;
        // The server runs in its own folder, so a relative path of the user is made absolute.
        let absolute = match binary.components().count() {
            1 => binary.to_owned(),
            _ => path::absolute(binary).map_err(|e| told(binary, e))?,
        };
        let mut command = self.command(&absolute, setup, &config);
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = command.spawn().map_err(|e| format!("{command:?}: {e}"))?;
        let (name, model) = (self.name, self.model);
        let command = shown(&self.command(binary, setup, &config));
        let mut server = Server { name, model, child, log, command };
        server.wait(setup, ask_from)?;
        Ok(server)
    }

    /// `setpriv`, `ip netns exec` and `taskset` become the server, so that its process id is the
    /// child's. If its parent is killed, it ends too: else the next comparison would
    /// find its port taken, or share it.
    fn command(&self, binary: &Path, setup: &ServerSetup, config: &Path) -> Command {
        let mut words: Vec<OsString> = ["setpriv", "--pdeathsig", "TERM"].map(Into::into).into();
        if let Some(netns) = &setup.netns {
            words.extend(["ip", "netns", "exec", netns].map(OsString::from));
        }
        words.extend(["taskset", "-c"].map(OsString::from));
        words.push(setup.cpus.to_string().into());
        words.push(binary.into());
        words.extend((self.words)(setup, config));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).envs((self.environment)(setup)).current_dir(&setup.folder);
        command
    }

    /// Its config for `setup`.
    ///
    /// # Errors
    /// The zone cannot be read.
    pub fn config(&self, setup: &ServerSetup) -> Result<String> {
        (self.config)(setup)
    }

    /// Whether it can forward all names to another server.
    pub fn forwards(&self) -> bool {
        self.forward.is_some()
    }

    /// Its config for `setup` as a forwarder to `upstream`; with the zone of its own if it is none.
    ///
    /// # Errors
    /// The zone cannot be read.
    pub fn forwarding(&self, setup: &ServerSetup, upstream: SocketAddr) -> Result<String> {
        self.forward.map_or_else(|| self.config(setup), |config| Ok(config(setup, upstream)))
    }
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// A running server; dropping it ends the server.
#[derive(Debug)]
pub struct Server {
    /// Its name.
    pub name: &'static str,
    /// The echo that it is compared with.
    pub model: Model,
    /// The command it was started by.
    pub command: String,
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Its process id; helpers it started have others.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The last lines of its log.
    pub fn log_end(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join("\n")
    }

    fn wait(&mut self, setup: &ServerSetup, ask_from: Option<&str>) -> Result<()> {
        let bytes = fs::metadata(&setup.zone.file).map_or(0, |file| file.len());
        let deadline = Instant::now() + START_TIMEOUT + Duration::from_secs(bytes / START_BYTES);
        let question = setup.zone.probe()?;
        while !question::is_answered(ask_from, setup.address, question) {
            let ended = self.child.try_wait().map_err(|e| e.to_string())?;
            if ended.is_some() || Instant::now() > deadline {
                let why = ended.map_or("no answer in time".into(), |status| status.to_string());
                return Err(format!("{}: {why}: {}\n{}", self.name, self.command, self.log_end()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let deadline = Instant::now() + STOP_TIMEOUT;
        let asked = kill_process(Pid::from_child(&self.child), Signal::TERM);
        while asked.is_ok() && Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // A process that has ended meanwhile is not a failure: there is nothing left to stop.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests;
