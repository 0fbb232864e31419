//! The CPU share of this process's session (sched(7), the autogroup feature). If the kernel shares
//! CPUs between sessions, niceness compares only threads of one session, not the kernel's threads.
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::thread::sleep;
use std::time::Duration;

const ENABLED: &str = "/proc/sys/kernel/sched_autogroup_enabled";

/// The share of this process's session.
const SHARE: &str = "/proc/self/autogroup";

/// Interval after which the kernel lets a process without CAP_SYS_ADMIN change the share again.
const AGAIN: Duration = Duration::from_millis(150);

/// The share of a session that this process leads. No other process depends on it.
#[derive(Debug)]
pub struct Session(File);

impl Session {
    /// The share of this process's session. It can be changed later, after privileges are dropped.
    /// `None`: the kernel does not share CPUs between sessions, or this is the session of the first
    /// process, which has no share.
    ///
    /// # Errors
    /// Another process leads the session, or the kernel does not report the leader.
    pub fn own() -> io::Result<Option<Self>> {
        if !std::fs::read_to_string(ENABLED).is_ok_and(|text| text.trim() == "1") {
            return Ok(None);
        }
        // A kernel without the feature has no such file.
        if std::fs::read_to_string(SHARE).unwrap_or_default().is_empty() {
            return Ok(None);
        }
        if !is_led()? {
            return Err(io::Error::other(
                "niceness counts only within this session (kernel.sched_autogroup_enabled = 1), \
                which another process leads: start dunlin as a service, or with setsid(1)",
            ));
        }
        let opened = OpenOptions::new().write(true).open(SHARE);
        let error = |error| io::Error::other(format!("{SHARE}: {error}"));
        opened.map(|file| Some(Self(file))).map_err(error)
    }

    /// Sets the share to that of one process with this niceness, −20 to 19.
    ///
    /// # Errors
    /// The process lacks CAP_SYS_NICE and its RLIMIT_NICE is too low.
    pub fn set_nice(&self, nice: i32) -> io::Result<()> {
        let word = nice.to_string();
        match (&self.0).write_all(word.as_bytes()) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                sleep(AGAIN);
                (&self.0).write_all(word.as_bytes())
            }
            result => result,
        }
    }
}

/// Whether this process leads its session. getsid(2) cannot tell: it returns 0 for a leader outside
/// of this PID namespace.
fn is_led() -> io::Result<bool> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let process = stat.split(' ').next();
    // The fourth field after the name, which may contain anything (proc_pid_stat(5)).
    let session = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(3));
    Ok(process == session)
}
