//! The resources of the process.
use serde::{Deserialize, Serialize};
use std::fs;

/// The resources a process uses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Resident memory in bytes.
    #[serde(alias = "resident_octets")]
    pub resident_bytes: u64,
    /// CPU time of all threads, user and system.
    pub cpu_seconds: f64,
    /// Open file descriptors.
    pub open_files: u64,
    /// Maximum open file descriptors.
    pub open_files_max: u64,
    /// Datagrams that the kernel dropped because a listening UDP socket was full.
    pub dropped_datagrams: u64,
}

impl Process {
    /// Reads `/proc/self` (proc(5)) of this process. Unreadable values are 0.
    pub fn read() -> Self {
        let text = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let of_line = |file: &str, head: &str| {
            let text = text(file);
            let line = text.lines().find_map(|line| line.strip_prefix(head));
            line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        Self {
            resident_bytes: of_line("/proc/self/status", "VmRSS:") << 10,
            cpu_seconds: cpu_seconds(&text("/proc/self/stat")).unwrap_or(0.0),
            // One descriptor is the listing itself.
            open_files: fs::read_dir("/proc/self/fd")
                .map_or(0, |all| all.count().saturating_sub(1) as u64),
            open_files_max: of_line("/proc/self/limits", "Max open files"),
            dropped_datagrams: super::sockets::dropped_datagrams(),
        }
    }
}

/// User and system time of `/proc/PID/stat`: fields 14 and 15, in hundredths of a second, which
/// Linux uses whatever its own clock rate. The second field may hold blanks and ends with the last
/// parenthesis.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_reads_its_own_status() {
        let process = Process::read();
        assert!(process.resident_bytes > 100 << 10, "{process:?}");
        assert!((1..process.open_files_max).contains(&process.open_files), "{process:?}");
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 5 1 1";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("7 (a) S 1"), None);
    }
}
