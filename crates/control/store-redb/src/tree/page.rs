//! Pages of redb's file format, version 3 (`docs/design.md` of redb), read-only: the header,
//! branches and leaves.
use super::PageFault;
use xxhash_rust::xxh3::xxh3_128;

/// Bytes of the smallest page, and of the header.
pub const PAGE: u64 = 4096;
/// The start of a redb file.
pub const MAGIC: [u8; 9] = *b"redb\x1a\n\xa9\r\n";
/// The version of the format in each slot.
const VERSION: u8 = 3;
/// Bytes of a slot, offset of the first slot, and offset of the checksum in a slot.
const SLOT: usize = 128;
const SLOTS_AT: usize = 64;
const SLOT_SUM_AT: usize = SLOT - 16;
/// Bytes of the header that are used.
pub const HEADER: usize = SLOTS_AT + 2 * SLOT;
/// Bits of the byte that selects the primary slot.
const PRIMARY: u8 = 1;
const RECOVERY_REQUIRED: u8 = 2;
const TWO_PHASE: u8 = 4;
/// The largest page has 2^20 of the smallest.
const ORDER_MAX: u64 = 20;

/// The location of a page, and its checksum.
#[derive(Clone, Copy, Debug)]
pub struct PageLink {
    number: u64,
    checksum: u128,
}

/// A number of N bytes, little-endian.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], PageFault> {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().ok_or(PageFault)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<usize, PageFault> {
    number(bytes, at).map(|found| u32::from_le_bytes(found) as usize)
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64, PageFault> {
    number(bytes, at).map(u64::from_le_bytes)
}

/// Reads an optional root; its presence is stored separately.
fn root(bytes: &[u8], is_there_at: usize, at: usize) -> Result<Option<PageLink>, PageFault> {
    let [is_there] = number(bytes, is_there_at)?;
    let checksum = u128::from_le_bytes(number(bytes, at + 8)?);
    Ok((is_there != 0).then_some(PageLink { number: u64_at(bytes, at)?, checksum }))
}

/// A committed state of the tree.
#[derive(Clone, Copy, Debug)]
pub struct CommitSlot {
    pub is_whole: bool,
    pub transaction: u64,
    pub user: Option<PageLink>,
    pub system: Option<PageLink>,
}

impl CommitSlot {
    fn read(slot: &[u8]) -> Result<Self, PageFault> {
        let checksum = u128::from_le_bytes(number(slot, SLOT_SUM_AT)?);
        let is_whole = slot[0] == VERSION && checksum == xxh3_128(&slot[..SLOT_SUM_AT]);
        let (user, system) = (root(slot, 1, 8)?, root(slot, 2, 40)?);
        Ok(Self { is_whole, transaction: u64_at(slot, 104)?, user, system })
    }
}

/// The header of the file.
#[derive(Clone, Copy, Debug)]
pub struct TreeHeader {
    region_header: u64,
    region: u64,
    /// The state that redb would use, and the previous one.
    pub slots: [CommitSlot; 2],
    /// Whether the newest may be incomplete, so that the previous one counts.
    pub may_be_cut_off: bool,
}

impl TreeHeader {
    pub fn read(bytes: &[u8]) -> Result<Self, PageFault> {
        let pages = |at| u32_at(bytes, at).map(|pages| pages as u64);
        if bytes.get(..MAGIC.len()) != Some(&MAGIC) || pages(12)? != PAGE {
            return Err(PageFault);
        }
        let [flags] = number(bytes, MAGIC.len())?;
        let slot = |n: usize| {
            let at = SLOTS_AT + n * SLOT;
            CommitSlot::read(bytes.get(at..at + SLOT).ok_or(PageFault)?)
        };
        let primary = usize::from(flags & PRIMARY);
        let (first, second) = (slot(primary)?, slot(1 - primary)?);
        let is_two_phase = flags & TWO_PHASE != 0;
        // As redb does: the god byte may have reached the disk alone.
        let is_second =
            !first.is_whole || second.is_whole && second.transaction > first.transaction;
        let slots = if is_second && !is_two_phase { [second, first] } else { [first, second] };
        let may_be_cut_off = flags & RECOVERY_REQUIRED != 0 && !is_two_phase;
        let (region_header, region) = (pages(16)? * PAGE, pages(20)? * PAGE);
        Ok(Self { region_header, region: region + region_header, slots, may_be_cut_off })
    }

