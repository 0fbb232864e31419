//! Reads hosts files: an address and its names on each line, as in `/etc/hosts` (hosts(5)).
use crate::limits::{HOSTS_ERRORS_MAX, HOSTS_LINE_LEN_MAX, HOSTS_NAMES_MAX};
use compile::{Loader, Zone};
use image::HashKey;
use model::BrokenRule;
use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::str;
use std::sync::Arc;
use wire::{Name, NameBuf, Rtype};
use zonefile::{Error, LoadFailure, SourcePosition};

/// The SOA record for negative answers: both names, the timers, then MINIMUM.
const SOA_DATA: &[u8] =
    b"\0\x06nobody\x07invalid\0\0\0\0\x01\0\0\x0e\x10\0\0\x04\xb0\0\x09\x3a\x80";

/// The content of a hosts file.
pub struct LoadedHosts {
    /// A zone at the root.
    pub zone: Zone,
    /// The number of names with an address.
    pub names: u64,
    /// The file does not end with a newline; `None`: it does, or is empty.
    pub cut_off: Option<Error>,
}

/// Reads a hosts file into a zone at the root: addresses of names, and PTR records to the first
/// name of each address. Shares unchanged parts with `old`. `ttl` is in seconds.
///
/// # Errors
/// All errors of the file, up to [`HOSTS_ERRORS_MAX`], with their positions.
pub fn load_hosts(
    file: &Path,
    ttl: u32,
    key: &Arc<HashKey>,
    old: Option<&Zone>,
) -> Result<LoadedHosts, LoadFailure> {
    let mut reader = Reader::new(file, ttl, key, old);
    match zonefile::open(file) {
        Ok(opened) => reader.read(BufReader::new(opened)),
        Err(error) => reader.failed(&error),
    }
    reader.finish()
}

/// Reads a text as [`load_hosts`] reads a file. Errors name it `file`.
///
/// # Errors
/// As those of [`load_hosts`].
pub fn read_hosts(
    file: &Path,
    text: &[u8],
    ttl: u32,
    key: &Arc<HashKey>,
    old: Option<&Zone>,
) -> Result<LoadedHosts, LoadFailure> {
    let mut reader = Reader::new(file, ttl, key, old);
    reader.read(text);
    reader.finish()
}

/// An error in a line.
struct Wrong {
    /// The byte, from 1; 0: the whole line.
    column: u64,
    rule: BrokenRule,
    what: String,
    help: &'static str,
}

struct Reader<'r> {
    file: &'r Path,
    ttl: u32,
    loader: Loader<'r>,
    /// Addresses that have a PTR record.
    named: HashSet<IpAddr>,
    names: usize,
    line: u32,
    /// The last line does not end with a newline.
    is_cut_off: bool,
    /// Not all lines were read.
    stopped: bool,
    errors: Vec<Error>,
}

impl<'r> Reader<'r> {
    fn new(file: &'r Path, ttl: u32, key: &Arc<HashKey>, old: Option<&'r Zone>) -> Self {
        Self {
            file,
            ttl,
            loader: Loader::new(Arc::clone(key), Name::ROOT, old),
            named: HashSet::new(),
            names: 0,
            line: 0,
            is_cut_off: false,
            stopped: false,
            errors: Vec::new(),
        }
    }

    fn read(&mut self, input: impl BufRead) {
        match self.read_lines(input) {
            Ok(stopped) => self.stopped = stopped,
            Err(error) => self.failed(&error),
        }
    }

    /// The file cannot be read.
    fn failed(&mut self, error: &io::Error) {
        (self.line, self.stopped) = (0, true);
        let what = format!("cannot be read: {error}");
        self.wrong(Wrong { column: 0, rule: BrokenRule::FILE, what, help: "check its path" });
    }

    /// Reads all lines; returns whether it stopped early.
    fn read_lines(&mut self, mut input: impl BufRead) -> io::Result<bool> {
        let mut text = Vec::new();
        loop {
            text.clear();
            let room = HOSTS_LINE_LEN_MAX as u64 + 1;
            if input.by_ref().take(room).read_until(b'\n', &mut text)? == 0 {
                return Ok(false);
            }
            self.line = self.line.saturating_add(1);
            self.is_cut_off = !text.ends_with(b"\n");
            let is_too_long = text.len() > HOSTS_LINE_LEN_MAX;
            let read = if is_too_long { Err(too_long()) } else { self.read_line(&text) };
            if let Err(wrong) = read {
                self.wrong(wrong);
            }
            let is_too_much = is_too_long || self.names > HOSTS_NAMES_MAX;
            if is_too_much || self.errors.len() == HOSTS_ERRORS_MAX {
                return Ok(true);
            }
        }
    }

    fn read_line(&mut self, text: &[u8]) -> Result<(), Wrong> {
        // Some editors write a byte order mark (RFC 3629 §6).
        let mark = if self.line == 1 && text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let end = text.iter().position(|byte| *byte == b'#').unwrap_or(text.len());
        let mut words = words(&text[mark.min(end)..end], mark);
        let Some((column, word)) = words.next() else { return Ok(()) };
        let Some(address) = address(column, word)? else { return Ok(()) };
        let mut first = None;
        for (column, word) in words {
            let name = name(column, word)?;
            let put = match address {
                IpAddr::V4(ip) => self.add(&name, Rtype::A, &ip.octets()),
                IpAddr::V6(ip) => self.add(&name, Rtype::AAAA, &ip.octets()),
            };
            put.map_err(|what| Wrong {
                column,
                rule: BrokenRule::LIMIT,
                what,
                help: "remove some",
            })?;
            first.get_or_insert(name);
        }
        let Some(name) = first else {
            let (rule, what) = (BrokenRule::SYNTAX_HOSTS, format!("{address} has no name"));
            return Err(Wrong { column, rule, what, help: "write its names after it" });
        };
        // The unspecified address gets no PTR record.
        if !address.is_unspecified() && self.named.insert(address) {
            let bytes = name.as_name().as_bytes();
            // Every name is in the root zone.
            let _ = self.add(&reverse(address), Rtype::PTR, bytes);
        }
        Ok(())
    }

