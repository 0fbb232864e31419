//! Names and DNAMEs that a CNAME chain has passed. A chain ends where it would loop, and a DNAME is
//! put into the reply once.
use crate::limits::ALIASES_MAX;
use image::{HashKey, Node};
use wire::QName;

#[derive(Debug)]
pub(crate) struct CnameChain {
    names: [u64; ALIASES_MAX],
    names_len: usize,
    /// Addresses of the nodes in the image. A node has one address.
    dnames: [usize; ALIASES_MAX],
    dnames_len: usize,
}

impl CnameChain {
    pub(crate) const fn new() -> Self {
        Self { names: [0; ALIASES_MAX], names_len: 0, dnames: [0; ALIASES_MAX], dnames_len: 0 }
    }

    pub(crate) fn clear(&mut self) {
        (self.names_len, self.dnames_len) = (0, 0);
    }

    /// Adds a name; returns whether it is new and the chain not too long. Names are compared by
    /// their keyed hash. A collision ends a chain early, once in 2^63 pairs.
    pub(crate) fn enter(&mut self, key: &HashKey, name: &QName) -> bool {
        let hash = key.hash(name.padded(), 0, name.as_bytes().len() - 1);
        note(&mut self.names, &mut self.names_len, hash)
    }

    pub(crate) fn has_passed(&self, key: &HashKey, name: &QName) -> bool {
        let hash = key.hash(name.padded(), 0, name.as_bytes().len() - 1);
        self.names[..self.names_len].contains(&hash)
    }

    /// Adds a DNAME; returns whether it is new.
    pub(crate) fn enter_dname(&mut self, node: Node<'_>) -> bool {
        note(&mut self.dnames, &mut self.dnames_len, node.as_bytes().as_ptr().addr())
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
