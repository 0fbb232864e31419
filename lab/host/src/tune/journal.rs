//! The journal of settings before they are changed.

use super::{Step, is_alike};
use crate::machine::Machine;
use crate::threads::{self, KernelThread};
use crate::{Result, tool};
use cpu::CpuList;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const NAME: &str = "tune.journal";

/// A setting before its change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Entry {
    /// A file.
    File {
        /// As on the machine, without the first slash.
        file: String,
        /// Its old value.
        before: String,
        /// The network namespace in which the file is what it is, where that matters.
        netns: Option<u64>,
    },
    /// A thread of the kernel.
    Thread {
        /// Its number.
        pid: u32,
        /// Its name.
        name: String,
        /// The CPUs it could run on, as a list.
        before: String,
    },
    /// All are left on purpose.
    Kept {
        /// True.
        kept: bool,
    },
}

impl Entry {
    pub(super) fn file(machine: &Machine, file: &str, before: String) -> Self {
        let is_local = file.starts_with("sys/class/net/") || file.starts_with("proc/sys/net/");
        let netns = (machine.is_this() && is_local).then(own_netns).flatten();
        Self::File { file: file.to_owned(), before, netns }
    }

    pub(super) fn thread(thread: &KernelThread, before: &CpuList) -> Self {
        Self::Thread { pid: thread.pid, name: thread.name.clone(), before: before.to_string() }
    }
}

/// The number of this process's network namespace.
fn own_netns() -> Option<u64> {
    fs::metadata("/proc/thread-self/ns/net").ok().map(|space| space.ino())
}

/// The name of the namespace of that number.
fn netns_name(number: u64) -> Option<String> {
    let entries = fs::read_dir("/run/netns").ok()?.flatten();
    let found = entries.into_iter().find(|entry| {
        // Not of the entry itself: the namespace is mounted upon it.
        fs::metadata(entry.path()).is_ok_and(|space| space.ino() == number)
    });
    found?.file_name().into_string().ok()
}

/// The restored settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Settings that had changed and are as they were.
    pub changed: Vec<String>,
    /// Those that have gone meanwhile, with a device or a thread: nothing is left to restore.
    pub gone: usize,
}

/// The journal, locked.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

pub(super) fn exists(state: &Path) -> bool {
    fs::metadata(state.join(NAME)).is_ok_and(|file| file.len() > 0)
}

impl Drop for Journal {
    /// Unlocks the file also for a child that has its descriptor for a moment, before it executes
    /// its program.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl Journal {
    /// Opens the journal and locks it. Nothing, where another process holds it.
    pub(super) fn open(state: &Path) -> Result<Option<Self>> {
        let path = state.join(NAME);
        let told = |error: std::io::Error| {
            let denied = error.kind() == ErrorKind::PermissionDenied;
            let hint = if denied { " (this needs root)" } else { "" };
            format!("{}: {error}{hint}", path.display())
        };
        fs::create_dir_all(state).map_err(told)?;
        let mut options = File::options();
        options.create(true).truncate(false).read(true).write(true);
        let file = options.open(&path).map_err(told)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { path, file })),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(told(error.into())),
        }
    }

    fn told(&self, error: &std::io::Error) -> String {
        format!("{}: {error}", self.path.display())
    }

    /// Whole lines only: one that was cut off is of a setting that was never changed.
    fn entries(&mut self) -> Result<Vec<Entry>> {
        let mut text = String::new();
        let read = self.file.rewind().and_then(|()| self.file.read_to_string(&mut text));
        read.map_err(|error| self.told(&error))?;
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let parse = |line: &str| {
            serde_json::from_str(line)
                .map_err(|e| format!("{}: {e}: {}", self.path.display(), line.trim_end()))
        };
        whole.map(parse).collect()
    }

    pub(super) fn is_kept(&mut self) -> Result<bool> {
        Ok(self.entries()?.iter().any(|entry| matches!(entry, Entry::Kept { .. })))
    }

    /// Writes it durably.
    pub(super) fn note(&mut self, entry: &Entry) -> Result<()> {
        let mut line = serde_json::to_string(entry).map_err(|error| error.to_string())?;
        line.push('\n');
        let written = self.file.seek(std::io::SeekFrom::End(0));
        let written = written.and_then(|_| self.file.write_all(line.as_bytes()));
        written.and_then(|()| self.file.sync_all()).map_err(|error| self.told(&error))
    }

    pub(super) fn keep(&mut self) -> Result<()> {
        self.note(&Entry::Kept { kept: true })
    }

    /// Restores what is in it, the last first, and empties it. A failure is reported, and does not
    /// keep the rest from being restored; the journal stays then.
    pub(super) fn restore(
        &mut self,
        machine: &Machine,
        step: &mut dyn FnMut(Step),
    ) -> Result<Restored> {
        let mut restored = Restored::default();
        let mut wrong = Vec::new();
        for entry in self.entries()?.iter().rev() {
            match undo(machine, entry) {
                Ok(UndoResult::Changed(what)) => restored.changed.push(what),
                Ok(UndoResult::Gone) => restored.gone += 1,
                Ok(UndoResult::Nothing) => {}
                Err(why) => wrong.push(why),
            }
            step(Step::Restored);
        }
        if !wrong.is_empty() {
            let hint = "`dunlin lab tune restore` tries again";
            return Err(format!("cannot restore: {}; {hint}", wrong.join("; ")));
        }
        let emptied = self.file.set_len(0).and_then(|()| self.file.sync_all());
        emptied.map_err(|error| self.told(&error))?;
        step(Step::Done);
        Ok(restored)
    }
}

enum UndoResult {
    Changed(String),
    Nothing,
    Gone,
}

fn undo(machine: &Machine, entry: &Entry) -> Result<UndoResult> {
    match entry {
        Entry::Kept { .. } => Ok(UndoResult::Nothing),
        Entry::File { file, before, netns } => {
            let elsewhere = netns.filter(|number| own_netns() != Some(*number));
            match elsewhere {
                None => undo_file(machine, file, before),
                // A removed namespace has taken its devices with it.
                Some(number) => match netns_name(number) {
                    None => Ok(UndoResult::Gone),
                    Some(name) => tool::write_within(&name, &format!("/{file}"), before)
                        .map(|()| UndoResult::Changed(format!("{file} in {name}"))),
                },
            }
        }
        Entry::Thread { pid, name, before } => {
            let is_there = threads::find(&machine.path("proc"), |found| found == name)
                .iter()
                .any(|thread| thread.pid == *pid);
            let Some(now) = threads::allowed(*pid).filter(|_| is_there) else {
                return Ok(UndoResult::Gone);
            };
            let cpus: CpuList = before.parse().map_err(|e| format!("{name}: {e}"))?;
            if now == cpus {
                return Ok(UndoResult::Nothing);
            }
            threads::pin(*pid, &cpus).map_err(|e| format!("CPUs of {name} to {before}: {e}"))?;
            Ok(UndoResult::Changed(format!("CPUs of {name}")))
        }
    }
}

fn undo_file(machine: &Machine, file: &str, before: &str) -> Result<UndoResult> {
    let path = machine.path(file);
    if !path.exists() {
        return Ok(UndoResult::Gone);
    }
    if is_alike(file, &machine.read(file).unwrap_or_default(), before) {
        return Ok(UndoResult::Nothing);
    }
    // The kernel takes a line for a value; nothing at all it would not even see.
    fs::write(&path, format!("{before}\n")).map_err(|e| format!("{file} to {before}: {e}"))?;
    Ok(UndoResult::Changed(file.to_owned()))
}
