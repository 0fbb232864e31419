//! Settings of the machine while something is measured, and their restoration: also after the
//! process that made them was killed, by the next call of [`recover`], as each `dunlin-lab` does.
//!
//! The journal holds each old value, on disk, before the setting changes. The process that tunes
//! holds a lock on the journal; the kernel releases it however the process ends. A journal with
//! entries and no lock belongs to a killed process: the next command of the lab restores it.

mod journal;
mod plan;

pub use journal::{Entry, Restored};
pub use plan::{Change, Options, Part, plan};

use crate::Result;
use crate::machine::Machine;
use crate::{mask, threads};
use cpu::CpuList;
use journal::Journal;
use std::fs;
use std::path::Path;

/// A setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// A file, as on the machine, without the first slash.
    File(String),
    /// The CPUs of the polling threads of a device, one each; of several, in turn.
    Polling(String),
}

/// A step of a session, for tests that kill it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The old value is in the journal; the setting is not changed yet.
    Noted,
    /// It is changed.
    Changed,
    /// It is as it was again; the journal still has it.
    Restored,
    /// All are as they were, and the journal is empty.
    Done,
}

/// Settings that are restored when this is dropped, unless they are kept.
#[derive(Debug)]
pub struct Session {
    machine: Machine,
    journal: Journal,
    is_over: bool,
}

impl Session {
    /// Begins, with the journal in the folder `state`. Entries of an ended process are
    /// restored first.
    ///
    /// # Errors
    /// Another process tunes, or has left settings on purpose; or the folder is not writable.
    pub fn begin(machine: &Machine, state: &Path) -> Result<Self> {
        let mut journal = Journal::open(state)?.ok_or(
            "settings are being tuned by another `dunlin lab tune`; wait until it has ended",
        )?;
        if journal.is_kept()? {
            return Err("settings are tuned already; `dunlin lab tune restore` comes first".into());
        }
        journal.restore(machine, &mut |_| {})?;
        Ok(Self { machine: machine.clone(), journal, is_over: false })
    }

    /// Makes the changes in their order, telling each step.
    ///
    /// # Errors
    /// The kernel refuses one: then all are undone.
    pub fn apply(&mut self, changes: &[Change], step: &mut dyn FnMut(Step)) -> Result<()> {
        for change in changes {
            if let Err(why) = self.change(change, step) {
                let hint = format!("`--skip {}` leaves it as it is", change.part);
                return match self.journal.restore(&self.machine, step) {
                    Ok(_) => Err(format!("{why}; all settings were restored ({hint})")),
                    Err(error) => Err(format!("{why} ({hint}); after that: {error}")),
                };
            }
        }
        Ok(())
    }

    fn change(&mut self, change: &Change, step: &mut dyn FnMut(Step)) -> Result<()> {
        match &change.setting {
            Setting::File(file) => {
                let before = self.machine.read(file).unwrap_or_default();
                self.journal.note(&Entry::file(&self.machine, file, before))?;
                step(Step::Noted);
                let path = self.machine.path(file);
                fs::write(&path, &change.after).map_err(|error| {
                    format!("cannot write {} into {}: {error}", change.after, path.display())
                })?;
                step(Step::Changed);
            }
            Setting::Polling(device) => {
                let cpus: CpuList = change.after.parse().map_err(|_| "no CPUs to pin to")?;
                let found = threads::polling(&self.machine.path("proc"), device);
                for (thread, cpu) in found.iter().zip(cpus.as_slice().iter().cycle()) {
                    let Some(before) = threads::allowed(thread.pid) else { continue };
                    self.journal.note(&Entry::thread(thread, &before))?;
                    step(Step::Noted);
                    threads::pin(thread.pid, &std::iter::once(*cpu).collect())
                        .map_err(|e| format!("cannot pin {} to CPU {cpu}: {e}", thread.name))?;
                    step(Step::Changed);
                }
            }
        }
        Ok(())
    }

    /// Ends, leaving the settings as they are until [`restore`] is asked for.
    ///
    /// # Errors
    /// The journal cannot be written: then they are restored.
    pub fn keep(mut self) -> Result<()> {
        self.journal.keep()?;
        self.is_over = true;
        Ok(())
    }

    /// Ends, with everything as it was.
    ///
    /// # Errors
    /// Something could not be restored. It stays in the journal, for the next try.
    pub fn end(mut self, step: &mut dyn FnMut(Step)) -> Result<Restored> {
        self.is_over = true;
        self.journal.restore(&self.machine, step)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.is_over
            && let Err(why) = self.journal.restore(&self.machine, &mut |_| {})
        {
            eprintln!("dunlin: {why}");
        }
    }
}

/// Restores the settings of a killed process. None if there is nothing to do: no process was
/// killed, the one that tunes is alive, or the settings were left on purpose.
///
/// # Errors
/// Something could not be restored.
pub fn recover(machine: &Machine, state: &Path) -> Result<Option<Restored>> {
    if !journal::exists(state) {
        return Ok(None);
    }
    let Some(mut journal) = Journal::open(state)? else { return Ok(None) };
    if journal.is_kept()? {
        return Ok(None);
    }
    let restored = journal.restore(machine, &mut |_| {})?;
    Ok((restored != Restored::default()).then_some(restored))
}

/// Restores all settings of ended processes, kept ones too.
///
/// # Errors
/// Another process still tunes, or a setting could not be restored.
pub fn restore(machine: &Machine, state: &Path) -> Result<Restored> {
    if !journal::exists(state) {
        return Ok(Restored::default());
    }
    let journal = Journal::open(state)?;
    let mut journal = journal
        .ok_or("a `dunlin lab tune` still runs its command; it restores all when that has ended")?;
    journal.restore(machine, &mut |_| {})
}

/// Whether two values of a file say the same: numbers, lists and masks may be written in several
/// ways.
fn is_alike(file: &str, a: &str, b: &str) -> bool {
    let is_mask = file.ends_with("rps_cpus") || file.ends_with("xps_cpus");
    a == b || (is_mask && mask::parse(a).is_some_and(|a| mask::parse(b) == Some(a)))
}

#[cfg(test)]
mod tests;
