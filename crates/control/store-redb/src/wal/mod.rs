//! The write-ahead log: groups of writes that are durable, and not yet in the tree.
//!
//! ```text
//! file     two copies of the header, in a block each; then segments of SEGMENT bytes, which
//!          alternate between two halves: one half is written from its start while the other is
//!          checkpointed into the tree
//! header   magic (16), form (8), store (16), change (8), bytes in use (8), a revision known to be
//!          in the tree (8), checksum (8)
//! group    at a multiple of BLOCK, in sectors: bytes of its writes (4), writes as in
//!          `store::codec`
//! sector   checksum of the rest and of its offset (8), sequence number of the group (8), last
//!          revision of the group (8), the next bytes of the group
//! ```
//! The used part of the file has only sectors; blank ones have the sequence number 0. Groups after
//! the last one of a half are older, as their sequence numbers show.
mod header;
mod sector;
#[cfg(test)]
mod tests;

use crate::limits::{GROWN_BY, GROWN_FROM, HALF_BYTES, SEGMENT_BYTES};
use crate::store_error;
use header::{HEADER_LEN, LogHeader};
use redb::StorageBackend;
use sector::{PAYLOAD, SECTOR, SectorOwner};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use store::codec;
use store::{PreparedWrite, Revision, StoreError};

/// Groups share no block, so that an incomplete write cannot damage another group.
const BLOCK: usize = 4096;

/// The key of a store, used for checksums of its log.
pub type StoreKey = [u64; 2];

/// An open log.
#[derive(Debug)]
pub struct Wal {
    file: Box<dyn StorageBackend>,
    state: Mutex<WalState>,
}

#[derive(Debug)]
struct WalState {
    header: LogHeader,
    /// Whether a copy of the header must be written again.
    is_worn: bool,
    /// The sequence number of the last group.
    sequence: u64,
}

/// An encoded group.
pub struct WalGroup {
    stream: Vec<u8>,
    revision: u64,
}

impl WalGroup {
    /// Encodes these writes as a group.
    pub fn new(writes: &[PreparedWrite]) -> Self {
        let mut stream = vec![0; 4];
        writes.iter().for_each(|write| codec::write(&mut stream, write));
        let len = (stream.len() as u32 - 4).to_le_bytes();
        stream[..4].copy_from_slice(&len);
        Self { stream, revision: writes.last().map_or(0, |write| write.revision.0) }
    }

    /// Its size in bytes.
    pub fn len(&self) -> u64 {
        extent(self.stream.len()) as u64
    }
}

/// Bytes of a stream in sectors, in whole blocks.
fn extent(stream: usize) -> usize {
    (stream.div_ceil(PAYLOAD) * SECTOR).next_multiple_of(BLOCK)
}

/// The writes of a log that are not in its tree.
#[derive(Debug, Default)]
pub struct LogTail {
    /// In order, without gaps.
    pub writes: Vec<PreparedWrite>,
    /// The sequence number of the newest group.
    pub sequence: u64,
}

/// What the tree has of the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct TreeProgress {
    /// The newest revision.
    pub revision: Revision,
    /// The sequence number of the newest group.
    pub sequence: u64,
}

fn unread(error: io::Error) -> StoreError {
    store_error(error.into())
}

fn damaged(why: &str) -> StoreError {
    StoreError::Damaged(why.into())
}

/// The file offset of a byte of a half.
fn place(half: u64, at: u64) -> u64 {
    HEADER_LEN + (2 * (at / SEGMENT_BYTES) + half) * SEGMENT_BYTES + at % SEGMENT_BYTES
}

impl Wal {
    /// Creates a log in an empty file, for a tree with this revision.
    pub fn create(
        file: Box<dyn StorageBackend>,
        store: StoreKey,
        in_tree: Revision,
    ) -> io::Result<Self> {
        let header = LogHeader::new(store, in_tree);
        file.set_len(HEADER_LEN)?;
        header.write(&*file)?;
        file.sync_data()?;
        let state = Mutex::new(WalState { header, is_worn: false, sequence: 0 });
        Ok(Self { file, state })
    }

