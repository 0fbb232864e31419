//! What the manager must not forget: what it found, and who has which CPUs.
//!
//! The file is a line that says what it is, whose it is, how long the rest is and its SHA-256, and
//! then JSON. It is written beside and renamed, so that it is whole or the one before.
use crate::Failure;
use crate::claims::Claim;
use crate::limits::STATE_BYTES_MAX;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// What the first line begins with.
const MAGIC: &str = "dunlin-cpus";

/// The format that this program writes.
const FORMAT: u32 = 2;

/// The format before it, without containers and interrupts.
const FORMAT_OLD: u32 = 1;

/// What is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// CPUs of groups with rules, as the kernel writes them, by path.
    pub assigned: BTreeMap<String, String>,
    /// Files as they were found, by group and name.
    pub found: BTreeMap<String, BTreeMap<String, String>>,
    /// Groups in which the cpuset controller was switched on for those below.
    pub switched_on: Vec<String>,
    /// Containers with CPUs of their own, by the id of the runtime.
    #[serde(default)]
    pub claims: BTreeMap<String, Claim>,
    /// The CPUs that interrupts were found to go to, by number.
    #[serde(default)]
    pub interrupts: BTreeMap<u32, String>,
}

/// Why a state file is not used.
#[derive(Debug)]
pub enum StateFault {
    /// It cannot be read.
    Unreadable(io::Error),
    /// It is cut off or damaged.
    Damaged(String),
    /// A later version has written it.
    Newer(u32),
    /// Another machine has written it.
    OtherMachine(String),
}

impl fmt::Display for StateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "cannot be read: {error}"),
            Self::Damaged(what) => write!(f, "is damaged: {what}"),
            Self::Newer(format) => write!(
                f,
                "has format {format}, this version knows {FORMAT}: use the version that wrote it \
                 for `dunlin cpus uninstall`"
            ),
            Self::OtherMachine(machine) => write!(f, "is of another machine ({machine})"),
        }
    }
}

impl std::error::Error for StateFault {}

/// What tells this machine from others.
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
    /// What is there is not used. It stays as it is.
    pub fn load(path: &Path, machine: &str) -> Result<Option<Self>, StateFault> {
        let mut bytes = Vec::new();
        match File::open(path) {
            Ok(file) => {
                let read = file.take(STATE_BYTES_MAX).read_to_end(&mut bytes);
                read.map_err(StateFault::Unreadable)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StateFault::Unreadable(error)),
        }
        Self::parse(&bytes, machine).map(Some)
    }

    fn parse(bytes: &[u8], machine: &str) -> Result<Self, StateFault> {
        let damaged = |what: &str| StateFault::Damaged(what.to_owned());
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let end = end.ok_or_else(|| damaged("its first line is cut off"))?;
        let (head, body) = (&bytes[..end], &bytes[end + 1..]);
        let head = std::str::from_utf8(head).map_err(|_| damaged("its first line is no text"))?;
        let words: Vec<&str> = head.split(' ').collect();
        let [MAGIC, format, rest @ ..] = words.as_slice() else {
            return Err(damaged("it is no state of dunlin cpus"));
        };
        match format.parse() {
            Ok(FORMAT | FORMAT_OLD) => {}
            Ok(format) if format > FORMAT => return Err(StateFault::Newer(format)),
            _ => return Err(damaged("it has no format")),
        }
        let [owner, length, digest] = rest else {
            return Err(damaged("its first line is not as it should be"));
        };
        if length.parse() != Ok(body.len()) {
            return Err(damaged("it is shorter or longer than it says"));
        }
        if *digest != hex::encode(Sha256::digest(body)) {
            return Err(damaged("its checksum is wrong"));
        }
        if *owner != machine {
            return Err(StateFault::OtherMachine((*owner).to_owned()));
        }
        serde_json::from_slice(body).map_err(|error| StateFault::Damaged(error.to_string()))
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// The folder cannot be written; what was there stays.
    pub fn save(&self, path: &Path, machine: &str) -> Result<(), Failure> {
        let write = || -> io::Result<()> {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            fs::create_dir_all(folder)?;
            let body = serde_json::to_vec_pretty(self)?;
            let digest = hex::encode(Sha256::digest(&body));
            let fresh = beside(path, "new");
            let mut file = File::create(&fresh)?;
            writeln!(file, "{MAGIC} {FORMAT} {machine} {} {digest}", body.len())?;
            file.write_all(&body)?;
            file.sync_all()?;
            fs::rename(&fresh, path)?;
            File::open(folder)?.sync_all()
        };
        write().map_err(|error| Failure::of("write", path.display(), &error))
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
    fn a_state_is_read_as_it_was_and_damage_is_told() {
        let folder = std::env::temp_dir().join(format!("cpu-state-{}", std::process::id()));
        let path = folder.join("cpus.state");
        assert_eq!(State::load(&path, "m").expect("none"), None);
        state().save(&path, "m").expect("saved");
        assert_eq!(State::load(&path, "m").expect("whole"), Some(state()));
        let whole = fs::read(&path).expect("bytes");
        fs::remove_dir_all(&folder).expect("gone");
        for length in 0..whole.len() {
            let fault = State::parse(&whole[..length], "m").expect_err("cut off");
            assert!(matches!(fault, StateFault::Damaged(_)), "{length}: {fault}");
        }
        for index in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[index] ^= 1;
            State::parse(&flipped, "m").expect_err("flipped");
        }
        let body = br#"{"assigned":{"a":"2"},"found":{},"switched_on":[]}"#;
        let head = format!("{MAGIC} 1 m {} {}\n", body.len(), hex::encode(Sha256::digest(body)));
        let old = State::parse(&[head.as_bytes(), body].concat(), "m").expect("the format before");
        assert_eq!(old.assigned["a"], "2");
        let other = State::parse(&whole, "n").expect_err("another machine");
        assert!(matches!(other, StateFault::OtherMachine(_)), "{other}");
        let text = String::from_utf8(whole).expect("text").replacen(" 2 ", " 3 ", 1);
        let newer = State::parse(text.as_bytes(), "m").expect_err("newer").to_string();
        assert!(newer.contains("uninstall"), "{newer}");
    }
}
