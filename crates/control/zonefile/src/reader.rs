//! Reads a zone: files, entries, directives, and the state between them.
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::BrokenRule;
use wire::{Class, Name, Rtype};

use crate::entry::{InheritedFields, TTL_HELP};
use crate::fields::Fields;
use crate::lex::Token;
use crate::limits::{ERRORS_MAX, INCLUDE_DEPTH_MAX, INCLUDES_MAX};
use crate::name::suggestion;
use crate::report::{EntryError, Error, LoadFailure, LoadSummary, SourcePosition, quote};
use crate::source::FileWindow;
use crate::{Record, generate, open, rdata};

/// Receives records. Its error is reported at the record's position.
pub(crate) type RecordSink<'s> = dyn FnMut(Record<'_>) -> Result<(), String> + 's;

/// The state while reading a zone.
pub(crate) struct ZoneParser<'s> {
    pub(crate) defaults: InheritedFields,
    /// See [`Fields::is_trusted`].
    pub(crate) is_trusted: bool,
    sink: &'s mut RecordSink<'s>,
    rdata: Vec<u8>,
    /// The canonical paths of the files that are open now, the zone's own first.
    open: Vec<PathBuf>,
    included: usize,
    /// Records that `$GENERATE` has made or is making.
    pub(crate) generated: u64,
    /// Bytes of their text.
    pub(crate) generated_bytes: usize,
    errors: Vec<Error>,
    stopped: bool,
    summary: LoadSummary,
}

/// The current entry: text, tokens and position.
#[derive(Clone, Copy)]
pub(crate) struct EntryPosition<'e> {
    pub text: &'e [u8],
    pub tokens: &'e [Token],
    pub file: &'e Arc<Path>,
    /// Its first line.
    pub line: u64,
    /// Made by a $GENERATE; its position is the directive's.
    pub generated: bool,
}

impl<'e> EntryPosition<'e> {
    /// The position of a byte of the entry.
    fn place(&self, offset: usize) -> SourcePosition<'e> {
        let before = if self.generated { &[] } else { &self.text[..offset.min(self.text.len())] };
        let lines = before.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let column = (before.len() - start + 1) as u64;
        SourcePosition { file: self.file, line: self.line + lines, column }
    }
}

impl<'s> ZoneParser<'s> {
    pub(crate) fn new(origin: Name<'_>, sink: &'s mut RecordSink<'s>) -> Self {
        Self {
            defaults: InheritedFields::new(origin),
            is_trusted: false,
            sink,
            rdata: Vec::new(),
            open: Vec::new(),
            included: 0,
            generated: 0,
            generated_bytes: 0,
            errors: Vec::new(),
            stopped: false,
            summary: LoadSummary::default(),
        }
    }

    pub(crate) fn finish(self) -> Result<LoadSummary, LoadFailure> {
        if self.errors.is_empty() {
            return Ok(self.summary);
        }
        Err(LoadFailure { errors: self.errors, stopped: self.stopped, files: self.summary.files })
    }

    /// Reads the zone's own file.
    pub(crate) fn file(&mut self, path: &Path) {
        if let Err(why) = self.try_file(path) {
            let help = Some(
                "check `file`, which is relative to the config file, and the permissions".into(),
            );
            let file = path.into();
            self.report(Error {
                file,
                line: 0,
                column: 0,
                what: why,
                help,
                rule: BrokenRule::FILE,
            });
        }
    }

    /// Opens and reads a file. Reports errors in the file; returns the error of opening it.
    fn try_file(&mut self, path: &Path) -> Result<(), String> {
        if !self.summary.files.iter().any(|known| known == path) {
            self.summary.files.push(path.to_owned());
        }
        let opened = open(path).and_then(|file| Ok((file, path.canonicalize()?)));
        let (mut file, true_path) = opened.map_err(|why| format!("cannot be read: {why}"))?;
        if self.open.contains(&true_path) {
            return Err("is already open: it would include itself without end".into());
        }
        self.open.push(true_path);
        self.stream(path, &mut file);
        self.open.pop();
        Ok(())
    }

