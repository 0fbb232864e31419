//! Replaces damaged files by those of a snapshot.
use crate::files::{OpenMode, lock, open_file, paths};
use crate::{RedbStore, failed, salvage};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use store::{RestoreInfo, Store, StoreError};

impl RedbStore {
    /// Creates a store from a snapshot in place of the files in `data_dir`, which are renamed to
    /// `records.redb.damaged-<seconds since 1970>`, and the log alike. Changes nothing if the
    /// snapshot is invalid. Returns the open store, whose revision is above all found in the old
    /// files.
    ///
    /// # Errors
    /// The snapshot is truncated or damaged, another process uses the files, or the disk is full.
    pub fn replace(
        data_dir: &Path,
        from: &mut dyn Read,
        write: &RestoreInfo,
    ) -> Result<Self, StoreError> {
        files(data_dir, from, write)?;
        Self::open(data_dir, false)
    }
}

fn of_file(what: &Path) -> impl Fn(io::Error) -> StoreError {
    move |error| match crate::store_error(error.into()) {
        StoreError::Full => StoreError::Full,
        why => failed(&format!("{}: {why}", what.display())),
    }
}

/// Whether the name exists.
fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Replaces the files by those of a new store.
pub fn files(folder: &Path, from: &mut dyn Read, write: &RestoreInfo) -> Result<(), StoreError> {
    let [tree, _] = paths(folder);
    // Locked until the end: files in use are not replaced.
    let old = open_file(&tree, OpenMode::Write).ok();
    old.as_ref().map_or(Ok(()), |file| lock(file, OpenMode::Write))?;
    let newest = salvage::newest(folder);
    let write = RestoreInfo { revision: write.revision.max(newest.next()), ..write.clone() };
    let beside = folder.join("records.restored");
    let removed = match fs::remove_dir_all(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    removed.map_err(of_file(&beside))?;
    let mut restored = RedbStore::open(&beside, false)?;
    let done = restored.restore(from, &write);
    restored.close();
    drop(restored);
    if done.is_err() {
        let _ = fs::remove_dir_all(&beside);
        return done;
    }
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    for (old, new) in paths(folder).iter().zip(paths(&beside)) {
        if is_there(old) {
            let aside = aside(old, since.as_secs());
            // A hard link first, so that a file of this name always exists.
            let kept = fs::hard_link(old, &aside).or_else(|_| durable::files::rename(old, &aside));
            kept.map_err(of_file(old))?;
            tracing::warn!(file = %aside.display(), "a damaged file was moved aside");
        }
        durable::files::rename(&new, old).map_err(of_file(&new))?;
    }
    fs::remove_dir_all(&beside).map_err(of_file(&beside))
}

/// The new name of a damaged file.
fn aside(path: &Path, seconds: u64) -> PathBuf {
    let name = |n: u32| {
        let mut name = path.to_owned().into_os_string();
        name.push(format!(".damaged-{seconds}"));
        if n > 0 {
            name.push(format!("-{n}"));
        }
        PathBuf::from(name)
    };
    (0..).map(name).find(|name| !is_there(name)).unwrap_or_else(|| name(0))
}
