//! Files of lines, each a JSON value, in the form of [`durable`]. A file that is cut off or damaged
//! is refused, and never overwritten (I12).
use crate::limits::LINES_LEN_MAX;
use crate::{FileFormat, Value};
use durable::{FileForm, OldForm, OldSum};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Cursor, Read, Write};
use std::path::{Path, PathBuf};

/// A kind of file.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// Its name in the folder.
    pub file: &'static str,
    /// The key of the first line that older versions wrote; its value was the format.
    pub head: &'static str,
    /// The format.
    pub format: u32,
    /// What it has.
    pub what: &'static str,
    /// The mode of a new file.
    pub mode: u32,
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
        let path = self.path(folder);
        let saved = self.form().replace(&path, self.mode, |out| write(out, values));
        saved.map_err(|error| format!("{} cannot be saved: {error}", path.display()))
    }

    fn form(&self) -> FileForm {
        let begin = format!("{{\"{}\":{}}}\n", self.head, self.format).into();
        FileForm {
            what: self.what,
            owner: "this server".into(),
            form: self.format,
            len_max: LINES_LEN_MAX,
            old: vec![OldForm { begin, sum: OldSum::Json }],
        }
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
        match self.form().open(&path)? {
            Some(content) => gather(content).map_err(|what| format!("{}: {what}", path.display())),
            None => Ok(Vec::new()),
        }
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
        format!(
            ". It stays as it is, and {what} are not saved: move it away to start with an \
                 empty file"
        )
    }

    fn encode(&self, documents: &BTreeMap<String, Value>) -> io::Result<Vec<u8>> {
        let line =
            |(name, value): (&String, &Value)| Line { name: name.clone(), keys: value.clone() };
        self.form().bytes(|out| write(out, documents.iter().map(line)))
    }

    fn decode(&self, bytes: &[u8]) -> Result<BTreeMap<String, Value>, String> {
        let content = self.form().verify(Cursor::new(bytes))?;
        let lines = gather::<Line>(content)?;
        Ok(lines.into_iter().map(|line| (line.name, line.keys)).collect())
    }
}

fn write(out: &mut dyn Write, values: impl IntoIterator<Item = impl Serialize>) -> io::Result<()> {
    values.into_iter().try_for_each(|value| {
        serde_json::to_writer(&mut *out, &value)?;
        out.write_all(b"\n")
    })
}

fn gather<V: DeserializeOwned>(mut content: impl Read) -> Result<Vec<V>, String> {
    let mut bytes = Vec::new();
    content.read_to_end(&mut bytes).map_err(|why| format!("cannot be read: {why}"))?;
    let values = serde_json::Deserializer::from_slice(&bytes).into_iter();
    values.collect::<Result<_, _>>().map_err(|why| format!("was written by another version: {why}"))
}
