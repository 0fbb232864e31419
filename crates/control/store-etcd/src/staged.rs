//! Commits that are too large for one transaction: staged in parts, made visible by the commit,
//! then moved to their keys.
//!
//! While `moving` exists, no other commit succeeds, and every writer helps. Each transaction of a
//! move requires the step that it does, so a writer that wakes up late changes nothing.
use crate::encoding::{self, IS_SNAPSHOT, StoredCommit};
use crate::limits::{STAGED_MAX, SWEEP_INTERVAL};
use crate::plan::{self, KeyChanges};
use crate::shared::Shared;
use etcd_client::{Compare, CompareOp, GetOptions, TxnOp};
use etcd_link::{RequestError, delete_all, has_value, is_absent};
use keyspace::EtcdLink;
use records::{CommitId, PreparedWrite};
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;
use tokio::time::sleep;

/// A move, as the value of `moving` has it: id, parts (as in a commit), and the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub id: CommitId,
    pub parts: u32,
    step: usize,
}

impl Move {
    pub fn new(id: CommitId, parts: u32) -> Self {
        Self { id, parts, step: 0 }
    }

    /// Whether the parts are a snapshot that replaces everything.
    pub fn is_snapshot(&self) -> bool {
        self.parts & IS_SNAPSHOT != 0
    }

    /// The value of `moving`.
    pub fn value(&self) -> String {
        format!("{} {} {}", self.id, self.parts, self.step)
    }

    /// Whether the move is at this step.
    fn is_current(&self, link: &EtcdLink) -> Compare {
        has_value(link.keys.moving(), Some(self.value()))
    }

    /// Parses the value of `moving`.
    pub fn read(value: &[u8]) -> Option<Self> {
        let mut words = str::from_utf8(value).ok()?.split(' ');
        let id = CommitId(u128::from_str_radix(words.next()?, 16).ok()?);
        let (parts, step) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        words.next().is_none().then_some(Self { id, parts, step })
    }
}

/// Stages the parts of a commit, its header first.
pub async fn stage(link: &EtcdLink, id: CommitId, parts: &[&[u8]]) -> Result<(), RequestError> {
    let header = link.keys.staged_header(id);
    let created = TxnOp::put(header.as_str(), parts.len().to_string(), None);
    let is_new = Compare::version(header.as_str(), CompareOp::Equal, 0);
    link.connection.write([is_new], [created]).await?;
    for (part, bytes) in parts.iter().enumerate() {
        let put = TxnOp::put(link.keys.staged_part(id, part), *bytes, None);
        let is_there = Compare::version(header.as_str(), CompareOp::Greater, 0);
        if !link.connection.write([is_there], [put]).await? {
            return Err(RequestError::Refused("the staged batch was swept meanwhile".into()));
        }
    }
    Ok(())
}

/// The writes of a staged commit, as they were at a revision of etcd; 0: now.
///
/// # Errors
/// They are gone or damaged: [`RequestError::Compacted`].
pub async fn read(
    link: &EtcdLink,
    id: CommitId,
    parts: u32,
    at: i64,
) -> Result<Vec<PreparedWrite>, RequestError> {
    let bytes = read_bytes(link, id, parts, at).await?;
    encoding::read_writes(&bytes).map_err(|_| RequestError::Compacted)
}

/// The bytes of all parts, as [`read`].
pub async fn read_bytes(
    link: &EtcdLink,
    id: CommitId,
    parts: u32,
    at: i64,
) -> Result<Vec<u8>, RequestError> {
    let mut bytes = Vec::new();
    for part in 0..(parts & !IS_SNAPSHOT) as usize {
        let found = link.connection.find(link.keys.staged_part(id, part), at).await?;
        bytes.extend_from_slice(found.ok_or(RequestError::Compacted)?.value());
    }
    Ok(bytes)
}

/// Moves the sets of a committed batch to their keys. Another writer may do so at the same time.
pub async fn finish(link: &EtcdLink, mut now: Move) -> Result<(), RequestError> {
    let steps = match steps(link, now).await {
        // Another writer has finished it.
        Err(RequestError::Compacted) => return Ok(()),
        steps => steps?,
    };
    let moving = link.keys.moving();
    while let Some(step) = steps.get(now.step) {
        let next = Move { step: now.step + 1, ..now };
        let mut ops = step.ops();
        ops.push(TxnOp::put(moving.as_str(), next.value(), None));
        if !link.connection.write([now.is_current(link)], ops).await? {
            // Another writer did this step, so it does the next ones, too; or it has died.
            match current(link).await? {
                Some(current) if current.id == now.id => now = current,
                _ => return Ok(()),
            }
            continue;
        }
        now = next;
    }
    let gone = [TxnOp::delete(moving, None), delete_all(link.keys.staged(now.id))];
    link.connection.write([now.is_current(link)], gone).await.map(drop)
}

