//! Files of lines, each a JSON value. The first says what the file is, the last has the number of
//! lines and a checksum. A file that is cut off or damaged is refused, and never overwritten (I12).
use crate::limits::SAVED_LEN_MAX;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use zone_manager::files::Folder;

/// A kind of file.
pub struct Lines {
    /// Its name in the folder.
    pub file: &'static str,
    /// The key of its first line, whose value is the format.
    pub head: &'static str,
    /// The format.
    pub format: u64,
    /// What it has.
    pub what: &'static str,
}

#[derive(PartialEq, Deserialize, Serialize)]
struct Tail {
    lines: u64,
    checksum: String,
}

impl Lines {
    /// The path of the file.
    pub fn path(&self, folder: &Path) -> PathBuf {
        folder.join(self.file)
    }

    /// Saves values. The old file stays until the new one is complete and durable.
    ///
    /// # Errors
    /// What failed, and where.
    pub fn save<V: Serialize>(
        &self,
        folder: &Path,
        values: impl IntoIterator<Item = V>,
    ) -> Result<(), String> {
        let saved = self.encode(values).and_then(|bytes| {
            let name = Path::new(self.file);
            Folder::create(folder)?.replace(name, 0o640, |file| file.write_all(&bytes))
        });
        saved.map_err(|error| format!("{} cannot be saved: {error}", self.path(folder).display()))
    }

    pub fn encode<V: Serialize>(&self, values: impl IntoIterator<Item = V>) -> io::Result<Vec<u8>> {
        let mut bytes = format!("{{\"{}\":{}}}\n", self.head, self.format).into_bytes();
        let mut lines = 1;
        for value in values {
            line(&mut bytes, &value)?;
            lines += 1;
        }
        let tail = Tail { lines, checksum: checksum(&bytes) };
        line(&mut bytes, &tail)?;
        Ok(bytes)
    }

    /// Reads the values; there are none before the file exists.
    ///
    /// # Errors
    /// The file, and what is wrong with it.
    pub fn load<V: DeserializeOwned>(&self, folder: &Path) -> Result<Vec<V>, String> {
        let place = self.path(folder);
        let told = |what: &str| {
            let of_file = self.what;
            format!(
                "{}: {what}. It stays as it is, and {of_file} are not saved: move it away to \
                 start anew",
                place.display()
            )
        };
        let file = match Folder::open(folder).and_then(|folder| folder.read(Path::new(self.file))) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(told(&format!("cannot be read: {error}"))),
        };
        let mut bytes = Vec::new();
        file.take(SAVED_LEN_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| told(&format!("cannot be read: {error}")))?;
        if bytes.len() as u64 > SAVED_LEN_MAX {
            return Err(told(&format!("is longer than {SAVED_LEN_MAX} bytes")));
        }
        self.decode(&bytes).map_err(|what| told(&what))
    }

    pub fn decode<V: DeserializeOwned>(&self, bytes: &[u8]) -> Result<Vec<V>, String> {
        let cut = || "is cut off or damaged".to_owned();
        let body = bytes.strip_suffix(b"\n").ok_or_else(cut)?;
        let tail_at = body.iter().rposition(|byte| *byte == b'\n').ok_or_else(cut)? + 1;
        let (all, tail) = body.split_at(tail_at);
        let tail: Tail = serde_json::from_slice(tail).map_err(|_| cut())?;
        let mut lines = all.split_inclusive(|byte| *byte == b'\n');
        let is_whole = tail.checksum == checksum(all) && tail.lines == lines.clone().count() as u64;
        is_whole.then_some(()).ok_or_else(cut)?;
        let head: serde_json::Value =
            serde_json::from_slice(lines.next().unwrap_or_default()).map_err(|_| cut())?;
        let Some(format) = head.get(self.head).and_then(serde_json::Value::as_u64) else {
            return Err(format!("is not a file of {}", self.what));
        };
        if format != self.format {
            return Err(format!("has format {format}, and this version reads {}", self.format));
        }
        lines.map(|line| serde_json::from_slice(line).map_err(|_| cut())).collect()
    }
}

fn line(bytes: &mut Vec<u8>, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *bytes, value)?;
    bytes.push(b'\n');
    Ok(())
}

fn checksum(bytes: &[u8]) -> String {
    let mut sum = SipHasher13::new();
    sum.write(bytes);
    format!("{:016x}", sum.finish())
}
