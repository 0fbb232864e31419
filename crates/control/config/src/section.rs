//! Reads a TOML table key by key, and continues after an error, so that all errors are reported.
use crate::diagnostic::Diagnostic;
use crate::limits::DIAGNOSTICS_MAX;
use crate::values::{Wrong, describe, shorten};
use command_line::nearest;
use command_line::{plain, plural};
use model::BrokenRule;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// A TOML value and its offset.
pub type Value<'t> = Spanned<DeValue<'t>>;

/// Keys of `[server]` that are often written above the first section.
const SERVER_KEYS: [&str; 5] = ["listen", "workers", "port", "data_dir", "user"];

/// Keys of earlier versions: the section, the old name and the new one.
const RENAMED: [(&str, &str, &str); 1] = [("[log]", "rooms", "levels")];

/// A config file and its errors so far.
pub struct Problems<'t> {
    pub file: &'t Path,
    pub text: &'t str,
    pub found: Vec<Diagnostic>,
    /// The number of errors above the maximum.
    pub more: usize,
}

impl<'t> Problems<'t> {
    /// No errors yet.
    pub fn new(file: &'t Path, text: &'t str) -> Self {
        Self { file, text, found: Vec::new(), more: 0 }
    }

    /// All errors, in the order of the file.
    pub fn finish(mut self) -> Vec<Diagnostic> {
        self.found.sort_by_key(|problem| (problem.line, problem.column));
        if self.more > 0 {
            let message = format!("has {} more", plural(self.more, "error"));
            self.found.push(Diagnostic::of_file(self.file, message));
        }
        self.found
    }

    /// Reports an invalid value at an offset.
    pub fn add(&mut self, offset: usize, wrong: impl Into<Wrong>) {
        self.add_by(BrokenRule::CONFIG_VALUE, offset, wrong);
    }

    /// Reports an error by this rule.
    pub fn add_by(&mut self, rule: BrokenRule, offset: usize, wrong: impl Into<Wrong>) {
        if self.found.len() == DIAGNOSTICS_MAX {
            self.more += 1;
            return;
        }
        let Wrong { message, help } = wrong.into();
        let mut problem = Diagnostic::at(self.file, self.text, offset, message).by(rule);
        problem.help = help;
        self.found.push(problem);
    }
}

/// One table while it is read. [`Section::close`] reports the keys that were not read.
pub struct Section<'t, 'p> {
    name: &'static str,
    /// The offset of the section, for missing keys.
    offset: usize,
    /// `None`: the section is absent, and every key has its default.
    table: Option<&'t DeTable<'t>>,
    known: Vec<&'static str>,
    problems: &'p mut Problems<'t>,
}

impl<'t, 'p> Section<'t, 'p> {
    /// The file itself.
    pub fn root(table: &'t DeTable<'t>, problems: &'p mut Problems<'t>) -> Self {
        Self { name: "", offset: 0, table: Some(table), known: Vec::new(), problems }
    }

    /// A table outside of a file; `name` is its name in messages.
    pub fn of_table(
        name: &'static str,
        table: &'t DeTable<'t>,
        problems: &'p mut Problems<'t>,
    ) -> Self {
        Self { name, ..Self::root(table, problems) }
    }

    /// The value of a key, if present.
    pub fn take(&mut self, key: &'static str) -> Option<&'t Value<'t>> {
        self.known.push(key);
        self.table?.get(key)
    }

    /// Reports that a value is invalid.
    pub fn add(&mut self, value: &Value<'_>, wrong: impl Into<Wrong>) {
        self.problems.add(value.span().start, wrong);
    }

    /// Reports an error at an offset.
    pub fn add_at(&mut self, offset: usize, wrong: impl Into<Wrong>) {
        self.problems.add(offset, wrong);
    }

    /// Reports errors of another file.
    pub fn add_all(&mut self, found: Vec<Diagnostic>) {
        for problem in found {
            match self.problems.found.len() {
                DIAGNOSTICS_MAX => self.problems.more += 1,
                _ => self.problems.found.push(problem),
            }
        }
    }

