//! The difference between a zone and a file, as changes to record sets.
use super::rules::{self, rules_of};
use crate::limits::{CHANGES_AT_ONCE, DIFFERENCE_LINES_MAX, LOST_SHOWN_MAX};
use api::SetBody;
use command_line::{count, plain, plural};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read, Write};
use store::serial::{is_newer, offset_after};
use store::{Revision, View};
use wire::{Name, NameBuf, Rtype};
use zone_manager::hold::{self, Arrival, Evidence, Verdict};

/// Record sets by name and type.
pub type Sets = BTreeMap<(String, Rtype), RecordSet>;

/// The content of a record set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSet {
    pub ttl: u32,
    /// The data of each record, in wire form.
    pub data: Vec<Vec<u8>>,
    /// Its policy, check, members and comment, as the API has them; empty: a plain set.
    pub rules: Map<String, Value>,
    /// The revision of its last write, if it comes from the server.
    pub revision: Option<u64>,
}

impl RecordSet {
    /// Sorts and deduplicates the data, so that equal sets compare equal.
    fn sorted(mut self) -> Self {
        self.data.sort_unstable();
        self.data.dedup();
        self
    }
}

/// Reads record sets of a zone as NDJSON, the format of an export. A line that was cut is an error.
///
/// # Errors
/// The first error, with its line.
pub fn read_lines(input: &mut dyn BufRead, origin: Name<'_>) -> Result<Sets, String> {
    let mut sets = Sets::new();
    for (number, line) in input.lines().enumerate() {
        let at = |why: String| format!("line {}: {why}", number + 1);
        let line = line.map_err(|why| at(why.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
        let set: SetBody = serde_json::from_str(&line).map_err(|why| at(why.to_string()))?;
        let (name, rtype) = key(&set.name, &set.rtype, origin).map_err(at)?;
        if set.view != View::DEFAULT.word() {
            let what = "import it with --stream, or export only `--view default`";
            return Err(at(format!("{name} {rtype} is of the view {}: {what}", set.view)));
        }
        let rules = rules_of(&serde_json::to_value(&set).map_err(|why| at(why.to_string()))?);
        let of_members = set.members.iter().flatten().map(|member| member.data.clone());
        let texts = if set.data.is_empty() { of_members.collect() } else { set.data };
        let data = read_data(&texts, rtype).map_err(at)?;
        let set = RecordSet { ttl: set.ttl, data, rules, revision: None };
        sets.insert((name, rtype), set.sorted());
    }
    Ok(sets)
}

fn read_data(texts: &[String], rtype: Rtype) -> Result<Vec<Vec<u8>>, String> {
    let read = |text: &String| zonefile::read_data(rtype, text);
    texts.iter().map(read).collect::<Result<_, _>>().map_err(|fault| fault.to_string())
}

/// A record set in a page of the API.
#[derive(Deserialize)]
struct ListedSet {
    name: String,
    #[serde(rename = "type")]
    rtype: String,
    ttl: u32,
    data: Vec<String>,
    revision: Option<u64>,
}

/// Adds a record set as the API lists it.
///
/// # Errors
/// It is not a valid record set.
pub fn insert_listed(sets: &mut Sets, listed: Value) -> Result<(), String> {
    let rules = rules_of(&listed);
    let ListedSet { name, rtype, ttl, data, revision } = serde_json::from_value(listed)
        .map_err(|why| format!("the server sent an invalid record set: {why}"))?;
    let (name, rtype) = key(&name, &rtype, Name::ROOT)?;
    let data = read_data(&data, rtype)?;
    sets.insert((name, rtype), RecordSet { ttl, data, rules, revision }.sorted());
    Ok(())
}

fn key(name: &str, rtype: &str, origin: Name<'_>) -> Result<(String, Rtype), String> {
    let mut read = zonefile::read_name(name).map_err(|fault| format!("{name:?} {fault}"))?;
    read.make_lowercase();
    if !read.as_name().is_within(origin) {
        return Err(format!("{name:?} is not in the zone {origin}"));
    }
    let rtype = rtype.parse().map_err(|()| format!("{rtype:?} is not a record type"))?;
    Ok((read.to_string(), rtype))
}

/// Reads a zone file. Also returns why it may have been cut off.
///
/// # Errors
/// The first error, with its position.
pub fn read_zone_file(
    input: &mut dyn Read,
    origin: Name<'_>,
) -> Result<(Sets, Option<zonefile::Error>), zonefile::LoadFailure> {
    let mut sets = Sets::new();
    let read = zonefile::read_stream(input, origin, &mut |record| {
        let mut owner = NameBuf::from(record.owner);
        owner.make_lowercase();
        let new =
            RecordSet { ttl: record.ttl, data: Vec::new(), rules: Map::new(), revision: None };
        let set = sets.entry((owner.to_string(), record.rtype)).or_insert(new);
        set.ttl = set.ttl.min(record.ttl);
        set.data.push(record.rdata.to_vec());
        Ok(())
    });
    let cut_off = read?.cut_off;
    Ok((sets.into_iter().map(|(key, set)| (key, set.sorted())).collect(), cut_off))
}

/// A change of one record set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub name: String,
    pub rtype: Rtype,
    pub before: Option<RecordSet>,
    pub after: Option<RecordSet>,
}

/// The serial of an SOA.
fn serial(set: &RecordSet) -> Option<u32> {
    set.data.first()?.last_chunk::<20>()?.first_chunk().copied().map(u32::from_be_bytes)
}

/// The serial of the SOA that changes put.
pub fn given_serial(changes: &[Change]) -> Option<u32> {
    let soa = changes.iter().find(|change| change.rtype == Rtype::SOA)?;
    serial(soa.after.as_ref()?)
}

/// The serial of a zone after changes in requests of `CHANGES_AT_ONCE`. `served` is the serial now,
/// and `next` the one after any single write.
pub fn serial_after(served: u32, next: u32, changes: &[Change]) -> u32 {
    let (mut serial, mut next) = (served, next);
    for some in changes.chunks(CHANGES_AT_ONCE) {
        let revision = Revision(next.into());
        let offset = given_serial(some).map(|given| offset_after(revision, 0, given, Some(serial)));
        serial = revision.serial(offset.unwrap_or_default());
        next = serial.wrapping_add(1);
    }
    serial
}

/// The changes that turn `current` into `wanted`; without `replace` none deletes a set. The server
/// chooses the serial of an SOA; a newer serial in `wanted` is a change, an older one is not.
pub fn difference(current: &Sets, wanted: &Sets, replace: bool) -> Vec<Change> {
    let change = |key: &(String, Rtype), before: Option<&RecordSet>, after: Option<&RecordSet>| {
        let (name, rtype) = key.clone();
        Change { name, rtype, before: before.cloned(), after: after.cloned() }
    };
    let mut changes = Vec::new();
    for (key, set) in wanted {
        let before = current.get(key);
        let is_other = |before: &RecordSet| {
            let serials = (serial(set), serial(before));
            let is_behind = matches!(serials, (Some(new), Some(old)) if is_newer(new, old));
            comparable(key.1, before) != comparable(key.1, set) || key.1 == Rtype::SOA && is_behind
        };
        if before.is_none_or(is_other) {
            changes.push(change(key, before, Some(set)));
        }
    }
    let is_gone = |key: &(String, Rtype)| !wanted.contains_key(key) && key.1 != Rtype::SOA;
    let gone = current.iter().filter(|(key, _)| replace && is_gone(key));
    changes.extend(gone.map(|(key, set)| change(key, Some(set), None)));
    changes
}

/// A set without its revision and the serial of an SOA, which begins 20 bytes before its end.
fn comparable(rtype: Rtype, set: &RecordSet) -> RecordSet {
    let mut set = RecordSet { revision: None, ..set.clone() };
    for data in set.data.iter_mut().filter(|_| rtype == Rtype::SOA) {
        if let Some(numbers) = data.last_chunk_mut::<20>() {
            numbers[..4].fill(0);
        }
    }
    set
}

/// Why an import is held: it deletes most of the zone, or its file may have been cut off. The rule
/// is that of zone files ([`hold::judge`]).
pub fn hold_reason(current: &Sets, changes: &[Change], is_cut_off: bool) -> Option<String> {
    let gone = || changes.iter().filter(|change| change.after.is_none());
    let (had, lost) = (current.len() as u64, gone().count() as u64);
    let (arrival, is_cut) = (Arrival::InPlace, is_cut_off && !changes.is_empty());
    let evidence = Evidence { arrival, is_cut, had: Some(had), has: had - lost };
    if hold::judge(&evidence) != Verdict::Hold {
        return None;
    }
    let mut reasons = Vec::new();
    if evidence.lost_most() {
        let shown = gone().take(LOST_SHOWN_MAX);
        let shown: Vec<_> = shown.map(|it| format!("{} {}", plain(&it.name), it.rtype)).collect();
        let (lost, had, shown) = (count(lost), count(had), shown.join(", "));
        reasons.push(format!("it deletes {lost} of {had} record sets, such as {shown}"));
    }
    if is_cut {
        reasons.push("the file does not end with a newline, so its end may be missing".into());
    }
    Some(reasons.join(", and "))
}

/// Writes changes as lines with `-` and `+`.
///
/// # Errors
/// `out` fails.
pub fn write_changes(out: &mut impl Write, changes: &[Change]) -> io::Result<()> {
    let mut lines = Vec::new();
    for Change { name, rtype, before, after } in changes {
        for (sign, set, other) in [("-", before, after), ("+", after, before)] {
            let Some(set) = set else { continue };
            let is_same = |data: &Vec<u8>| {
                other.as_ref().is_some_and(|o| o.ttl == set.ttl && o.data.contains(data))
            };
            for data in set.data.iter().filter(|data| !is_same(data)) {
                let text = zonefile::data_text(*rtype, data);
                lines.push(format!("{sign} {} {} {rtype} {}", plain(name), set.ttl, plain(&text)));
            }
            let others = other.as_ref().map(|other| &other.rules);
            if !set.rules.is_empty() && others != Some(&set.rules) {
                let rules = rules::text(&set.rules);
                lines.push(format!("{sign} {} {} {rtype} with {rules}", plain(name), set.ttl));
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

/// A change as JSON for the API, on condition that the set is unchanged since it was read.
pub fn change_json(change: &Change) -> Value {
    let put = change.after.as_ref().map(|set| {
        let write = |data: &Vec<u8>| zonefile::data_text(change.rtype, data);
        let data: Vec<_> = set.data.iter().map(write).collect();
        let mut put = set.rules.clone();
        put.insert("ttl".into(), set.ttl.into());
        if !put.contains_key("members") {
            put.insert("data".into(), data.into());
        }
        put
    });
    let condition = match &change.before {
        Some(set) => set.revision.map_or(json!("present"), |revision| json!(revision)),
        None => json!("absent"),
    };
    json!({ "name": change.name, "type": change.rtype.to_string(), "put": put, "if": condition })
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
        read_zone_file(&mut text.as_bytes(), origin.as_name()).expect("a zone file").0
    }

    #[test]
    fn only_differences_are_shown() {
        let shown = |replace| {
            let mut out = Vec::new();
            write_changes(&mut out, &difference(&sets(THERE), &sets(WANTED), replace))
                .expect("room");
            String::from_utf8(out).expect("text")
        };
        let changed = "- www.example.org. 60 A 192.0.2.1\n+ www.example.org. 60 A 192.0.2.3\n";
        assert_eq!(shown(false), changed, "the serial is the server's");
        assert_eq!(shown(true), format!("{changed}- old.example.org. 60 TXT \"a\"\n"));
        assert_eq!(difference(&sets(THERE), &sets(THERE), true), []);
    }

    #[test]
    fn only_a_newer_serial_of_a_file_is_a_change() {
        let with = |serial: u32| sets(&format!("@ 60 SOA ns admin {serial} 1 1 1 1\n@ 60 NS ns\n"));
        let there = with(1148);
        let changes = difference(&there, &with(2_026_112_301), false);
        assert_eq!(given_serial(&changes), Some(2_026_112_301));
        assert_eq!(serial_after(1148, 1150, &changes), 2_026_112_302);
        assert_eq!(difference(&there, &with(1147), false), []);
        assert_eq!(difference(&there, &with(1148), false), []);
        let many: Vec<Change> = (0..CHANGES_AT_ONCE * 2).map(|_| changes[0].clone()).collect();
        assert_eq!(serial_after(1148, 1150, &many), 2_026_112_303, "two writes");
        let other = difference(&sets(""), &sets("www 60 A 192.0.2.1\n"), false);
        assert_eq!(serial_after(1148, 1150, &other), 1150);
        assert_eq!(serial_after(1148, 1150, &[]), 1148);
    }

    #[test]
    fn exported_sets_equal_those_of_the_zone_file() {
        let lines = "{\"name\":\"www.example.org.\",\"type\":\"A\",\"ttl\":60,\
                     \"data\":[\"192.0.2.2\",\"192.0.2.1\"],\"view\":\"default\"}\n";
        let read = |text: &str, zone: &str| {
            let origin = NameBuf::from_text(zone.as_bytes(), Name::ROOT).expect("a name");
            read_lines(&mut text.as_bytes(), origin.as_name())
        };
        let other = read(lines, "example.net").expect_err("of another zone");
        assert_eq!(other, "line 1: \"www.example.org.\" is not in the zone example.net.");
        let cut = read(&lines[..lines.len() - 9], "example.org").expect_err("a cut line");
        assert!(cut.starts_with("line 1: EOF"), "{cut}");
        let read = |text| read(text, "example.org");
        let www = sets(THERE).into_iter().filter(|((_, rtype), _)| *rtype == Rtype::A).collect();
        assert_eq!(read(lines).expect("lines"), www);
        let error = read("\n{}\n").expect_err("no set");
        assert!(error.starts_with("line 2: missing field"), "{error}");
    }

    #[test]
    fn import_that_deletes_most_or_was_cut_off_is_held() {
        let lines =
            |names| (0..names).map(|n| format!("n{n} 60 A 192.0.2.1\n")).collect::<String>();
        let apex = "@ 60 SOA ns admin 7 1 1 1 1\n@ 60 NS ns\n";
        let held = |had: usize, has: usize, is_cut_off| {
            let [there, wanted] = [had, has].map(|names| sets(&(apex.to_owned() + &lines(names))));
            hold_reason(&there, &difference(&there, &wanted, true), is_cut_off)
        };
        assert_eq!(held(100, 60, false), None);
        assert_eq!(held(18, 0, false), None, "fewer than 20");
        let reason = held(1_000, 1, false).expect("most are gone");
        let expected = "it deletes 999 of 1,002 record sets, such as n1.example.org. A, ";
        assert!(reason.starts_with(expected), "{reason}");
        assert!(held(5, 6, true).expect("cut").contains("does not end with a newline"));
        assert_eq!(held(5, 5, true), None, "it changes nothing");
        let both = held(1_000, 1, true).expect("both");
        assert!(both.contains("it deletes") && both.contains(", and the file does not"), "{both}");
    }

    #[test]
    fn change_is_written_as_json_for_the_api() {
        let changes = difference(&sets(THERE), &sets(WANTED), true);
        let bodies: Vec<Value> = changes.iter().map(change_json).collect();
        assert_eq!(bodies[0]["put"]["data"], json!(["192.0.2.2", "192.0.2.3"]));
        let gone = json!({
            "name": "old.example.org.", "type": "TXT", "put": null, "if": "present"
        });
        assert_eq!(bodies[1], gone);
    }

    /// Another client may write difference read and write.
    #[test]
    fn change_has_the_revision_that_was_read_as_condition() {
        let mut there = Sets::new();
        let listed = json!({
            "name": "WWW.example.org.", "type": "A", "ttl": 60, "data": ["192.0.2.1"],
            "view": "default", "policy": "all", "revision": 7
        });
        insert_listed(&mut there, listed).expect("a set");
        let wanted = sets("www 60 A 192.0.2.9\nnew 60 A 192.0.2.9\n");
        let seen: Vec<Value> = difference(&there, &wanted, true)
            .iter()
            .map(|change| change_json(change)["if"].take())
            .collect();
        assert_eq!(seen, [json!("absent"), json!(7)]);
        assert!(insert_listed(&mut there, json!({})).is_err());
        assert!(difference(&there, &sets("www 60 A 192.0.2.1\n"), true).is_empty());
    }
}
