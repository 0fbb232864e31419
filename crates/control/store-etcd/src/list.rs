//! A full list of what is in etcd, at one revision of it, as a snapshot file.
use crate::encoding;
use crate::limits::UNREADABLE_MAX;
use crate::replica::Origin;
use crate::staged::{self, Move};
use crate::unreadable::{UNKNOWN_STAMP, UnreadableKeys, missing_zone};
use crate::zone_value::read_zone_value;
use etcd_client::KeyValue;
use etcd_link::{Pages, RequestError};
use keyspace::keys::{Head, ListedKey};
use keyspace::{EtcdLink, Keys, Position};
use model::read_stored;
use records::{Action, Form, PreparedWrite, Revision, StoreError, WrittenSet};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use store::codec::{self, zone_key};
use store::serial::SerialStamp;
use store::snapshot::{self, SnapshotItem, SnapshotWriter};
use wire::{Name, NameBuf};

/// A full list.
#[derive(Clone)]
pub struct Listing {
    /// The snapshot.
    pub file: PathBuf,
    pub origin: Origin,
    pub head: Head,
    /// The newest revision of what is in it: above that of `head` if an operator has changed that.
    pub newest: Revision,
    /// How many record sets it has.
    pub sets: u64,
    /// An operator has replaced everything, so it may lack much of what was there.
    pub is_restored: bool,
    /// The revision of the last `dunlin fleet adopt`.
    pub adopted: Revision,
}

impl Listing {
    /// Why it cannot be taken as it is; `None`: it can.
    pub fn fault(&self) -> Option<String> {
        let (newest, head) = (self.newest, self.head.revision);
        (newest > head).then(|| {
            format!(
                "etcd has record sets of revision {newest}, and its newest revision is {head}: its \
                 keys were changed by hand. If they are right, run `dunlin fleet adopt`"
            )
        })
    }
}

/// A zone of the list: its sets by their keys in the snapshot.
struct ListedZone {
    origin: NameBuf,
    /// `None`: only sets of it are there so far.
    stamp: Option<SerialStamp>,
    sets: BTreeMap<Vec<u8>, Vec<u8>>,
}

#[derive(Default)]
struct Content {
    /// By `zone_key`.
    zones: BTreeMap<Vec<u8>, ListedZone>,
    /// How many keys are not Dunlin's, or damaged, and the first of them.
    foreign: usize,
    first_foreign: Option<String>,
    /// Keys of zones and sets whose values cannot be read, and their zones.
    unreadable: UnreadableKeys,
    incomplete: BTreeSet<Vec<u8>>,
}

/// Reads everything, and writes the file.
pub async fn read(link: &EtcdLink, file: &Path) -> Result<Listing, RequestError> {
    let (connection, keys) = (&link.connection, &link.keys);
    let position = Position::read(link).await?;
    let head = position.head(keys)?;
    let Position { cluster, revision: at, adopted, form, .. } = position;
    let mut content = Content::default();
    for prefix in [keys.zones(), keys.sets()] {
        let mut pages = Pages::new(&prefix, at);
        while let Some(page) = pages.next(connection).await? {
            page.kvs().iter().for_each(|kv| content.take(keys, kv));
        }
    }
    let moving = connection.find(keys.moving(), at).await?;
    if let Some(moving) = moving.and_then(|kv| Move::read(kv.value())) {
        if moving.is_snapshot() {
            let bytes = staged::read_bytes(link, moving.id, moving.parts, at).await?;
            let zones = restored(&bytes).map_err(|why| RequestError::Unusable(why.to_string()))?;
            content = Content { zones, ..Content::default() };
        } else {
            let writes = staged::read(link, moving.id, moving.parts, at).await?;
            writes.iter().for_each(|write| content.apply(write));
        }
    }
    content.find_zoneless(keys);
    let newest = connection.find(keys.commit(head.revision), at).await?;
    let commit = newest.and_then(|kv| encoding::read_commit(kv.value()).ok());
    let mut origin = Origin::new(cluster, keys, &head, commit.map(|commit| commit.id));
    origin.unreadable = std::mem::take(&mut content.unreadable);
    let newest = content.newest().max(head.revision);
    content.write(file, newest, form.unwrap_or(Form::PREVIOUS)).map_err(|why| {
        RequestError::Refused(format!("the list of what is in etcd cannot be written: {why}"))
    })?;
    if let Some(first) = &content.first_foreign {
        let keys = content.foreign;
        tracing::warn!(keys, "etcd has keys under the prefix that are ignored, such as {first}");
    }
    let sets = content.zones.values().map(|zone| zone.sets.len() as u64).sum();
    let file = file.to_owned();
    Ok(Listing { file, origin, head, newest, sets, is_restored: false, adopted })
}