    /// A value, or its default if the key is absent or invalid.
    pub fn read<T>(
        &mut self,
        key: &'static str,
        default: T,
        read: impl Fn(&DeValue<'_>) -> Result<T, Wrong>,
    ) -> T {
        let Some(value) = self.take(key) else { return default };
        read(value.get_ref()).unwrap_or_else(|wrong| {
            self.problems.add(value.span().start, wrong);
            default
        })
    }

    /// A value without a default, and its offset.
    pub fn require<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&DeValue<'_>) -> Result<T, Wrong>,
    ) -> Option<Spanned<T>> {
        let Some(value) = self.take(key) else {
            self.missing(key);
            return None;
        };
        match read(value.get_ref()) {
            Ok(read) => Some(Spanned::new(value.span(), read)),
            Err(wrong) => {
                self.problems.add(value.span().start, wrong);
                None
            }
        }
    }

    /// An array of up to `max` values; each invalid one is reported with its place. If the default
    /// is not empty, the array must not be empty.
    pub fn list<T>(
        &mut self,
        key: &'static str,
        default: Vec<T>,
        max: usize,
        read: impl Fn(&DeValue<'_>) -> Result<T, Wrong>,
    ) -> Vec<T> {
        let Some(value) = self.take(key) else { return default };
        let DeValue::Array(array) = value.get_ref() else {
            // The text is not repeated: it may be a secret.
            let found = match value.get_ref() {
                DeValue::String(_) => "one text".to_owned(),
                other => describe(other),
            };
            let message = format!("expected an array, found {found}");
            let help = format!("put it in brackets: {key} = [\"…\"]");
            self.problems.add(value.span().start, Wrong { message, help: Some(help) });
            return default;
        };
        if array.len() > max {
            self.problems.add(value.span().start, format!("at most {max} of them"));
        }
        if array.is_empty() && !default.is_empty() {
            self.problems.add(value.span().start, format!("`{key}` needs one at least"));
        }
        self.elements(array, read)
    }

    /// The elements of an array. Each invalid one is an error with its place.
    pub fn elements<T>(
        &mut self,
        array: &'t DeArray<'t>,
        read: impl Fn(&DeValue<'_>) -> Result<T, Wrong>,
    ) -> Vec<T> {
        let mut list = Vec::new();
        for element in array.iter() {
            match read(element.get_ref()) {
                Ok(read) => list.push(read),
                Err(wrong) => self.add(element, wrong),
            }
        }
        list
    }

    /// Reads each key of a section without fixed keys, up to `max`. Each value comes with a section
    /// of this name, which has keys if the value is a table.
    pub fn each(
        &mut self,
        max: usize,
        name: &'static str,
        mut read: impl FnMut(&str, &'t Value<'t>, Section<'t, '_>) -> Result<(), Wrong>,
    ) {
        let Some(table) = self.table else { return };
        for (nth, (key, value)) in table.iter().enumerate() {
            if nth == max {
                self.problems.add(key.span().start, format!("at most {max} of them"));
                break;
            }
            let offset = value.span().start;
            let (table, known) = (value.get_ref().as_table(), Vec::new());
            let inner = Section { name, offset, table, known, problems: self.problems };
            if let Err(wrong) = read(key.get_ref(), value, inner) {
                self.problems.add(offset, wrong);
            }
        }
    }

    /// Whether any key is present.
    pub fn is_used(&self) -> bool {
        self.table.is_some_and(|table| !table.is_empty())
    }

    /// Whether a key is present.
    pub fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(key))
    }

    /// Whether a key has a text.
    pub fn is_text(&self, key: &str) -> bool {
        let value = self.table.and_then(|table| table.get(key));
        value.is_some_and(|value| value.get_ref().as_str().is_some())
    }

