//! *What*: the question of each query.

mod zipf;

use crate::capture;
use crate::limits::{LINE_MAX, NAMES_BYTES_MAX, NAMES_MAX, QUERY_MAX};
use crate::query::{HEADER, QueryFormat, identity, name_of};
use crate::random::Random;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use wire::{Name, NameBuf, Rtype};
use zipf::Zipf;

/// Queries that were made before the load begins, in the order they were given.
#[derive(Debug)]
pub struct QuestionSet {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    form: QueryFormat,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u32,
    len: u16,
    identity: u64,
}

impl QuestionSet {
    /// None yet.
    pub fn new(form: QueryFormat) -> Self {
        Self { bytes: Vec::new(), entries: Vec::new(), form }
    }

    /// Adds a query.
    ///
    /// # Errors
    /// There are too many.
    pub fn push(&mut self, name: Name<'_>, rtype: Rtype) -> Result<(), String> {
        let mut room = [0; QUERY_MAX];
        let len = self.form.compose(name.as_bytes(), rtype, &mut room);
        if self.entries.len() == NAMES_MAX || self.bytes.len() + len > NAMES_BYTES_MAX {
            return Err(format!(
                "too many names: at most {NAMES_MAX}, and {} MiB of queries",
                NAMES_BYTES_MAX >> 20
            ));
        }
        let question = &room[HEADER..len - self.form.tail()];
        let (at, identity) = (self.bytes.len() as u32, identity(question));
        self.entries.push(Entry { at, len: len as u16, identity });
        self.bytes.extend_from_slice(&room[..len]);
        Ok(())
    }

    /// Reads a data file as dnsperf's: a name and a type each line; `;` or `#` begins a comment. Or
    /// the questions of a capture, in its order.
    ///
    /// # Errors
    /// It cannot be read, or the line that is wrong and why.
    pub fn read(path: &Path, form: QueryFormat) -> Result<Self, String> {
        let place = path.display();
        let mut set = Self::new(form);
        match capture::is_capture(path)? {
            true => capture::read(path, &mut |_, name, rtype| set.push(name, rtype)),
            false => each_line(path, |line| {
                let (name, rtype) = question(line)?;
                set.push(name.as_name(), rtype)
            }),
        }?;
        match set.entries.len() {
            0 => Err(format!("{place}: there is no query in it")),
            _ => Ok(set),
        }
    }

    /// The names of a pattern for 0 to `count` - 1, each with a query of type `rtype`.
    ///
    /// # Errors
    /// It is not a pattern, or a result is not a name.
    pub fn from_pattern(
        pattern: &str,
        count: usize,
        rtype: Rtype,
        form: QueryFormat,
    ) -> Result<Self, String> {
        let mut set = Self::new(form);
        for number in 0..count {
            let text = fill(pattern, number as u64)?;
            let name = NameBuf::from_text(text.as_bytes(), Name::ROOT)
                .map_err(|why| format!("`{text}` of the pattern is not a name: {why}"))?;
            set.push(name.as_name(), rtype)?;
        }
        Ok(set)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.entries.len() * size_of::<Entry>()
    }

    /// The query at `index`, and its identity.
    #[inline]
    pub(crate) fn asked(&self, index: usize) -> (&[u8], QuestionInfo) {
        let Entry { at, len, identity } = self.entries[index];
        let at = at as usize;
        let query = &self.bytes[at..at + usize::from(len)];
        let question_len = len - (HEADER + self.form.tail()) as u16;
        (query, QuestionInfo { len, question_len, identity })
    }

    /// Bytes of the longest name.
    fn longest(&self) -> usize {
        let around = HEADER + 4 + self.form.tail();
        self.entries.iter().map(|entry| usize::from(entry.len) - around).max().unwrap_or(0)
    }
}

