//! The saved state of the manager: previous settings, and the CPUs of each group. The file is JSON
//! in the form of [`durable`].
use crate::Failure;
use crate::claims::Claim;
use crate::limits::STATE_BYTES_MAX;
use durable::{FileForm, OldForm, OldSum};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The form of the state file. Older versions wrote 2, or 1 without containers and interrupts.
fn form(machine: &str) -> FileForm {
    let old = |form| {
        let begin = format!("dunlin-cpus {form} {machine} ").into();
        OldForm { begin, sum: OldSum::Sha256 }
    };
    FileForm {
        what: "state of CPUs",
        owner: machine.to_owned(),
        form: 3,
        len_max: STATE_BYTES_MAX,
        old: vec![old(1), old(2)],
    }
}

/// The saved state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// CPUs of groups with rules, as the kernel writes them, by path.
    pub assigned: BTreeMap<String, String>,
    /// Previous contents of files, by group and name.
    pub found: BTreeMap<String, BTreeMap<String, String>>,
    /// Groups in which the cpuset controller was switched on for those below.
    pub switched_on: Vec<String>,
    /// Containers with CPUs of their own, by the id of the runtime.
    #[serde(default)]
    pub claims: BTreeMap<String, Claim>,
    /// The previous CPUs of interrupts, by number.
    #[serde(default)]
    pub interrupts: BTreeMap<u32, String>,
}

/// Identifies this machine.
pub(crate) fn machine_id() -> String {
    let files = ["/etc/machine-id", "/proc/sys/kernel/hostname"];
    let texts = files.into_iter().filter_map(|file| fs::read_to_string(file).ok());
    let id = texts.map(|text| text.trim().to_owned()).find(|text| !text.is_empty());
    id.unwrap_or_else(|| "unknown".into())
}

impl State {
    /// Reads the state of a machine; `None` if there is none yet.
    ///
    /// # Errors
    /// The existing file cannot be used. It is not changed.
    pub fn load(path: &Path, machine: &str) -> Result<Option<Self>, String> {
        let Some(mut content) = form(machine).open(path)? else { return Ok(None) };
        let mut text = Vec::new();
        let read = content.read_to_end(&mut text);
        let state = read.and_then(|_| serde_json::from_slice(&text).map_err(io::Error::from));
        state.map(Some).map_err(|why| format!("{}: {why}", path.display()))
    }

    /// Writes it atomically.
    ///
    /// # Errors
    /// The folder cannot be written; the old file stays.
    pub fn save(&self, path: &Path, machine: &str) -> Result<(), Failure> {
        let written = form(machine).replace(path, 0o644, |out| {
            serde_json::to_writer_pretty(out, self).map_err(io::Error::from)
        });
        written.map_err(|error| Failure::of("write", path.display(), &error))
    }
}

/// A file's name with something behind it.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        let mut state = State { switched_on: vec![String::new()], ..State::default() };
        state.assigned.insert("a.slice".into(), "2-3".into());
        let files = BTreeMap::from([("cpuset.cpus".to_owned(), String::new())]);
        state.found.insert("a.slice".into(), files);
        state
    }

    #[test]
    fn a_state_is_read_as_it_was_and_a_fault_is_named() {
        let folder = std::env::temp_dir().join(format!("cpu-state-{}", std::process::id()));
        let path = folder.join("cpus.state");
        assert_eq!(State::load(&path, "m").expect("none"), None);
        state().save(&path, "m").expect("saved");
        assert_eq!(State::load(&path, "m").expect("whole"), Some(state()));
        let whole = fs::read(&path).expect("bytes");
        let fault = |bytes: &[u8], machine: &str| {
            fs::write(&path, bytes).expect("written");
            let fault = State::load(&path, machine).expect_err("a fault");
            assert!(fault.starts_with(&path.display().to_string()), "{fault}");
            assert_eq!(fs::read(&path).expect("it stays"), bytes);
            fault
        };
        let cut = fault(&whole[..whole.len() - 1], "m");
        assert!(cut.ends_with("is cut off or damaged"), "{cut}");
        let other = fault(&whole, "n");
        assert!(other.ends_with("belongs to another one: m"), "{other}");
        let newer = FileForm { form: 4, ..form("m") };
        let newer = fault(&newer.bytes(|_| Ok(())).expect("memory"), "m");
        assert!(newer.contains("use the version that wrote it"), "{newer}");
        // The form before containers and interrupts.
        let old = "dunlin-cpus 1 m 50 \
                   0a2265e6f3e79f7ec2ae9af6924ea2a11fdfeca9da207d10de6e8723aaaefb4c\n\
                   {\"assigned\":{\"a\":\"2\"},\"found\":{},\"switched_on\":[]}";
        fs::write(&path, old).expect("written");
        let old = State::load(&path, "m").expect("the form before").expect("a state");
        assert_eq!(old.assigned["a"], "2");
        fs::remove_dir_all(&folder).expect("gone");
    }
}
