//! Replaces everything: by a snapshot, or by what an operator accepts.
use super::{EtcdStore, adopt, store_error};
use crate::commit::{self, Committed};
use crate::commit_lock::CommitLock;
use crate::encoding::{CommitName, Link, NO_COMMIT};
use crate::limits::REVISIONS_ADOPTED;
use crate::unreadable;
use etcd_client::TxnOp;
use etcd_link::RequestError;
use keyspace::keys::Head;
use records::{CommitId, Form, Revision, StoreError};
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;
use store::codec::zone_key;
use store::serial::SerialStamp;
use store::snapshot::{self, SnapshotItem, SnapshotWriter};

impl EtcdStore {
    /// Replaces everything while no other server commits.
    pub(super) fn locking_out_others(
        &mut self,
        replace: impl FnOnce(&mut Self) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let link = Arc::clone(&self.shared.link);
        let lock = link.runtime.block_on(CommitLock::take(&link)).map_err(store_error)?;
        let replaced = replace(self);
        // Before the next write of this server, too.
        link.runtime.block_on(lock.end());
        replaced
    }

    /// Writes what etcd has as a new commit.
    pub(super) fn adopt_by_writing(&mut self) -> Result<(), StoreError> {
        let listing = self.list()?;
        let keys = &self.shared.link.keys;
        let reader = self.replica().reader();
        let known = self.replica().revision()?.max(listing.newest);
        let list = (&*listing.file, known, self.shared.form());
        let left = unreadable::keep_copies(list, keys, &listing.origin.unreadable, &*reader)?;
        if let Some((key, why)) = left.first_key_value() {
            return Err(StoreError::Failed(format!(
                "the key {key} in etcd cannot be read: {why}. Its zone would be lost: adopt on a \
                 server that has the zone, or correct or delete the key first"
            )));
        }
        let file = &listing.file;
        let unread = |why: std::io::Error| StoreError::Failed(format!("{}: {why}", file.display()));
        let content = std::fs::read(file).map_err(unread)?;
        // Other servers may have served newer revisions, which are in no etcd any more.
        let revision = Revision(known.0.saturating_add(REVISIONS_ADOPTED));
        self.replace_all(&mut &content[..], revision, listing.head, true)
    }

    /// Replaces everything in etcd, and the replica, by a snapshot at this revision or above. An
    /// adopted one tells the other servers so.
    pub(super) fn replace_all(
        &mut self,
        from: &mut dyn Read,
        revision: Revision,
        head: Head,
        is_adopted: bool,
    ) -> Result<(), StoreError> {
        self.replica().check_saved()?;
        let reader = self.replica().reader();
        let before: BTreeMap<Vec<u8>, SerialStamp> = reader
            .zones()?
            .into_iter()
            .map(|zone| (zone_key(zone.origin.as_name()), zone.stamp))
            .collect();
        let form = self.shared.form();
        let least = revision.max(head.revision.next());
        let (revision, snapshot) = restamped(from, (least, form), &before)?;
        let nonce = CommitId(fastrand::u128(..));
        // An operator begins a new history by an adoption.
        let before = match is_adopted {
            true => NO_COMMIT,
            false => self.shared.last_commit(head.revision)?,
        };
        let link = Link { before, nonce };
        let name = CommitName::new(link, head.revision, revision, &snapshot);
        let adopted = TxnOp::put(self.shared.link.keys.adopted(), revision.to_string(), None);
        let also = if is_adopted { vec![adopted] } else { Vec::new() };
        let replacing = commit::replace(&self.shared, name, head, &snapshot, also);
        let runtime = &self.shared.link.runtime;
        let done = match runtime.block_on(replacing) {
            Err(RequestError::Unanswered(why)) => {
                match runtime.block_on(commit::outcome(&self.shared, name)) {
                    Ok(Some(_)) => Ok(Committed::Done),
                    Ok(None) => Err(RequestError::Refused(why)),
                    Err(_) => Err(RequestError::Unanswered(format!(
                        "outcome unknown, id {nonce}: {why}; see the revision of the store before \
                         you repeat it"
                    ))),
                }
            }
            done => done,
        };
        match done.map_err(store_error)? {
            Committed::Done => (),
            Committed::Conflict { .. } => {
                let why = "another server has just written: try again".to_owned();
                return Err(StoreError::Unreachable(why));
            }
        }
        let listing = self.list()?;
        adopt(&self.shared, &mut self.replica(), listing)
    }
}

/// A snapshot as a write of this revision or above, in this form: serials are newer than before.
///
/// # Errors
/// It is invalid, or [`StoreError::Form`]: it needs a newer form.
fn restamped(
    from: &mut dyn Read,
    (revision, form): (Revision, Form),
    before: &BTreeMap<Vec<u8>, SerialStamp>,
) -> Result<(Revision, Vec<u8>), StoreError> {
    let unwritten = |why: std::io::Error| StoreError::Failed(format!("the snapshot: {why}"));
    let (mut content, mut bytes) = (Vec::new(), Vec::new());
    from.read_to_end(&mut content).map_err(unwritten)?;
    let newest = snapshot::read(&mut &content[..], &mut |item| match item {
        SnapshotItem::Form(needed) => form.check_need(needed).map_err(StoreError::Form),
        _ => Ok(()),
    })?;
    let revision = revision.max(newest.next());
    let mut writer = SnapshotWriter::new(&mut bytes, revision, form).map_err(unwritten)?;
    snapshot::read(&mut &content[..], &mut |item| {
        let written = match item {
            SnapshotItem::Form(_) => Ok(()),
            SnapshotItem::Zone(origin, stamp) => {
                let origin = origin.as_name();
                let before = before.get(&zone_key(origin)).copied();
                writer.zone(origin, stamp.restored(revision, before))
            }
            SnapshotItem::Set(key, value) => writer.set(key, value),
        };
        written.map_err(unwritten)
    })?;
    writer.finish().map_err(unwritten)?;
    Ok((revision, bytes))
}
