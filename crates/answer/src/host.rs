//! Names and addresses of hosts files: they go before what others say, and after zones of one's
//! own.
use crate::reply::{Owner, Reply, Section};
use image::{HashKey, Leaf, Node, RelName, World, Zone};
use wire::limits::PADDED_LEN;
use wire::{QName, Rtype};

/// A name that a hosts file has.
#[derive(Clone, Copy)]
pub(crate) struct Host<'w> {
    /// What the file says.
    pub(crate) zone: &'w dyn Zone,
    /// The hash of the name.
    pub(crate) hash: u64,
    node: Node<'w>,
}

impl<'w> Host<'w> {
    /// Looks into the files, the first before the others, for one that decides about a name and
    /// type. One that has an address for a name decides about all its addresses; so nobody else is
    /// asked for those of the other family, or for HTTPS records, which hint at addresses (RFC 9460
    /// §7.3). All other types are not its business.
    #[inline(never)]
    pub(crate) fn find(world: &'w dyn World, name: &QName, rtype: Rtype) -> Option<Self> {
        if !matches!(rtype, Rtype::A | Rtype::AAAA | Rtype::HTTPS | Rtype::PTR) {
            return None;
        }
        Self::all(world, name)?.find(|host| {
            let has = |rtype| host.node.set(rtype).is_some();
            has(rtype) || rtype != Rtype::PTR && (has(Rtype::A) || has(Rtype::AAAA))
        })
    }

    /// Whether some file decides about a name, if it is asked for the right type.
    #[inline]
    pub(crate) fn exists(world: &'w dyn World, name: &QName) -> bool {
        Self::all(world, name).is_some_and(|mut all| all.any(|host| !host.node.is_empty()))
    }

    /// What the files have at a name; nothing where there is no file.
    fn all(world: &'w dyn World, name: &QName) -> Option<impl Iterator<Item = Self>> {
        world.hosts(0)?;
        let end = name.octets().len() - 1;
        let hash = world.key().hash(name.padded(), 0, end);
        let files = (0..).map_while(move |number| world.hosts(number));
        Some(files.filter_map(move |zone| {
            let node = Leaf::new(zone.leaf(hash)).find(hash, &name.octets()[..end])?;
            Some(Self { zone, hash, node })
        }))
    }

    /// Puts the records asked for, or says that there are none. `first` is the question's own name.
    pub(crate) fn answer(self, key: &HashKey, name: &QName, first: bool, reply: &mut Reply<'_>) {
        let Self { zone, node, .. } = self;
        if let Some(set) = node.set(reply.query.rtype) {
            let owner = if first { Owner::Question(0) } else { Owner::Name(name.as_name()) };
            return reply.put_needed(Section::Answer, owner, &set, node);
        }
        // The name is a zone of its own, as it were: nothing is said of others.
        if let Some(apex) = zone.find(key, RelName::new(&[0; PADDED_LEN], 0, 0)) {
            reply.put_negative_soa(name.as_name(), first.then_some(0), apex);
        }
    }
}
