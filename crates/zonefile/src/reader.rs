//! The reading of a zone: files, entries, directives, and the state between them.
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::Rule;
use wire::{Class, Name, Rtype};

use crate::entry::Defaults;
use crate::fields::Fields;
use crate::lex::Token;
use crate::limits::{ERRORS_MAX, INCLUDE_DEPTH_MAX, INCLUDES_MAX};
use crate::report::{Error, Failure, Fault, Place, Summary, quote};
use crate::source::Source;
use crate::{Record, generate, open, rdata};

/// Takes records; a refusal becomes an error at the record's place.
pub(crate) type Sink<'s> = dyn FnMut(Record<'_>) -> Result<(), String> + 's;

/// One reading of a zone.
pub(crate) struct Reader<'s> {
    pub(crate) defaults: Defaults,
    sink: &'s mut Sink<'s>,
    rdata: Vec<u8>,
    /// The files open at the moment, by their true paths, the zone's own first.
    open: Vec<PathBuf>,
    included: usize,
    errors: Vec<Error>,
    stopped: bool,
    summary: Summary,
}

/// The entry at hand: its text and tokens, and where it stands.
#[derive(Clone, Copy)]
pub(crate) struct At<'e> {
    pub text: &'e [u8],
    pub tokens: &'e [Token],
    pub file: &'e Arc<Path>,
    /// The line it begins on.
    pub line: u64,
    /// It is made by a $GENERATE, and its place is the directive's.
    pub generated: bool,
}

impl<'e> At<'e> {
    /// The place of an octet of the entry.
    fn place(&self, offset: usize) -> Place<'e> {
        let before = if self.generated { &[] } else { &self.text[..offset.min(self.text.len())] };
        let lines = before.iter().filter(|&&octet| octet == b'\n').count() as u64;
        let start = before.iter().rposition(|&octet| octet == b'\n').map_or(0, |end| end + 1);
        let column = (before.len() - start + 1) as u64;
        Place { file: self.file, line: self.line + lines, column }
    }
}

impl<'s> Reader<'s> {
    pub(crate) fn new(origin: Name<'_>, sink: &'s mut Sink<'s>) -> Self {
        Self {
            defaults: Defaults::new(origin),
            sink,
            rdata: Vec::new(),
            open: Vec::new(),
            included: 0,
            errors: Vec::new(),
            stopped: false,
            summary: Summary::default(),
        }
    }

    /// Ends the reading.
    pub(crate) fn finish(self) -> Result<Summary, Failure> {
        if self.errors.is_empty() {
            return Ok(self.summary);
        }
        Err(Failure { errors: self.errors, stopped: self.stopped, files: self.summary.files })
    }

    /// Reads the zone's own file.
    pub(crate) fn file(&mut self, path: &Path) {
        if let Err(why) = self.try_file(path) {
            let help = Some(
                "is `file` in the config right, taken from where that lies? may this user read it?"
                    .into(),
            );
            let file = path.into();
            self.report(Error { file, line: 0, column: 0, what: why, help, rule: Rule::FILE });
        }
    }

    /// Opens and reads a file; the errors inside of it are reported, those of opening returned.
    fn try_file(&mut self, path: &Path) -> Result<(), String> {
        if !self.summary.files.iter().any(|known| known == path) {
            self.summary.files.push(path.to_owned());
        }
        let opened = open(path).and_then(|file| Ok((file, path.canonicalize()?)));
        let (mut file, true_path) = opened.map_err(|why| format!("cannot be read: {why}"))?;
        if self.open.contains(&true_path) {
            return Err("is open already: it would include itself for ever".into());
        }
        self.open.push(true_path);
        self.stream(path, &mut file);
        self.open.pop();
        Ok(())
    }

