//! Notes and errors about an imported file, with positions.
use std::fmt;
use std::rc::Rc;

/// A position. Lines and columns begin with 1; columns count bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePosition {
    /// The file, as it was named.
    pub file: Rc<str>,
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A difference between the imported file and the config.
#[derive(Clone, Debug)]
pub struct ImportRemark {
    /// Its position.
    pub place: FilePosition,
    /// Whether there is no counterpart; otherwise it is different.
    pub is_lost: bool,
    /// What it is about, and the difference.
    pub text: String,
}

impl fmt::Display for ImportRemark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_lost { "lost" } else { "note" };
        write!(f, "{}: {word}: {}", self.place, self.text)
    }
}

/// Why a file cannot be imported.
#[derive(Clone, Debug)]
pub struct ImportError {
    /// The position.
    pub place: FilePosition,
    /// The fault, and what to do.
    pub text: String,
}

impl ImportError {
    /// An error at a place.
    pub fn new(place: &FilePosition, text: impl Into<String>) -> Self {
        Self { place: place.clone(), text: text.into() }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

impl std::error::Error for ImportError {}

/// The beginning of untrusted text, escaped for messages.
#[must_use]
pub fn shown(text: &str) -> String {
    let end = text.char_indices().nth(60).map_or(text.len(), |(end, _)| end);
    let more = if end < text.len() { "…" } else { "" };
    let plain = |character: char| if character.is_control() { '\u{fffd}' } else { character };
    text[..end].chars().map(plain).collect::<String>() + more
}
