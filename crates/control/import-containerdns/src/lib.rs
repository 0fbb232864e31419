//! Converts the INI files of `ContainerDNS` to a `dunlin.toml`, with a note for everything that
//! has no counterpart or a different one.
//!
//! [`ini`] reads the files, [`keys`] has a table with what becomes of each key, [`importer`] fills
//! the [`config`] from it.
#![forbid(unsafe_code)]

mod config;
mod importer;
mod ini;
mod keys;
pub mod limits;
mod values;

pub use import_report::{ImportError, ImportRemark, ImportResult};
pub use keys::table;

use importer::Importer;

/// Imports files, each with its name for notes and its text, into one config.
///
/// # Errors
/// One of them is not an INI file, or is cut off within a section, a text or a line.
pub fn import(files: &[(String, String)]) -> Result<ImportResult, ImportError> {
    let files = files.iter().map(|(name, text)| ini::parse(name, text));
    let files = files.collect::<Result<Vec<_>, _>>()?;
    let mut importer = Importer::default();
    for file in &files {
        keys::apply(&mut importer, file);
    }
    keys::fit_timeout(&mut importer);
    Ok(importer.finish(&files))
}
