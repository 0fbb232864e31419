//! Reading small files of the kernel, live or from a saved copy.
use crate::limits::FILE_BYTES_MAX;
use cpu::CpuList;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Why a machine cannot be read.
#[derive(Debug)]
pub enum ReadError {
    /// A file that must be there is not, or cannot be read.
    Unreadable(PathBuf, io::Error),
    /// A file does not say what the kernel writes there.
    Malformed(PathBuf, String),
    /// The directory holds no copy of sysfs.
    NoSysfs(PathBuf),
    /// What this process may use cannot be found out.
    Affinity(io::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            Self::Malformed(path, what) => write!(f, "{}: {what}", path.display()),
            Self::NoSysfs(path) => write!(
                f,
                "{} holds no copy of sysfs: neither sys/devices/system/cpu/online nor \
                 devices/system/cpu/online is there; save one by `dunlin cpus topology --save DIR`",
                path.display()
            ),
            Self::Affinity(error) => write!(f, "cannot find out the allowed CPUs: {error}"),
        }
    }
}

impl std::error::Error for ReadError {}

/// Where `/sys` and `/proc` are.
#[derive(Clone, Debug)]
pub(crate) struct Roots {
    pub sys: PathBuf,
    pub proc: PathBuf,
}

impl Roots {
    /// Those of this machine.
    pub fn live() -> Self {
        Self { sys: "/sys".into(), proc: "/proc".into() }
    }

    /// Those of a saved copy: `DIR/sys` and `DIR/proc`, or `DIR` itself for `/sys`.
    pub fn saved(dir: &Path) -> Result<Self, ReadError> {
        for (sys, proc) in [(dir.join("sys"), dir.join("proc")), (dir.into(), dir.join("proc"))] {
            if sys.join("devices/system/cpu/online").exists() {
                return Ok(Self { sys, proc });
            }
        }
        Err(ReadError::NoSysfs(dir.to_owned()))
    }
}

/// A file's text without the white space around it.
pub(crate) fn text(path: &Path) -> Result<String, ReadError> {
    let unreadable = |error| ReadError::Unreadable(path.to_owned(), error);
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text.trim().to_owned())
}

/// The text of a file that need not be there, or not be readable.
pub(crate) fn optional(path: &Path) -> Option<String> {
    text(path).ok()
}

/// A number that need not be there; negative ones stand for none.
pub(crate) fn number(path: &Path) -> Option<usize> {
    optional(path)?.parse().ok()
}

/// A CPU list that must be there.
pub(crate) fn list(path: &Path) -> Result<CpuList, ReadError> {
    let text = text(path)?;
    let malformed = |error| ReadError::Malformed(path.to_owned(), format!("{error}"));
    CpuList::from_kernel(&text).map_err(malformed)
}

/// A CPU list; empty if it is not there.
pub(crate) fn optional_list(path: &Path) -> Result<CpuList, ReadError> {
    if path.exists() { list(path) } else { Ok(CpuList::default()) }
}

/// The names in a directory, sorted; none if it is not there.
pub(crate) fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The numbers behind `prefix` in the names of a directory, ascending: 0 and 1 of `node0`, `node1`.
pub(crate) fn numbered(path: &Path, prefix: &str) -> Vec<usize> {
    let mut numbers: Vec<_> = names(path)
        .iter()
        .filter_map(|name| name.strip_prefix(prefix).and_then(|digits| digits.parse().ok()))
        .collect();
    numbers.sort_unstable();
    numbers
}
