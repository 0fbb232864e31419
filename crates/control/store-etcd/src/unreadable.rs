//! Keys of zones and record sets that cannot be read. Their zones are incomplete: a server that has
//! the zone as it was written last keeps that, and any other one answers SERVFAIL.
use crate::limits::UNREADABLE_SHOWN;
use crate::zone_value::read_zone_value;
use keyspace::Keys;
use keyspace::keys::ListedKey;
use model::read_stored;
use records::{Action, Form, PreparedWrite, Reader, Revision, SetKey, StoreError, View};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use store::codec::{self, zone_key};
use store::serial::SerialStamp;
use store::snapshot::{self, SnapshotItem, SnapshotWriter};
use wire::{Name, NameBuf, Rtype};

/// Why each key cannot be read.
pub type UnreadableKeys = BTreeMap<String, String>;

/// The zones of these keys.
pub fn zones(keys: &Keys, unreadable: &UnreadableKeys) -> BTreeSet<Vec<u8>> {
    let zones = unreadable.keys().filter_map(|key| zone_of(keys, key));
    zones.map(|zone| zone_key(zone.as_name())).collect()
}

fn zone_of(keys: &Keys, key: &str) -> Option<NameBuf> {
    match keys.read(key.as_bytes())? {
        ListedKey::Zone(origin) | ListedKey::Set(origin, ..) => Some(origin),
    }
}

/// The first of them, and what to do; `None`: there is none.
pub fn text(unreadable: &UnreadableKeys) -> Option<String> {
    let first = unreadable.iter().take(UNREADABLE_SHOWN);
    let first: Vec<String> = first.map(|(key, why)| format!("{key}: {why}")).collect();
    let more = match unreadable.len().saturating_sub(UNREADABLE_SHOWN) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    (!first.is_empty()).then(|| {
        format!(
            "keys in etcd cannot be read, and servers without a copy of their zones answer these \
             with SERVFAIL: {}{more}. Write each set again through a server that has its zone, or \
             correct the key in etcd",
            first.join(", ")
        )
    })
}

/// Gives the zones of these keys in a list (its file, revision and form) the content that the
/// replica has, if that is what was written last, or if etcd does not say when that was. Returns
/// the keys of the others.
///
/// # Errors
/// The disk.
pub fn keep_copies(
    (file, newest, form): (&Path, Revision, Form),
    keys: &Keys,
    unreadable: &UnreadableKeys,
    reader: &dyn Reader,
) -> Result<UnreadableKeys, StoreError> {
    let mut left = unreadable.clone();
    let wanted = zones(keys, &left);
    if wanted.is_empty() {
        return Ok(left);
    }
    let unread = |why: io::Error| StoreError::Failed(format!("{}: {why}", file.display()));
    let content = fs::read(file).map_err(unread)?;
    let mut kept = Vec::new();
    let mut writer = SnapshotWriter::new(&mut kept, newest, form).map_err(unread)?;
    let mut is_kept = false;
    snapshot::read(&mut &content[..], &mut |item| {
        let (origin, stamp) = match item {
            SnapshotItem::Form(_) => return Ok(()),
            SnapshotItem::Set(..) if is_kept => return Ok(()),
            SnapshotItem::Set(key, value) => return writer.set(key, value).map_err(unread),
            SnapshotItem::Zone(origin, stamp) => (origin.as_name(), stamp),
        };
        let own = match wanted.contains(&zone_key(origin)) {
            true => own_sets(reader, origin, stamp)?,
            false => None,
        };
        let own = own.filter(|(stamp, _)| stamp.revision <= newest);
        is_kept = own.is_some();
        let Some((stamp, sets)) = own else { return writer.zone(origin, stamp).map_err(unread) };
        left.retain(|key, _| zone_of(keys, key).is_none_or(|zone| zone.as_name() != origin));
        writer.zone(origin, stamp).map_err(unread)?;
        sets.iter().try_for_each(|(key, value)| writer.set(key, value)).map_err(unread)
    })?;
    writer.finish().map_err(unread)?;
    fs::write(file, kept).map_err(unread)?;
    Ok(left)
}

/// Keys and values of sets.
type RawSets = Vec<(Vec<u8>, Vec<u8>)>;

/// The sets of a zone of the replica.
fn own_sets(
    reader: &dyn Reader,
    origin: Name<'_>,
    stamp: SerialStamp,
) -> Result<Option<(SerialStamp, RawSets)>, StoreError> {
    let is_unknown = stamp == UNKNOWN_STAMP;
    let Some(zone) = reader.zone(origin)? else { return Ok(None) };
    if !is_unknown && zone.stamp != stamp {
        return Ok(None);
    }
    let mut sets = Vec::new();
    reader.scan(origin, None, &mut |_, set| {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        codec::set_key(&mut key, set.name, set.view, set.rtype);
        codec::set_value(&mut value, set.revision, &set.value.to_value());
        sets.push((key, value));
        ControlFlow::Continue(())
    })?;
    Ok((!sets.is_empty()).then_some((zone.stamp, sets)))
}

/// The stamp of a zone whose own key cannot be read.
pub const UNKNOWN_STAMP: SerialStamp = SerialStamp { revision: Revision::NONE, offset: u32::MAX };

/// Takes the changes of incomplete zones out of writes: with them, such a zone could look whole.
/// One that is deleted or created is not incomplete any more.
pub fn leave_out(writes: &mut [PreparedWrite], incomplete: &mut BTreeSet<Vec<u8>>) {
    for write in writes {
        let zone = zone_key(write.zone.as_name());
        match &mut write.action {
            Action::Change(changes) if incomplete.contains(&zone) => changes.clear(),
            Action::Change(_) => {}
            Action::Create(_) | Action::Delete(_) => drop(incomplete.remove(&zone)),
        }
    }
}

/// The zones of these keys that are incomplete in the replica: they have no SOA.
///
/// # Errors
/// The replica cannot be read.
pub fn incomplete(
    keys: &Keys,
    unreadable: &UnreadableKeys,
    reader: &dyn Reader,
) -> Result<BTreeSet<Vec<u8>>, StoreError> {
    let mut found = BTreeSet::new();
    for key in unreadable.keys() {
        let Some(zone) = zone_of(keys, key) else { continue };
        let (name, rtype, view) = (zone.clone(), Rtype::SOA, View::DEFAULT);
        let soa = SetKey { zone: zone.clone(), name, rtype, view };
        if reader.set(&soa)?.is_none() {
            found.insert(zone_key(zone.as_name()));
        }
    }
    Ok(found)
}

/// Whether etcd has a key now that it did not have, or another value, or has deleted it.
pub fn is_mended(keys: &Keys, key: &str, why: &str, value: Option<&[u8]>) -> bool {
    let Some(value) = value else { return why != MISSING };
    match keys.read(key.as_bytes()) {
        Some(ListedKey::Zone(_)) => read_zone_value(value).is_some(),
        Some(ListedKey::Set(.., rtype)) => read_stored(value, rtype).is_ok(),
        None => true,
    }
}

const MISSING: &str = "it is missing, and the zone has record sets";

/// The key of a zone that has sets and is not there, and that reason.
pub fn missing_zone(keys: &Keys, origin: &NameBuf) -> (String, String) {
    (keys.zone(origin.as_name()), MISSING.to_owned())
}
