//! The replica: a store on the disk of this server, and the file that says what it is a copy of.
use crate::encoding;
use crate::limits::UNSAVED_BYTES_MAX;
use crate::unreadable::{self, UnreadableKeys};
use durable::files::Folder;
use etcd_link::limits::OPS_MAX;
use keyspace::keys::Head;
use keyspace::{Keys, ORIGIN, replica_folder};
use records::limits::GROUP_EDITS_MAX;
use records::{Commit, CommitError, CommitId, PreparedWrite, Reader, Revision, Store, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store_redb::RedbStore;

/// The folder in it with the files of one that could not be used.
const UNUSABLE: &str = "unusable";

/// The etcd that a replica is a copy of. Written after a full list.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// 1: this form.
    format: u32,
    /// The ID of the cluster in hexadecimal, as `etcdctl` shows it.
    pub cluster: String,
    /// The prefix of the keys.
    pub prefix: String,
    /// The revision of the list.
    pub revision: u64,
    /// Its commit, if etcd still had it.
    pub commit: Option<String>,
    /// The value of the key `revision`, if there was one.
    pub head: Option<String>,
    /// Keys of zones and sets that could not be read.
    #[serde(default, skip_serializing_if = "UnreadableKeys::is_empty")]
    pub unreadable: UnreadableKeys,
}

impl Origin {
    pub fn new(cluster: String, keys: &Keys, head: &Head, commit: Option<CommitId>) -> Self {
        let commit = commit.map(|id| id.to_string());
        let prefix = keys.prefix().to_owned();
        let Head { revision, value } = head.clone();
        let (revision, unreadable) = (revision.0, UnreadableKeys::new());
        Self { format: 1, cluster, prefix, revision, commit, head: value, unreadable }
    }

    /// Its commit.
    pub fn commit(&self) -> Option<CommitId> {
        let id = u128::from_str_radix(self.commit.as_deref()?, 16);
        id.ok().map(CommitId)
    }
}

/// The file with the last commit, if the journal cannot tell which one it was.
const LAST: &str = "last-commit.json";

/// Its content.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LastCommit {
    /// 1: this form.
    format: u32,
    revision: u64,
    commit: String,
}

/// The replica.
pub struct Replica {
    pub store: RedbStore,
    folder: PathBuf,
    /// What it is a copy of; `None`: it was never filled.
    pub origin: Option<Origin>,
    /// The zones that are incomplete, by `zone_key`.
    incomplete: BTreeSet<Vec<u8>>,
    unsaved: Unsaved,
}

/// Commits that are in etcd and are served, and that the disk did not take, in order.
#[derive(Default)]
struct Unsaved {
    groups: VecDeque<Commit>,
    /// The bytes that they have encoded.
    bytes: usize,
    /// Why.
    why: Option<StoreError>,
}

impl Unsaved {
    /// Whether there is room for a commit. Otherwise it is left in etcd.
    fn add(&mut self, commit: Commit, why: StoreError) -> bool {
        let bytes = encoding::writes(&commit.writes).len();
        let has_room = self.bytes + bytes <= UNSAVED_BYTES_MAX;
        if has_room {
            self.bytes += bytes;
            self.why = Some(why);
            match self.groups.back_mut() {
                Some(last) if edits(last) < GROUP_EDITS_MAX => join(last, commit),
                _ => self.groups.push_back(commit),
            }
        }
        has_room
    }
}

/// How many sets a commit changes.
pub fn edits(commit: &Commit) -> usize {
    commit.writes.iter().map(|write| write.changes().len()).sum()
}

/// Joins a commit to the one before it.
pub fn join(commit: &mut Commit, next: Commit) {
    commit.id = next.id;
    commit.writes.extend(next.writes);
}

