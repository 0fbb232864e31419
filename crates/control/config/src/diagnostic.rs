//! Errors and warnings, with their place in a file.
use model::BrokenRule;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};

/// An error or a warning. It quotes no line of the file, because lines may hold secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// The file, as the user named it.
    pub file: PathBuf,
    /// The line, from 1; 0: the whole file.
    pub line: u64,
    /// The byte in the line, from 1; 0: the whole line or file.
    pub column: u64,
    /// The error in one line.
    pub message: String,
    /// The remedy, if known.
    pub help: Option<String>,
    /// The broken rule: a word that never changes.
    pub rule: &'static str,
    /// The source of the rule.
    pub source: &'static str,
}

impl Diagnostic {
    /// An error of the whole file.
    pub fn of_file(file: &Path, message: impl Into<String>) -> Self {
        let BrokenRule { id: rule, source } = BrokenRule::FILE;
        let (file, message) = (file.into(), message.into());
        Self { file, line: 0, column: 0, message, help: None, rule, source }
    }

    /// `file:line:column`, as far as known.
    pub fn place(&self) -> String {
        let numbers = [self.line, self.column].into_iter().filter(|number| *number > 0);
        let numbers = numbers.map(|number| format!(":{number}")).collect::<String>();
        format!("{}{numbers}", self.file.display())
    }

    /// `message (help)`.
    pub fn story(&self) -> String {
        match &self.help {
            Some(help) => format!("{} ({help})", self.message),
            None => self.message.clone(),
        }
    }

    /// Sets the rule.
    pub fn by(self, rule: BrokenRule) -> Self {
        Self { rule: rule.id, source: rule.source, ..self }
    }

    /// An error at an offset into the file's text.
    pub fn at(
        file: &Path,
        text: impl AsRef<[u8]>,
        offset: usize,
        message: impl Into<String>,
    ) -> Self {
        let text = text.as_ref();
        let before = &text[..offset.min(text.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let column = 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count();
        Self { line: line as u64, column: column as u64, ..Self::of_file(file, message) }
    }
}

/// `file:line:column: message (help)`, the format of compilers.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.story())
    }
}

impl From<&zonefile::Error> for Diagnostic {
    fn from(error: &zonefile::Error) -> Self {
        let place = error.place();
        Self {
            line: place.line,
            column: place.column,
            help: error.help.clone(),
            ..Self::of_file(place.file, error.what.clone()).by(error.rule)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_and_column_count_from_one() {
        let place = |offset| {
            let found = Diagnostic::at(Path::new("f"), "ab\n\ncd", offset, "");
            (found.line, found.column)
        };
        assert_eq!([place(0), place(1), place(3), place(5)], [(1, 1), (1, 2), (2, 1), (3, 2)]);
        assert_eq!(place(99), (3, 3), "an offset behind the end is the end");
    }
}