    /// Opens the log of a store, without writing.
    ///
    /// # Errors
    /// The log is damaged, truncated, another store's, or of a newer version.
    pub fn open(
        file: Box<dyn StorageBackend>,
        store: Option<StoreKey>,
    ) -> Result<Self, StoreError> {
        let wal = Self::of_damaged(file, store)?;
        let (len, expected) = (wal.file.len().map_err(unread)?, wal.header().len);
        if len < expected {
            let lost = expected - len;
            return Err(damaged(&format!("it was cut off: its last {lost} bytes are missing")));
        }
        Ok(wal)
    }

    /// Opens the log of a store, which may be truncated.
    ///
    /// # Errors
    /// The header is damaged, another store's, or of a newer version.
    pub fn of_damaged(
        file: Box<dyn StorageBackend>,
        store: Option<StoreKey>,
    ) -> Result<Self, StoreError> {
        let (header, is_worn) = LogHeader::read(&*file)?;
        if store.is_some_and(|store| store != header.store) {
            return Err(damaged("it belongs to another store than records.redb beside it"));
        }
        let state = Mutex::new(WalState { header, is_worn, sequence: 0 });
        Ok(Self { file, state })
    }

    fn state(&self) -> MutexGuard<'_, WalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of the header.
    pub fn header(&self) -> LogHeader {
        self.state().header
    }

    /// The newest revision in the log.
    pub fn newest(&self) -> Revision {
        let header = self.header();
        let marks = self.bytes().map(|bytes| Sectors::new(&bytes, header.store).marks);
        let marks = marks.unwrap_or_default();
        let newest = marks.into_iter().flatten().map(|mark| Revision(mark.revision)).max();
        newest.map_or(header.in_tree, |newest| newest.max(header.in_tree))
    }

    /// Whether the log is probably unused.
    pub fn is_new(&self) -> bool {
        let header = self.header();
        let marks = self.bytes().map(|bytes| Sectors::new(&bytes, header.store).marks);
        let is_blank = |mark: &Option<SectorOwner>| *mark == Some(SectorOwner::default());
        header.in_tree == Revision::NONE && marks.is_ok_and(|marks| marks.iter().all(is_blank))
    }

    /// Writes a group into a half, after `at` bytes, and syncs it. Returns its sequence number.
    pub fn append(&self, half: u64, at: u64, group: &WalGroup) -> io::Result<u64> {
        let mut state = self.state();
        state.sequence += 1;
        self.grow(&mut state, place(half, at + group.len() - 1) + 1)?;
        let mark = SectorOwner { sequence: state.sequence, revision: group.revision };
        let (mut payloads, end) = (group.stream.chunks(PAYLOAD), at + group.len());
        let mut from = at;
        while from < end {
            // The part in one segment is written at once.
            let to = end.min((from / SEGMENT_BYTES + 1) * SEGMENT_BYTES);
            let start = place(half, from);
            let mut bytes = vec![0; (to - from) as usize];
            for (n, sector) in bytes.chunks_exact_mut(SECTOR).enumerate() {
                let payload = payloads.next().unwrap_or_default();
                let at = start + (n * SECTOR) as u64;
                sector::seal(sector, state.header.store, at, mark, payload);
            }
            self.file.write(start, &bytes)?;
            from = to;
        }
        self.file.sync_data()?;
        Ok(mark.sequence)
    }

    /// Extends the used part of the file: writes blank sectors, then the header, each synced. Later
    /// writes there need no sync of the file's metadata.
    fn grow(&self, state: &mut WalState, needed: u64) -> io::Result<()> {
        let before = state.header.len;
        if needed <= before {
            return Ok(());
        }
        // A small log fits a small disk; a large one should rarely grow.
        let step = if before < GROWN_FROM { SEGMENT_BYTES } else { GROWN_BY };
        let len = HEADER_LEN + (needed - HEADER_LEN).next_multiple_of(step);
        let mut blank = vec![0; (len - before) as usize];
        for (n, sector) in blank.chunks_exact_mut(SECTOR).enumerate() {
            let at = before + (n * SECTOR) as u64;
            sector::seal(sector, state.header.store, at, SectorOwner::default(), &[]);
        }
        let grown = self.file.set_len(len).and_then(|()| self.file.write(before, &blank));
        if let Err(why) = grown {
            // Free the unused space.
            let _ = self.file.set_len(before);
            return Err(why);
        }
        self.file.sync_data()?;
        self.put(state, |header| header.len = len)
    }