    /// Reads all entries of a stream named `path`.
    pub(crate) fn stream(&mut self, path: &Path, input: &mut dyn Read) {
        let file: Arc<Path> = path.into();
        let (mut source, mut tokens, mut line) = (FileWindow::new(input), Vec::new(), 1);
        if let Ok(Some(what)) = source.foreign_encoding() {
            let help = Some("save it as UTF-8 without a byte order mark, with line ends of Unix");
            let help = help.map(str::to_owned);
            let (what, rule) = (what.to_owned(), BrokenRule::SYNTAX);
            return self.report(Error { file, line, column: 1, what, help, rule });
        }
        while !self.stopped {
            match source.next(&mut tokens) {
                Ok(Some((text, entry))) => {
                    let (tokens, file) = (&tokens, &file);
                    let at = EntryPosition { text, tokens, file, line, generated: false };
                    let result = match entry.fault {
                        Some(fault) => Err(fault),
                        None if tokens.is_empty() => Ok(()),
                        None => self.entry(at),
                    };
                    if let Err(fault) = result {
                        self.fault(at, fault);
                    }
                    line += entry.lines;
                }
                Ok(None) => {
                    if source.is_cut_off() {
                        let place = SourcePosition { file: &file, line, column: 0 };
                        self.summary.cut_off.get_or_insert_with(|| Error::cut_off(place));
                    }
                    break;
                }
                Err(why) => {
                    let what = format!("cannot be read: {why}");
                    self.report(Error {
                        file,
                        line,
                        column: 0,
                        what,
                        help: None,
                        rule: BrokenRule::FILE,
                    });
                    break;
                }
            }
        }
    }

    fn report(&mut self, error: Error) {
        self.errors.push(error);
        self.stopped |= self.errors.len() >= ERRORS_MAX;
    }

    fn fault(&mut self, at: EntryPosition<'_>, fault: EntryError) {
        let SourcePosition { line, column, .. } = at.place(fault.at.unwrap_or(0));
        let (file, what) = (at.file.clone(), fault.what.into_owned());
        let rule = fault.rule.unwrap_or(BrokenRule::SYNTAX);
        self.report(Error { file, line, column, what, help: fault.help, rule });
    }

    /// Handles a directive or a record.
    fn entry(&mut self, at: EntryPosition<'_>) -> Result<(), EntryError> {
        let first = at.tokens[0];
        if !at.text.is_ascii() {
            self.warn_of_non_ascii_name(at);
        }
        if first.quoted || at.text[first.start as usize] != b'$' {
            return self.record(at);
        }
        let origin = self.defaults.origin.clone();
        let mut fields = Fields::new(at.text, at.tokens, origin.as_name());
        let directive = fields.token("a directive")?;
        match fields.raw(directive).to_ascii_uppercase().as_slice() {
            b"$ORIGIN" => self.defaults.origin = fields.name("the new origin")?,
            b"$TTL" => self.defaults.ttl = Some(fields.ttl()?),
            b"$INCLUDE" => {
                return self.include(at, fields).map_err(|fault| fault.rule(BrokenRule::INCLUDE));
            }
            b"$GENERATE" => return generate::run(self, at, fields),
            _ => {
                let what = format!("{} is not a directive", quote(fields.raw(directive)));
                return Err(EntryError::new(directive.start as usize, what)
                    .help("the directives are $ORIGIN, $TTL, $INCLUDE and $GENERATE")
                    .rule(BrokenRule::DIRECTIVE));
            }
        }
        fields.end()
    }

    /// Reads a record and passes it to the sink.
    pub(crate) fn record(&mut self, at: EntryPosition<'_>) -> Result<(), EntryError> {
        let head = self.defaults.head(at.text, at.tokens)?;
        let origin = self.defaults.origin.as_name();
        let mut fields = Fields::new(at.text, at.tokens, origin).skip(head.fields);
        fields.is_trusted = self.is_trusted;
        rdata::read(head.rtype, &mut fields, &mut self.rdata)?;
        if matches!(head.rtype, Rtype::TXT | Rtype::SPF) {
            self.warn_of_unquoted_text(at, head.fields);
        }
        let start = at.tokens[0].start as usize;
        let ttl = match head.ttl {
            Some(ttl) => ttl,
            None => self.implied_ttl(at, head.rtype)?,
        };
        let record = Record {
            owner: self.defaults.owner_name(),
            class: Class::IN,
            rtype: head.rtype,
            ttl,
            rdata: &self.rdata,
            place: at.place(start),
        };
        (self.sink)(record)
            .map_err(|why| EntryError::new(start, why).rule(BrokenRule::OUT_OF_ZONE))?;
        self.summary.records += 1;
        Ok(())
    }