/// Shows each line that is not empty to `take`, without its comment.
///
/// # Errors
/// The file cannot be read; what `take` says, behind file and line.
pub(crate) fn each_line(
    path: &Path,
    mut take: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), String> {
    let place = path.display();
    let file = std::fs::File::open(path).map_err(|error| format!("{place}: {error}"))?;
    let (mut reader, mut line) = (BufReader::new(file), Vec::new());
    for number in 1.. {
        line.clear();
        let mut limited = std::io::Read::take(&mut reader, LINE_MAX as u64 + 1);
        let read = limited.read_until(b'\n', &mut line);
        let told = |why: String| format!("{place}:{number}: {why}");
        match read.map_err(|error| told(error.to_string()))? {
            0 => return Ok(()),
            len if len > LINE_MAX => {
                return Err(told(format!("the line is longer than {LINE_MAX} bytes")));
            }
            _ => {}
        }
        let text = std::str::from_utf8(&line).map_err(|_| told("it is not UTF-8".into()))?;
        let text = text.split([';', '#']).next().unwrap_or_default().trim();
        if !text.is_empty() {
            take(text).map_err(told)?;
        }
    }
    Ok(())
}

/// `www.example.org AAAA`.
fn question(line: &str) -> Result<(NameBuf, Rtype), String> {
    let mut words = line.split_whitespace();
    let (name, rtype, more) = (words.next().unwrap_or_default(), words.next(), words.next());
    let rtype = rtype.ok_or_else(|| format!("`{line}` lacks a type, as in `{name} A`"))?;
    if let Some(more) = more {
        return Err(format!("`{more}` follows name and type: write one query per line"));
    }
    let read = NameBuf::from_text(name.as_bytes(), Name::ROOT)
        .map_err(|why| format!("`{name}` is not a name: {why}"))?;
    let rtype = rtype.parse().map_err(|()| format!("`{rtype}` is not a type such as AAAA"))?;
    Ok((read, rtype))
}

/// Puts a number into a pattern: `{i}` is the number, `{i%100}` its remainder.
pub(crate) fn fill(pattern: &str, number: u64) -> Result<String, String> {
    let (mut text, mut rest) = (String::new(), pattern);
    while let Some((before, behind)) = rest.split_once('{') {
        let wrong = || format!("`{pattern}` is not a pattern such as svc-{{i}}.ns-{{i%100}}.test");
        let (inner, after) = behind.split_once('}').ok_or_else(wrong)?;
        let value = match inner.strip_prefix('i').ok_or_else(wrong)? {
            "" => number,
            modulo => {
                let by = modulo.strip_prefix('%').and_then(|by| by.parse::<u64>().ok());
                number % by.filter(|by| *by > 0).ok_or_else(wrong)?
            }
        };
        text = format!("{text}{before}{value}");
        rest = after;
    }
    Ok(text + rest)
}

/// The order of the queries of a set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// As they were given; the first follows the last.
    Given,
    /// Each as often as any other, by chance.
    Uniform,
    /// By Zipf's law with this exponent; the first is the most frequent.
    Zipf(f64),
}

/// The questions of a load.
#[derive(Clone, Debug)]
pub struct QuestionSpec {
    /// The queries there are.
    pub set: Arc<QuestionSet>,
    /// In which order.
    pub order: Order,
    /// The share, 0 to 1, of queries for names that no query has used before: they miss every
    /// cache.
    pub unique: f64,
    /// The share, 0 to 1, of queries for names that do not exist: a label `nx-…` before a name.
    pub nxdomain: f64,
    /// The suffix of both; `None`: the name that they replace.
    pub under: Option<NameBuf>,
}

/// Bytes of a label that is put before a name: its length, then characters: 3 for its kind, 8 for
/// the thread of this load, 12 for the query.
const FRESH_LABEL: usize = 1 + 3 + 8 + 12;

