//! Copies of the last good zones on disk (invariant I10).
//!
//! A copy is a zone file that any server can read, with all records in the form of RFC 3597 §5 and
//! in canonical order. Its first line is that of the form of [`durable`]: a truncated, damaged or
//! unknown copy is refused.
//!
//! ```text
//! ; Dunlin's copy of example.org., form 2, 00000000000000001234 bytes, checksum 0123456789abcdef
//! ; names 2000, serial 5, file 1234 created 1700000000.000000001 modified 1700000000.000000001
//! ; edit the file that it was loaded from instead
//! example.org. 3600 NS \# 4 026e7300
//! …
//! ```
//!
//! The second line tells a restart what was last served, without reading the copy ([`CopyNote`]).
mod note;
mod saver;
mod sweep;

pub use note::{CopyNote, FileId};
pub use saver::ZoneSaver;

use compile::{Loader, Zone};
use durable::files::{FileOwnerPolicy, Folder};
use durable::{FileForm, OldForm, OldSum};
use image::{HashKey, Node, Zone as _};
use siphasher::sip::SipHasher13;
use std::fmt::Write as _;
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::{Name, NameBuf};

/// Bytes of a file name before it is shortened, with room for the suffix of a temporary file.
const FILE_NAME_MAX: usize = 200;
/// The start of every copy.
const MARK: &str = "; Dunlin's copy of ";
/// The third line, for who looks into a copy.
const HINT: &str = "; edit the file that it was loaded from instead\n";

/// The folder of the copies in a data folder.
pub fn folder(data_dir: &Path) -> PathBuf {
    data_dir.join("zones")
}

/// The file in a folder that holds the copy of a zone.
pub fn path(folder: &Path, origin: Name<'_>) -> PathBuf {
    folder.join(file_name(origin))
}

/// A file name for each zone that is valid on every file system. Letters of host names stay, other
/// bytes become `%` and two digits, the root is `@`. A long name ends in a hash.
fn file_name(origin: Name<'_>) -> String {
    let mut text = String::new();
    for label in origin.labels() {
        if !text.is_empty() {
            text.push('.');
        }
        for byte in label.to_ascii_lowercase() {
            // Writing to a string cannot fail.
            let _ = match byte {
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => write!(text, "{}", char::from(byte)),
                _ => write!(text, "%{byte:02x}"),
            };
        }
    }
    if text.is_empty() {
        text.push('@');
    }
    if text.len() > FILE_NAME_MAX {
        let mut hasher = SipHasher13::new();
        hasher.write(text.as_bytes());
        text.truncate(FILE_NAME_MAX);
        let _ = write!(text, "~{:016x}", hasher.finish());
    }
    text + ".zone"
}

/// What follows the name of a copy whose zone the config does not name any more.
const REMOVED: &str = ".removed";

/// The name of such a copy.
fn removed_name(name: &Path) -> PathBuf {
    let mut removed = name.as_os_str().to_owned();
    removed.push(REMOVED);
    removed.into()
}

/// The form of a copy.
fn form(origin: Name<'_>) -> FileForm {
    let owner = origin.to_string();
    let old = OldForm { begin: old_header(origin).into(), sum: OldSum::Comment };
    FileForm { what: "copy", owner, form: 2, len_max: u64::MAX, old: vec![old] }
}

/// The first line of a copy that an older version wrote.
fn old_header(origin: Name<'_>) -> String {
    format!("{MARK}{origin}, form 1: edit the file it was loaded from instead\n")
}

/// Refuses to overwrite or remove a file that is neither a copy nor empty. Operators may have zone
/// files of their own in this folder. A missing file is fine.
fn check_is_copy(folder: &Folder, file: &Path) -> io::Result<()> {
    let file = match folder.read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    let mut found = Vec::new();
    file.take(MARK.len() as u64).read_to_end(&mut found)?;
    if found.is_empty() || found == MARK.as_bytes() {
        return Ok(());
    }
    let why = "it is not a copy: move zone files elsewhere, or set another [server] data_dir";
    Err(io::Error::other(why))
}

/// Writes the copy of a zone that was loaded from `file`. Equal zones have equal copies, except for
/// the note.
///
/// # Errors
/// The errors of `out`.
pub fn write(zone: &Zone, file: Option<FileId>, out: impl Write + Seek) -> io::Result<()> {
    let note = CopyNote::new(zone, file).to_string();
    form(zone.origin()).write(out, |out| write_noted(zone, &note, out))
}

fn write_noted(zone: &Zone, note: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut text = [note, HINT].concat().into_bytes();
    for tree in [zone.names() as &dyn image::Tree, zone.hashed()] {
        for node in (0..tree.len()).filter_map(|rank| tree.at(rank)) {
            write_node(&mut text, node, zone.origin())?;
            out.write_all(&text)?;
            text.clear();
        }
    }
    out.write_all(&text)
}

