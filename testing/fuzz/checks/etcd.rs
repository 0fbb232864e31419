//! What must hold for any bytes as keys and values of etcd.
use crate::encoding::{self, CommitName, IS_SNAPSHOT, Link, NO_COMMIT};
use crate::plan::replacement;
use crate::staged::Move;
use crate::zone_value::read_zone_value;
use etcd_link::limits::OPS_MAX;
use health::Finding;
use keyspace::Keys;
use keyspace::keys::{Head, ListedKey, check_format};
use model::{View, read_stored, write_stored};
use wire::{Name, NameBuf, Rtype};

const PREFIX: &str = "/dunlin/";

/// The first byte says what the others are.
pub fn check(bytes: &[u8]) {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let keys = Keys::new(PREFIX);
    match first {
        b'k' => key(&keys, bytes),
        b'n' => name(&keys, bytes),
        b'c' => commit(bytes),
        b's' => set(bytes),
        b'p' => snapshot(&keys, bytes),
        _ => words(bytes),
    }
}

/// A key behind the prefix is read as what is written as this key, or not at all.
fn key(keys: &Keys, bytes: &[u8]) {
    let key = [PREFIX.as_bytes(), bytes].concat();
    let again = match keys.read(&key) {
        Some(ListedKey::Zone(zone)) => Some(keys.zone(zone.as_name())),
        Some(ListedKey::Set(zone, name, view, rtype)) => {
            Some(keys.set(zone.as_name(), &name, view, rtype))
        }
        None => keys.read_state(&key).map(|(server, check, at)| keys.state(server, check, at)),
    };
    assert!(again.is_none_or(|again| again.as_bytes() == key));
    if keys.read_staged_id(&key).is_some() {
        assert!(key.starts_with(keys.staged_all().as_bytes()));
    }
}

/// Two names in wire form, a zone and one in it: a key leads back to them, whatever their labels.
fn name(keys: &Keys, bytes: &[u8]) {
    let Ok(zone) = Name::parse(bytes) else { return };
    let mut zone = NameBuf::from(zone);
    zone.make_lowercase();
    let Ok(name) = Name::parse(&bytes[zone.as_name().len()..]) else { return };
    let name = name.as_bytes().to_ascii_lowercase();
    let relative = &name[..name.len() - 1];
    if NameBuf::joined(relative, zone.as_name()).is_err() {
        return;
    }
    for view in [View::DEFAULT, View::from_word("internal").expect("a view")] {
        let key = keys.set(zone.as_name(), relative, view, Rtype::A);
        let set = ListedKey::Set(zone.clone(), relative.into(), view, Rtype::A);
        assert_eq!(keys.read(key.as_bytes()), Some(set), "{key}");
    }
    let key = keys.zone(zone.as_name());
    assert_eq!(keys.read(key.as_bytes()), Some(ListedKey::Zone(zone)), "{key}");
}

/// A commit that is read is written again as one that says the same.
fn commit(bytes: &[u8]) {
    let Ok(stored) = encoding::read_commit(bytes) else { return };
    let parts = stored.parts | if stored.is_snapshot { IS_SNAPSHOT } else { 0 };
    let writes = encoding::writes(&stored.writes);
    let link = stored.link.unwrap_or(Link { before: NO_COMMIT, nonce: stored.id });
    let name = CommitName::new(link, stored.base, stored.base, &writes);
    let again = encoding::commit(&name, parts, &writes);
    let read = encoding::read_commit(&again).unwrap_or_else(|_| panic!("our own commit"));
    assert_eq!(encoding::writes(&read.writes), writes);
    assert_eq!((read.base, read.parts), (stored.base, stored.parts));
    assert_eq!((read.id, read.link), (name.id, Some(link)));
    if let Some(whole) = stored.whole() {
        assert!(!whole.writes.is_empty());
    }
}

/// The JSON of a set: two bytes are its type. What is read is written as what is read again.
fn set(bytes: &[u8]) {
    let Some((rtype, json)) = bytes.split_first_chunk() else { return };
    let rtype = Rtype(u16::from_be_bytes(*rtype));
    match read_stored(json, rtype) {
        Ok((revision, value)) => {
            let again = write_stored(rtype, revision, &value);
            assert_eq!(read_stored(&again, rtype), Ok((revision, value)));
        }
        Err(why) => assert!(!why.is_empty()),
    }
}

/// A snapshot in staged parts: each transaction has room in etcd.
fn snapshot(keys: &Keys, bytes: &[u8]) {
    for changes in replacement(keys, bytes).unwrap_or_default() {
        assert!(changes.ops().len() <= OPS_MAX);
    }
}

/// Short values: those that are read are written again as the same.
fn words(bytes: &[u8]) {
    if let Some(head) = Head::read(Some(bytes)) {
        assert_eq!(head.value.as_deref().map(str::as_bytes), Some(bytes));
    }
    if let Some(step) = Move::read(bytes) {
        assert_eq!(Move::read(step.value().as_bytes()), Some(step));
    }
    if let Ok(finding) = Finding::decode(bytes) {
        assert_eq!(Finding::decode(&finding.encode()), Ok(finding));
    }
    if let Err(why) = check_format(Some(bytes)) {
        assert!(!why.is_empty());
    }
    read_zone_value(bytes);
}
