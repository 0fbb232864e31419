//! INI files as `ContainerDNS` reads them: by the grammar of gcfg, which is that of git's config.
use crate::limits::FILE_LEN_MAX;
use import_report::{FilePosition, ImportError, shown};
use std::rc::Rc;

/// A file.
#[derive(Debug)]
pub struct IniFile {
    pub name: Rc<str>,
    /// The headers of its sections, in lower case.
    pub sections: Vec<(String, FilePosition)>,
    pub entries: Vec<IniEntry>,
    /// Its end, if that is not the end of a line.
    pub open_end: Option<FilePosition>,
}

/// A key with its value.
#[derive(Debug)]
pub struct IniEntry {
    /// In lower case, like the key.
    pub section: String,
    pub key: String,
    /// Section and key as the file has them, for messages.
    pub name: String,
    /// The position of the key.
    pub place: FilePosition,
    /// The value; `None`: there is no `=`, which means `true`.
    pub value: Option<String>,
    /// The position of the value.
    pub value_place: FilePosition,
}

impl IniFile {
    /// The position of a section's header.
    pub fn section(&self, name: &str) -> Option<&FilePosition> {
        self.sections.iter().find(|(section, _)| section == name).map(|(_, place)| place)
    }

    /// A key that is set; the last one of its name counts, and an empty value sets nothing.
    pub fn entry(&self, section: &str, key: &str) -> Option<&IniEntry> {
        let is_it = |entry: &&IniEntry| entry.section == section && entry.key == key;
        self.entries.iter().rev().find(is_it).filter(|entry| !entry.is_empty())
    }
}

impl IniEntry {
    /// Whether its value is empty: then it is as if it was not there.
    pub fn is_empty(&self) -> bool {
        self.value.as_deref() == Some("")
    }
}

/// The rest of a file, and where it begins.
struct IniReader<'t> {
    name: Rc<str>,
    text: &'t str,
    at: usize,
    line: usize,
    /// The offset of the current line.
    line_start: usize,
}

/// Parses a file.
pub fn parse(name: &str, text: &str) -> Result<IniFile, ImportError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = IniReader { name: name.into(), text, at: 0, line: 1, line_start: 0 };
    if text.len() > FILE_LEN_MAX {
        return Err(reader.error(format!("a file has at most {FILE_LEN_MAX} bytes")));
    }
    let mut file =
        IniFile { name: name.into(), sections: Vec::new(), entries: Vec::new(), open_end: None };
    let mut section = None;
    while reader.skip_blank_lines() {
        if reader.peek() == Some('[') {
            let place = reader.place();
            let name = reader.section()?;
            section = Some(name.clone());
            file.sections.push((name.to_lowercase(), place));
            reader.end_line("a section")?;
        } else {
            let Some(section) = &section else {
                let text = "this is before the first [section]: put it into one, as in \
                            ContainerDNS' examples";
                return Err(reader.error(text));
            };
            file.entries.push(reader.entry(section)?);
        }
    }
    let is_open = !text.is_empty() && !text.ends_with('\n');
    file.open_end = is_open.then(|| reader.place());
    Ok(file)
}

