//! What is to be changed so that a zone holds what a file does.
use crate::human::{plain, plural};
use crate::limits::DIFFERENCE_LINES_MAX;
use api::SetBody;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read, Write};
use wire::{Name, NameBuf, Rtype};

/// Record sets by their names, as octets that sort canonically enough to be read, and types.
pub type Sets = BTreeMap<(String, Rtype), Held>;

/// What a set holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub ttl: u32,
    /// The data of each record, in wire form.
    pub data: Vec<Vec<u8>>,
    /// When it was last written, of one that is there.
    pub revision: Option<u64>,
}

impl Held {
    /// The same in an order that does not matter.
    fn sorted(mut self) -> Self {
        self.data.sort_unstable();
        self.data.dedup();
        self
    }
}

/// Reads record sets, one a line, as an export gives them.
///
/// # Errors
/// What is wrong, with its line.
pub fn read_lines(input: &mut dyn BufRead, origin: Name<'_>) -> Result<Sets, String> {
    let mut sets = Sets::new();
    for (number, line) in input.lines().enumerate() {
        let at = |why: String| format!("line {}: {why}", number + 1);
        let line = line.map_err(|why| at(why.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
        let set: SetBody = serde_json::from_str(&line).map_err(|why| at(why.to_string()))?;
        let (name, rtype) = key(&set.name, &set.rtype).map_err(at)?;
        let data = read_data(&set.data, rtype, origin).map_err(at)?;
        sets.insert((name, rtype), Held { ttl: set.ttl, data, revision: None }.sorted());
    }
    Ok(sets)
}

fn read_data(texts: &[String], rtype: Rtype, origin: Name<'_>) -> Result<Vec<Vec<u8>>, String> {
    let read = |text: &String| zonefile::read_data(rtype, text, origin);
    texts.iter().map(read).collect::<Result<_, _>>().map_err(|fault| fault.to_string())
}

/// A record set as a page of the API tells it.
#[derive(Deserialize)]
struct Told {
    name: String,
    #[serde(rename = "type")]
    rtype: String,
    ttl: u32,
    data: Vec<String>,
    revision: Option<u64>,
}

/// Takes what the API tells of a record set.
///
/// # Errors
/// What of it cannot be read.
pub fn take_told(sets: &mut Sets, told: Value, origin: Name<'_>) -> Result<(), String> {
    let Told { name, rtype, ttl, data, revision } =
        serde_json::from_value(told).map_err(|why| format!("the server tells of no set: {why}"))?;
    let (name, rtype) = key(&name, &rtype)?;
    let data = read_data(&data, rtype, origin)?;
    sets.insert((name, rtype), Held { ttl, data, revision }.sorted());
    Ok(())
}

fn key(name: &str, rtype: &str) -> Result<(String, Rtype), String> {
    let read = NameBuf::from_text(name.as_bytes(), Name::ROOT);
    let mut read = read.map_err(|why| format!("{name:?} is no name: {why}"))?;
    read.make_lowercase();
    let rtype = rtype.parse().map_err(|()| format!("{rtype:?} is no type"))?;
    Ok((read.to_string(), rtype))
}

/// Reads a zone file.
///
/// # Errors
/// The first that is wrong, with its place.
pub fn read_zone_file(input: &mut dyn Read, origin: Name<'_>) -> Result<Sets, String> {
    let mut sets = Sets::new();
    let read = zonefile::read_stream(input, origin, &mut |record| {
        let mut owner = NameBuf::from(record.owner);
        owner.make_lowercase();
        let new = Held { ttl: record.ttl, data: Vec::new(), revision: None };
        let held = sets.entry((owner.to_string(), record.rtype)).or_insert(new);
        held.ttl = held.ttl.min(record.ttl);
        held.data.push(record.rdata.to_vec());
        Ok(())
    });
    match read {
        Ok(_) => Ok(sets.into_iter().map(|(key, held)| (key, held.sorted())).collect()),
        Err(failure) => Err(failure.errors.first().map_or_else(String::new, ToString::to_string)),
    }
}

/// What is to become of one set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub name: String,
    pub rtype: Rtype,
    pub before: Option<Held>,
    pub after: Option<Held>,
}

/// What makes `there` hold what `wanted` does; without `replace` nothing goes. The serial of an SOA
/// is the server's.
pub fn between(there: &Sets, wanted: &Sets, replace: bool) -> Vec<Change> {
    let change = |key: &(String, Rtype), before: Option<&Held>, after: Option<&Held>| {
        let (name, rtype) = key.clone();
        Change { name, rtype, before: before.cloned(), after: after.cloned() }
    };
    let mut changes = Vec::new();
    for (key, held) in wanted {
        let before = there.get(key);
        if before.is_none_or(|before| plainly(key.1, before) != plainly(key.1, held)) {
            changes.push(change(key, before, Some(held)));
        }
    }
    let is_gone = |key: &(String, Rtype)| !wanted.contains_key(key) && key.1 != Rtype::SOA;
    let gone = there.iter().filter(|(key, _)| replace && is_gone(key));
    changes.extend(gone.map(|(key, held)| change(key, Some(held), None)));
    changes
}

/// A set but for when it was written, and for the serial of an SOA, which stands 20 octets before
/// its end.
fn plainly(rtype: Rtype, held: &Held) -> Held {
    let mut held = Held { revision: None, ..held.clone() };
    for data in held.data.iter_mut().filter(|_| rtype == Rtype::SOA) {
        if let Some(numbers) = data.last_chunk_mut::<20>() {
            numbers[..4].fill(0);
        }
    }
    held
}

/// Shows changes as lines that go and come.
///
/// # Errors
/// They cannot be written.
pub fn show(out: &mut impl Write, changes: &[Change]) -> io::Result<()> {
    let mut lines = Vec::new();
    for Change { name, rtype, before, after } in changes {
        for (sign, held, other) in [("-", before, after), ("+", after, before)] {
            let Some(held) = held else { continue };
            let is_same = |data: &Vec<u8>| {
                other.as_ref().is_some_and(|o| o.ttl == held.ttl && o.data.contains(data))
            };
            for data in held.data.iter().filter(|data| !is_same(data)) {
                let text = zonefile::data_text(*rtype, data);
                lines.push(format!("{sign} {} {} {rtype} {}", plain(name), held.ttl, plain(&text)));
            }
        }
    }
    for line in lines.iter().take(DIFFERENCE_LINES_MAX) {
        writeln!(out, "{line}")?;
    }
    if lines.len() > DIFFERENCE_LINES_MAX {
        let more = plural(lines.len() - DIFFERENCE_LINES_MAX, "line");
        writeln!(out, "and {more} more, of {}", plural(changes.len(), "record set"))?;
    }
    Ok(())
}

/// A change as the API takes it: done only if the set is as it was seen.
pub fn body(change: &Change) -> Value {
    let put = change.after.as_ref().map(|held| {
        let write = |data: &Vec<u8>| zonefile::data_text(change.rtype, data);
        json!({ "ttl": held.ttl, "data": held.data.iter().map(write).collect::<Vec<_>>() })
    });
    let seen = match &change.before {
        Some(held) => held.revision.map_or(json!("present"), |revision| json!(revision)),
        None => json!("absent"),
    };
    json!({ "name": change.name, "type": change.rtype.to_string(), "put": put, "if": seen })
}

#[cfg(test)]
mod tests {
    use super::*;

    const THERE: &str = "@ 60 SOA ns admin 7 1 1 1 1\n@ 60 NS ns\nwww 60 A 192.0.2.1\n\
                         www 60 A 192.0.2.2\nold 60 TXT a\n";
    const WANTED: &str = "@ 60 SOA ns admin 1 1 1 1 1\n@ 60 NS ns\nWWW 60 A 192.0.2.2\n\
                          www 60 A 192.0.2.3\n";

    fn sets(text: &str) -> Sets {
        let origin = NameBuf::from_text(b"example.org", Name::ROOT).expect("a name");
        read_zone_file(&mut text.as_bytes(), origin.as_name()).expect("a zone file")
    }

    #[test]
    fn what_changes_is_shown_and_nothing_else() {
        let shown = |replace| {
            let mut out = Vec::new();
            show(&mut out, &between(&sets(THERE), &sets(WANTED), replace)).expect("room");
            String::from_utf8(out).expect("text")
        };
        let changed = "- www.example.org. 60 A 192.0.2.1\n+ www.example.org. 60 A 192.0.2.3\n";
        assert_eq!(shown(false), changed, "the serial is the server's");
        assert_eq!(shown(true), format!("{changed}- old.example.org. 60 TXT \"a\"\n"));
        assert_eq!(between(&sets(THERE), &sets(THERE), true), []);
    }

    #[test]
    fn an_export_is_the_same_as_its_zone_file() {
        let lines = "{\"name\":\"www.example.org.\",\"type\":\"A\",\"ttl\":60,\
                     \"data\":[\"192.0.2.2\",\"192.0.2.1\"],\"view\":\"default\"}\n";
        let read = read_lines(&mut lines.as_bytes(), Name::ROOT).expect("lines");
        let www = sets(THERE).into_iter().filter(|((_, rtype), _)| *rtype == Rtype::A).collect();
        assert_eq!(read, www);
        let told = read_lines(&mut "\n{}\n".as_bytes(), Name::ROOT).expect_err("no set");
        assert!(told.starts_with("line 2: missing field"), "{told}");
    }

    #[test]
    fn a_change_is_what_the_api_takes() {
        let changes = between(&sets(THERE), &sets(WANTED), true);
        let bodies: Vec<Value> = changes.iter().map(body).collect();
        assert_eq!(bodies[0]["put"]["data"], json!(["192.0.2.2", "192.0.2.3"]));
        let gone = json!({
            "name": "old.example.org.", "type": "TXT", "put": null, "if": "present"
        });
        assert_eq!(bodies[1], gone);
    }

    /// Somebody else may be faster: nothing is overwritten that was not seen.
    #[test]
    fn a_change_is_of_what_was_seen() {
        let mut there = Sets::new();
        let told = json!({
            "name": "WWW.example.org.", "type": "A", "ttl": 60, "data": ["192.0.2.1"],
            "view": "default", "policy": "all", "revision": 7
        });
        take_told(&mut there, told, Name::ROOT).expect("a set");
        let wanted = sets("www 60 A 192.0.2.9\nnew 60 A 192.0.2.9\n");
        let seen: Vec<Value> =
            between(&there, &wanted, true).iter().map(|change| body(change)["if"].take()).collect();
        assert_eq!(seen, [json!("absent"), json!(7)]);
        assert!(take_told(&mut there, json!({}), Name::ROOT).is_err());
        assert!(between(&there, &sets("www 60 A 192.0.2.1\n"), true).is_empty());
    }
}