impl Replica {
    /// The replica in this folder, not yet open.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn closed(data_dir: &Path) -> Result<Self, StoreError> {
        let folder = replica_folder(data_dir);
        fs::create_dir_all(&folder)
            .map_err(|why| StoreError::Failed(format!("{}: {why}", folder.display())))?;
        let (store, unsaved) = (RedbStore::closed(&folder)?, Unsaved::default());
        Ok(Self { store, folder, origin: None, incomplete: BTreeSet::new(), unsaved })
    }

    /// Opens it.
    ///
    /// # Errors
    /// It cannot be opened, or is a copy of another prefix. [`StoreError::Damaged`]: it may be [set
    /// aside](Self::set_aside), because etcd is authoritative.
    pub fn open(&mut self, keys: &Keys, waits: bool) -> Result<(), StoreError> {
        if waits {
            self.store.open()?
        } else {
            self.store.open_now()?
        };
        self.origin = self.read_origin()?;
        self.find_incomplete(keys)?;
        match &self.origin {
            Some(origin) if origin.prefix != keys.prefix() => Err(StoreError::Failed(format!(
                "{} is a copy of the prefix {}, and `[etcd] prefix` is {}: set it back, or remove \
                 the folder",
                self.folder.display(),
                origin.prefix,
                keys.prefix()
            ))),
            _ => Ok(()),
        }
    }

    /// Finds out which zones are incomplete.
    ///
    /// # Errors
    /// The disk.
    pub fn find_incomplete(&mut self, keys: &Keys) -> Result<(), StoreError> {
        if let Some(origin) = &self.origin {
            let reader = self.store.reader();
            self.incomplete = unreadable::incomplete(keys, &origin.unreadable, &*reader)?;
        }
        Ok(())
    }

    fn read_origin(&self) -> Result<Option<Origin>, StoreError> {
        let path = self.folder.join(ORIGIN);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|why| StoreError::Damaged(format!("{}: {why}", path.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::Failed(format!("{}: {error}", path.display()))),
        }
    }

    /// What an unusable one is a copy of: its cluster, and a revision that it had.
    pub fn told_origin(&self) -> Option<(String, Revision)> {
        let origin = self.read_origin().ok().flatten()?;
        Some((origin.cluster, Revision(origin.revision)))
    }

    /// Moves its files to a folder beside them, in place of those that are there.
    ///
    /// # Errors
    /// The disk.
    pub fn set_aside(&mut self) -> Result<(), StoreError> {
        self.store.close();
        self.origin = None;
        let aside = self.folder.join(UNUSABLE);
        let moved = fs::create_dir_all(&aside).and_then(|()| {
            for file in ["records.redb", "records.wal", ORIGIN, LAST] {
                match fs::rename(self.folder.join(file), aside.join(file)) {
                    Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
                    _ => {}
                }
            }
            Ok(())
        });
        moved.map_err(|why| StoreError::Failed(format!("{}: {why}", aside.display())))
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the task that follows etcd writes a full list.
    pub fn list_path(&self) -> PathBuf {
        self.folder.join("list.tmp")
    }

    /// Where one is written that an operator has asked for. That task may write its own then.
    pub fn asked_list_path(&self) -> PathBuf {
        self.folder.join("asked-list.tmp")
    }

    /// Replaces the content by a full list, revisions included.
    ///
    /// # Errors
    /// As [`Store::restore`].
    pub fn replace(&mut self, list: &Path, origin: Origin) -> Result<(), StoreError> {
        let unread = |why: io::Error| StoreError::Failed(format!("{}: {why}", list.display()));
        let mut file = io::BufReader::new(File::open(list).map_err(unread)?);
        self.store.replace_by(&mut file)?;
        self.unsaved = Unsaved::default();
        // The list is only an intermediate file.
        let _ = fs::remove_file(list);
        self.write_origin(origin)
    }

    /// Notes what the content is a copy of.
    fn write_origin(&mut self, origin: Origin) -> Result<(), StoreError> {
        self.write(ORIGIN, &serde_json::to_vec(&origin).unwrap_or_default())?;
        self.origin = Some(origin);
        Ok(())
    }

    fn write(&self, name: &str, text: &[u8]) -> Result<(), StoreError> {
        let written = Folder::open(&self.folder)
            .and_then(|folder| folder.replace(Path::new(name), 0o640, |file| file.write_all(text)));
        written.map_err(|why| match why.kind() {
            io::ErrorKind::StorageFull => StoreError::Full,
            _ => StoreError::Failed(format!("{}: {why}", self.folder.join(name).display())),
        })
    }

    /// The commit of this revision, if it is not saved, or the file has it.
    pub fn last_commit(&self, revision: Revision) -> Option<CommitId> {
        if let Some(last) = self.unsaved.groups.back() {
            return (last.revision() == revision).then_some(last.id);
        }
        let bytes = fs::read(self.folder.join(LAST)).ok()?;
        let last: LastCommit = serde_json::from_slice(&bytes).ok()?;
        let id = u128::from_str_radix(&last.commit, 16).ok()?;
        (last.format == 1 && last.revision == revision.0).then_some(CommitId(id))
    }

    /// The revision of its content, with what is not saved.
    pub fn revision(&mut self) -> Result<Revision, StoreError> {
        self.unsaved.groups.back().map_or_else(|| self.store.newest(), |last| Ok(last.revision()))
    }

    /// The revision of its content, read from this revision on: what is not saved comes again.
    pub fn revision_from(&mut self, from: Revision) -> Result<Revision, StoreError> {
        if self.unsaved.groups.back().is_some_and(|last| last.revision() != from) {
            self.unsaved = Unsaved::default();
        }
        self.revision()
    }

    /// Whether everything is saved.
    ///
    /// # Errors
    /// Why not.
    pub fn check_saved(&self) -> Result<(), StoreError> {
        self.unsaved.why.clone().map_or(Ok(()), Err)
    }

    /// Takes in a commit that is in etcd: saves it, or keeps it until the disk takes it.
    ///
    /// # Errors
    /// The disk, and there is no room for the commit in memory; or [`CommitError::Conflict`]: the
    /// commit does not follow the content.
    pub fn take(&mut self, commit: &Commit) -> Result<(), CommitError> {
        let newest = self.revision().map_err(CommitError::Refused)?;
        if newest != commit.base {
            return Err(CommitError::Conflict { newest });
        }
        let why = match self.check_saved() {
            Err(why) => why,
            Ok(()) => match self.save(commit.clone()) {
                Err(CommitError::Refused(why) | CommitError::Unknown(why)) => why,
                saved => return saved,
            },
        };
        match self.unsaved.add(commit.clone(), why.clone()) {
            true => Ok(()),
            false => Err(CommitError::Refused(why)),
        }
    }

    /// Saves what was not.
    ///
    /// # Errors
    /// The disk still refuses it.
    pub fn save_kept(&mut self) -> Result<(), StoreError> {
        while let Some(next) = self.unsaved.groups.front() {
            let saved = match self.store.newest()? {
                newest if newest >= next.revision() => Ok(()),
                _ => self.save(next.clone()),
            };
            match saved {
                Ok(()) => drop(self.unsaved.groups.pop_front()),
                Err(CommitError::Refused(why) | CommitError::Unknown(why)) => return Err(why),
                // Another process has written the files meanwhile: etcd has what is missing.
                Err(CommitError::Conflict { .. }) => self.unsaved.groups.clear(),
            }
        }
        self.unsaved = Unsaved::default();
        Ok(())
    }

    /// Saves a commit that is in etcd.
    fn save(&mut self, mut commit: Commit) -> Result<(), CommitError> {
        if !self.incomplete.is_empty() {
            unreadable::leave_out(&mut commit.writes, &mut self.incomplete);
        }
        // The journal of a deleted zone is not found again, and the parts of a large commit are
        // compacted.
        let is_lost = commit.writes.last().is_some_and(PreparedWrite::is_deletion);
        let id = (is_lost || edits(&commit) > OPS_MAX).then_some(commit.id);
        // The fleet has a form that holds it, so the copy may have it, too.
        self.store.raise(commit.form()).map_err(CommitError::Refused)?;
        let revision = self.store.commit_and_look_up(commit)?;
        if let Some(id) = id {
            let last = LastCommit { format: 1, revision: revision.0, commit: id.to_string() };
            let text = serde_json::to_vec(&last).unwrap_or_default();
            // It is in the store: without the file, a restart reads everything.
            if let Err(why) = self.write(LAST, &text) {
                tracing::warn!("{why}");
            }
        }
        Ok(())
    }

    pub fn reader(&self) -> Arc<dyn Reader> {
        self.store.reader()
    }
}