fn write_node(text: &mut Vec<u8>, node: Node<'_>, origin: Name<'_>) -> io::Result<()> {
    if node.is_empty() {
        return Ok(());
    }
    let owner = NameBuf::joined(node.name(), origin).map_err(io::Error::other)?;
    let owner = owner.to_string();
    for set in node.sets() {
        let head = format!("{owner} {} {} \\# ", set.ttl(), set.rtype());
        for data in set.records() {
            text.extend_from_slice(head.as_bytes());
            write!(text, "{} ", data.len())?;
            let digits = data.iter().flat_map(|byte| [byte >> 4, byte & 15]);
            text.extend(digits.map(|digit| b"0123456789abcdef"[usize::from(digit)]));
            text.push(b'\n');
        }
    }
    Ok(())
}

/// Whether two zones with the same key have the same names and records. Stops at the first
/// difference.
pub fn are_equal(one: &Zone, other: &Zone) -> bool {
    let is_equal = |one: &dyn image::Tree, other: &dyn image::Tree| {
        let node =
            |tree: &dyn image::Tree, rank| tree.at(rank).map(|node| node.as_bytes().to_vec());
        one.len() == other.len() && (0..one.len()).all(|rank| node(one, rank) == node(other, rank))
    };
    is_equal(one.names(), other.names()) && is_equal(one.hashed(), other.hashed())
}

/// Whether the copy equals this zone, whatever its note. Reads only to the first difference; the
/// serial is near the start.
pub fn is_current(folder: &Path, zone: &Zone) -> bool {
    Folder::open_below(folder, FileOwnerPolicy::Ours)
        .is_ok_and(|folder| is_current_in(&folder, zone))
}

fn is_current_in(folder: &Folder, zone: &Zone) -> bool {
    open(folder, zone.origin()).is_ok_and(|file| {
        let note = note::line(&file);
        holds(&file, zone, &note) || is_equal_old_copy(&file, zone)
    })
}

/// Opens the copy of a zone. The config may not have named the zone for a while.
fn open(folder: &Folder, origin: Name<'_>) -> io::Result<File> {
    let name = PathBuf::from(file_name(origin));
    match folder.read(&name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => folder.read(&removed_name(&name)),
        opened => opened,
    }
}

/// Whether a copy equals this zone with this note.
fn holds(file: &File, zone: &Zone, note: &str) -> bool {
    form(zone.origin()).holds(file, |out| write_noted(zone, note, out))
}

/// Whether the copy that an older version wrote equals this zone.
fn is_equal_old_copy(file: &File, zone: &Zone) -> bool {
    let (origin, key) = (zone.origin(), zone.names().key());
    note::start(file).starts_with(old_header(origin).as_bytes())
        && read_file(file, origin, key).is_ok_and(|(old, _)| are_equal(&old, zone))
}

/// The note of a zone's copy; `None` without a copy. An older version's copy has no note, so this
/// reads it.
pub fn note(folder: &Path, origin: Name<'_>, key: &Arc<HashKey>) -> Option<CopyNote> {
    let file = open(&Folder::open_below(folder, FileOwnerPolicy::Ours).ok()?, origin).ok()?;
    CopyNote::parse(&note::line(&file)).or_else(|| {
        let (zone, _) = read_file(&file, origin, key).ok()?;
        Some(CopyNote::new(&zone, None))
    })
}

/// Reads the copy of a zone; `None` without a copy.
///
/// # Errors
/// The copy is not trusted.
pub fn read(
    folder: &Path,
    origin: Name<'_>,
    key: &Arc<HashKey>,
) -> Result<Option<(Zone, u64)>, String> {
    let path = path(folder, origin);
    let messages = |path: &Path, why: io::Error| format!("{}: {why}", path.display());
    let folder = match Folder::open_below(folder, FileOwnerPolicy::Ours) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| messages(folder, error))?,
    };
    match open(&folder, origin) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(messages(&path, error)),
        Ok(file) => read_file(&file, origin, key).map(Some).map_err(|why| messages(&path, why)),
    }
}

/// The last served zone if it differs from this one; `None` without a valid copy. Only for
/// comparison, not for serving: the copy's owner is not checked.
pub fn differing(folder: &Path, zone: &Zone) -> Option<Zone> {
    let folder = Folder::open_below(folder, FileOwnerPolicy::Anyone).ok()?;
    if is_current_in(&folder, zone) {
        return None;
    }
    let file = open(&folder, zone.origin()).ok()?;
    read_file(&file, zone.origin(), zone.names().key()).ok().map(|(zone, _)| zone)
}

fn read_file(file: &File, origin: Name<'_>, key: &Arc<HashKey>) -> io::Result<(Zone, u64)> {
    let content = form(origin).verify(BufReader::with_capacity(1 << 16, file));
    let mut content = content.map_err(io::Error::other)?;
    let mut loader = Loader::new(Arc::clone(key), origin, None);
    let read = zonefile::read_saved(&mut content, origin, &mut |record| {
        loader.add(record.owner, record.rtype, record.ttl, record.rdata, 0)
    });
    let records = read.map_err(io::Error::other)?.records;
    let wrong = |problems: Vec<compile::ZoneProblem>| {
        io::Error::other(problems.first().map_or_else(String::new, ToString::to_string))
    };
    Ok((loader.finish().map_err(wrong)?, records))
}

#[cfg(test)]
mod tests;
