//! Files of lines, each a JSON value. The first says what the file is, the last has the number of
//! lines and a checksum. A file that is cut off or damaged is refused, and never overwritten (I12).
use crate::limits::LINES_LEN_MAX;
use crate::{FileFormat, Value, file};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::io;
use std::path::{Path, PathBuf};

/// A kind of file.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// Its name in the folder.
    pub file: &'static str,
    /// The key of its first line, whose value is the format.
    pub head: &'static str,
    /// The format.
    pub format: u64,
    /// What it has.
    pub what: &'static str,
    /// The mode of a new file.
    pub mode: u32,
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
        let bytes = self.encode(values);
        let saved = bytes.and_then(|bytes| file::replace(&self.path(folder), self.mode, &bytes));
        saved.map_err(|error| format!("{} cannot be saved: {error}", self.path(folder).display()))
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// A value cannot be written.
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
        self.read(folder).map_err(|what| format!("{what}{}", self.advice()))
    }

    /// As [`Lines::load`], of a file that may be overwritten although it is damaged.
    ///
    /// # Errors
    /// The file, and what is wrong with it.
    pub fn read<V: DeserializeOwned>(&self, folder: &Path) -> Result<Vec<V>, String> {
        let path = self.path(folder);
        let told = |what: String| format!("{}: {what}", path.display());
        let read = file::read(&path, LINES_LEN_MAX);
        match read.map_err(|error| told(format!("cannot be read: {error}")))? {
            Some(bytes) => self.decode(&bytes).map_err(told),
            None => Ok(Vec::new()),
        }
    }

    /// The values of a file.
    ///
    /// # Errors
    /// What is wrong with it.
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

/// A document.
#[derive(Deserialize, Serialize)]
struct Line {
    name: String,
    keys: Value,
}

/// A line for each document.
impl FileFormat for Lines {
    fn mode(&self) -> u32 {
        self.mode
    }

    fn len_max(&self) -> u64 {
        LINES_LEN_MAX
    }

    fn advice(&self) -> String {
        let what = self.what;
        format!(". It stays as it is, and {what} are not saved: move it away to start anew")
    }

    fn encode(&self, documents: &BTreeMap<String, Value>) -> io::Result<Vec<u8>> {
        let line =
            |(name, value): (&String, &Value)| Line { name: name.clone(), keys: value.clone() };
        Self::encode(self, documents.iter().map(line))
    }

    fn decode(&self, bytes: &[u8]) -> Result<BTreeMap<String, Value>, String> {
        let lines = Self::decode::<Line>(self, bytes)?;
        Ok(lines.into_iter().map(|line| (line.name, line.keys)).collect())
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