    /// The TTL of a record without one, with a warning.
    fn implied_ttl(&mut self, at: EntryPosition<'_>, rtype: Rtype) -> Result<u32, EntryError> {
        let start = at.tokens[0].start as usize;
        let ttl = self.defaults.implied_ttl(start, rtype, &self.rdata)?;
        let what = format!("no TTL given and no $TTL before it: the SOA's minimum, {ttl}, is used");
        let warning = Error::new(at.place(start), BrokenRule::TTL_MISSING, what);
        self.warn(warning.with_help(TTL_HELP));
        Ok(ttl)
    }

    fn warn(&mut self, warning: Error) {
        if self.summary.warnings.len() < ERRORS_MAX {
            self.summary.warnings.push(warning);
        }
    }

    /// Warns of text without quotes: each word is a string, and a `;` begins a comment.
    fn warn_of_unquoted_text(&mut self, at: EntryPosition<'_>, head: usize) {
        let data = &at.tokens[head..];
        let (Some(first), Some(last)) = (data.first(), data.last()) else { return };
        let cut = !last.quoted && at.text.get(last.end as usize) == Some(&b';');
        let what = match data.len() {
            _ if cut => "the text ends before the `;`: the rest is a comment".to_owned(),
            2.. if data.iter().all(|token| !token.quoted && token.spaced) => {
                format!("{} strings, without blanks between them", data.len())
            }
            _ => return,
        };
        let warning = Error::new(at.place(first.start as usize), BrokenRule::TEXT, what);
        self.warn(warning.with_help("put the whole text in quotes: \"…\""));
    }

    /// Warns of a name with bytes beyond ASCII: clients query for A-labels instead.
    fn warn_of_non_ascii_name(&mut self, at: EntryPosition<'_>) {
        let raw = |token: &Token| &at.text[token.start as usize..token.end as usize];
        // In text, such bytes are intended.
        let is_text = |token: &Token| {
            [&b"TXT"[..], b"SPF"].iter().any(|rtype| raw(token).eq_ignore_ascii_case(rtype))
        };
        let names = at.tokens.iter().take_while(|token| !is_text(token));
        let found = names.into_iter().find(|token| !token.quoted && !raw(token).is_ascii());
        let Some(token) = found.filter(|_| self.summary.warnings.len() < ERRORS_MAX) else {
            return;
        };
        let what = format!("{} has bytes beyond ASCII", quote(raw(token)));
        let warning = Error::new(at.place(token.start as usize), BrokenRule::NAME, what);
        self.summary.warnings.push(match suggestion(raw(token)) {
            Some(name) => warning.with_help(format!("clients query for `{name}`: write that")),
            None => warning.with_help("clients query for A-labels, which begin with `xn--`"),
        });
    }

    /// Handles `$INCLUDE file [origin]`. Afterwards origin and owner are restored (RFC 1035 §5.1).
    fn include(&mut self, at: EntryPosition<'_>, mut fields: Fields<'_>) -> Result<(), EntryError> {
        let token = fields.token("the file to include")?;
        let start = token.start as usize;
        let mut path = Vec::new();
        fields.unescape(token, &mut path)?;
        let origin = match fields.peek() {
            Some(_) => fields.name("the origin of the included file")?,
            None => self.defaults.origin.clone(),
        };
        fields.end()?;
        let path = String::from_utf8(path)
            .map_err(|_| EntryError::new(start, "the file's path is not UTF-8"))?;
        if self.open.is_empty() {
            return Err(EntryError::new(start, "only a file can include another file"));
        }
        if self.open.len() >= INCLUDE_DEPTH_MAX || self.included >= INCLUDES_MAX {
            let what = "there are too many includes";
            return Err(EntryError::new(start, what).help(format!(
                "at most {INCLUDE_DEPTH_MAX} open at once and {INCLUDES_MAX} in a zone"
            )));
        }
        self.included += 1;
        let path = at.file.parent().unwrap_or(Path::new("")).join(path);
        let before = self.defaults.clone();
        self.defaults.origin = origin;
        let result = self.try_file(&path);
        self.defaults.origin = before.origin;
        self.defaults.owner = before.owner;
        result.map_err(|why| {
            let fault = EntryError::new(start, format!("`{}` {why}", path.display()));
            match path.is_file() {
                true => fault,
                false => fault.help("its path is relative to the folder of the including file"),
            }
        })
    }
}
