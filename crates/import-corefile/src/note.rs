//! What is said of a Corefile, with its place.
use std::fmt;
use std::rc::Rc;

/// Where a word stands. Lines and columns begin with 1; columns count octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub(crate) file: Rc<str>,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Something that is not as it was.
#[derive(Clone, Debug)]
pub struct Note {
    /// Where it stands.
    pub place: Place,
    /// Whether it has no counterpart; if not, it has another one than one may think.
    pub is_lost: bool,
    /// What it is about, and what becomes of it.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_lost { "lost" } else { "note" };
        write!(f, "{}: {word}: {}", self.place, self.text)
    }
}

/// Why a Corefile cannot be read.
#[derive(Clone, Debug)]
pub struct Error {
    /// Where.
    pub place: Place,
    /// What is wrong, and what to do.
    pub text: String,
}

impl Error {
    pub(crate) fn new(place: &Place, text: impl Into<String>) -> Self {
        Self { place: place.clone(), text: text.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

impl std::error::Error for Error {}

/// The beginning of a text of somebody else's, fit to be shown.
pub fn shown(text: &str) -> String {
    let end = text.char_indices().nth(60).map_or(text.len(), |(end, _)| end);
    let more = if end < text.len() { "…" } else { "" };
    let plain = |letter: char| if letter.is_control() { '\u{fffd}' } else { letter };
    text[..end].chars().map(plain).collect::<String>() + more
}
