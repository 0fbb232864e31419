//! The additional section: addresses that the client is likely to need next.
use crate::limits::TARGETS_MAX;
use crate::reply::{OwnerName, ReplySection, ReplyWriter, absolute};
use image::{HashKey, Node, RecordSet, RelName, Zone};
use wire::limits::PADDED_LEN;
use wire::{Name, QName, Rtype, target};

/// The source of additional records.
pub(crate) enum AdditionalRecords<'w> {
    Nothing,
    /// Addresses of the names in this record set of the node.
    Mentioned(RecordSet<'w>, Node<'w>),
    /// Addresses of the name servers in this NS set of a delegation.
    Glue(RecordSet<'w>, Node<'w>),
}

/// The priority in front of the target name in SVCB and HTTPS; 0 is AliasMode (RFC 9460 §2.4.1).
const ALIAS_MODE: [u8; 2] = [0; 2];

impl<'w> AdditionalRecords<'w> {
    /// The source for an answer's set, if its type has target names.
    pub(crate) fn mentioned(set: RecordSet<'w>, node: Node<'w>) -> Self {
        match target(set.rtype()) {
            Some(_) => Self::Mentioned(set, node),
            None => Self::Nothing,
        }
    }

    /// Puts the records. `name` is the last name of the CNAME chain, in `zone`.
    pub(crate) fn put(
        &self,
        key: &HashKey,
        zone: &'w dyn Zone,
        name: &QName,
        reply: &mut ReplyWriter<'_>,
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

/// A set that does not fit is left out (RFC 2181 §9). A later one may be smaller.
fn put_mentioned<'w>(
    key: &HashKey,
    zone: &'w dyn Zone,
    name: &QName,
    set: &RecordSet<'w>,
    node: Node<'w>,
    reply: &mut ReplyWriter<'_>,
) {
    let service = matches!(set.rtype(), Rtype::SVCB | Rtype::HTTPS);
    let Some(offset) = target(set.rtype()) else { return };
    let (mut targets, mut len) = ([(&[][..], Name::ROOT); TARGETS_MAX], 0);
    reply.each_of_last(set, &mut |data| {
        let target = data.get(offset..).and_then(|name| Name::parse(name).ok());
        if let (Some(place), Some(target)) = (targets.get_mut(len), target) {
            (*place, len) = ((data, target), len + 1);
        }
    });
    for (at, (data, target)) in targets[..len].iter().copied().enumerate() {
        if targets[..at].iter().any(|(_, before)| *before == target) {
            continue;
        }
        let alias = service && data.starts_with(&ALIAS_MODE);
        // RFC 9460 §2.5.2: in ServiceMode the root stands for the owner itself.
        let (owner, found) = match service && !alias && target.is_root() {
            true => (name.as_name(), Some(node)),
            false => (target, find(key, zone, target)),
        };
        let Some(found) = found else { continue };
        // RFC 9460 §4.1: an alias continues at the target's set of the same type.
        let next = if alias { found.set(set.rtype()) } else { None };
        let addresses = [found.set(Rtype::A), found.set(Rtype::AAAA)];
        for set in next.into_iter().chain(addresses.into_iter().flatten()) {
            let _ =
                reply.put(ReplySection::Additional, OwnerName::Name(owner), &set, found, set.ttl());
        }
    }
}

/// Puts glue. Addresses of servers inside the delegated zone must fit (RFC 9471 §3.1); others are
/// optional.
fn put_glue<'w>(
    key: &HashKey,
    zone: &'w dyn Zone,
    servers: &RecordSet<'w>,
    cut: Node<'w>,
    reply: &mut ReplyWriter<'_>,
) {
    let cut = absolute(cut.name(), zone.origin());
    for needed in [true, false] {
        for server in servers.records().filter_map(|data| Name::parse(data).ok()) {
            if server.is_within(cut.as_name()) != needed {
                continue;
            }
            let Some(found) = find(key, zone, server) else { continue };
            for set in [found.set(Rtype::A), found.set(Rtype::AAAA)].into_iter().flatten() {
                let owner = OwnerName::Name(server);
                let put = reply.put(ReplySection::Additional, owner, &set, found, set.ttl());
                if put.is_err() && needed {
                    return reply.truncate();
                }
            }
        }
    }
}

/// The node of a name of this zone, also below a cut.
fn find<'w>(key: &HashKey, zone: &'w dyn Zone, name: Name<'_>) -> Option<Node<'w>> {
    if !name.is_within(zone.origin()) {
        return None;
    }
    let len = name.len() - zone.origin().len();
    let mut buffer = [0; PADDED_LEN];
    buffer[..len].copy_from_slice(&name.as_bytes()[..len]);
    buffer[..len].make_ascii_lowercase();
    zone.find(key, RelName::new(&buffer, 0, len))
}
