//! The share of the CPUs that the kernel gives this process's session (sched(7), the autogroup
//! feature): where it shares them between sessions, niceness counts within one alone, and not
//! against the kernel's own threads.
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::thread::sleep;
use std::time::Duration;

/// Whether the kernel shares CPUs between sessions.
const ENABLED: &str = "/proc/sys/kernel/sched_autogroup_enabled";

/// The share of the session that this process is of.
const SHARE: &str = "/proc/self/autogroup";

/// How soon the kernel lets a process without CAP_SYS_ADMIN change it again.
const AGAIN: Duration = Duration::from_millis(150);

/// The share of a session that this process leads, so that it is nobody else's to be surprised by.
#[derive(Debug)]
pub struct Session(File);

impl Session {
    /// This process's, to be changed later, also by whoever has given up privileges until then.
    /// Nothing: the kernel does not share between sessions, or this one is that of the first
    /// process, which has no share of its own.
    ///
    /// # Errors
    /// Another process leads the session, or the kernel does not tell.
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
                "it counts within this session alone (kernel.sched_autogroup_enabled = 1), which \
                 another process leads: start it as a service, or by setsid(1)",
            ));
        }
        let opened = OpenOptions::new().write(true).open(SHARE);
        let told = |error| io::Error::other(format!("{SHARE}: {error}"));
        opened.map(|file| Some(Self(file))).map_err(told)
    }

    /// Gives it the share that one process of such a niceness has, −20 to 19.
    ///
    /// # Errors
    /// This process may not: it takes CAP_SYS_NICE, or a limit that allows it (RLIMIT_NICE).
    pub fn set_nice(&self, nice: i32) -> io::Result<()> {
        let word = nice.to_string();
        match (&self.0).write_all(word.as_bytes()) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                sleep(AGAIN);
                (&self.0).write_all(word.as_bytes())
            }
            told => told,
        }
    }
}

/// Whether this process leads its session. Not by getsid(2): one that is led from outside of this
/// PID namespace has no number there, which is 0.
fn is_led() -> io::Result<bool> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let process = stat.split(' ').next();
    // The fourth behind the name, which may hold anything (proc_pid_stat(5)).
    let session = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(3));
    Ok(process == session)
}
