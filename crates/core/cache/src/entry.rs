//! The layout of a cache entry: a head, the name, the value, padding to whole units.
use crate::limits::UNIT;

/// Bytes of a head. Its numbers are little-endian, at these offsets.
pub(crate) const HEAD_LEN: usize = 44;
/// Bytes before the name in a cache hit.
const MESSAGE_HEAD_LEN: usize = 12;
const UNITS: usize = 0;
const USES: usize = 4;
const NAME_LEN: usize = 5;
const IS_ENTRY: usize = 6;
const VALUE_LEN: usize = 8;
const MADE: usize = 12;
const TTL: usize = 16;
const RETRY: usize = 20;
const HASH: usize = 24;
const KIND: usize = 32;
const MAP: usize = 40;

/// What identifies an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryIdent<'k> {
    /// Hash of name and kind.
    pub(crate) hash: u64,
    pub(crate) kind: u64,
    pub(crate) name: &'k [u8],
}

/// An entry in the bytes of the cache. A filler stands where an entry did not fit before the end of
/// a queue. It may be shorter than a head: bytes read behind it belong to other entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'o> {
    head: &'o [u8; HEAD_LEN],
    /// From the head to the end of all entries.
    bytes: &'o [u8],
}

impl<'o> Entry<'o> {
    /// The entry at an offset.
    #[inline]
    pub(crate) fn at(bytes: &'o [u8], at: usize) -> Self {
        let bytes = &bytes[at..];
        Self { head: bytes.first_chunk().expect("there is room for a head everywhere"), bytes }
    }

    #[inline]
    fn number<const N: usize>(&self, at: usize) -> [u8; N] {
        *self.head[at..].first_chunk().expect("it stands in the head")
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.number(at))
    }

    pub(crate) fn units(&self) -> usize {
        u32::from_le_bytes(self.number(UNITS)) as usize
    }

    pub(crate) fn uses(&self) -> u8 {
        self.head[USES]
    }

    pub(crate) fn is_filler(&self) -> bool {
        self.head[IS_ENTRY] == 0
    }

    pub(crate) fn made(&self) -> u32 {
        self.word(MADE)
    }

    pub(crate) fn ttl(&self) -> u32 {
        self.word(TTL)
    }

    pub(crate) fn retry(&self) -> u32 {
        self.word(RETRY)
    }

    pub(crate) fn map(&self) -> u32 {
        self.word(MAP)
    }

    pub(crate) fn hash(&self) -> u64 {
        u64::from_le_bytes(self.number(HASH))
    }

    pub(crate) fn kind(&self) -> u64 {
        u64::from_le_bytes(self.number(KIND))
    }

    pub(crate) fn name(&self) -> &'o [u8] {
        &self.bytes[HEAD_LEN..][..usize::from(self.head[NAME_LEN])]
    }

    /// The end of the head, name and value.
    pub(crate) fn message(&self) -> &'o [u8] {
        let len = u32::from_le_bytes(self.number(VALUE_LEN)) as usize;
        let end = HEAD_LEN + usize::from(self.head[NAME_LEN]) + len;
        &self.bytes[HEAD_LEN - MESSAGE_HEAD_LEN..end]
    }

    /// Whether the entry has this identity.
    #[inline]
    pub(crate) fn is(&self, ident: &EntryIdent<'_>) -> bool {
        self.hash() == ident.hash && self.kind() == ident.kind && self.name() == ident.name
    }
}

pub(crate) const fn units_of(name_len: usize, value_len: usize) -> usize {
    (HEAD_LEN + name_len + value_len).div_ceil(UNIT)
}

/// How long an entry is fresh.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freshness {
    pub(crate) made: u32,
    pub(crate) ttl: u32,
}

/// Writes an entry that was never used.
pub(crate) fn write(
    bytes: &mut [u8],
    at: usize,
    ident: &EntryIdent<'_>,
    freshness: Freshness,
    value: &[u8],
) {
    let Freshness { made, ttl } = freshness;
    let name_len = ident.name.len();
    fill(bytes, at, units_of(name_len, value.len()));
    let entry = &mut bytes[at..];
    entry[USES] = 0;
    entry[NAME_LEN] = name_len as u8;
    entry[IS_ENTRY] = 1;
    put(entry, VALUE_LEN, (value.len() as u32).to_le_bytes());
    put(entry, MADE, made.to_le_bytes());
    put(entry, TTL, ttl.to_le_bytes());
    put(entry, RETRY, made.to_le_bytes());
    put(entry, HASH, ident.hash.to_le_bytes());
    put(entry, KIND, ident.kind.to_le_bytes());
    put(entry, MAP, [0; 4]);
    entry[HEAD_LEN..][..name_len].copy_from_slice(ident.name);
    entry[HEAD_LEN + name_len..][..value.len()].copy_from_slice(value);
}

pub(crate) fn fill(bytes: &mut [u8], at: usize, units: usize) {
    put(bytes, at + UNITS, (units as u32).to_le_bytes());
    bytes[at + IS_ENTRY] = 0;
}

pub(crate) fn set_uses(bytes: &mut [u8], at: usize, uses: u8) {
    bytes[at + USES] = uses;
}

pub(crate) fn set_retry(bytes: &mut [u8], at: usize, retry: u32) {
    put(bytes, at + RETRY, retry.to_le_bytes());
}

pub(crate) fn set_map(bytes: &mut [u8], at: usize, map: u32) {
    put(bytes, at + MAP, map.to_le_bytes());
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, number: [u8; N]) {
    bytes[at..][..N].copy_from_slice(&number);
}
