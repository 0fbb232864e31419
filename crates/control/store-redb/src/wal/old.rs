//! The log of format 2, read once when a store is upgraded to format 3. It has no header, and its
//! key is only in the tree.
//!
//! ```text
//! file   two halves of HALF_BYTES: one was written from its start while the other was
//!        checkpointed into the tree
//! group  at a multiple of BLOCK: bytes of its writes (4), checksum of these bytes (8), checksum
//!        of its writes (8), writes as in `records::codec`
//! ```
use super::StoreKey;
use records::codec::{self, DamagedRecord};
use records::{PreparedWrite, Revision};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// Bytes of a half.
const HALF_BYTES: usize = 16 << 20;
/// Bytes before the writes of a group.
const HEAD: usize = 20;
const BLOCK: usize = 4096;

fn checksum(key: StoreKey, body: &[u8]) -> u64 {
    let mut sum = SipHasher13::new_with_keys(key[0], key[1]);
    sum.write(body);
    sum.finish()
}

/// All writes after a revision, in order.
///
/// # Errors
/// A group is damaged before others, or some are missing.
pub fn behind(
    log: &[u8],
    key: StoreKey,
    revision: Revision,
) -> Result<Vec<PreparedWrite>, DamagedRecord> {
    let mut writes = Vec::new();
    for half in log.chunks(HALF_BYTES) {
        writes.append(&mut of_half(half, key, revision)?);
    }
    writes.sort_by_key(|write| write.revision);
    let mut next = revision;
    for write in &writes {
        next = next.next();
        if write.revision != next {
            return Err(DamagedRecord);
        }
    }
    Ok(writes)
}

/// The writes of a half after a revision, from groups with ascending revisions. After the last one
/// comes an incomplete or an older group.
fn of_half(
    half: &[u8],
    key: StoreKey,
    revision: Revision,
) -> Result<Vec<PreparedWrite>, DamagedRecord> {
    let (mut found, mut last, mut at, mut is_over) = (Vec::new(), revision, 0, false);
    while at < half.len() {
        match read(&half[at..], key).filter(|(writes, _)| writes[0].revision > last) {
            None => {
                is_over = true;
                at += BLOCK;
            }
            Some(_) if is_over => return Err(DamagedRecord),
            Some((mut writes, len)) => {
                last = writes.last().map_or(last, |write| write.revision);
                found.append(&mut writes);
                at += len.next_multiple_of(BLOCK);
            }
        }
    }
    Ok(found)
}

/// The first group, with at least one write, and its size in bytes.
fn read(bytes: &[u8], key: StoreKey) -> Option<(Vec<PreparedWrite>, usize)> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (mark, rest) = rest.split_first_chunk()?;
    let (sum, rest) = rest.split_first_chunk()?;
    // Verify the length before using it.
    if u64::from_le_bytes(*mark) != checksum(key, len) {
        return None;
    }
    let mut body = rest.get(..u32::from_le_bytes(*len) as usize)?;
    if u64::from_le_bytes(*sum) != checksum(key, body) {
        return None;
    }
    let (mut writes, len) = (Vec::new(), HEAD + body.len());
    while !body.is_empty() {
        writes.push(codec::read_write(&mut body).ok()?);
    }
    (!writes.is_empty()).then_some((writes, len))
}

/// An encoded group, for tests.
#[cfg(test)]
pub fn group(key: StoreKey, writes: &[PreparedWrite]) -> Vec<u8> {
    let mut body = Vec::new();
    writes.iter().for_each(|write| codec::write(&mut body, write));
    let len = (body.len() as u32).to_le_bytes();
    let sums = [checksum(key, &len).to_le_bytes(), checksum(key, &body).to_le_bytes()];
    let mut group = [&len[..], &sums[0], &sums[1], &body].concat();
    group.resize(group.len().next_multiple_of(BLOCK), 0);
    group
}
