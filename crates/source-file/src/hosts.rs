//! Hosts files: an address and its names a line, as `/etc/hosts` has them (hosts(5)).
use crate::limits::{HOSTS_ERRORS_MAX, HOSTS_LINE_LEN_MAX, HOSTS_NAMES_MAX};
use compile::{Loader, Zone};
use image::HashKey;
use model::Rule;
use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::str;
use std::sync::Arc;
use wire::{Name, NameBuf, Rtype};
use zonefile::{Error, Failure, Place};

/// The SOA record that says how long it is true that a name has no address of a kind: both its
/// names, and what a secondary would need; then follows MINIMUM.
const SOA_DATA: &[u8] =
    b"\0\x06nobody\x07invalid\0\0\0\0\x01\0\0\x0e\x10\0\0\x04\xb0\0\x09\x3a\x80";

/// Reads a hosts file: its names with their addresses, and for each address the first of its names,
/// as a zone at the root that has nothing else. What does not differ from `old` is shared with it.
/// `ttl` is that of all its records, in seconds. With it comes how many names have an address.
///
/// # Errors
/// Everything that is wrong with the file, up to [`HOSTS_ERRORS_MAX`], each with its place.
pub fn load_hosts(
    file: &Path,
    ttl: u32,
    key: &Arc<HashKey>,
    old: Option<&Zone>,
) -> Result<(Zone, u64), Failure> {
    let mut reader = Reader {
        file,
        ttl,
        loader: Loader::new(Arc::clone(key), Name::ROOT, old),
        named: HashSet::new(),
        names: 0,
        line: 0,
        errors: Vec::new(),
    };
    let read = zonefile::open(file).and_then(|opened| reader.read(BufReader::new(opened)));
    let stopped = match read {
        Ok(stopped) => stopped,
        Err(error) => {
            reader.line = 0;
            let what = format!("cannot be read: {error}");
            reader.wrong(Wrong { column: 0, rule: Rule::FILE, what, help: "is its path right?" });
            true
        }
    };
    reader.finish(stopped)
}

/// What is wrong with a line.
struct Wrong {
    /// The octet, from 1; 0: the line as a whole.
    column: u64,
    rule: Rule,
    what: String,
    help: &'static str,
}

struct Reader<'r> {
    file: &'r Path,
    ttl: u32,
    loader: Loader<'r>,
    /// Addresses whose name is known.
    named: HashSet<IpAddr>,
    names: usize,
    line: u32,
    errors: Vec<Error>,
}

impl Reader<'_> {
    /// Reads all lines; whether there was too much to go on.
    fn read(&mut self, mut input: impl BufRead) -> io::Result<bool> {
        let mut text = Vec::new();
        loop {
            text.clear();
            let room = HOSTS_LINE_LEN_MAX as u64 + 1;
            if input.by_ref().take(room).read_until(b'\n', &mut text)? == 0 {
                return Ok(false);
            }
            self.line = self.line.saturating_add(1);
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
        // Some editors mark a file's beginning (RFC 3629 §6).
        let mark = if self.line == 1 && text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let end = text.iter().position(|octet| *octet == b'#').unwrap_or(text.len());
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
            put.map_err(|what| Wrong { column, rule: Rule::LIMIT, what, help: "take some out" })?;
            first.get_or_insert(name);
        }
        let Some(name) = first else {
            let (rule, what) = (Rule::SYNTAX_HOSTS, format!("{address} has no name"));
            return Err(Wrong { column, rule, what, help: "write its names behind it" });
        };
        // The address that stands for none has no name either.
        if !address.is_unspecified() && self.named.insert(address) {
            let octets = name.as_name().octets();
            // It is a name of the root zone, as all are.
            let _ = self.add(&reverse(address), Rtype::PTR, octets);
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
        let place = Place { file: self.file, line: self.line.into(), column };
        self.errors.push(Error::new(place, rule, what).with_help(help));
    }

    fn finish(mut self, stopped: bool) -> Result<(Zone, u64), Failure> {
        if self.errors.is_empty() {
            let soa = [SOA_DATA, &self.ttl.to_be_bytes()].concat();
            for (rtype, data) in [(Rtype::SOA, &soa[..]), (Rtype::NS, &[0])] {
                // The root lies in the root zone.
                let _ = self.loader.add(Name::ROOT, rtype, self.ttl, data, 0);
            }
            let (file, problems) = match self.loader.finish() {
                Ok(zone) => {
                    let names = named(&zone);
                    return Ok((zone, names));
                }
                Err(problems) => (self.file, problems),
            };
            self.errors.extend(problems.into_iter().map(|problem| {
                let line = problem.place.unwrap_or_default().into();
                Error::new(Place { file, line, column: 0 }, problem.rule, problem.what)
            }));
        }
        Err(Failure { errors: self.errors, stopped, files: vec![self.file.into()] })
    }
}