    /// Changes the header, and syncs it.
    fn put(&self, state: &mut WalState, change: impl FnOnce(&mut LogHeader)) -> io::Result<()> {
        let mut header = state.header;
        change(&mut header);
        header.change += 1;
        header.write(&*self.file)?;
        self.file.sync_data()?;
        (state.header, state.is_worn) = (header, false);
        Ok(())
    }

    /// Syncs everything: a killed process may have left writes unsynced.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Records the revision of the tree, when groups do not.
    pub fn note(&self, in_tree: Revision) -> io::Result<()> {
        let mut state = self.state();
        if state.header.in_tree >= in_tree && !state.is_worn {
            return Ok(());
        }
        self.put(&mut state, |header| header.in_tree = header.in_tree.max(in_tree))
    }

    /// All writes that are not in the tree. Afterwards groups can be appended.
    ///
    /// # Errors
    /// The log cannot be read, or is incomplete.
    pub fn behind(&self, tree: TreeProgress) -> Result<LogTail, StoreError> {
        let read = self.read(tree.revision)?;
        if let Some(why) = read.damage.first() {
            return Err(StoreError::Damaged(why.clone()));
        }
        self.state().sequence = read.sequence.max(tree.sequence);
        if read.sequence < tree.sequence {
            return Err(damaged(
                "it is older than records.redb beside it: writes that came after it are missing",
            ));
        }
        let revisions = read.writes.iter().map(|write| write.revision);
        let revisions: Vec<_> = std::iter::once(tree.revision).chain(revisions).collect();
        let newest = read.writes.last().map_or(tree.revision, |write| write.revision);
        if let Some([one, next]) = revisions.array_windows().find(|[one, next]| *next != one.next())
        {
            return Err(StoreError::Damaged(format!(
                "the writes between the revisions {one} and {next} are missing: it and \
                 records.redb beside it are not of the same moment"
            )));
        }
        let known = self.header().in_tree;
        if newest < known {
            return Err(StoreError::Damaged(format!(
                "records.redb beside it ends at revision {newest}, but had revision {known}: it \
                 was put back to what it was before"
            )));
        }
        Ok(LogTail { writes: read.writes, sequence: read.sequence })
    }

    /// The used sectors, as far as they exist.
    fn bytes(&self) -> io::Result<Vec<u8>> {
        let len = self.header().len.min(self.file.len()?);
        let mut bytes = vec![0; len.saturating_sub(HEADER_LEN) as usize];
        self.file.read(HEADER_LEN, &mut bytes)?;
        Ok(bytes)
    }

    /// Everything readable, even if damaged.
    pub fn read(&self, tree: Revision) -> Result<LogContents, StoreError> {
        let bytes = self.bytes().map_err(unread)?;
        let sectors = Sectors::new(&bytes, self.header().store);
        let mut read = LogContents { sequence: sectors.newest(), ..LogContents::default() };
        for half in 0..2 {
            sectors.half(half, tree, &mut read);
        }
        read.writes.sort_by_key(|write| write.revision);
        Ok(read)
    }
}

/// The readable content of a log.
#[derive(Debug, Default)]
pub struct LogContents {
    /// Writes that are not in the tree, in order.
    pub writes: Vec<PreparedWrite>,
    /// The newest sequence number.
    sequence: u64,
    /// The damage, a sentence each.
    pub damage: Vec<String>,
}

/// The used sectors of a log.
struct Sectors<'b> {
    bytes: &'b [u8],
    /// In the order of the file; `None`: damaged.
    marks: Vec<Option<SectorOwner>>,
}

