//! Small sets of documents: the principals of the API, its health checks, the states of endpoints.
//!
//! A set is in a file of this machine ([`FileDocuments`]), or the servers of a fleet share it. Its
//! users see no difference: they read the newest content, and each change says what it was made
//! from, so that none is lost.
//!
//! A [`ReplicatedMap`] is for many values that one server knows and others follow.
#![forbid(unsafe_code)]

mod file;
pub mod limits;
mod lines;
mod replicated;

pub use file::{FileDocuments, FileFormat};
pub use lines::Lines;
pub use replicated::{Leader, MapEvent, MapRequest, MapTask, MapValue, MapWriter, ReplicatedMap};

use crate::limits::{CHANGE_MAX, RETRY_PAUSE_MAX};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Instant;
use tokio::sync::watch;

/// The value of a document: an object in JSON.
pub type Value = serde_json::Map<String, serde_json::Value>;

/// A document.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Its value.
    pub value: Value,
    /// What numbers its changes; 0 in a file.
    pub revision: i64,
}

/// A document that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableDocument {
    /// Why.
    pub why: String,
    /// As that of a [`Document`].
    pub revision: i64,
}

/// A set at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    /// By name.
    pub documents: BTreeMap<String, Document>,
    /// By name. They are left out, and harm no other document.
    pub unusable: BTreeMap<String, UnusableDocument>,
    /// The revision up to which all changes are known; 0 in a file.
    pub revision: i64,
    /// Why the content is not known; `None`: it is.
    pub fault: Option<String>,
}

impl Content {
    /// Content that is not known, and why.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self { fault: Some(why.into()), ..Self::default() }
    }

    /// The revision of the document of this name; 0: there is none, or it is in a file.
    pub fn revision_of(&self, name: &str) -> i64 {
        let unusable = self.unusable.get(name).map(|unusable| unusable.revision);
        self.documents.get(name).map(|found| found.revision).or(unusable).unwrap_or_default()
    }

    /// The number of documents, also of those that cannot be used.
    pub fn count(&self) -> usize {
        self.documents.len() + self.unusable.len()
    }
}

/// Why a write of a set failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The content is another one by now, and is known.
    Conflict,
    /// Nothing has changed, and why.
    NotSaved(String),
    /// Nothing has changed: etcd is out of space, and what to do.
    NoSpace(String),
    /// It may have been written, and what to do.
    Unknown(String),
}

/// A set of documents.
pub trait DocumentSet: Send + Sync {
    /// The newest content, and when it changes.
    fn content(&self) -> watch::Receiver<Arc<Content>>;

    /// Makes the content known, if it is not. May wait for the disk or the network.
    ///
    /// # Errors
    /// Why it is not known.
    fn load(&self) -> Result<(), String>;

    /// Makes the content known as it is now, so that a change can be planned. May wait for the
    /// disk or the network.
    ///
    /// # Errors
    /// Why nothing can be changed now.
    fn prepare(&self) -> Result<(), String> {
        self.load()
    }

    /// Takes in what another process wrote into the file, if the file was needed before.
    ///
    /// # Errors
    /// Why it cannot be used; then known content stays.
    fn reload(&self) -> Result<(), String>;

    /// Replaces or with `None` deletes a document, if the content is still `base`. Durable when it
    /// returns. Blocks.
    ///
    /// # Errors
    /// See [`WriteError`].
    fn write(&self, base: &Content, name: &str, value: Option<Value>) -> Result<(), WriteError>;
}

/// Why a change was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeError<E> {
    /// `plan` refused it.
    Refused(E),
    /// Nothing has changed, and why.
    NotSaved(String),
    /// Nothing has changed: etcd is out of space, and what to do.
    NoSpace(String),
    /// It may have been made, and what to do.
    Unknown(String),
}

/// Changes a document: `plan` names it and its new value, or with `None` deletes it. It is asked
/// again if another server was first. Durable when it returns. Blocks.
///
/// # Errors
/// See [`ChangeError`].
pub fn change<E>(
    set: &dyn DocumentSet,
    mut plan: impl FnMut(&Content) -> Result<(String, Option<Value>), E>,
) -> Result<(), ChangeError<E>> {
    let until = Instant::now() + CHANGE_MAX;
    loop {
        set.prepare().map_err(ChangeError::NotSaved)?;
        let base = Arc::clone(&set.content().borrow());
        let (name, value) = plan(&base).map_err(ChangeError::Refused)?;
        match set.write(&base, &name, value) {
            Ok(()) => return Ok(()),
            // Servers that write at the same time do not try again at the same time.
            Err(WriteError::Conflict) if Instant::now() < until => {
                thread::sleep(RETRY_PAUSE_MAX.mul_f64(fastrand::f64()));
            }
            Err(WriteError::Conflict) => {
                let why = "other servers change them continuously: try again";
                return Err(ChangeError::NotSaved(why.into()));
            }
            Err(WriteError::NotSaved(why)) => return Err(ChangeError::NotSaved(why)),
            Err(WriteError::NoSpace(why)) => return Err(ChangeError::NoSpace(why)),
            Err(WriteError::Unknown(why)) => return Err(ChangeError::Unknown(why)),
        }
    }
}
