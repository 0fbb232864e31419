//! Places, errors, and what a reading comes to.
use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::Rule;

use crate::limits::QUOTED_CHARS_MAX;

/// Where in which file something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The file, as it was named.
    pub file: &'a Path,
    /// The line, from 1; 0 where the file as a whole is meant.
    pub line: u64,
    /// The octet of the line, from 1; 0 where the line or file as a whole is meant.
    pub column: u64,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (0, _) => write!(f, "{}", self.file.display()),
            (line, 0) => write!(f, "{}:{line}", self.file.display()),
            (line, column) => write!(f, "{}:{line}:{column}", self.file.display()),
        }
    }
}

/// One thing that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub(crate) file: Arc<Path>,
    pub(crate) line: u64,
    pub(crate) column: u64,
    /// What is wrong, in one line.
    pub what: String,
    /// What to do about it, where that is known.
    pub help: Option<String>,
    /// Which rule it breaks.
    pub rule: Rule,
}

impl Error {
    /// An error that somebody else found, who was told the place.
    pub fn new(place: Place<'_>, rule: Rule, what: String) -> Self {
        let Place { file, line, column } = place;
        Self { file: file.into(), line, column, what, help: None, rule }
    }

    /// The same with what to do about it.
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Where it is wrong.
    pub fn place(&self) -> Place<'_> {
        Place { file: &self.file, line: self.line, column: self.column }
    }
}

/// `file:line:column: what (help)`.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.what)?;
        match &self.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// A reading without an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Records handed to the sink.
    pub records: u64,
    /// The file itself and all it includes, each once, as they were opened.
    pub files: Vec<PathBuf>,
    /// What is right by the grammar but hardly meant, up to a limit.
    pub warnings: Vec<Error>,
}

/// A reading with errors. The sink has seen records all the same: they are to be thrown away.
#[derive(Clone, Debug)]
pub struct Failure {
    /// At least one, in the order of reading.
    pub errors: Vec<Error>,
    /// Whether reading stopped before the end, so that there may be more errors.
    pub stopped: bool,
    /// As in [`Summary::files`], those that could not be opened included: a change to any of them
    /// is a reason to try again.
    pub files: Vec<PathBuf>,
}

/// One error a line.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.errors.iter().enumerate() {
            write!(f, "{}{error}", if i == 0 { "" } else { "\n" })?;
        }
        if self.stopped { f.write_str("\nreading stopped here; there may be more") } else { Ok(()) }
    }
}

impl std::error::Error for Failure {}

/// An error whose place is still an offset into the entry at hand.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// The offset; nothing where only the caller knows it.
    pub at: Option<usize>,
    pub what: Cow<'static, str>,
    pub help: Option<String>,
    /// The rule it breaks; nothing where only the caller knows it.
    pub rule: Option<Rule>,
}

impl Fault {
    pub(crate) fn new(at: usize, what: impl Into<Cow<'static, str>>) -> Self {
        Self { at: Some(at), what: what.into(), help: None, rule: None }
    }

    /// Names the rule that is broken, where none nearer to the fault was named.
    pub(crate) fn rule(mut self, rule: Rule) -> Self {
        self.rule.get_or_insert(rule);
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Fault {}

/// A piece of the file for a message: in backquotes, printable, shortened.
pub(crate) fn quote(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut out = String::from("`");
    for (i, char) in text.chars().enumerate() {
        if i == QUOTED_CHARS_MAX {
            out.push('…');
            break;
        }
        if char.is_control() { out.extend(char.escape_default()) } else { out.push(char) }
    }
    out.push('`');
    out
}
