//! Positions, errors and summaries of reading.
use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::BrokenRule;

use crate::limits::QUOTED_CHARS_MAX;

/// A position in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourcePosition<'a> {
    /// The file, as named in the config or the include.
    pub file: &'a Path,
    /// The line, from 1; 0 for the whole file.
    pub line: u64,
    /// The byte in the line, from 1; 0 for the whole line or file.
    pub column: u64,
}

impl fmt::Display for SourcePosition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (0, _) => write!(f, "{}", self.file.display()),
            (line, 0) => write!(f, "{}:{line}", self.file.display()),
            (line, column) => write!(f, "{}:{line}:{column}", self.file.display()),
        }
    }
}

/// One error in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub(crate) file: Arc<Path>,
    pub(crate) line: u64,
    pub(crate) column: u64,
    /// What is wrong, in one line.
    pub what: String,
    /// How to fix it, if known.
    pub help: Option<String>,
    /// The broken rule.
    pub rule: BrokenRule,
}

impl Error {
    /// An error that another crate found.
    pub fn new(place: SourcePosition<'_>, rule: BrokenRule, what: String) -> Self {
        let SourcePosition { file, line, column } = place;
        Self { file: file.into(), line, column, what, help: None, rule }
    }

    /// The text of a file does not end with a newline: the rest of it may be missing.
    pub fn cut_off(place: SourcePosition<'_>) -> Self {
        let what = "the last line does not end with a newline: the rest may be missing";
        let help = "end each line with a newline, also the last one";
        Self::new(place, BrokenRule::CUT_OFF, what.to_owned()).with_help(help)
    }

    /// Adds how to fix it.
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The error's position.
    pub fn place(&self) -> SourcePosition<'_> {
        SourcePosition { file: &self.file, line: self.line, column: self.column }
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

/// The result of reading without errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadSummary {
    /// Records passed to the sink.
    pub records: u64,
    /// The file and all it includes, each once, as they were opened.
    pub files: Vec<PathBuf>,
    /// Valid syntax that is probably a mistake, up to a limit.
    pub warnings: Vec<Error>,
    /// The first file that does not end with a newline, and its last line; `None`: all do.
    pub cut_off: Option<Error>,
}

/// The result of reading with errors. Discard the records that the sink received.
#[derive(Clone, Debug)]
pub struct LoadFailure {
    /// One or more errors, in file order.
    pub errors: Vec<Error>,
    /// Reading stopped before the end; there may be more errors.
    pub stopped: bool,
    /// As [`LoadSummary::files`], with those that could not be opened: a change to any is a reason
    /// to retry.
    pub files: Vec<PathBuf>,
}

/// One error a line.
impl fmt::Display for LoadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.errors.iter().enumerate() {
            write!(f, "{}{error}", if i == 0 { "" } else { "\n" })?;
        }
        if self.stopped { f.write_str("\nreading stopped here; there may be more") } else { Ok(()) }
    }
}

impl std::error::Error for LoadFailure {}

/// An error whose position is an offset into the current entry.
#[derive(Clone, Debug)]
pub(crate) struct EntryError {
    /// The offset; `None` if only the caller knows it.
    pub at: Option<usize>,
    pub what: Cow<'static, str>,
    pub help: Option<String>,
    /// The broken rule; `None` if only the caller knows it.
    pub rule: Option<BrokenRule>,
}

impl EntryError {
    pub(crate) fn new(at: usize, what: impl Into<Cow<'static, str>>) -> Self {
        Self { at: Some(at), what: what.into(), help: None, rule: None }
    }

    /// Sets the broken rule unless one is set.
    pub(crate) fn rule(mut self, rule: BrokenRule) -> Self {
        self.rule.get_or_insert(rule);
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for EntryError {}

/// Quotes a part of the file for a message: in backquotes, printable, shortened.
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
