//! The value of a commit's key.
//!
//! ```text
//! commit  "DUNLIN COMMIT 1\n", id (16), base (8), parts (4), writes
//! ```
//! Numbers are little-endian; each write is that of `records::codec`. With parts, the writes are in
//! as many staged parts. With the highest bit of their number, the parts are a snapshot that
//! replaces everything.
use records::codec::{self, DamagedRecord};
use records::{Commit, CommitId, PreparedWrite, Revision};

const MARK: &[u8] = b"DUNLIN COMMIT 1\n";

/// The highest bit of the number of parts: they are a snapshot.
pub const IS_SNAPSHOT: u32 = 1 << 31;

/// A commit as etcd has it.
pub struct StoredCommit {
    pub id: CommitId,
    pub base: Revision,
    /// The number of staged parts that the writes are in; 0: they are here.
    pub parts: u32,
    /// Whether the parts are a snapshot.
    pub is_snapshot: bool,
    /// Empty if they are in parts.
    pub writes: Vec<PreparedWrite>,
}

/// Encodes writes.
pub fn writes(writes: &[PreparedWrite]) -> Vec<u8> {
    let mut bytes = Vec::new();
    writes.iter().for_each(|write| codec::write(&mut bytes, write));
    bytes
}

/// Parses writes.
///
/// # Errors
/// They were not written so.
pub fn read_writes(mut bytes: &[u8]) -> Result<Vec<PreparedWrite>, DamagedRecord> {
    let mut writes = Vec::new();
    while !bytes.is_empty() {
        writes.push(codec::read_write(&mut bytes)?);
    }
    Ok(writes)
}

/// The value of a commit's key. With parts, `writes` is empty.
pub fn commit(id: CommitId, base: Revision, parts: u32, writes: &[u8]) -> Vec<u8> {
    let mut bytes = MARK.to_vec();
    bytes.extend_from_slice(&id.0.to_le_bytes());
    bytes.extend_from_slice(&base.0.to_le_bytes());
    bytes.extend_from_slice(&parts.to_le_bytes());
    bytes.extend_from_slice(writes);
    bytes
}

/// Parses the value of a commit's key.
///
/// # Errors
/// It was not written so, or by a newer version.
pub fn read_commit(bytes: &[u8]) -> Result<StoredCommit, DamagedRecord> {
    let rest = bytes.strip_prefix(MARK).ok_or(DamagedRecord)?;
    let (id, rest) = rest.split_first_chunk().ok_or(DamagedRecord)?;
    let (base, rest) = rest.split_first_chunk().ok_or(DamagedRecord)?;
    let (parts, rest) = rest.split_first_chunk().ok_or(DamagedRecord)?;
    let base = Revision(u64::from_le_bytes(*base));
    let word = u32::from_le_bytes(*parts);
    let (parts, is_snapshot) = (word & !IS_SNAPSHOT, word & IS_SNAPSHOT != 0);
    let writes = read_writes(rest)?;
    if writes.is_empty() == (parts == 0) {
        return Err(DamagedRecord);
    }
    Ok(StoredCommit { id: CommitId(u128::from_le_bytes(*id)), base, parts, is_snapshot, writes })
}

impl StoredCommit {
    /// The commit, if its writes follow its base without gaps.
    pub fn whole(self) -> Option<Commit> {
        let Self { id, base, writes, .. } = self;
        let follows =
            |(n, write): (usize, &PreparedWrite)| write.revision.0 == base.0 + n as u64 + 1;
        let is_whole = !writes.is_empty() && writes.iter().enumerate().all(follows);
        is_whole.then_some(Commit { id, base, writes })
    }
}