impl QuestionSpec {
    /// Whether it is a valid query.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn check(&self) -> Result<(), String> {
        if self.set.is_empty() {
            return Err("there is no name to query".into());
        }
        let share = self.unique + self.nxdomain;
        if !(0.0..=1.0).contains(&self.unique) || !(0.0..=1.0).contains(&self.nxdomain) {
            return Err("a share of names is 0 to 1".into());
        }
        if share > 1.0 {
            return Err(format!("unique names and names that are not there make up {share} > 1"));
        }
        let longest = match &self.under {
            Some(under) => under.as_name().len(),
            None => self.set.longest(),
        };
        if share > 0.0 && longest + FRESH_LABEL > Name::LEN_MAX {
            return Err(format!(
                "the longest name has {longest} bytes, {FRESH_LABEL} more are too many"
            ));
        }
        if matches!(self.order, Order::Zipf(exponent) if !(exponent > 0.0 && exponent <= 10.0)) {
            return Err("the exponent of Zipf's law is above 0 and up to 10".into());
        }
        Ok(())
    }
}

/// A query that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuestionInfo {
    pub len: u16,
    pub question_len: u16,
    pub identity: u64,
}

/// One thread's queries, one after the other.
#[derive(Debug)]
pub(crate) struct Names {
    what: QuestionSpec,
    next: usize,
    step: usize,
    zipf: Option<Zipf>,
    random: Random,
    /// Sets this load's fresh names apart from those of others, and this thread's.
    tag: u64,
    fresh: u64,
}

impl Names {
    /// The share of thread `index` of `of`.
    pub fn new(what: QuestionSpec, index: usize, of: usize, seed: u64) -> Self {
        let zipf = match what.order {
            Order::Zipf(exponent) => Some(Zipf::new(what.set.len(), exponent)),
            _ => None,
        };
        let mut random = Random::new(seed, 0x6e61_6d65 + index as u64);
        let tag = random.bits() & 0xffff_ffff;
        let next = index % what.set.len();
        Self { what, next, step: of, zipf, random, tag, fresh: 0 }
    }

    /// Appends the next query to `out`.
    #[inline]
    pub fn write(&mut self, out: &mut Vec<u8>) -> QuestionInfo {
        let index = self.draw();
        let (query, asked) = self.what.set.asked(index);
        if self.what.unique + self.what.nxdomain > 0.0 {
            let chance = self.random.unit();
            if chance < self.what.unique {
                return self.write_fresh(index, b"u--", out);
            }
            if chance < self.what.unique + self.what.nxdomain {
                return self.write_fresh(index, b"nx-", out);
            }
        }
        out.extend_from_slice(query);
        asked
    }

    #[inline]
    fn draw(&mut self) -> usize {
        let len = self.what.set.len();
        match (&self.what.order, &self.zipf) {
            (Order::Zipf(_), Some(zipf)) => zipf.draw(&mut self.random),
            (Order::Uniform, _) => self.random.below(len as u64) as usize,
            _ => {
                let index = self.next;
                self.next = (self.next + self.step) % len;
                index
            }
        }
    }

    fn write_fresh(&mut self, index: usize, kind: &[u8; 3], out: &mut Vec<u8>) -> QuestionInfo {
        let form = self.what.set.form;
        let (query, _) = self.what.set.asked(index);
        let base = match &self.what.under {
            Some(under) => under.as_name().as_bytes(),
            None => name_of(query, form.tail()),
        };
        let type_at = query.len() - form.tail() - 4;
        let rtype = Rtype(u16::from_be_bytes([query[type_at], query[type_at + 1]]));
        let mut name = [0u8; Name::LEN_MAX];
        name[0] = (FRESH_LABEL - 1) as u8;
        name[1..4].copy_from_slice(kind);
        hex(self.tag, &mut name[4..12]);
        hex(self.fresh, &mut name[12..FRESH_LABEL]);
        let len = FRESH_LABEL + base.len();
        name[FRESH_LABEL..len].copy_from_slice(base);
        self.fresh += 1;
        let mut room = [0; QUERY_MAX];
        let len = form.compose(&name[..len], rtype, &mut room);
        out.extend_from_slice(&room[..len]);
        let question = &room[HEADER..len - form.tail()];
        let question_len = question.len() as u16;
        QuestionInfo { len: len as u16, question_len, identity: identity(question) }
    }
}

/// The lowest digits of a number, as many as there is room for.
fn hex(mut number: u64, room: &mut [u8]) {
    for digit in room.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
}

#[cfg(test)]
mod tests;