/// The steps of a move: each is one transaction.
async fn steps(link: &EtcdLink, now: Move) -> Result<Vec<KeyChanges>, RequestError> {
    if now.is_snapshot() {
        let bytes = read_bytes(link, now.id, now.parts, 0).await?;
        return plan::replacement(&link.keys, &bytes).map_err(|_| RequestError::Compacted);
    }
    let writes = read(link, now.id, now.parts, 0).await?;
    Ok(plan::changes(&link.keys, &writes))
}

/// The move in progress.
async fn current(link: &EtcdLink) -> Result<Option<Move>, RequestError> {
    let moving = link.connection.value(&link.keys.moving()).await?;
    Ok(moving.as_deref().and_then(Move::read))
}

/// Finishes a move that its writer left, and sweeps batches that were staged and never committed.
/// Runs until it is aborted.
pub async fn sweep(shared: &Shared) {
    let mut seen: HashMap<String, Instant> = HashMap::new();
    loop {
        sleep(SWEEP_INTERVAL).await;
        // An etcd that this server does not follow is left alone.
        if shared.is_following() {
            // An error is reported by whatever follows etcd; the next round tries again.
            let _ = sweep_once(&shared.link, &mut seen).await;
        }
    }
}

async fn sweep_once(
    link: &EtcdLink,
    seen: &mut HashMap<String, Instant>,
) -> Result<(), RequestError> {
    let (connection, keys) = (&link.connection, &link.keys);
    let moving = current(link).await?;
    let options = GetOptions::new().with_prefix().with_keys_only();
    let staged = connection.get(keys.staged_all(), options).await?;
    let ids = staged.kvs().iter().filter_map(|kv| keys.read_staged_id(kv.key()));
    let mut found: BTreeMap<CommitId, usize> = BTreeMap::new();
    ids.for_each(|id| *found.entry(id).or_default() += 1);
    // A batch in progress is not abandoned: a move gets a further step, a staged batch further
    // parts.
    let stamp = |(id, parts): (&CommitId, &usize)| match moving.filter(|moving| moving.id == *id) {
        Some(moving) => moving.value(),
        None => format!("{id} {parts}"),
    };
    let present: Vec<String> = found.iter().map(stamp).collect();
    seen.retain(|known, _| present.contains(known));
    for (id, known) in found.into_keys().zip(present) {
        let since = *seen.entry(known).or_insert_with(Instant::now);
        if since.elapsed() < STAGED_MAX {
            continue;
        }
        match moving.filter(|moving| moving.id == id) {
            Some(moving) => finish(link, moving).await?,
            None => discard(link, id).await?,
        }
    }
    Ok(())
}

/// Deletes a staged batch, so that it cannot be committed. Nothing happens if it is being moved.
pub async fn discard(link: &EtcdLink, id: CommitId) -> Result<(), RequestError> {
    // The header goes in the same transaction as all parts, and a commit requires the header.
    let (is_free, gone) = (is_absent(link.keys.moving()), delete_all(link.keys.staged(id)));
    link.connection.write([is_free], [gone]).await.map(drop)
}

/// Fills in the writes of a commit that is in parts, as they were at a revision of etcd.
pub async fn fill(link: &EtcdLink, commit: &mut StoredCommit, at: i64) -> Result<(), RequestError> {
    if commit.parts > 0 {
        let bytes = read_bytes(link, commit.id, commit.parts, at).await?;
        commit.writes = commit.read_content(&bytes).map_err(|_| {
            RequestError::Unusable(format!("the parts of the commit {} are damaged", commit.id))
        })?;
        commit.parts = 0;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn move_is_read_as_written() {
        let moving = Move { id: CommitId(7), parts: 2, step: 3 };
        assert_eq!(Move::read(moving.value().as_bytes()), Some(moving));
        for wrong in ["", "7", "7 2", "x 2 3", "7 2 3 4"] {
            assert_eq!(Move::read(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
