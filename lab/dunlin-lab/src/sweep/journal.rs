//! The runs of an unfinished sweep, on disk: an interrupted one continues behind the last of them.
use lab::record::RunRecord;
use lab_host::manifest::diff;
use lab_report::bundle::{Header, read_text};
use lab_report::costs::CostRecord;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The first line: what is measured, and where.
#[derive(Serialize, Deserialize)]
struct Begin {
    plan: String,
    header: Header,
}

/// A line: a run of a point, its costs, or why it cannot be measured.
#[derive(Serialize, Deserialize)]
pub struct Entry {
    pub point: usize,
    pub run: Option<RunRecord>,
    pub skipped: Option<String>,
    /// The costs, or why they are not known.
    pub costs: Option<Result<Box<CostRecord>, String>>,
}

impl Entry {
    /// Of this point, with nothing measured yet.
    pub fn of(point: usize) -> Self {
        Self { point, run: None, skipped: None, costs: None }
    }
}

/// An open journal.
pub struct Journal {
    path: PathBuf,
    file: File,
}

/// Beside the bundle.
pub fn path_of(bundle: &Path) -> PathBuf {
    let mut name = bundle.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    bundle.with_file_name(name)
}

impl Journal {
    /// Opens the journal of a bundle; with the runs that are there. `header` is replaced by that of
    /// the first run.
    ///
    /// # Errors
    /// It is of another sweep, the machine has changed since, or it cannot be written.
    pub fn open(
        bundle: &Path,
        plan: &str,
        header: &mut Header,
    ) -> Result<(Self, Vec<Entry>), String> {
        let path = path_of(bundle);
        let told = |why: String| format!("{}: {why}", path.display());
        let text = match path.exists() {
            true => read_text(&path)?,
            false => String::new(),
        };
        // A line without an end was being written when the sweep was killed.
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let mut lines = whole.lines();
        let mut entries = Vec::new();
        if let Some(first) = lines.next() {
            let begin: Begin = serde_json::from_str(first).map_err(|error| {
                told(format!(
                    "this is not the journal of a sweep ({error}): \
                                               remove it"
                ))
            })?;
            if begin.plan != plan {
                return Err(told(
                    "it is of a sweep with other settings: run that one to its end, or remove \
                     the file"
                        .into(),
                ));
            }
            let changes = diff(&begin.header.manifest, &header.manifest);
            let changes: Vec<_> =
                changes.into_iter().filter(|c| c.matters).map(|c| c.path).collect();
            if !changes.is_empty() {
                return Err(told(format!(
                    "the machine has changed since ({}): remove the file to start again",
                    changes.join(", ")
                )));
            }
            *header = begin.header;
            for line in lines {
                let entry = serde_json::from_str(line);
                entries.push(entry.map_err(|error| told(format!("damaged: {error}")))?);
            }
        }
        let io = |error: std::io::Error| format!("{}: {error}", path.display());
        let file = File::options().create(true).append(true).open(&path).map_err(io)?;
        file.set_len(whole.len() as u64).map_err(io)?;
        let mut journal = Self { path: path.clone(), file };
        if whole.is_empty() {
            journal.line(&Begin { plan: plan.into(), header: header.clone() })?;
        }
        Ok((journal, entries))
    }

    /// Adds an entry, on disk when this returns.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, entry: &Entry) -> Result<(), String> {
        self.line(entry)
    }

    fn line(&mut self, value: &impl Serialize) -> Result<(), String> {
        let text = serde_json::to_string(value).map_err(|error| error.to_string())? + "\n";
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| format!("{}: {error}", self.path.display()))
    }

    /// Removes it: the bundle has all of it.
    pub fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
