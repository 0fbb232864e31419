//! A set in one file of this machine.
use crate::{Content, Document, DocumentSet, Value, WriteError};
use durable::files;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// The form of a file.
pub trait FileFormat: Send + Sync + 'static {
    /// The mode of a new file.
    fn mode(&self) -> u32;

    /// The most bytes of a file.
    fn len_max(&self) -> u64;

    /// The remedy for a file that cannot be used.
    fn advice(&self) -> String;

    /// Encodes the documents.
    ///
    /// # Errors
    /// A value cannot be written.
    fn encode(&self, documents: &BTreeMap<String, Value>) -> io::Result<Vec<u8>>;

    /// Parses the documents.
    ///
    /// # Errors
    /// The fault of the file, after its name, and what to do.
    fn decode(&self, bytes: &[u8]) -> Result<BTreeMap<String, Value>, String>;
}

/// A set in a file. A file that cannot be read or is not trusted is never overwritten.
pub struct FileDocuments {
    /// `None`: there is no folder for it, and changes are refused.
    path: Option<PathBuf>,
    format: Box<dyn FileFormat>,
    content: watch::Sender<Arc<Content>>,
    state: Mutex<FileState>,
}

/// Held by the thread that reads or writes the file.
struct FileState {
    /// Whether it was needed.
    is_needed: bool,
}

impl FileDocuments {
    /// The set in a file, which is read when it is needed. A file that does not exist has no
    /// documents.
    pub fn new(path: Option<PathBuf>, format: impl FileFormat) -> Self {
        let content = match path {
            Some(_) => Content::unknown("the file was not read yet"),
            None => Content::default(),
        };
        let content = watch::Sender::new(Arc::new(content));
        let state = Mutex::new(FileState { is_needed: false });
        Self { path, format: Box::new(format), content, state }
    }

    /// Whether the file exists, if that can be seen.
    pub fn exists(&self) -> bool {
        self.path.as_ref().is_some_and(|path| path.exists())
    }

    fn read(&self, path: &Path) -> Result<Content, String> {
        let fault = |why: String| format!("{}: {why}{}", path.display(), self.format.advice());
        let read = files::read(path, self.format.len_max());
        let Some(bytes) = read.map_err(|error| fault(format!("cannot be read: {error}")))? else {
            return Ok(Content::default());
        };
        Ok(content(self.format.decode(&bytes).map_err(fault)?))
    }

    /// Reads the file. Content that is known stays if that fails.
    fn refresh(&self, path: &Path) -> Result<(), String> {
        let read = self.read(path);
        let is_known = self.content.borrow().fault.is_none();
        match &read {
            Ok(content) => drop(self.content.send_replace(Arc::new(content.clone()))),
            Err(why) if !is_known => {
                self.content.send_replace(Arc::new(Content::unknown(why)));
            }
            Err(_) => {}
        }
        read.map(drop)
    }
}

impl DocumentSet for FileDocuments {
    fn content(&self) -> watch::Receiver<Arc<Content>> {
        self.content.subscribe()
    }

    fn load(&self) -> Result<(), String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_needed = true;
        match &self.path {
            Some(path) if self.content.borrow().fault.is_some() => self.refresh(path),
            _ => Ok(()),
        }
    }

    fn reload(&self) -> Result<(), String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &self.path {
            Some(path) if state.is_needed => self.refresh(path),
            _ => Ok(()),
        }
    }

    fn write(&self, base: &Content, name: &str, value: Option<Value>) -> Result<(), WriteError> {
        let path = self.path.as_ref().ok_or_else(|| {
            let what = "[server] data_dir is empty, so it would not outlive a restart: set it and \
                        restart the server";
            WriteError::NotSaved(what.into())
        })?;
        let _one_at_a_time = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let known = Arc::clone(&self.content.borrow());
        if *known != *base {
            return Err(WriteError::Conflict);
        }
        let mut documents: BTreeMap<String, Value> = known
            .documents
            .iter()
            .map(|(name, document)| (name.clone(), document.value.clone()))
            .collect();
        match value {
            Some(value) => drop(documents.insert(name.to_owned(), value)),
            None => drop(documents.remove(name)),
        }
        let bytes = self.format.encode(&documents);
        let written = bytes.and_then(|bytes| {
            files::replace(path, self.format.mode(), |file| file.write_all(&bytes))
        });
        written.map_err(|why| {
            let path = path.display();
            WriteError::NotSaved(format!("{path}: {why}; nothing has changed: is the disk full?"))
        })?;
        self.content.send_replace(Arc::new(content(documents)));
        Ok(())
    }
}

fn content(documents: BTreeMap<String, Value>) -> Content {
    let document = |(name, value)| (name, Document { value, revision: 0 });
    Content { documents: documents.into_iter().map(document).collect(), ..Content::default() }
}
