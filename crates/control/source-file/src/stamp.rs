//! Whether a file is the one that was read.
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The resolution of file times: a file that changed so shortly before its stamp may change again
/// without a new time.
const GRANULE: Duration = Duration::from_millis(20);

/// Identifies one state of a file; follows links. Empty: the file does not exist or cannot be
/// examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(Option<FileMarks>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileMarks {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// The current stamp of a file.
    pub fn of(file: &Path) -> Self {
        Self(fs::metadata(file).ok().map(|found| FileMarks::of(&found)))
    }

    /// As `of`, through an open file: a network file system then asks its server instead of its
    /// cache.
    pub fn of_opened(file: &Path) -> Self {
        match zonefile::open(file).and_then(|opened| opened.metadata()) {
            Ok(found) => Self(Some(FileMarks::of(&found))),
            Err(_) => Self::of(file),
        }
    }

    /// Whether the file exists.
    pub fn exists(self) -> bool {
        self.0.is_some()
    }

    /// Whether both are different files, whatever their content.
    pub fn is_another_than(self, other: Self) -> bool {
        let file = |stamp: Self| stamp.0.map(|marks| (marks.device, marks.inode));
        file(self) != file(other)
    }

    /// Whether it was modified less than `age` before `now`, or has a later time.
    pub fn is_younger_than(self, age: Duration, now: SystemTime) -> bool {
        let since = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let edge = since(now).saturating_sub(age);
        let edge = (edge.as_secs() as i64, i64::from(edge.subsec_nanos()));
        self.0.is_some_and(|marks| marks.modified > edge)
    }

    /// Whether a later change may leave the same stamp.
    fn is_racy(self, at: SystemTime) -> bool {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(GRANULE);
        let since = (since.as_secs() as i64, i64::from(since.subsec_nanos()));
        self.0.is_some_and(|marks| marks.changed >= since)
    }
}

impl FileMarks {
    fn of(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            len: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }
}

/// A file, its stamp when it was read, and the target of its links.
#[derive(Clone, Debug)]
pub struct StampedFile {
    /// The path as configured or included.
    pub file: PathBuf,
    /// Its stamp.
    pub stamp: Stamp,
    /// Its path after following links; the expected one if it is missing.
    pub end: PathBuf,
    /// A later change may leave the same stamp.
    pub is_racy: bool,
}

impl StampedFile {
    /// The current state of a file.
    pub fn of(file: &Path) -> Self {
        let (stamp, end) = (Stamp::of(file), end(file));
        Self { file: file.into(), stamp, end, is_racy: stamp.is_racy(SystemTime::now()) }
    }

    /// The paths that events may name.
    pub fn paths(&self) -> [PathBuf; 2] {
        let name = self.file.file_name().unwrap_or_default();
        [folder(&self.file).join(name), self.end.clone()]
    }
}

/// Files with their stamps when they were read.
#[derive(Clone, Debug, Default)]
pub struct FileStamps(Vec<StampedFile>);

impl FileStamps {
    /// The current stamps of a file and of those involved in its last load.
    pub fn before(file: &Path, last: &Self) -> Self {
        let files = last.0.iter().map(|old| old.file.as_path()).filter(|other| *other != file);
        Self(std::iter::once(file).chain(files).map(StampedFile::of).collect())
    }

    /// Keeps the stamps of the files that were read. A file without an earlier stamp counts as
    /// changed if it was modified since `began`.
    pub fn after(mut self, read: Vec<PathBuf>, began: SystemTime) -> Self {
        let began = began.duration_since(UNIX_EPOCH).unwrap_or_default();
        // File times have a resolution of some milliseconds.
        let since = began.saturating_sub(Duration::from_secs(1)).as_secs() as i64;
        let known = std::mem::take(&mut self.0);
        self.0.extend(read.into_iter().map(|file| {
            let before = known.iter().find(|old| old.file == file).cloned();
            before.unwrap_or_else(|| {
                let mut stamped = StampedFile::of(&file);
                stamped.stamp = Stamp(stamped.stamp.0.filter(|marks| marks.changed.0 < since));
                stamped
            })
        }));
        self
    }

    /// The files.
    pub fn files(&self) -> &[StampedFile] {
        &self.0
    }

    /// The last stamp of a file.
    pub fn get(&self, file: &Path) -> Option<&StampedFile> {
        self.0.iter().find(|stamped| stamped.file == file)
    }

    /// The paths that events may name.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.0.iter().flat_map(StampedFile::paths).collect()
    }

    /// The folders to watch: each file's own, and those of link targets.
    pub fn folders(&self) -> Vec<PathBuf> {
        let mut folders: Vec<PathBuf> = self.0.iter().map(|it| folder(&it.end)).collect();
        folders.extend(self.0.iter().map(|it| folder(&it.file)));
        folders.sort();
        folders.dedup();
        folders
    }
}

/// The target of links; the expected one if the file is missing.
fn end(file: &Path) -> PathBuf {
    file.canonicalize().unwrap_or_else(|_| {
        let name = file.file_name().unwrap_or_default();
        folder(file).canonicalize().map_or_else(|_| file.into(), |folder| folder.join(name))
    })
}

fn folder(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