impl<'b> Sectors<'b> {
    fn new(bytes: &'b [u8], key: StoreKey) -> Self {
        let sectors = bytes.chunks_exact(SECTOR).enumerate();
        let marks = sectors.map(|(n, sector)| {
            let at = HEADER_LEN + (n * SECTOR) as u64;
            sector::open(sector, key, at).map(|(mark, _)| mark)
        });
        Self { bytes, marks: marks.collect() }
    }

    fn newest(&self) -> u64 {
        self.marks.iter().flatten().map(|mark| mark.sequence).max().unwrap_or(0)
    }

    /// The index of a sector of a half.
    fn index(half: u64, at: u64) -> usize {
        ((place(half, at) - HEADER_LEN) / SECTOR as u64) as usize
    }

    /// The marks of a range of a half; `None`: it ends before.
    fn marks(&self, half: u64, at: u64, bytes: usize) -> Option<Vec<Option<SectorOwner>>> {
        let each = (at..at + bytes as u64).step_by(SECTOR);
        each.map(|at| self.marks.get(Self::index(half, at)).copied()).collect()
    }

    fn payload(&self, half: u64, at: u64) -> &'b [u8] {
        let start = Self::index(half, at) * SECTOR;
        &self.bytes[start + SECTOR - PAYLOAD..start + SECTOR]
    }

    /// Collects the writes of a half after a revision that ends a half, from groups with ascending
    /// sequence numbers. A group with older sectors in it was not completed, and never answered.
    fn half(&self, half: u64, tree: Revision, read: &mut LogContents) {
        let (mut last, mut at) = (0, 0);
        while at < HALF_BYTES {
            let Some(block) = self.marks(half, at, BLOCK) else { return };
            let is_old =
                |mark: &Option<SectorOwner>| mark.is_some_and(|mark| mark.sequence <= last);
            let whole = block[0].map(|mark| (mark, self.group(half, at, mark)));
            if is_old(&block[0]) || whole.is_none() && block.iter().any(is_old) {
                return;
            }
            let mut known = block.iter().flatten().map(|mark| mark.revision);
            match whole {
                Some((_, GroupProbe::CutOff)) => return,
                Some((mark, GroupProbe::Whole(writes, len))) => {
                    let is_behind = |write: &PreparedWrite| write.revision > tree;
                    read.writes.extend(writes.into_iter().filter(is_behind));
                    (last, at) = (mark.sequence, at + len);
                }
                // Writes in the tree are not needed any more.
                _ if known.next().is_some_and(|revision| revision <= tree.0) => return,
                _ => {
                    read.damage.push(format!(
                        "it is damaged near byte {}: writes behind revision {tree} that were \
                         answered are lost with it",
                        place(half, at)
                    ));
                    return;
                }
            }
        }
    }

    /// The group whose first sector has this mark.
    fn group(&self, half: u64, at: u64, mark: SectorOwner) -> GroupProbe {
        let first = self.payload(half, at).first_chunk().copied().unwrap_or_default();
        let len = 4 + u32::from_le_bytes(first) as usize;
        let Some(marks) = self.marks(half, at, extent(len)) else { return GroupProbe::Damaged };
        if marks.iter().flatten().any(|other| *other != mark) {
            return GroupProbe::CutOff;
        }
        if marks.contains(&None) {
            return GroupProbe::Damaged;
        }
        let mut stream = Vec::with_capacity(extent(len));
        for at in (at..at + extent(len) as u64).step_by(SECTOR) {
            stream.extend_from_slice(self.payload(half, at));
        }
        let (mut from, mut writes) = (stream.get(4..len).unwrap_or_default(), Vec::new());
        while !from.is_empty() {
            match codec::read_write(&mut from) {
                Ok(write) => writes.push(write),
                Err(codec::DamagedRecord) => return GroupProbe::Damaged,
            }
        }
        if writes.is_empty() {
            GroupProbe::Damaged
        } else {
            GroupProbe::Whole(writes, extent(len) as u64)
        }
    }
}

/// What is at the place of a group.
enum GroupProbe {
    /// Its writes and its size in bytes.
    Whole(Vec<PreparedWrite>, u64),
    /// It was not completed.
    CutOff,
    Damaged,
}
