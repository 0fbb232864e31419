//! What updates make of a zone: rows of text.
use super::*;
use compile::Loader;
use image::{HASH_KEY_WORDS, HashKey};
use records::{Hiding, SetKey};
use std::net::Ipv4Addr;
use wire::{Class, NameBuf};

/// Who may write only names that begin with this label.
#[derive(Debug)]
struct Only(&'static str);

impl WriteRights for Only {
    fn may_write(&self, set: &SetKey) -> bool {
        self.0.is_empty() || set.name.as_name().labels().next() == Some(self.0.as_bytes())
    }

    fn covers(&self, _: &SetKey) -> bool {
        self.0.is_empty()
    }

    fn hiding(&self, _: &SetKey) -> Hiding {
        Hiding::Refused
    }
}

fn name(text: &str) -> NameBuf {
    let origin = NameBuf::from_text(b"z.", Name::ROOT).expect("a name");
    match text {
        "@" => origin,
        _ => NameBuf::from_text(text.as_bytes(), origin.as_name()).expect("a name"),
    }
}

fn rtype(text: &str) -> Rtype {
    text.parse().expect("a type")
}

fn data(of: Rtype, text: &str) -> Vec<u8> {
    match of {
        Rtype::A => text.parse::<Ipv4Addr>().expect("an address").octets().into(),
        Rtype::SOA => {
            let serial: u32 = text.parse().expect("a serial");
            [&[0, 0][..], &serial.to_be_bytes(), &[0; 16]].concat()
        }
        Rtype::TXT => [&[text.len() as u8], text.as_bytes()].concat(),
        _ => name(text).as_name().as_bytes().to_vec(),
    }
}

fn text(of: Rtype, data: &[u8]) -> String {
    match of {
        Rtype::A => Ipv4Addr::from(*data.first_chunk::<4>().expect("four")).to_string(),
        Rtype::SOA => u32::from_be_bytes(*data[2..].first_chunk().expect("four")).to_string(),
        Rtype::TXT => String::from_utf8_lossy(&data[1..]).into_owned(),
        _ => Name::parse(data).expect("a name").to_string(),
    }
}

fn zone() -> Zone {
    let key = Arc::new(HashKey::new([3; HASH_KEY_WORDS]));
    let mut loader = Loader::new(key, name("@").as_name(), None);
    let records = [
        ("@", "SOA", "7"),
        ("@", "NS", "ns"),
        ("@", "TXT", "apex"),
        ("ns", "A", "192.0.2.1"),
        ("www", "A", "192.0.2.2"),
        ("www", "A", "192.0.2.3"),
        ("www", "TXT", "old"),
        ("alias", "CNAME", "www"),
        ("a.deep", "A", "192.0.2.4"),
    ];
    for (owner, of, value) in records {
        let of = rtype(of);
        loader.add(name(owner).as_name(), of, 60, &data(of, value), 0).expect("a record");
    }
    loader.finish().unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// A record of a message: `CLASS NAME TTL TYPE [DATA]`.
fn record(line: &str) -> Vec<u8> {
    let mut words = line.split_whitespace();
    let mut word = || words.next().expect("a word");
    let class = match word() {
        "add" | "equal" => Class::IN,
        "any" => Class::ANY,
        "none" => Class::NONE,
        _ => Class::CH,
    };
    let (owner, ttl, of) = (name(word()), word().parse::<u32>().expect("a TTL"), rtype(word()));
    let data = words.next().map_or_else(Vec::new, |value| data(of, value));
    let mut record = owner.as_name().as_bytes().to_vec();
    record.extend([of.0.to_be_bytes(), class.0.to_be_bytes()].concat());
    record.extend(ttl.to_be_bytes());
    record.extend((data.len() as u16).to_be_bytes());
    record.extend(data);
    record
}

/// An update of these prerequisites and changes, a line each.
fn message(prerequisites: &str, changes: &str) -> Vec<u8> {
    let [before, after] = [prerequisites, changes].map(|lines| {
        lines.lines().filter(|line| !line.trim().is_empty()).map(record).collect::<Vec<_>>()
    });
    let head = [0, 1, 0x28, 0, 0, 1, 0, before.len() as u8, 0, after.len() as u8, 0, 0];
    [&head[..], b"\x01Z\0\0\x06\0\x01", &before.concat(), &after.concat()].concat()
}

/// What an update does, in words: its edits, or its response code.
fn done(rights: Only, prerequisites: &str, changes: &str) -> String {
    let update = Update::read(&message(prerequisites, changes)).expect("an update");
    match update.planned(Arc::new(rights)).edits(&zone()) {
        Err(Refused::Unmet { rcode, .. }) => rcode.name().to_owned(),
        Err(other) => panic!("{other}"),
        Ok(edits) => {
            let shown = edits.iter().map(|edit| {
                let owner = edit.name.to_string();
                let owner = owner.strip_suffix(".z.").unwrap_or("@");
                let value = edit.put.as_ref().map(|value| {
                    let data: Vec<String> =
                        value.data.iter().map(|data| text(edit.rtype, data)).collect();
                    format!("{} {}", value.ttl, data.join(" "))
                });
                format!("{owner} {}: {}", edit.rtype, value.unwrap_or_else(|| "-".into()))
            });
            shown.collect::<Vec<_>>().join("; ")
        }
    }
}

#[test]
fn every_kind_of_prerequisite_has_its_code() {
    let rows = [
        ("any www 0 ANY", ""),
        ("any absent 0 ANY", "NXDOMAIN"),
        // RFC 2136 §2.4.4: an empty non-terminal is not in use.
        ("any deep 0 ANY", "NXDOMAIN"),
        ("none deep 0 ANY", ""),
        ("none absent 0 ANY", ""),
        ("none www 0 ANY", "YXDOMAIN"),
        ("any www 0 TXT", ""),
        ("any www 0 CNAME", "NXRRSET"),
        ("none www 0 CNAME", ""),
        ("none WWW 0 A", "YXRRSET"),
        ("equal www 0 A 192.0.2.3\nequal www 0 A 192.0.2.2", ""),
        ("equal www 0 A 192.0.2.3", "NXRRSET"),
        ("equal www 0 A 192.0.2.3\nequal www 0 A 192.0.2.4", "NXRRSET"),
        ("equal alias 0 CNAME WWW", ""),
        ("equal www 1 A 192.0.2.3", "FORMERR"),
        ("any www 0 A 192.0.2.3", "FORMERR"),
        ("chaos www 0 A", "FORMERR"),
        ("any www.other. 0 ANY", "NOTZONE"),
        // In their order, and a set only at the end.
        ("equal www 0 A 192.0.2.9\nany absent 0 ANY", "NXDOMAIN"),
        ("any absent 0 ANY\nany www.other. 0 ANY", "NXDOMAIN"),
    ];
    for (prerequisites, code) in rows {
        assert_eq!(done(Only(""), prerequisites, ""), code, "{prerequisites}");
    }
}

#[test]
fn each_record_has_the_effect_of_rfc_2136_in_the_order_of_the_message() {
    let rows = [
        ("add new 30 A 192.0.2.9", "new A: 30 192.0.2.9"),
        // A duplicate, and one with another TTL.
        ("add www 60 A 192.0.2.2", ""),
        ("add www 30 A 192.0.2.2", "www A: 30 192.0.2.2 192.0.2.3"),
        ("add www 60 A 192.0.2.1", "www A: 60 192.0.2.1 192.0.2.2 192.0.2.3"),
        // CNAME and others exclude each other, silently.
        ("add www 60 CNAME ns", ""),
        ("add alias 60 A 192.0.2.1", ""),
        ("add alias 60 CNAME ns", "alias CNAME: 60 ns.z."),
        (
            "none alias 0 CNAME www\nadd alias 60 A 192.0.2.1",
            "alias A: 60 192.0.2.1; alias CNAME: -",
        ),
        // SOA: older serials, other names.
        ("add @ 60 SOA 6", ""),
        ("add @ 60 SOA 8", "@ SOA: 60 8"),
        ("add www 60 SOA 8", ""),
        ("none @ 0 SOA 7\nany @ 0 SOA", ""),
        // The last name server stays.
        ("none @ 0 NS ns", ""),
        ("any @ 0 NS", ""),
        ("add @ 60 NS www\nnone @ 0 NS ns", "@ NS: 60 www.z."),
        ("any @ 0 ANY", "@ TXT: -"),
        ("any www 0 ANY", "www A: -; www TXT: -"),
        ("any www 0 A", "www A: -"),
        ("none www 0 A 192.0.2.2", "www A: 60 192.0.2.3"),
        ("none www 0 A 192.0.2.9", ""),
        ("any absent 0 ANY", ""),
        ("any www 0 ANY\nadd www 60 A 192.0.2.2\nadd www 60 TXT old", "www A: 60 192.0.2.2"),
        ("add new 60 A 192.0.2.1\nany new 0 ANY", ""),
        ("add new 60 TXT x\nadd new.other. 60 A 192.0.2.1", "NOTZONE"),
        ("add www 60 ANY", "FORMERR"),
        ("any www 1 A", "FORMERR"),
        ("none www 1 A 192.0.2.2", "FORMERR"),
        ("chaos www 0 A", "FORMERR"),
    ];
    for (changes, edits) in rows {
        assert_eq!(done(Only(""), "", changes), edits, "{changes}");
    }
}

#[test]
fn key_for_one_label_can_do_nothing_else() {
    let only = || Only("_acme-challenge");
    assert_eq!(
        done(only(), "", "add _acme-challenge.www 60 TXT token"),
        "_acme-challenge.www TXT: 60 token"
    );
    for changes in [
        "add www 60 TXT token",
        "any www 0 ANY",
        "any www 0 A",
        "none www 0 A 192.0.2.9",
        "add _acme-challenge.www 60 TXT token\nany ns 0 A",
        // It would hide the names below it.
        "add _acme-challenge.www 60 NS ns",
    ] {
        assert_eq!(done(only(), "", changes), "REFUSED", "{changes}");
    }
}

#[test]
fn message_that_ends_early_or_has_no_zone_is_malformed() {
    let sent = message("any www 0 ANY", "add new 30 A 192.0.2.9");
    assert_eq!(Update::read(&sent).expect("an update").summary(), "new.z. A");
    for len in 0..sent.len() {
        assert_eq!(Update::read(&sent[..len]).err(), Some(NotAnUpdate::Malformed), "{len}");
    }
    assert!(Update::read(&[&sent[..], &[0]].concat()).is_err(), "bytes behind it");
    for (at, byte, fault) in [
        (5, 0, NotAnUpdate::Malformed),
        (5, 2, NotAnUpdate::Malformed),
        (16, 1, NotAnUpdate::Malformed),
        (18, 3, NotAnUpdate::Class),
    ] {
        let mut other = sent.clone();
        other[at] = byte;
        assert_eq!(Update::read(&other).err(), Some(fault), "{at}");
    }
}

#[path = "../../../../testing/fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../../testing/fuzz/checks/update.rs"]
mod fuzz;

#[test]
fn fuzz_corpus_of_updates_passes() {
    corpus::replay("update", fuzz::check);
    corpus::search("update", fuzz::check);
}
