//! Sectors of the log. Each names its group, so that an incomplete write is distinguished from
//! damage: after a crash a sector has its new or its old content, and both are valid; an invalid
//! sector is damaged.
use super::StoreKey;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// Bytes that a disk writes atomically.
pub const SECTOR: usize = 512;
/// Bytes of a sector before its payload: checksum (8), sequence number of its group (8), last
/// revision of its group (8).
const HEAD: usize = 24;
/// Payload bytes of a sector.
pub const PAYLOAD: usize = SECTOR - HEAD;

/// The group of a sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SectorOwner {
    /// The group's sequence number, ascending; 0: unused.
    pub sequence: u64,
    /// The last revision of the group.
    pub revision: u64,
}

/// A checksum over content, file offset and the store's key, which detects moved and foreign
/// sectors.
pub fn checksum(key: StoreKey, at: u64, bytes: &[u8]) -> u64 {
    let mut sum = SipHasher13::new_with_keys(key[0], key[1]);
    sum.write_u64(at);
    sum.write(bytes);
    sum.finish()
}

/// Encodes a sector for a file offset. The payload may be shorter than its space.
pub fn seal(sector: &mut [u8], key: StoreKey, at: u64, mark: SectorOwner, payload: &[u8]) {
    sector[8..16].copy_from_slice(&mark.sequence.to_le_bytes());
    sector[16..HEAD].copy_from_slice(&mark.revision.to_le_bytes());
    let (used, unused) = sector[HEAD..].split_at_mut(payload.len());
    used.copy_from_slice(payload);
    unused.fill(0);
    let sum = checksum(key, at, &sector[8..]);
    sector[..8].copy_from_slice(&sum.to_le_bytes());
}

/// The group and the payload of a sector; `None`: it is damaged.
pub fn open(sector: &[u8], key: StoreKey, at: u64) -> Option<(SectorOwner, &[u8])> {
    let (sum, rest) = sector.split_first_chunk()?;
    if u64::from_le_bytes(*sum) != checksum(key, at, rest) {
        return None;
    }
    let (sequence, rest) = rest.split_first_chunk()?;
    let (revision, payload) = rest.split_first_chunk()?;
    let (sequence, revision) = (u64::from_le_bytes(*sequence), u64::from_le_bytes(*revision));
    Some((SectorOwner { sequence, revision }, payload))
}
