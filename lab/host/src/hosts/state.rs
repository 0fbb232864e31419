//! The state of hosts that are up: their options, and the processes in them.

use super::{Options, Side};
use crate::limits::END_TIME_MAX;
use crate::{Result, STATE, threads, tool};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn file(name: &str) -> PathBuf {
    Path::new(STATE).join(format!("hosts-{name}.json"))
}

fn told(path: &Path, error: &std::io::Error) -> String {
    let hint = if error.kind() == ErrorKind::PermissionDenied { " (this needs root)" } else { "" };
    format!("{}: {error}{hint}", path.display())
}

/// The lock for making or removing hosts.
pub(super) fn lock() -> Result<File> {
    fs::create_dir_all(STATE).map_err(|e| told(Path::new(STATE), &e))?;
    let path = Path::new(STATE).join("hosts.lock");
    let file = File::create(&path).map_err(|e| told(&path, &e))?;
    flock(&file, FlockOperation::LockExclusive).map_err(|e| told(&path, &e.into()))?;
    Ok(file)
}

pub(super) fn read(name: &str) -> Result<Option<Options>> {
    let path = file(name);
    match fs::read_to_string(&path) {
        // A truncated state belongs to hosts that are at most partly created.
        Ok(text) => Ok(serde_json::from_str(&text).ok()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(told(&path, &error)),
    }
}

pub(super) fn write(options: &Options) -> Result<()> {
    let path = file(&options.name);
    let text = serde_json::to_string(options).map_err(|e| e.to_string())?;
    fs::write(&path, text).map_err(|e| told(&path, &e))
}

pub(super) fn forget(name: &str) -> Result<()> {
    let path = file(name);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(told(&path, &error)),
        _ => Ok(()),
    }
}

/// A process within the bench.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamespaceProcess {
    /// Its host.
    pub side: Side,
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

/// The processes in hosts of that name. None where there are no such hosts.
pub(super) fn residents(name: &str) -> Vec<NamespaceProcess> {
    let mut found = Vec::new();
    for side in Side::ALL {
        let told = tool::output("ip", &["netns", "pids", &format!("{name}-{side}")]);
        for pid in told.unwrap_or_default().lines().filter_map(|line| line.trim().parse().ok()) {
            let name = tool::text(Path::new(&format!("/proc/{pid}/comm"))).unwrap_or_default();
            found.push(NamespaceProcess { side, pid, name: name.trim_end().to_owned() });
        }
    }
    found
}

/// `knotd (4711), dnsperf (4712)`.
pub(super) fn list(residents: &[NamespaceProcess]) -> String {
    let words: Vec<_> = residents.iter().map(|r| format!("{} ({})", r.name, r.pid)).collect();
    words.join(", ")
}

/// Sends SIGTERM to the processes in them, and SIGKILL after [`END_TIME_MAX`].
pub(super) fn end(name: &str) {
    let signal = |signal| {
        for resident in residents(name) {
            let pid = i32::try_from(resident.pid).ok().and_then(Pid::from_raw);
            // A process that has ended meanwhile needs no signal.
            let _ = pid.map(|pid| kill_process(pid, signal));
        }
    };
    signal(Signal::TERM);
    let until = Instant::now() + END_TIME_MAX;
    while !residents(name).is_empty() && Instant::now() < until {
        sleep(Duration::from_millis(20));
    }
    signal(Signal::KILL);
    while !residents(name).is_empty() && Instant::now() < until + END_TIME_MAX {
        sleep(Duration::from_millis(20));
    }
}

/// The status of two hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// How they were made.
    #[serde(flatten)]
    pub options: Options,
    /// Each host.
    pub hosts: Vec<HostStatus>,
    /// The processes in them.
    pub residents: Vec<NamespaceProcess>,
}

/// One of both hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostStatus {
    /// Which.
    pub side: Side,
    /// Its network namespace.
    pub netns: String,
    /// Its device.
    pub device: String,
    /// Its own addresses.
    pub addresses: Vec<String>,
    /// Its CPUs, as a list.
    pub cpus: String,
    /// Its polling threads, by number and name.
    pub polling: Vec<String>,
}

pub(super) fn status(options: &Options) -> Result<Status> {
    let host = |side: Side| {
        let device = options.device(side);
        let polling = threads::polling(Path::new("/proc"), &device);
        Ok(HostStatus {
            side,
            netns: options.namespace(side),
            addresses: side.addresses().map(|address| address.to_string()).into(),
            cpus: options.cpus(side)?.to_string(),
            polling: polling.iter().map(|t| format!("{} ({})", t.name, t.pid)).collect(),
            device,
        })
    };
    let hosts = Side::ALL.into_iter().map(host).collect::<Result<_>>()?;
    Ok(Status { options: options.clone(), hosts, residents: residents(&options.name) })
}
