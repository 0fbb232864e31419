//! Names and DNAMEs that a chain of aliases has passed, so that it ends where it would go round,
//! and says nothing twice.
use crate::limits::ALIASES_MAX;
use image::{HashKey, Node};
use wire::QName;

/// The way of one chain so far.
#[derive(Debug)]
pub(crate) struct Trail {
    names: [u64; ALIASES_MAX],
    names_len: usize,
    /// Where in the image the nodes stand: the same node stands in one place.
    dnames: [usize; ALIASES_MAX],
    dnames_len: usize,
}

impl Trail {
    /// A way not yet begun.
    pub(crate) const fn new() -> Self {
        Self { names: [0; ALIASES_MAX], names_len: 0, dnames: [0; ALIASES_MAX], dnames_len: 0 }
    }

    /// Begins anew.
    pub(crate) fn clear(&mut self) {
        (self.names_len, self.dnames_len) = (0, 0);
    }

    /// Notes a name; whether it is new and the way not yet too long. Names are told apart by their
    /// keyed hash: two that share one end a chain early once in 2^63.
    pub(crate) fn enter(&mut self, key: &HashKey, name: &QName) -> bool {
        let hash = key.hash(name.padded(), 0, name.octets().len() - 1);
        note(&mut self.names, &mut self.names_len, hash)
    }

    /// Whether a name was noted before.
    pub(crate) fn passed(&self, key: &HashKey, name: &QName) -> bool {
        let hash = key.hash(name.padded(), 0, name.octets().len() - 1);
        self.names[..self.names_len].contains(&hash)
    }

    /// Notes a DNAME; whether it is new.
    pub(crate) fn enter_dname(&mut self, node: Node<'_>) -> bool {
        note(&mut self.dnames, &mut self.dnames_len, node.octets().as_ptr().addr())
    }
}

fn note<T: Copy + PartialEq>(items: &mut [T], len: &mut usize, item: T) -> bool {
    if items[..*len].contains(&item) {
        return false;
    }
    let Some(place) = items.get_mut(*len) else { return false };
    *place = item;
    *len += 1;
    true
}
