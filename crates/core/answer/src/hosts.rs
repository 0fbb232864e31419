//! Names of hosts files. They take precedence over forward rules, and zones take precedence over
//! them.
use crate::reply::{OwnerName, ReplyWriter};
use image::{HashKey, Leaf, Node, RelName, Zone, ZoneTable};
use packet::View;
use wire::limits::PADDED_LEN;
use wire::{QName, Rtype};

/// A name that a hosts file has.
#[derive(Clone, Copy)]
pub(crate) struct HostEntry<'w> {
    pub(crate) zone: &'w dyn Zone,
    pub(crate) hash: u64,
    node: Node<'w>,
}

impl<'w> HostEntry<'w> {
    /// Finds the first file that answers this name and type. A file with an address of a name
    /// answers all address queries for it, also of the other family and HTTPS, which contains
    /// address hints (RFC 9460 §7.3). Other types are not affected.
    #[inline(never)]
    pub(crate) fn find(
        zones: &'w dyn ZoneTable,
        view: View,
        name: &QName,
        rtype: Rtype,
    ) -> Option<Self> {
        if !matches!(rtype, Rtype::A | Rtype::AAAA | Rtype::HTTPS | Rtype::PTR) {
            return None;
        }
        Self::all(zones, view, name)?.find(|host| {
            let has = |rtype| host.node.set(rtype).is_some();
            has(rtype) || rtype != Rtype::PTR && (has(Rtype::A) || has(Rtype::AAAA))
        })
    }

    /// Whether some file has this name, for any type.
    #[inline]
    pub(crate) fn exists(zones: &'w dyn ZoneTable, view: View, name: &QName) -> bool {
        Self::all(zones, view, name).is_some_and(|mut all| all.any(|host| !host.node.is_empty()))
    }

    /// The entries of all files for a name; `None` if there is no file.
    fn all(
        zones: &'w dyn ZoneTable,
        view: View,
        name: &QName,
    ) -> Option<impl Iterator<Item = Self>> {
        zones.hosts(view, 0)?;
        let end = name.as_bytes().len() - 1;
        let hash = zones.key().hash(name.padded(), 0, end);
        let files = (0..).map_while(move |number| zones.hosts(view, number));
        Some(files.filter_map(move |zone| {
            let node = Leaf::new(zone.leaf(hash)).find(hash, &name.as_bytes()[..end])?;
            Some(Self { zone, hash, node })
        }))
    }

    /// Puts the records, or a negative answer. `first`: the name is that of the question.
    pub(crate) fn answer(
        self,
        key: &HashKey,
        name: &QName,
        first: bool,
        reply: &mut ReplyWriter<'_>,
    ) {
        let Self { zone, node, .. } = self;
        if let Some(set) = node.set(reply.query.rtype) {
            let owner =
                if first { OwnerName::Question(0) } else { OwnerName::Name(name.as_name()) };
            return reply.put_answer(owner, &set, node);
        }
        // The name acts as a zone of its own, so that the negative answer says nothing about other
        // names.
        if let Some(apex) = zone.find(key, RelName::new(&[0; PADDED_LEN], 0, 0)) {
            reply.put_negative_soa(name.as_name(), first.then_some(0), apex);
        }
    }
}
