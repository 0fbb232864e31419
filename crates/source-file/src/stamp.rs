//! Whether a file is still the one that was read.
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What tells one state of a file from another. Symbolic links are followed: a swapped link is
/// another file. Nothing: it is not there, or may not be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(Option<Marks>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Marks {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// The state of a file now.
    pub fn of(file: &Path) -> Self {
        Self(fs::metadata(file).ok().map(|found| Marks {
            device: found.dev(),
            inode: found.ino(),
            len: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }))
    }
}

/// Files, and the state each was in when it was read.
#[derive(Debug, Default)]
pub struct Stamps(Vec<(PathBuf, Stamp)>);

impl Stamps {
    /// The state now of a file, and of those that had a part in it last time.
    pub fn before(file: &Path, last: &Self) -> Self {
        let files = last.0.iter().map(|(file, _)| file.as_path()).filter(|other| *other != file);
        let all = std::iter::once(file).chain(files);
        Self(all.map(|file| (file.to_owned(), Stamp::of(file))).collect())
    }

    /// Keeps what was read. A file whose state before reading nobody knows counts as changed if
    /// it was touched since `began`.
    pub fn after(mut self, read: Vec<PathBuf>, began: SystemTime) -> Self {
        let began = began.duration_since(UNIX_EPOCH).unwrap_or_default();
        // The kernel's clock for files stands still for some milliseconds at a time.
        let since = began.saturating_sub(Duration::from_secs(1)).as_secs() as i64;
        let known = std::mem::take(&mut self.0);
        self.0.extend(read.into_iter().map(|file| {
            let before = known.iter().find(|(other, _)| *other == file).map(|(_, stamp)| *stamp);
            let stamp = before.unwrap_or_else(|| {
                Stamp(Stamp::of(&file).0.filter(|marks| marks.changed.0 < since))
            });
            (file, stamp)
        }));
        self
    }

    /// Whether one of them is in another state now.
    pub fn differ(&self) -> bool {
        self.0.iter().any(|(file, stamp)| Stamp::of(file) != *stamp)
    }

    /// The folders in which something may happen to them: each file's own, and where links lead.
    pub fn folders(&self) -> Vec<PathBuf> {
        let folder = |file: &Path| match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let ends = self.0.iter().filter_map(|(file, _)| file.canonicalize().ok());
        let mut folders: Vec<PathBuf> = ends.map(|end| folder(&end)).collect();
        folders.extend(self.0.iter().map(|(file, _)| folder(file)));
        folders.sort();
        folders.dedup();
        folders
    }
}
