//! The second line of a copy: the last served zone, and its file.
use compile::Zone;
use image::Tree;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How the line begins.
const MARK: &str = "; names ";
/// The maximum length of the line before it: a name has up to 1,004 characters.
const HEAD_LEN_MAX: usize = 1_200;
/// The maximum length of the line.
const LINE_LEN_MAX: usize = 200;

/// Identifies a file and its modification. An inode number alone may be reused soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    inode: u64,
    /// Since 1970; `None` if the file system has none.
    created: Option<Duration>,
    /// Since 1970.
    modified: Duration,
}

impl FileId {
    /// The file at a path; follows links.
    pub fn of(path: &Path) -> Option<Self> {
        let found = path.metadata().ok()?;
        let since = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let created = found.created().ok().map(since);
        Some(Self {
            inode: found.ino(),
            created,
            modified: found.modified().map_or(Duration::ZERO, since),
        })
    }

    /// Whether it is the same file, modified or not.
    pub fn is_same_file(&self, other: &Self) -> bool {
        (self.inode, self.created) == (other.inode, other.created)
    }
}

/// What a copy says about its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyNote {
    /// The number of names.
    pub names: u64,
    /// Its serial.
    pub serial: Option<u32>,
    /// The zone's file when last loaded, if known.
    pub file: Option<FileId>,
}

impl CopyNote {
    /// The note for a zone and its file.
    pub fn new(zone: &Zone, file: Option<FileId>) -> Self {
        Self { names: zone.names().len() as u64, serial: zone.serial(), file }
    }

    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut fields = line.strip_prefix(MARK)?.trim_end().split(", ");
        let names = fields.next()?.parse().ok()?;
        let mut note = Self { names, serial: None, file: None };
        for field in fields {
            match field.split_once(' ')? {
                ("serial", serial) => note.serial = Some(serial.parse().ok()?),
                ("file", file) => note.file = Some(parse_file(file)?),
                _ => {}
            }
        }
        Some(note)
    }
}

fn parse_file(text: &str) -> Option<FileId> {
    let (file, modified) = text.split_once(" modified ")?;
    let (inode, created) = match file.split_once(" created ") {
        Some((inode, created)) => (inode, Some(parse_time(created)?)),
        None => (file, None),
    };
    Some(FileId { inode: inode.parse().ok()?, created, modified: parse_time(modified)? })
}

fn parse_time(text: &str) -> Option<Duration> {
    let (seconds, nanoseconds) = text.split_once('.')?;
    let nanoseconds = nanoseconds.parse().ok().filter(|count| *count < 1_000_000_000)?;
    Some(Duration::new(seconds.parse().ok()?, nanoseconds))
}

/// The line with its line end.
impl fmt::Display for CopyNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MARK}{}", self.names)?;
        if let Some(serial) = self.serial {
            write!(f, ", serial {serial}")?;
        }
        if let Some(FileId { inode, created, modified }) = self.file {
            write!(f, ", file {inode}")?;
            for (word, at) in [("created", created), ("modified", Some(modified))] {
                if let Some(at) = at {
                    write!(f, " {word} {}.{:09}", at.as_secs(), at.subsec_nanos())?;
                }
            }
        }
        f.write_str("\n")
    }
}

/// The first bytes of a copy, with both of its first lines.
pub(super) fn start(file: &File) -> Vec<u8> {
    let mut found = vec![0; HEAD_LEN_MAX + LINE_LEN_MAX];
    let len = file.read_at(&mut found, 0).unwrap_or_default();
    found.truncate(len);
    found
}

/// The line of a copy with its line end; empty if it has none.
pub(super) fn line(file: &File) -> String {
    let start = start(file);
    let line = start.split_inclusive(|byte| *byte == b'\n').nth(1);
    let line = line.and_then(|line| str::from_utf8(line).ok());
    line.filter(|line| line.starts_with(MARK) && line.ends_with('\n')).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_round_trips() {
        let created = Some(Duration::new(1_700_000_000, 7));
        for file in [None, Some(None), Some(created)] {
            for serial in [None, Some(u32::MAX)] {
                let modified = Duration::new(1_800_000_000, 999_999_999);
                let file = file.map(|created| FileId { inode: u64::MAX, created, modified });
                let note = CopyNote { names: u64::MAX, serial, file };
                let line = note.to_string();
                assert!(line.len() <= LINE_LEN_MAX, "{line}");
                assert_eq!(CopyNote::parse(&line), Some(note), "{line}");
            }
        }
    }

    #[test]
    fn invalid_note_is_ignored() {
        for line in ["", "; checksum 0123456789abcdef\n", "; names x\n", "; names 5, serial -1\n"] {
            assert_eq!(CopyNote::parse(line), None, "{line}");
        }
        let later = CopyNote { names: 5, serial: None, file: None };
        assert_eq!(CopyNote::parse("; names 5, colour red\n"), Some(later), "of a later version");
    }

    #[test]
    fn reused_inode_has_another_id() {
        let folder = test_support::folder::Folder::new("note");
        let (file, other) = (folder.join("file"), folder.join("other"));
        std::fs::write(&file, "1").expect("a file");
        let id = FileId::of(&file).expect("a file");
        let is_same = || FileId::of(&file).is_some_and(|now| now.is_same_file(&id));
        std::fs::write(&file, "22").expect("a file");
        assert!(is_same(), "written in place");
        let opened = File::options().write(true).open(&file).expect("a file");
        opened.set_modified(SystemTime::UNIX_EPOCH).expect("a time");
        assert!(is_same() && FileId::of(&file) != Some(id), "modified");
        std::fs::write(&other, "22").expect("a file");
        std::fs::rename(&other, &file).expect("renamed");
        assert!(!is_same());
        std::fs::remove_file(&file).expect("the file goes");
        assert_eq!(FileId::of(&file), None);
    }
}
