//! Converts BIND's named.conf to a `dunlin.toml`, with a remark for everything that has no
//! counterpart or a different one.
//!
//! [`lex`] splits the text into tokens, and [`parse`] the tokens into statements, with all
//! included files. [`options`], [`zones`] and [`views`] fill the [`config`]; lists of clients
//! ([`clients`]), lists of servers ([`servers`]) and keys are resolved in [`context`].
#![forbid(unsafe_code)]

mod clients;
mod config;
mod context;
mod lex;
pub mod limits;
mod options;
mod parse;
mod servers;
mod settings;
mod views;
mod zones;

pub use import_report::{Environment, ImportError, ImportRemark, ImportResult};
pub use settings::table;

use context::Context;
use std::path::Path;

/// Imports the named.conf `text`. Remarks name it `file`.
///
/// # Errors
/// It is not a named.conf, or an included file is missing.
pub fn import(
    file: &Path,
    text: &str,
    surroundings: &dyn Environment,
) -> Result<ImportResult, ImportError> {
    let parsed = parse::parse(file, text, surroundings)?;
    let mut context = Context::new(surroundings, &parsed);
    views::read_all(&mut context, &parsed)?;
    Ok(context.close())
}
