//! Removes copies of zones that the config does not name any more, after a while: until then, a
//! config that was cut or emptied by mistake has lost nothing.
//!
//! Such a copy is renamed, and its time is set to that moment. It is renamed back once the config
//! names its zone again.
use super::{REMOVED, check_is_copy, removed_name};
use crate::limits::TEMPORARY_AGE;
use durable::files::{FileOwnerPolicy, Folder};
use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The prefix of temporary files.
pub(super) const SAVING: &str = ".saving-";

/// The copies to keep.
pub(super) struct KeptCopies {
    /// Their names.
    pub names: HashSet<PathBuf>,
    /// How long the others stay.
    pub saved_for: Duration,
}

/// Sets copies of removed zones aside or removes them, and temporary files of killed processes.
/// Returns when the next copy is to be removed.
pub(super) fn sweep(path: &Path, kept: &KeptCopies) -> Option<Duration> {
    let folder = Folder::open_below(path, FileOwnerPolicy::Ours).ok()?;
    let mut next = None;
    for entry in folder.names().unwrap_or_default() {
        let name = PathBuf::from(&entry);
        let done = match name.extension().and_then(|extension| extension.to_str()) {
            Some("zone") if !kept.names.contains(&name) => set_aside(&folder, &name),
            Some("removed") => visit_removed(&folder, &name, kept),
            Some("tmp") if entry.as_encoded_bytes().starts_with(SAVING.as_bytes()) => {
                remove_aged(&folder, &name, TEMPORARY_AGE).map(|_| None)
            }
            _ => continue,
        };
        let file = path.join(&name);
        match done {
            Ok(left) => next = next.into_iter().chain(left).min(),
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "an old copy stays as it is");
            }
        }
    }
    // A copy that was set aside just now is visited once more, which finds out how long it stays.
    next
}

/// Renames the copy of a removed zone. Returns when to visit it again.
fn set_aside(folder: &Folder, name: &Path) -> io::Result<Option<Duration>> {
    if check_is_copy(folder, name).is_err() {
        return Ok(None);
    }
    folder.read(name)?.set_modified(SystemTime::now())?;
    folder.rename(name, &removed_name(name))?;
    folder.sync()?;
    tracing::info!(copy = %name.display(), "the config does not name the zone of a copy any more");
    Ok(Some(Duration::ZERO))
}

/// Puts a copy back whose zone is named again, or removes an old one. Returns how long it stays.
fn visit_removed(folder: &Folder, name: &Path, kept: &KeptCopies) -> io::Result<Option<Duration>> {
    let copy = name.with_extension("");
    debug_assert_eq!(removed_name(&copy), name, "{REMOVED}");
    if copy.extension().is_none_or(|extension| extension != "zone")
        || check_is_copy(folder, name).is_err()
    {
        return Ok(None);
    }
    if !kept.names.contains(&copy) {
        return remove_aged(folder, name, kept.saved_for);
    }
    match folder.read(&copy) {
        Err(error) if error.kind() == ErrorKind::NotFound => folder.rename(name, &copy)?,
        // It was loaded and saved since.
        _ => folder.remove(name)?,
    }
    Ok(None)
}

/// Removes a file of this age. Returns how long a younger one stays.
fn remove_aged(folder: &Folder, name: &Path, age: Duration) -> io::Result<Option<Duration>> {
    // A time in the future is that of another clock: the file is new.
    let left = age.saturating_sub(folder.age(name).unwrap_or_default());
    if !left.is_zero() {
        return Ok(Some(left + Duration::from_secs(1)));
    }
    folder.remove(name)?;
    // Logged because another server with the same folder would need it.
    tracing::info!(copy = %name.display(), "removed an old copy");
    Ok(None)
}
