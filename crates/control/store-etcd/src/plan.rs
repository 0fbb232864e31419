//! The changes of keys that a commit needs.
use crate::zone_value::ZoneValue;
use etcd_client::TxnOp;
use etcd_link::delete_all;
use etcd_link::limits::{OPS_MAX, TRANSACTION_BYTES_MAX};
use keyspace::Keys;
use model::write_stored;
use records::{PreparedWrite, StoreError};
use std::collections::BTreeMap;
use store::codec;
use store::serial::SerialStamp;
use store::snapshot::{self, SnapshotItem};
use wire::{Name, NameBuf};

/// The changes of a transaction. No two concern the same key, because etcd refuses that.
#[derive(Default)]
pub struct KeyChanges {
    /// New values by key; `None`: the key is deleted.
    changed: BTreeMap<String, Option<Vec<u8>>>,
    /// Prefixes of deleted keys, before which the rest was cleared.
    deleted: Vec<String>,
    bytes: usize,
}

impl KeyChanges {
    fn put(&mut self, key: String, value: Option<Vec<u8>>) {
        self.bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        self.changed.insert(key, value);
    }

    fn put_zone(&mut self, key: String, stamp: SerialStamp) {
        self.put(key, serde_json::to_vec(&ZoneValue::from(stamp)).ok());
    }

    fn is_full(&self) -> bool {
        self.changed.len() + self.deleted.len() >= OPS_MAX || self.bytes >= TRANSACTION_BYTES_MAX
    }

    fn has_prefix(&self, prefix: &str) -> bool {
        self.deleted.iter().any(|deleted| deleted == prefix)
    }

    /// Approximate bytes of the keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The operations.
    pub fn ops(&self) -> Vec<TxnOp> {
        let changed = self.changed.iter().map(|(key, value)| match value {
            Some(value) => TxnOp::put(key.as_str(), value.clone(), None),
            None => TxnOp::delete(key.as_str(), None),
        });
        let deleted = self.deleted.iter().map(|key| delete_all(key.as_str()));
        changed.chain(deleted).collect()
    }
}

/// The changes that replace everything by a snapshot, in order.
///
/// # Errors
/// The snapshot is invalid.
pub fn replacement(keys: &Keys, mut snapshot: &[u8]) -> Result<Vec<KeyChanges>, StoreError> {
    let first = KeyChanges { deleted: vec![keys.zones(), keys.sets()], ..KeyChanges::default() };
    let (mut all, mut now) = (vec![first], KeyChanges::default());
    let (mut zone, mut name) = (NameBuf::from(Name::ROOT), Vec::new());
    snapshot::read(&mut snapshot, &mut |item| {
        if now.is_full() {
            all.push(std::mem::take(&mut now));
        }
        match item {
            SnapshotItem::Form(_) => {}
            SnapshotItem::Zone(origin, stamp) => {
                zone = origin.clone();
                now.put_zone(keys.zone(zone.as_name()), stamp);
            }
            SnapshotItem::Set(key, value) => {
                let (view, rtype) = codec::read_key(key, &mut name)?;
                let (revision, content) = codec::read_value(value)?;
                let json = write_stored(rtype, revision, &content.to_value());
                now.put(keys.set(zone.as_name(), &name, view, rtype), Some(json));
            }
        }
        Ok(())
    })?;
    all.push(now);
    Ok(all)
}

/// The changes of keys of these writes: transactions in the order in which they must be applied.
/// Each write has its offset, so they depend on nothing else.
pub fn changes(keys: &Keys, writes: &[PreparedWrite]) -> Vec<KeyChanges> {
    let (mut all, mut now) = (Vec::new(), KeyChanges::default());
    for write in writes {
        let zone = write.zone.as_name();
        let (zone_key, sets) = (keys.zone(zone), keys.sets_of(zone));
        if write.is_deletion() {
            if !now.changed.is_empty() || !now.deleted.is_empty() {
                all.push(std::mem::take(&mut now));
            }
            now.put(zone_key, None);
            now.deleted.push(sets);
            continue;
        }
        if now.has_prefix(&sets) {
            all.push(std::mem::take(&mut now));
        }
        let offset = write.offset.unwrap_or_default();
        let stamp = SerialStamp { revision: write.revision, offset };
        now.put_zone(zone_key, stamp);
        for change in write.changes() {
            if now.is_full() {
                all.push(std::mem::take(&mut now));
            }
            let key = keys.set(zone, &change.name, change.view, change.rtype);
            let value = change.after.as_ref();
            now.put(key, value.map(|value| write_stored(change.rtype, write.revision, value)));
        }
        if now.is_full() {
            all.push(std::mem::take(&mut now));
        }
    }
    if !now.changed.is_empty() || !now.deleted.is_empty() {
        all.push(now);
    }
    all
}
