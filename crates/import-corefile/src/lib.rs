//! A CoreDNS Corefile becomes a `dunlin.toml`. What has no counterpart, or another one than one may
//! think, is said line by line: nothing is left out in silence.
//!
//! [`lex`] makes words of the text, [`parse`] blocks of the words, with all that is imported, and
//! [`plugins`] goes over what each block says: every plugin has its line in a table, and a function
//! that notes in the [`draft`] what becomes of it. The draft writes itself as TOML.
#![forbid(unsafe_code)]

mod draft;
mod importer;
mod lex;
pub mod limits;
mod note;
mod parse;
mod plugins;
mod zones;

pub use note::{Error, Note};
pub use plugins::table;

use importer::Importer;
use std::io;
use std::path::{Path, PathBuf};

/// Where an importer looks around.
pub trait Surroundings {
    /// A variable of the environment; nothing: it is not set.
    fn variable(&self, name: &str) -> Option<String>;

    /// What a file holds, up to so many octets.
    ///
    /// # Errors
    /// It cannot be read, or holds more.
    fn read(&self, file: &Path, len_max: usize) -> io::Result<String>;

    /// The files in a folder, in the order of their names.
    ///
    /// # Errors
    /// It cannot be read.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;
}

/// What became of a Corefile.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The config.
    pub config: String,
    /// What has no counterpart or another one, in the order in which it stands.
    pub notes: Vec<Note>,
    /// Files that the config names and that are to lie beside it: what the Corefile had within it.
    pub files: Vec<(String, String)>,
}

/// Reads a Corefile: `text`, which is called `file` in what is said of it, and from beside which
/// imported files are taken.
///
/// # Errors
/// It is none, or an imported file is not there.
pub fn import(file: &Path, text: &str, surroundings: &dyn Surroundings) -> Result<Imported, Error> {
    let blocks = parse::parse(file, text, surroundings)?;
    Ok(Importer::new(surroundings).import(&blocks))
}
