//! Names that are somebody else's: what is known of them, and who asks about them.
use crate::Dice;
use crate::finish::Ede;
use crate::limits::{RELAYED_DATA_MAX, STALE_TTL};
use crate::relay::Note;
use crate::reply::{Owner, Reply, Section};
use cache::{Found, Key, Kind};
use image::{ForwardRule, HashKey};
use packet::Packet;
use wire::{Class, Flags, Name, NameBuf, QName, Query, Rcode, Records, Rtype};

/// What is known of other servers' names, and who asks about them.
pub trait Elsewhere {
    /// Has what [`find`](Self::find) will need fetched into the CPU's cache.
    fn prefetch(&self, key: &Key<'_>);

    /// What is known, fresh or not: a message of [`relay`](crate::relay()).
    fn find(&mut self, key: &Key<'_>) -> Option<Found<'_>>;

    /// Asks, and has the packet answered when it is known: by another [`batch`](crate::batch()).
    /// The packet is as it came. False where nobody can be asked: then this batch answers.
    fn ask(&mut self, key: &Key<'_>, group: u16, packet: &Packet<'_>) -> bool;

    /// Asks about what is known and will soon be too old.
    fn renew(&mut self, key: &Key<'_>, group: u16);
}

/// Nothing is known, and nobody can be asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

impl Elsewhere for Nowhere {
    fn prefetch(&self, _key: &Key<'_>) {}

    fn find(&mut self, _key: &Key<'_>) -> Option<Found<'_>> {
        None
    }

    fn ask(&mut self, _key: &Key<'_>, _group: u16, _packet: &Packet<'_>) -> bool {
        false
    }

    fn renew(&mut self, _key: &Key<'_>, _group: u16) {}
}
