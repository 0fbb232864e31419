//! The value of a commit's key.
//!
//! ```text
//! commit  "DUNLIN COMMIT 2\n", id (16), before (16), nonce (16), base (8), parts (4), writes
//! commit  "DUNLIN COMMIT 1\n", id (16), base (8), parts (4), writes      of older versions
//! ```
//! Numbers are little-endian; each write is that of `store::codec`. With parts, the writes are in
//! as many staged parts. With the highest bit of their number, the parts are a snapshot that
//! replaces everything.
//!
//! The id is a hash of all that follows it and of the staged parts, and `before` is the id of the
//! commit before it. So two histories that differ anywhere have different ids from there on.
use records::{Commit, CommitId, PreparedWrite, Revision};
use ring::digest::{Context, SHA256};
use store::codec::{self, DamagedRecord};

const MARK: &[u8] = b"DUNLIN COMMIT 2\n";
const MARK_UNLINKED: &[u8] = b"DUNLIN COMMIT 1\n";

/// The highest bit of the number of parts: they are a snapshot.
pub const IS_SNAPSHOT: u32 = 1 << 31;

/// No commit: what is before the first one.
pub const NO_COMMIT: CommitId = CommitId(0);

/// What joins a commit to the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The id of the commit before it, or [`NO_COMMIT`].
    pub before: CommitId,
    /// Never used before: two writers of the same content have different ids.
    pub nonce: CommitId,
}

/// A commit as the history names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitName {
    pub id: CommitId,
    pub link: Link,
    pub base: Revision,
    /// The revision after it.
    pub newest: Revision,
}

impl CommitName {
    /// The name of a commit from `base` to `newest`, with this content.
    pub fn new(link: Link, base: Revision, newest: Revision, content: &[u8]) -> Self {
        Self { id: hash(link, base, content), link, base, newest }
    }
}

/// The first 16 bytes of the SHA-256.
fn hash(link: Link, base: Revision, content: &[u8]) -> CommitId {
    let mut hash = Context::new(&SHA256);
    hash.update(&link.before.0.to_le_bytes());
    hash.update(&link.nonce.0.to_le_bytes());
    hash.update(&base.0.to_le_bytes());
    hash.update(content);
    let first = hash.finish().as_ref().first_chunk().copied();
    CommitId(u128::from_le_bytes(first.unwrap_or_default()))
}

/// A commit as etcd has it.
#[derive(Debug)]
pub struct StoredCommit {
    pub id: CommitId,
    /// `None`: an older version wrote it, and only its number joins it to the history.
    pub link: Option<Link>,
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

/// The value of a commit's key. With parts, its content is not in it.
pub fn commit(name: &CommitName, parts: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = MARK.to_vec();
    for id in [name.id, name.link.before, name.link.nonce] {
        bytes.extend_from_slice(&id.0.to_le_bytes());
    }
    bytes.extend_from_slice(&name.base.0.to_le_bytes());
    bytes.extend_from_slice(&parts.to_le_bytes());
    if parts == 0 {
        bytes.extend_from_slice(content);
    }
    bytes
}

/// Parses the value of a commit's key.
///
/// # Errors
/// It was not written so, or by a newer version.
pub fn read_commit(mut bytes: &[u8]) -> Result<StoredCommit, DamagedRecord> {
    let is_linked = bytes.starts_with(MARK);
    let mark = if is_linked { MARK } else { MARK_UNLINKED };
    bytes = bytes.strip_prefix(mark).ok_or(DamagedRecord)?;
    let mut next = || take(&mut bytes).map(|id| CommitId(u128::from_le_bytes(id)));
    let id = next()?;
    let link = is_linked.then(|| Ok(Link { before: next()?, nonce: next()? })).transpose()?;
    let base = Revision(u64::from_le_bytes(take(&mut bytes)?));
    let word = u32::from_le_bytes(take(&mut bytes)?);
    let (parts, is_snapshot) = (word & !IS_SNAPSHOT, word & IS_SNAPSHOT != 0);
    if bytes.is_empty() == (parts == 0) {
        return Err(DamagedRecord);
    }
    let mut commit = StoredCommit { id, link, base, parts, is_snapshot, writes: Vec::new() };
    if parts == 0 {
        commit.writes = commit.read_content(bytes)?;
    }
    Ok(commit)
}

fn take<const LEN: usize>(bytes: &mut &[u8]) -> Result<[u8; LEN], DamagedRecord> {
    let (first, rest) = bytes.split_first_chunk().ok_or(DamagedRecord)?;
    *bytes = rest;
    Ok(*first)
}

impl StoredCommit {
    /// Parses its content, from its key or its parts.
    ///
    /// # Errors
    /// It was not written so, or is not that of its hash.
    pub fn read_content(&self, bytes: &[u8]) -> Result<Vec<PreparedWrite>, DamagedRecord> {
        if self.link.is_some_and(|link| hash(link, self.base, bytes) != self.id) {
            return Err(DamagedRecord);
        }
        read_writes(bytes)
    }

    /// The commit, if its writes follow its base without gaps.
    pub fn whole(self) -> Option<Commit> {
        let Self { id, base, writes, .. } = self;
        let follows =
            |(n, write): (usize, &PreparedWrite)| write.revision.0 == base.0 + n as u64 + 1;
        let is_whole = !writes.is_empty() && writes.iter().enumerate().all(follows);
        is_whole.then_some(Commit { id, base, writes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::Action;
    use std::time::UNIX_EPOCH;
    use wire::{Name, NameBuf};

    fn content() -> Vec<u8> {
        writes(&[PreparedWrite {
            zone: NameBuf::from(Name::ROOT),
            revision: Revision(8),
            when: UNIX_EPOCH,
            by: "a test".into(),
            offset: Some(0),
            reason: None,
            action: Action::Change(Vec::new()),
        }])
    }

    #[test]
    fn flipped_bit_of_a_commit_is_found() {
        let link = Link { before: CommitId(3), nonce: CommitId(4) };
        let name = CommitName::new(link, Revision(7), Revision(8), &content());
        let value = commit(&name, 0, &content());
        let read = read_commit(&value).expect("our own commit");
        assert_eq!((read.id, read.link, read.base), (name.id, Some(link), Revision(7)));
        // All but the number of parts, which says how to read it.
        let parts = MARK.len() + 56..MARK.len() + 60;
        for bit in (0..value.len() * 8).filter(|bit| !parts.contains(&(bit / 8))) {
            let mut flipped = value.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(read_commit(&flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn commit_of_an_older_version_is_read_without_a_link() {
        let value = [
            MARK_UNLINKED,
            &9_u128.to_le_bytes(),
            &7_u64.to_le_bytes(),
            &0_u32.to_le_bytes(),
            &content(),
        ];
        let read = read_commit(&value.concat()).expect("a commit");
        assert_eq!((read.id, read.link, read.writes.len()), (CommitId(9), None, 1));
    }
}