    /// Reads all entries of a stream called `path`.
    pub(crate) fn stream(&mut self, path: &Path, input: &mut dyn Read) {
        let file: Arc<Path> = path.into();
        let (mut source, mut tokens, mut line) = (Source::new(input), Vec::new(), 1);
        while !self.stopped {
            match source.next(&mut tokens) {
                Ok(Some((text, entry))) => {
                    let (tokens, file) = (&tokens, &file);
                    let at = At { text, tokens, file, line, generated: false };
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
                Ok(None) => break,
                Err(why) => {
                    let what = format!("cannot be read: {why}");
                    self.report(Error {
                        file,
                        line,
                        column: 0,
                        what,
                        help: None,
                        rule: Rule::FILE,
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

    fn fault(&mut self, at: At<'_>, fault: Fault) {
        let Place { line, column, .. } = at.place(fault.at.unwrap_or(0));
        let (file, what) = (at.file.clone(), fault.what.into_owned());
        let rule = fault.rule.unwrap_or(Rule::SYNTAX);
        self.report(Error { file, line, column, what, help: fault.help, rule });
    }

    /// A directive or a record.
    fn entry(&mut self, at: At<'_>) -> Result<(), Fault> {
        let first = at.tokens[0];
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
                return self.include(at, fields).map_err(|fault| fault.rule(Rule::INCLUDE));
            }
            b"$GENERATE" => return generate::run(self, at, fields),
            _ => {
                let what = format!("{} is not a directive", quote(fields.raw(directive)));
                return Err(Fault::new(directive.start as usize, what)
                    .help("there are $ORIGIN, $TTL, $INCLUDE and $GENERATE")
                    .rule(Rule::DIRECTIVE));
            }
        }
        fields.end()
    }

    /// A record, handed to the sink.
    pub(crate) fn record(&mut self, at: At<'_>) -> Result<(), Fault> {
        let head = self.defaults.head(at.text, at.tokens)?;
        let origin = self.defaults.origin.as_name();
        let mut fields = Fields::new(at.text, at.tokens, origin).skip(head.fields);
        rdata::read(head.rtype, &mut fields, &mut self.rdata)?;
        if matches!(head.rtype, Rtype::TXT | Rtype::SPF) {
            self.warn_of_text(at, head.fields);
        }
        let start = at.tokens[0].start as usize;
        let record = Record {
            owner: self.defaults.owner_name(),
            class: Class::IN,
            rtype: head.rtype,
            ttl: head.ttl,
            rdata: &self.rdata,
            place: at.place(start),
        };
        (self.sink)(record).map_err(|why| Fault::new(start, why).rule(Rule::OUT_OF_ZONE))?;
        self.summary.records += 1;
        Ok(())
    }

    /// Text without quotes is a string a word, and ends where a comment begins.
    fn warn_of_text(&mut self, at: At<'_>, head: usize) {
        let data = &at.tokens[head..];
        let (Some(first), Some(last)) = (data.first(), data.last()) else { return };
        let cut = !last.quoted && at.text.get(last.end as usize) == Some(&b';');
        let what = match data.len() {
            _ if cut => "the text ends before the `;`: what follows is a comment".to_owned(),
            2.. if data.iter().all(|token| !token.quoted && token.spaced) => {
                format!("{} strings, with no blanks between them", data.len())
            }
            _ => return,
        };
        if self.summary.warnings.len() < ERRORS_MAX {
            let place = at.place(first.start as usize);
            let warning = Error::new(place, Rule::TEXT, what);
            let help = "put the whole text in quotes: \"…\"";
            self.summary.warnings.push(warning.with_help(help));
        }
    }

    /// `$INCLUDE file [origin]`: the file reads with the state of here; afterwards origin and
    /// owner are what they were (RFC 1035 §5.1).
    fn include(&mut self, at: At<'_>, mut fields: Fields<'_>) -> Result<(), Fault> {
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
            .map_err(|_| Fault::new(start, "the file's path is not UTF-8"))?;
        if self.open.is_empty() {
            return Err(Fault::new(start, "only a file can include another one"));
        }
        if self.open.len() >= INCLUDE_DEPTH_MAX || self.included >= INCLUDES_MAX {
            let what = "too many files include one another";
            return Err(Fault::new(start, what).help(format!(
                "{INCLUDE_DEPTH_MAX} may be open at once, {INCLUDES_MAX} be included in all"
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
            let fault = Fault::new(start, format!("`{}` {why}", path.display()));
            match path.is_file() {
                true => fault,
                false => fault.help("its path is taken from where the file lies that includes it"),
            }
        })
    }
}
