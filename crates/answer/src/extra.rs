//! The additional section: addresses that whoever asked will want next.
use crate::limits::TARGETS_MAX;
use crate::reply::{Owner, Reply, Section, absolute};
use image::{HashKey, Node, RecordSet, RelName, Zone};
use wire::limits::PADDED_LEN;
use wire::{Name, QName, Rtype, target};

/// Which records help.
pub(crate) enum Extra<'w> {
    /// None.
    Nothing,
    /// Those of the names in this set, which is one of the node's.
    Mentioned(RecordSet<'w>, Node<'w>),
    /// Those of a delegation's servers, which this set of the node names.
    Glue(RecordSet<'w>, Node<'w>),
}

/// Octets in front of the target's name in SVCB and HTTPS: the priority; 0 is an alias (RFC 9460
/// §2.4.1).
const ALIAS_MODE: [u8; 2] = [0; 2];

impl<'w> Extra<'w> {
    /// What an answer's set mentions, if its type mentions names.
    pub(crate) fn mentioned(set: RecordSet<'w>, node: Node<'w>) -> Self {
        match target(set.rtype()) {
            Some(_) => Self::Mentioned(set, node),
            None => Self::Nothing,
        }
    }

    /// Puts it. `name` is the one the chain of aliases ended at, in `zone`.
    pub(crate) fn put(
        &self,
        key: &HashKey,
        zone: &'w dyn Zone,
        name: &QName,
        reply: &mut Reply<'_>,
    ) {
        if reply.is_truncated() {
            return;
        }
        match self {
            Self::Nothing => {}
            Self::Mentioned(set, node) => put_mentioned(key, zone, name, set, *node, reply),
            Self::Glue(servers, cut) => put_glue(key, zone, servers, *cut, reply),
        }
    }
}

/// What does not fit is left out (RFC 2181 §9): whether or not there was room for one set, the next
/// may be smaller.
fn put_mentioned<'w>(
    key: &HashKey,
    zone: &'w dyn Zone,
    name: &QName,
    set: &RecordSet<'w>,
    node: Node<'w>,
    reply: &mut Reply<'_>,
) {
    let service = matches!(set.rtype(), Rtype::SVCB | Rtype::HTTPS);
    let Some(offset) = target(set.rtype()) else { return };
    let targets =
        || set.records().filter_map(|data| Some((data, Name::parse(data.get(offset..)?).ok()?)));
    for (at, (data, target)) in targets().take(TARGETS_MAX).enumerate() {
        if targets().take(at).any(|(_, before)| before == target) {
            continue;
        }
        let alias = service && data.starts_with(&ALIAS_MODE);
        // RFC 9460 §2.5.2: in ServiceMode the root stands for the owner itself.
        let (owner, found) = match service && !alias && target.is_root() {
            true => (name.as_name(), Some(node)),
            false => (target, find(key, zone, target)),
        };
        let Some(found) = found else { continue };
        // RFC 9460 §4.1: an alias goes on at the target's set of the same type.
        let next = if alias { found.set(set.rtype()) } else { None };
        let addresses = [found.set(Rtype::A), found.set(Rtype::AAAA)];
        for set in next.into_iter().chain(addresses.into_iter().flatten()) {
            let _ = reply.put(Section::Additional, Owner::Name(owner), &set, found, set.ttl());
        }
    }
}

/// Addresses of the delegated zone's servers: of those within it they are part of the referral and
/// must be there (RFC 9471 §3.1); others only help.
fn put_glue<'w>(
    key: &HashKey,
    zone: &'w dyn Zone,
    servers: &RecordSet<'w>,
    cut: Node<'w>,
    reply: &mut Reply<'_>,
) {
    let cut = absolute(cut.name(), zone.origin());
    for needed in [true, false] {
        for server in servers.records().filter_map(|data| Name::parse(data).ok()) {
            if server.is_within(cut.as_name()) != needed {
                continue;
            }
            let Some(found) = find(key, zone, server) else { continue };
            for set in [found.set(Rtype::A), found.set(Rtype::AAAA)].into_iter().flatten() {
                let owner = Owner::Name(server);
                let put = reply.put(Section::Additional, owner, &set, found, set.ttl());
                if put.is_err() && needed {
                    return reply.truncate();
                }
            }
        }
    }
}

/// The node of a name of this zone, whether or not it lies below a cut.
fn find<'w>(key: &HashKey, zone: &'w dyn Zone, name: Name<'_>) -> Option<Node<'w>> {
    if !name.is_within(zone.origin()) {
        return None;
    }
    let len = name.len() - zone.origin().len();
    let mut buffer = [0; PADDED_LEN];
    buffer[..len].copy_from_slice(&name.octets()[..len]);
    buffer[..len].make_ascii_lowercase();
    zone.find(key, RelName::new(&buffer, 0, len))
}