/// How many names have an address.
fn named(zone: &Zone) -> u64 {
    let has = |node: &image::Node<'_>| {
        [Rtype::A, Rtype::AAAA].into_iter().any(|rtype| node.set(rtype).is_some())
    };
    zone.nodes().filter(has).count() as u64
}

/// What stands between blanks, and where, behind so many octets of the line.
fn words(text: &[u8], before: usize) -> impl Iterator<Item = (u64, &[u8])> {
    let mut at = 0;
    let words = text.split(u8::is_ascii_whitespace).map(move |word| {
        let column = before + at + 1;
        at += word.len() + 1;
        (column as u64, word)
    });
    words.filter(|(_, word)| !word.is_empty())
}

/// The address of a line; nothing for one of a link (RFC 4007 §11), which means something to the
/// host alone that has the link.
fn address(column: u64, word: &[u8]) -> Result<Option<IpAddr>, Wrong> {
    let text = str::from_utf8(word).unwrap_or_default();
    if let Some((address, _)) = text.split_once('%')
        && address.parse::<Ipv6Addr>().is_ok()
    {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| Wrong {
        column,
        rule: Rule::SYNTAX_HOSTS,
        what: format!("`{}` is no address", shown(word)),
        help: "a line is an address and its names, such as: 192.0.2.1 www.example.org www",
    })
}

fn name(column: u64, word: &[u8]) -> Result<NameBuf, Wrong> {
    let wrong = |why: &str, help| Wrong {
        column,
        rule: Rule::NAME,
        what: format!("`{}` is no name: {why}", shown(word)),
        help,
    };
    let name = NameBuf::from_text(word, Name::ROOT)
        .map_err(|why| wrong(&why.to_string(), "labels of up to 63 octets, with dots between"))?;
    match name.as_name().labels().next() {
        None => Err(wrong("it is the root", "take it out")),
        Some(b"*") => Err(wrong("it would stand for others", "write a zone file for wildcards")),
        Some(_) => Ok(name),
    }
}

/// The name that stands for an address (RFC 1035 §3.5, RFC 3596 §2.5).
fn reverse(address: IpAddr) -> NameBuf {
    let text = match address {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(ip) => {
            let nibbles = ip.octets().into_iter().rev().flat_map(|octet| [octet & 15, octet >> 4]);
            nibbles.map(|nibble| format!("{nibble:x}.")).collect::<String>() + "ip6.arpa"
        }
    };
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("labels of a digit or three")
}

fn too_long() -> Wrong {
    let what = format!("the line is longer than {HOSTS_LINE_LEN_MAX} octets");
    let help = "write the address and the rest of its names on a line of their own";
    Wrong { column: 0, rule: Rule::LIMIT, what, help }
}

/// The beginning of a word, for a message.
fn shown(word: &[u8]) -> String {
    let text = String::from_utf8_lossy(word);
    text.chars().take(60).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests;