    /// Treats these keys as known, whether they are read or not.
    pub fn know(&mut self, keys: &[&'static str]) {
        self.known.extend(keys);
    }

    /// Reports that a key is missing.
    pub fn missing(&mut self, key: &str) {
        let wrong = format!("{} needs the key `{key}`", self.name);
        self.problems.add_by(BrokenRule::CONFIG_MISSING, self.offset, wrong);
    }

    /// Reports an error of a key's value as a whole, if present.
    pub fn wrong(&mut self, key: &'static str, what: &str, help: &str) {
        if let Some(value) = self.table.and_then(|table| table.get(key)) {
            let message = format!("`{key}` {what}");
            let wrong = Wrong { help: Some(help.into()), ..message.into() };
            self.problems.add(value.span().start, wrong);
        }
    }

    /// A section inside this one; `name` is its name in messages.
    pub fn section(&mut self, key: &'static str, name: &'static str) -> Section<'t, '_> {
        let value = self.take(key);
        let mut table = None;
        if let Some(value) = value {
            match value.get_ref() {
                DeValue::Table(found) => table = Some(found),
                other => {
                    let message = format!("expected the section {name}, found {}", describe(other));
                    let doubled = matches!(other, DeValue::Array(_));
                    let help = doubled.then(|| format!("one pair of brackets: {name}"));
                    self.problems.add(value.span().start, Wrong { message, help });
                }
            }
        }
        let offset = value.map_or(self.offset, |value| value.span().start);
        Section { name, offset, table, known: Vec::new(), problems: self.problems }
    }

    /// Reads each section of an array, up to `max`.
    pub fn sections(
        &mut self,
        key: &'static str,
        name: &'static str,
        max: usize,
        mut read: impl FnMut(Section<'t, '_>),
    ) {
        let Some(value) = self.take(key) else { return };
        let DeValue::Array(array) = value.get_ref() else {
            let found = describe(value.get_ref());
            let message = format!("expected sections {name}, found {found}");
            let single = matches!(value.get_ref(), DeValue::Table(_));
            let help = single.then(|| format!("two pairs of brackets: {name}"));
            self.problems.add(value.span().start, Wrong { message, help });
            return;
        };
        if array.len() > max {
            self.problems.add(value.span().start, format!("at most {max} sections {name}"));
        }
        for element in array.iter() {
            let offset = element.span().start;
            let DeValue::Table(table) = element.get_ref() else {
                let found = describe(element.get_ref());
                self.problems.add(offset, format!("expected a section {name}, found {found}"));
                continue;
            };
            let known = Vec::new();
            read(Section { name, offset, table: Some(table), known, problems: self.problems });
        }
    }

    /// Reports a duplicate.
    pub fn twice(&mut self, what: &str, first: usize, second: usize) {
        if self.problems.found.len() == DIAGNOSTICS_MAX {
            self.problems.more += 1;
            return;
        }
        let line = Diagnostic::at(self.problems.file, self.problems.text, first, "").line;
        let message = format!("{what} is already named in line {line}");
        let help = Some("remove one of them".into());
        self.problems.add_by(BrokenRule::CONFIG_TWICE, second, Wrong { message, help });
    }

    /// Reports each unknown key.
    pub fn close(self) {
        for (key, value) in self.table.into_iter().flat_map(|table| table.iter()) {
            let word = key.get_ref().as_ref();
            if self.known.contains(&word) {
                continue;
            }
            // A quoted key may contain any character.
            let shown = shorten(&plain(word));
            let is_section = matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_));
            let message = match self.name {
                "" if is_section => format!("unknown section `{shown}`"),
                "" => format!("the key `{shown}` is outside of any section"),
                name => format!("unknown key `{shown}` in {name}"),
            };
            let renamed = RENAMED.iter().find(|(name, old, _)| (*name, *old) == (self.name, word));
            let help = match nearest(&shown, &self.known) {
                _ if let Some((_, _, new)) = renamed => format!("its name is now `{new}`"),
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None if self.name.is_empty() && SERVER_KEYS.contains(&&*shown) => {
                    "put it below the line [server]".to_owned()
                }
                None => format!("expected one of {}", self.known.join(", ")),
            };
            let wrong = Wrong { message, help: Some(help) };
            self.problems.add_by(BrokenRule::CONFIG_KEY, key.span().start, wrong);
        }
    }
}