    fn add(&mut self, owner: &NameBuf, rtype: Rtype, data: &[u8]) -> Result<(), String> {
        self.names += usize::from(rtype != Rtype::PTR);
        if self.names > HOSTS_NAMES_MAX {
            return Err(format!("the file has more than {HOSTS_NAMES_MAX} names"));
        }
        self.loader.add(owner.as_name(), rtype, self.ttl, data, self.line)
    }

    fn wrong(&mut self, wrong: Wrong) {
        let Wrong { column, rule, what, help } = wrong;
        let place = SourcePosition { file: self.file, line: self.line.into(), column };
        self.errors.push(Error::new(place, rule, what).with_help(help));
    }

    fn finish(mut self) -> Result<LoadedHosts, LoadFailure> {
        if self.errors.is_empty() {
            let soa = [SOA_DATA, &self.ttl.to_be_bytes()].concat();
            for (rtype, data) in [(Rtype::SOA, &soa[..]), (Rtype::NS, &[0])] {
                // The apex is in the zone.
                let _ = self.loader.add(Name::ROOT, rtype, self.ttl, data, 0);
            }
            let place = SourcePosition { file: self.file, line: self.line.into(), column: 0 };
            let cut_off = self.is_cut_off.then(|| Error::cut_off(place));
            let (file, problems) = match self.loader.finish() {
                Ok(zone) => {
                    let names = named(&zone);
                    return Ok(LoadedHosts { zone, names, cut_off });
                }
                Err(problems) => (self.file, problems),
            };
            self.errors.extend(problems.into_iter().map(|problem| {
                let line = problem.place.unwrap_or_default().into();
                Error::new(SourcePosition { file, line, column: 0 }, problem.rule, problem.what)
            }));
        }
        Err(LoadFailure {
            errors: self.errors,
            stopped: self.stopped,
            files: vec![self.file.into()],
        })
    }
}

/// The number of names with an address.
fn named(zone: &Zone) -> u64 {
    let has = |node: &image::Node<'_>| {
        [Rtype::A, Rtype::AAAA].into_iter().any(|rtype| node.set(rtype).is_some())
    };
    zone.nodes().filter(has).count() as u64
}

/// The words of a line with their columns; `before` bytes precede `text`.
fn words(text: &[u8], before: usize) -> impl Iterator<Item = (u64, &[u8])> {
    let mut at = 0;
    let words = text.split(u8::is_ascii_whitespace).map(move |word| {
        let column = before + at + 1;
        at += word.len() + 1;
        (column as u64, word)
    });
    words.filter(|(_, word)| !word.is_empty())
}

/// The address of a line; `None` for a link-local one with a zone ID (RFC 4007 §11), which is valid
/// only on its host.
fn address(column: u64, word: &[u8]) -> Result<Option<IpAddr>, Wrong> {
    let text = str::from_utf8(word).unwrap_or_default();
    if let Some((address, _)) = text.split_once('%')
        && address.parse::<Ipv6Addr>().is_ok()
    {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| Wrong {
        column,
        rule: BrokenRule::SYNTAX_HOSTS,
        what: format!("`{}` is not an address", shown(word)),
        help: "write an address and its names, such as: 192.0.2.1 www.example.org www",
    })
}

fn name(column: u64, word: &[u8]) -> Result<NameBuf, Wrong> {
    let wrong = |why: &str, help| Wrong {
        column,
        rule: BrokenRule::NAME,
        what: format!("`{}` is not a name: {why}", shown(word)),
        help,
    };
    // Keep a name without A-labels as it is; it should not make the whole file fail.
    let text = std::str::from_utf8(word).ok().filter(|text| !text.is_ascii());
    let a_labels = text.and_then(|text| zonefile::read_name(text).ok());
    let name = a_labels
        .map_or_else(|| NameBuf::from_text(word, Name::ROOT), Ok)
        .map_err(|why| wrong(&why.to_string(), "labels of up to 63 bytes, with dots between"))?;
    match name.as_name().labels().next() {
        None => Err(wrong("it is the root", "remove it")),
        Some(b"*") => Err(wrong("it would be a wildcard", "write a zone file for wildcards")),
        Some(_) => Ok(name),
    }
}

/// The reverse name of an address (RFC 1035 §3.5, RFC 3596 §2.5).
fn reverse(address: IpAddr) -> NameBuf {
    let text = match address {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(ip) => {
            let nibbles = ip.octets().into_iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
            nibbles.map(|nibble| format!("{nibble:x}.")).collect::<String>() + "ip6.arpa"
        }
    };
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("labels of a digit or three")
}

fn too_long() -> Wrong {
    let what = format!("the line is longer than {HOSTS_LINE_LEN_MAX} bytes");
    let help = "write the address and the rest of its names on another line";
    Wrong { column: 0, rule: BrokenRule::LIMIT, what, help }
}

/// The beginning of a word, for a message.
fn shown(word: &[u8]) -> String {
    let text = String::from_utf8_lossy(word);
    text.chars().take(60).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests;
