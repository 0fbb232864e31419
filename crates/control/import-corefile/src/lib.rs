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

pub use import_report::{Environment, ImportError, ImportRemark, ImportResult};
pub use plugins::table;

use importer::Importer;
use std::path::Path;

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