impl IniReader<'_> {
    fn place(&self) -> FilePosition {
        FilePosition {
            file: self.name.clone(),
            line: self.line,
            column: self.at - self.line_start + 1,
        }
    }

    fn error(&self, text: impl Into<String>) -> ImportError {
        ImportError::new(&self.place(), text)
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        if next == '\n' {
            self.line += 1;
            self.line_start = self.at;
        }
        Some(next)
    }

    /// Takes characters as long as they are of a kind.
    fn take(&mut self, is_kind: impl Fn(char) -> bool) -> &str {
        let start = self.at;
        while self.peek().is_some_and(&is_kind) {
            self.next();
        }
        &self.text[start..self.at]
    }

    fn skip_spaces(&mut self) {
        self.take(|next| next != '\n' && next.is_whitespace());
    }

    /// Skips a comment up to the end of its line.
    fn skip_comment(&mut self) {
        if matches!(self.peek(), Some('#' | ';')) {
            self.take(|next| next != '\n');
        }
    }

    /// Whether there is anything else.
    fn skip_blank_lines(&mut self) -> bool {
        loop {
            self.take(char::is_whitespace);
            self.skip_comment();
            match self.peek() {
                None => return false,
                Some('\n') => (),
                Some(_) => return true,
            }
        }
    }

    /// Nothing but a comment follows in this line.
    fn end_line(&mut self, what: &str) -> Result<(), ImportError> {
        self.skip_spaces();
        self.skip_comment();
        match self.peek() {
            None | Some('\n') => Ok(()),
            Some(_) => Err(self.error(format!("a line ends after {what}: begin a new one here"))),
        }
    }

    /// `[name]`
    fn section(&mut self) -> Result<String, ImportError> {
        let place = self.place();
        self.next();
        let name = self.take(|next| next != ']' && next != '\n').trim().to_owned();
        if self.next() != Some(']') {
            let text = "this section has no `]`: the file may be cut off; complete it";
            return Err(ImportError::new(&place, text));
        }
        Ok(name)
    }

    fn entry(&mut self, section: &str) -> Result<IniEntry, ImportError> {
        let place = self.place();
        let is_part = |next: char| !next.is_whitespace() && !"=#;[]\"\\".contains(next);
        let key = self.take(is_part).to_owned();
        self.skip_spaces();
        if key.is_empty() {
            return Err(self.error("a key or a [section] is expected here"));
        }
        let name = format!("[{}] {}", shown(section), shown(&key));
        let (section, key) = (section.to_lowercase(), key.to_lowercase());
        if self.peek() != Some('=') {
            let value_place = place.clone();
            self.end_line("a key without `=`")?;
            return Ok(IniEntry { section, key, name, place, value: None, value_place });
        }
        self.next();
        self.skip_spaces();
        let value_place = self.place();
        let value = Some(self.value()?);
        Ok(IniEntry { section, key, name, place, value, value_place })
    }

    /// A value, up to a comment or the end of its line.
    fn value(&mut self) -> Result<String, ImportError> {
        let (mut value, mut quote) = (String::new(), None);
        // The length without spaces at the end that are not quoted.
        let mut len = 0;
        loop {
            let place = self.place();
            match self.peek() {
                None | Some('\n') => break,
                Some('#' | ';') if quote.is_none() => break,
                Some('"') => {
                    self.next();
                    quote = if quote.is_none() { Some(place) } else { None };
                    len = value.len();
                    continue;
                }
                Some('\\') => {
                    self.next();
                    let Some(character) = self.escape(&place)? else { continue };
                    value.push(character);
                }
                Some(next) => {
                    self.next();
                    value.push(next);
                    if quote.is_none() && next.is_whitespace() {
                        continue;
                    }
                }
            }
            len = value.len();
        }
        if let Some(place) = quote {
            let text = "this quoted text does not end in its line: the file may be cut off";
            return Err(ImportError::new(&place, text));
        }
        value.truncate(len);
        self.skip_comment();
        Ok(value)
    }

    /// What follows a backslash; `None`: the line goes on in the next one.
    fn escape(&mut self, place: &FilePosition) -> Result<Option<char>, ImportError> {
        match self.next() {
            Some('\r') if self.peek() == Some('\n') => self.escape(place),
            Some('\n') => Ok(None),
            Some('n') => Ok(Some('\n')),
            Some('t') => Ok(Some('\t')),
            Some(next @ ('\\' | '"')) => Ok(Some(next)),
            None => {
                let text = "the line goes on behind this backslash, and the file ends: it may be \
                            cut off";
                Err(ImportError::new(place, text))
            }
            Some(_) => {
                let text = "a backslash stands before `\\`, `\"`, `n`, `t` or the end of a line";
                Err(ImportError::new(place, text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String, Option<String>, usize)> {
        let file = parse("f", text).expect("a file");
        let entries = file.entries.into_iter();
        entries.map(|one| (one.section, one.key, one.value, one.value_place.column)).collect()
    }

    #[test]
    fn comments_quotes_and_continuations_are_read() {
        let text = "\u{feff}; top\n[Dns] # x\n  A-b = c d  ;e\r\nq = \" x # \"y\nalone\n\
                    empty = \"\"\n\
                    long = a\\\n  b\\t\\\\\n[ Log ]\n\nB=1";
        let value = |text: &str| Some(text.to_owned());
        let entry = |section: &str, key: &str, value, column| {
            (section.to_owned(), key.to_owned(), value, column)
        };
        let expected = [
            entry("dns", "a-b", value("c d"), 9),
            entry("dns", "q", value(" x # y"), 5),
            entry("dns", "alone", None, 1),
            entry("dns", "empty", value(""), 9),
            entry("dns", "long", value("a  b\t\\"), 8),
            entry("log", "b", value("1"), 3),
        ];
        assert_eq!(read(text), expected);
        assert!(parse("f", "[a]\n").unwrap().open_end.is_none());
        assert_eq!(parse("f", "[a]\nb=c").unwrap().open_end.unwrap().to_string(), "f:2:4");
    }

    #[test]
    fn what_is_cut_off_or_damaged_is_an_error_with_its_place() {
        for (text, place, why) in [
            ("a = b", "1:1", "before the first [section]"),
            ("[a]\n[b", "2:1", "has no `]`"),
            ("[a]\nb = \"c", "2:5", "does not end in its line"),
            ("[a]\nb = c\\", "2:6", "the file ends"),
            ("[a]\nb = c\\d", "2:6", "a backslash stands before"),
            ("[a]\nb c", "2:3", "a line ends after a key without `=`"),
            ("[a]\n= c", "2:1", "a key or a [section]"),
            ("[a] b", "1:5", "a line ends after a section"),
        ] {
            let error = parse("f", text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("f:{place}: ")), "{text}: {error}");
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
