//! Names that are denied or allowed.
//!
//! ```text
//! entry  verdicts (1), name length (1), name without its root label, lower case
//! ```
use crate::{DepthMask, HashKey};
use wire::QName;

/// What a list says of a name itself, and of the names below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameVerdicts(pub u8);

impl NameVerdicts {
    /// The name itself is denied.
    pub const DENY: Self = Self(1);
    /// The name itself is allowed.
    pub const ALLOW: Self = Self(2);
    /// Bits by which the verdicts about names below a name are shifted.
    const BELOW: u8 = 2;

    /// The same about the names below a name.
    pub const fn below(self) -> Self {
        Self(self.0 << Self::BELOW)
    }

    /// The verdict about a name itself or about the names below it. Of two, the name is allowed.
    const fn is_denied(self, is_below: bool) -> Option<bool> {
        match (if is_below { self.0 >> Self::BELOW } else { self.0 }) & 3 {
            0 => None,
            verdict => Some(verdict & Self::ALLOW.0 == 0),
        }
    }
}

/// The rule about a name that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameRule {
    /// How many of the last labels of the name it has.
    pub labels: usize,
    /// Whether it is about the names below these.
    pub is_below: bool,
    /// Whether it denies the name; otherwise it allows it.
    pub is_denied: bool,
}

/// A hash table of names with their verdicts, in borrowed memory.
#[derive(Clone, Copy)]
pub struct NameList<'n> {
    /// The key of its hashes.
    pub key: &'n HashKey,
    /// The numbers of labels that its names have.
    pub depths: DepthMask,
    /// The slots, a power of two, some of them free: the offset of an entry and 1, or 0.
    pub slots: &'n [u32],
    /// The entries.
    pub entries: &'n [u8],
}

/// Bytes of an entry before its name.
pub const ENTRY_HEAD_LEN: usize = 2;

impl<'n> NameList<'n> {
    /// The slot of a name: the one with its entry, or the free one where it belongs. Beside it the
    /// offset of the entry. `None`: there are no slots.
    pub fn slot(&self, hash: u64, name: &[u8]) -> Option<(usize, Option<usize>)> {
        let last = self.slots.len().checked_sub(1)?;
        let mut slot = hash as usize & last;
        loop {
            let offset = match *self.slots.get(slot)? {
                0 => return Some((slot, None)),
                offset => offset as usize - 1,
            };
            if self.name(offset) == Some(name) {
                return Some((slot, Some(offset)));
            }
            slot = (slot + 1) & last;
        }
    }

    fn name(&self, offset: usize) -> Option<&'n [u8]> {
        let [_, len, rest @ ..] = self.entries.get(offset..)? else { return None };
        rest.get(..usize::from(*len))
    }

    fn verdicts(&self, name: &QName, depth: usize) -> NameVerdicts {
        if !self.depths.contains(depth) {
            return NameVerdicts::default();
        }
        let (start, end) = (name.start_of_last(depth), name.as_bytes().len() - 1);
        let hash = self.key.hash(name.padded(), start, end - start);
        let found = self.slot(hash, &name.as_bytes()[start..end]).and_then(|(_, entry)| entry);
        found
            .and_then(|at| self.entries.get(at))
            .map_or_else(Default::default, |v| NameVerdicts(*v))
    }

    /// The rule of some lists together that decides about a name. As with the QNAME rules of a
    /// response policy zone, an exact rule wins over a wildcard rule, and among wildcard rules the
    /// longest wins.
    #[inline]
    pub fn rule(lists: impl Iterator<Item = Self> + Clone, name: &QName) -> Option<NameRule> {
        (0..=name.labels()).rev().find_map(|labels| {
            let all = lists.clone().map(|list| list.verdicts(name, labels).0);
            let all = NameVerdicts(all.fold(0, |all, verdicts| all | verdicts));
            let is_below = labels < name.labels();
            Some(NameRule { labels, is_below, is_denied: all.is_denied(is_below)? })
        })
    }
}