/// The zones of a snapshot.
fn restored(mut snapshot: &[u8]) -> Result<BTreeMap<Vec<u8>, ListedZone>, StoreError> {
    let mut content = Content::default();
    let mut zone = NameBuf::from(Name::ROOT);
    snapshot::read(&mut snapshot, &mut |item| {
        match item {
            SnapshotItem::Form(_) => {}
            SnapshotItem::Zone(origin, stamp) => {
                zone = origin.clone();
                content.zone(origin).stamp = Some(stamp);
            }
            SnapshotItem::Set(key, value) => {
                content.zone(&zone).sets.insert(key.to_vec(), value.to_vec());
            }
        }
        Ok(())
    })?;
    Ok(content.zones)
}

impl Content {
    fn zone(&mut self, origin: &NameBuf) -> &mut ListedZone {
        let new = || ListedZone { origin: origin.clone(), stamp: None, sets: BTreeMap::new() };
        self.zones.entry(zone_key(origin.as_name())).or_insert_with(new)
    }

    fn note_foreign(&mut self, key: &[u8], why: &str) {
        self.foreign += 1;
        let text = || format!("{}: {why}", String::from_utf8_lossy(key));
        self.first_foreign.get_or_insert_with(text);
    }

    fn note_unreadable(&mut self, key: &[u8], origin: &NameBuf, why: &str) {
        self.zone(origin);
        self.incomplete.insert(zone_key(origin.as_name()));
        let key = String::from_utf8_lossy(key).into_owned();
        tracing::error!("the key {key} in etcd cannot be read: {why}");
        if self.unreadable.len() < UNREADABLE_MAX {
            self.unreadable.insert(key, why.to_owned());
        }
    }

    fn take(&mut self, keys: &Keys, kv: &KeyValue) {
        match keys.read(kv.key()) {
            None => self.note_foreign(kv.key(), "it is not a key of Dunlin"),
            Some(ListedKey::Zone(origin)) => match read_zone_value(kv.value()) {
                Some(stamp) => self.zone(&origin).stamp = Some(stamp),
                None => self.note_unreadable(kv.key(), &origin, "its value is not that of a zone"),
            },
            Some(ListedKey::Set(zone, name, view, rtype)) => match read_stored(kv.value(), rtype) {
                Ok((revision, value)) => {
                    let (mut key, mut bytes) = (Vec::new(), Vec::new());
                    codec::set_key(&mut key, &name, view, rtype);
                    codec::set_value(&mut bytes, revision, &value);
                    self.zone(&zone).sets.insert(key, bytes);
                }
                Err(why) => self.note_unreadable(kv.key(), &zone, &why),
            },
        }
    }

    /// Applies a write of a batch that is being moved.
    fn apply(&mut self, write: &PreparedWrite) {
        if write.is_deletion() || matches!(write.action, Action::Create(_)) {
            self.zones.remove(&zone_key(write.zone.as_name()));
        }
        if write.is_deletion() {
            return;
        }
        let zone = self.zone(&write.zone);
        let offset = zone.stamp.map_or(0, |stamp| stamp.offset);
        let offset = write.offset.unwrap_or(offset);
        zone.stamp = Some(SerialStamp { revision: write.revision, offset });
        for WrittenSet { name, rtype, view, after, .. } in write.changes() {
            let (mut key, mut bytes) = (Vec::new(), Vec::new());
            codec::set_key(&mut key, name, *view, *rtype);
            match after {
                None => drop(zone.sets.remove(&key)),
                Some(value) => {
                    codec::set_value(&mut bytes, write.revision, value);
                    zone.sets.insert(key, bytes);
                }
            }
        }
    }

    /// Finds zones whose own keys are not there, or cannot be read.
    fn find_zoneless(&mut self, keys: &Keys) {
        let zoneless = self.zones.values_mut().filter(|zone| zone.stamp.is_none());
        let mut missing = Vec::new();
        for zone in zoneless {
            zone.stamp = Some(UNKNOWN_STAMP);
            if !self.incomplete.contains(&zone_key(zone.origin.as_name())) {
                missing.push(zone.origin.clone());
            }
        }
        for origin in missing {
            let (key, why) = missing_zone(keys, &origin);
            self.note_unreadable(key.as_bytes(), &origin, &why);
        }
    }

    /// The newest revision of a zone or a set.
    fn newest(&self) -> Revision {
        let zones = self.zones.values().filter_map(|zone| zone.stamp);
        let sets = self.zones.values().flat_map(|zone| zone.sets.values());
        let sets = sets.filter_map(|value| codec::read_value(value).ok());
        let newest = sets.map(|(revision, _)| revision).max();
        zones.map(|stamp| stamp.revision).max().max(newest).unwrap_or(Revision::NONE)
    }

    fn write(&self, file: &Path, newest: Revision, form: Form) -> io::Result<()> {
        let mut to = BufWriter::new(File::create(file)?);
        let mut writer = SnapshotWriter::new(&mut to, newest, form)?;
        for zone in self.zones.values() {
            let origin: Name<'_> = zone.origin.as_name();
            let Some(stamp) = zone.stamp else { continue };
            writer.zone(origin, stamp)?;
            // Without its SOA it cannot be taken for whole.
            if self.incomplete.contains(&zone_key(origin)) {
                continue;
            }
            zone.sets.iter().try_for_each(|(key, value)| writer.set(key, value))?;
        }
        writer.finish()
    }
}