    /// The offset and size of a page.
    pub fn place(&self, link: PageLink) -> Result<(u64, usize), PageFault> {
        let order = link.number >> 59;
        if order > ORDER_MAX {
            return Err(PageFault);
        }
        let index = link.number & (0xf_ffff >> order);
        let region = (link.number >> 20) & 0xf_ffff;
        let len = PAGE << order;
        let region = region.checked_mul(self.region).ok_or(PageFault)?;
        let at = region.checked_add(PAGE + self.region_header + index * len).ok_or(PageFault)?;
        Ok((at, len as usize))
    }
}

/// The fixed widths of keys and values, if there are any.
#[derive(Clone, Copy, Debug, Default)]
pub struct ColumnWidths {
    pub key: Option<usize>,
    pub value: Option<usize>,
}

/// A verified page.
#[derive(Debug)]
pub enum TreePage {
    /// Ranges of keys and values.
    Leaf(Vec<[(usize, usize); 2]>),
    /// Children, and ranges of the keys between them: no key of a child is above the key after it.
    Branch(Vec<PageLink>, Vec<(usize, usize)>),
}

impl TreePage {
    /// Parses a page after verifying its checksum.
    pub fn read(bytes: &[u8], link: PageLink, widths: ColumnWidths) -> Result<Self, PageFault> {
        let count = usize::from(u16::from_le_bytes(number(bytes, 2)?));
        let (page, end) = match bytes.first() {
            Some(1) => Self::leaf(bytes, count, widths)?,
            Some(2) => Self::branch(bytes, count, widths.key)?,
            _ => return Err(PageFault),
        };
        let used = bytes.get(..end).ok_or(PageFault)?;
        if count == 0 || xxh3_128(used) != link.checksum { Err(PageFault) } else { Ok(page) }
    }

    fn leaf(bytes: &[u8], count: usize, widths: ColumnWidths) -> Result<(Self, usize), PageFault> {
        let ends = |width: Option<usize>, at: &mut usize| match width {
            None => {
                let ends = (0..count).map(|n| u32_at(bytes, *at + 4 * n));
                let ends: Result<Vec<_>, _> = ends.collect();
                *at += 4 * count;
                ends.map(Some)
            }
            Some(_) => Ok(None),
        };
        let mut at = 4;
        let (keys, values) = (ends(widths.key, &mut at)?, ends(widths.value, &mut at)?);
        let places = |ends: Option<Vec<usize>>, width: Option<usize>, from: usize| {
            let width = width.unwrap_or_default();
            let ends = ends.unwrap_or_else(|| (1..=count).map(|n| from + width * n).collect());
            let starts = std::iter::once(from).chain(ends.iter().copied());
            starts.zip(ends.iter().copied()).collect::<Vec<_>>()
        };
        let keys = places(keys, widths.key, at);
        let behind = keys.last().map_or(at, |(_, end)| *end);
        let values = places(values, widths.value, behind);
        let end = values.last().map_or(behind, |(_, end)| *end);
        let entries = keys.into_iter().zip(values).map(|(key, value)| [key, value]);
        Ok((Self::Leaf(entries.collect()), end))
    }

    fn branch(bytes: &[u8], keys: usize, width: Option<usize>) -> Result<(Self, usize), PageFault> {
        let children = keys + 1;
        let numbers_at = 8 + 16 * children;
        let child = |n: usize| {
            let checksum = u128::from_le_bytes(number(bytes, 8 + 16 * n)?);
            Ok(PageLink { number: u64_at(bytes, numbers_at + 8 * n)?, checksum })
        };
        let links: Result<Vec<_>, _> = (0..children).map(child).collect();
        let ends_at = numbers_at + 8 * children;
        let from = ends_at + if width.is_none() { 4 * keys } else { 0 };
        let end = |n: usize| match width {
            Some(width) => Ok(from + width * (n + 1)),
            None => u32_at(bytes, ends_at + 4 * n),
        };
        let ends: Result<Vec<_>, _> = (0..keys).map(end).collect();
        let ends = ends?;
        let starts = std::iter::once(from).chain(ends.iter().copied());
        let between = starts.zip(ends.iter().copied()).collect();
        Ok((Self::Branch(links?, between), ends.last().copied().unwrap_or(from)))
    }
}

/// The root of one table.
#[derive(Clone, Copy, Debug)]
pub struct TableRoot {
    pub root: Option<PageLink>,
    pub widths: ColumnWidths,
}

impl TableRoot {
    pub fn read(value: &[u8]) -> Result<Self, PageFault> {
        let width = |at: usize| {
            let [is_fixed] = number(value, at)?;
            let width = u32_at(value, at + 1)?;
            Ok((is_fixed != 0).then_some(width))
        };
        let root = root(value, 9, 10)?;
        Ok(Self { root, widths: ColumnWidths { key: width(42)?, value: width(47)? } })
    }
}
