//! Converts a CoreDNS Corefile to a `dunlin.toml`, with a note for everything that has no
//! counterpart or a different one.
//!
//! [`lex`] splits the text into words, and [`parse`] the words into blocks, with all imports.
//! [`plugins`] has a table with a function for each plugin, which fills the [`config`].
#![forbid(unsafe_code)]

mod config;
mod hops;
mod importer;
mod lex;
pub mod limits;
mod parse;
mod plugins;
mod zones;

pub use import_report::{ImportError, ImportRemark, ImportResult};
pub use plugins::table;

use importer::Importer;
use std::io;
use std::path::{Path, PathBuf};

/// The surroundings of a Corefile.
pub trait Environment {
    /// An environment variable; `None`: not set.
    fn variable(&self, name: &str) -> Option<String>;

    /// The content of a file, up to a number of bytes.
    ///
    /// # Errors
    /// The file cannot be read, or is larger.
    fn read(&self, file: &Path, len_max: usize) -> io::Result<String>;

    /// The absolute path of an existing file that a Corefile names relative to its working folder;
    /// `None`: it is not found.
    fn find(&self, file: &Path) -> Option<PathBuf>;

    /// The files in a folder, sorted by name.
    ///
    /// # Errors
    /// The folder cannot be read.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;
}

/// Imports the Corefile `text`. Notes name it `file`, and imported files are relative to it.
///
/// # Errors
/// It is not a Corefile, or an imported file is missing.
pub fn import(
    file: &Path,
    text: &str,
    surroundings: &dyn Environment,
) -> Result<ImportResult, ImportError> {
    let blocks = parse::parse(file, text, surroundings)?;
    Ok(Importer::new(surroundings, &blocks).import())
}
