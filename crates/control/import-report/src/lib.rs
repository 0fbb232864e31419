//! What an import of another server's config gives: a `dunlin.toml`, and a note for everything
//! that has no counterpart or a different one.
#![forbid(unsafe_code)]

mod environment;
pub mod limits;
mod place;
mod remarks;
mod toml;

pub use environment::{Environment, matching_files, path_in_config};
pub use place::{FilePosition, ImportError, ImportRemark, shown};
pub use remarks::Remarks;
pub use toml::{TomlText, array, quote, seconds};

/// The result of an import.
#[derive(Clone, Debug)]
pub struct ImportResult {
    /// The config.
    pub config: String,
    /// Notes about what has no counterpart or a different one, in order of the files.
    pub notes: Vec<ImportRemark>,
    /// Files that the config needs next to it: inline content of the imported files.
    pub files: Vec<(String, String)>,
    /// Further such files, with secrets: only their owner may read them.
    pub secret_files: Vec<(String, String)>,
}

/// A name for the config: in lower case, without the final dot; `.` is the root.
///
/// # Errors
/// It is not a domain name; the text says why.
pub fn domain_name(text: &str) -> Result<String, String> {
    let mut name = zonefile::read_name(text).map_err(|fault| format!("{text:?} {fault}"))?;
    name.make_lowercase();
    let text = name.as_name().to_string();
    Ok(match text.strip_suffix('.') {
        Some("") | None => text,
        Some(rest) => rest.to_owned(),
    })
}
