//! The last good zones on disk (invariant I10): how a copy is written, found and read again.
//!
//! A copy is a master file that any server can read, each record in the form of RFC 3597 §5, in
//! canonical order. Its first line names the form and the zone, its last one is a checksum: what
//! was cut off, mixed up or written by another version is refused, never served.
//!
//! ```text
//! ; Dunlin's copy of example.org., form 1: edit the file it was loaded from instead
//! example.org. 3600 NS \# 4 026e7300
//! …
//! ; checksum 0123456789abcdef
//! ```
mod saver;

pub use saver::Saver;

use compile::{Loader, Zone};
use image::{HashKey, Node, Zone as _};
use siphasher::sip::SipHasher13;
use std::fmt::Write as _;
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::{Name, NameBuf};

/// Octets of a file's name before it is shortened, so that a temporary one beside it fits too.
const FILE_NAME_MAX: usize = 200;
/// How every copy begins.
const MARK: &str = "; Dunlin's copy of ";
const TRAILER: &str = "; checksum ";
/// The trailer's words, 16 digits and the end of the line.
const TRAILER_LEN: usize = TRAILER.len() + 16 + 1;

/// The file in a folder that holds the copy of a zone.
pub fn path(folder: &Path, origin: Name<'_>) -> PathBuf {
    folder.join(file_name(origin))
}

/// A name that every file system takes, another one for each zone: letters of host names stand for
/// themselves, other octets are `%` and two digits, the root is `@`. What is too long ends in a
/// hash instead.
fn file_name(origin: Name<'_>) -> String {
    let mut text = String::new();
    for label in origin.labels() {
        if !text.is_empty() {
            text.push('.');
        }
        for octet in label.to_ascii_lowercase() {
            // Writing to a string cannot fail.
            let _ = match octet {
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => write!(text, "{}", char::from(octet)),
                _ => write!(text, "%{octet:02x}"),
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

/// The first line of a copy.
fn header(origin: Name<'_>) -> String {
    format!("{MARK}{origin}, form 1: edit the file it was loaded from instead\n")
}

/// Whether a file may be written over or removed: it is a copy, of whatever zone and form, or has
/// nothing in it. Somebody may keep zone files of their own where copies go.
fn is_ours(file: &Path) -> bool {
    let Ok(file) = File::open(file) else { return false };
    let mut found = Vec::new();
    let read = file.take(MARK.len() as u64).read_to_end(&mut found);
    read.is_ok() && (found.is_empty() || found == MARK.as_bytes())
}

fn trailer(checksum: u64) -> String {
    format!("{TRAILER}{checksum:016x}\n")
}

/// Writes the copy of a zone. Equal zones have equal copies.
///
/// # Errors
/// When `out` has one.
pub fn write(zone: &Zone, out: &mut dyn Write) -> io::Result<()> {
    let mut sum = SipHasher13::new();
    let mut text = header(zone.origin()).into_bytes();
    for tree in [zone.names() as &dyn image::Tree, zone.hashed()] {
        for node in (0..tree.len()).filter_map(|rank| tree.at(rank)) {
            write_node(&mut text, node, zone.origin())?;
            sum.write(&text);
            out.write_all(&text)?;
            text.clear();
        }
    }
    sum.write(&text);
    text.extend_from_slice(trailer(sum.finish()).as_bytes());
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
            let digits = data.iter().flat_map(|octet| [octet >> 4, octet & 15]);
            text.extend(digits.map(|digit| b"0123456789abcdef"[usize::from(digit)]));
            text.push(b'\n');
        }
    }
    Ok(())
}

/// Whether the copy that is there is that of just this zone. It is read only as far as it agrees,
/// and the serial stands near its begin.
pub fn is_current(folder: &Path, zone: &Zone) -> bool {
    let Ok(file) = File::open(path(folder, zone.origin())) else { return false };
    let mut agrees = Agrees { file: BufReader::with_capacity(1 << 16, file), octets: Vec::new() };
    write(zone, &mut agrees).is_ok() && agrees.file.read(&mut [0]).is_ok_and(|more| more == 0)
}

/// Compares what is written with what a file holds, and fails where they differ.
struct Agrees {
    file: BufReader<File>,
    octets: Vec<u8>,
}

impl Write for Agrees {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.octets.resize(text.len(), 0);
        self.file.read_exact(&mut self.octets)?;
        match self.octets == text {
            true => Ok(text.len()),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads the copy of a zone; nothing where there is none.
///
/// # Errors
/// Why the copy that is there is not to be trusted.
pub fn read(
    folder: &Path,
    origin: Name<'_>,
    key: &Arc<HashKey>,
) -> Result<Option<(Zone, u64)>, String> {
    let path = path(folder, origin);
    let told = |why: io::Error| format!("{}: {why}", path.display());
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(told(error)),
    };
    read_file(&file, origin, key).map(Some).map_err(told)
}

fn read_file(file: &File, origin: Name<'_>, key: &Arc<HashKey>) -> io::Result<(Zone, u64)> {
    let len = file.metadata()?.len();
    let header = header(origin);
    let mut found = vec![0; header.len()];
    let whole = file.read_exact_at(&mut found, 0);
    if whole.is_err() || found != header.as_bytes() {
        return Err(io::Error::other("it is the copy of another zone or by another version"));
    }
    let end = len.saturating_sub(TRAILER_LEN as u64);
    let mut found = [0; TRAILER_LEN];
    file.read_exact_at(&mut found, end)?;
    let mut summed = Summed { input: file.take(end), sum: SipHasher13::new() };
    let mut loader = Loader::new(Arc::clone(key), origin, None);
    let read = zonefile::read_stream(&mut summed, origin, &mut |record| {
        loader.add(record.owner, record.rtype, record.ttl, record.rdata, 0)
    });
    // A damaged copy is told as that, whatever its damage made of the records.
    io::copy(&mut summed, &mut io::sink())?;
    if trailer(summed.sum.finish()).as_bytes() != found {
        return Err(io::Error::other("it is damaged: its checksum is another"));
    }
    let records = read.map_err(io::Error::other)?.records;
    let wrong = |problems: Vec<compile::Problem>| {
        io::Error::other(problems.first().map_or_else(String::new, ToString::to_string))
    };
    Ok((loader.finish().map_err(wrong)?, records))
}

/// Sums up what is read.
struct Summed<R> {
    input: R,
    sum: SipHasher13,
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = self.input.read(into)?;
        self.sum.write(&into[..len]);
        Ok(len)
    }
}

#[cfg(test)]
mod tests;
