//! Settings of the machine while something is measured, and their restoration: also after whoever
//! made them was killed, but not before somebody calls [`recover`], as each `dunlin lab` does.
//!
//! What a setting was is in a journal, on disk as far as the machine's state is, before it is
//! changed. Who changes holds a lock on the journal, which the kernel takes away when he ends,
//! however he ends: a journal that has entries and no lock is of somebody who could not restore
//! them, and whoever finds it does.

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

/// What is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// A file, as on the machine, without the first slash.
    File(String),
    /// The CPUs of the polling threads of a device, one each; of several, in turn.
    Polling(String),
}

/// A step of a session, told while it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// What a setting was is in the journal; it is not changed yet.
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
    /// Begins, with the journal in the folder `state`. What somebody who is no more left behind is
    /// restored first.
    ///
    /// # Errors
    /// Somebody else tunes, or has left settings on purpose; or we may not write there.
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
                    Ok(_) => Err(format!("{why}; all is as it was ({hint})")),
                    Err(error) => Err(format!("{why} ({hint}); and then: {error}")),
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

/// Restores what somebody who is no more could not. Nothing, where there is nothing to do: nobody
/// was killed, whoever tunes is alive, or has left his settings on purpose.
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

/// Restores whatever was tuned, by whoever is no more or kept it.
///
/// # Errors
/// Somebody still tunes, or something could not be restored.
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
