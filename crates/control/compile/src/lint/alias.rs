//! The targets of a zone's aliases.
use crate::Zone;
use crate::limits::ALIASES_MAX;
use image::Node;
use wire::{Name, NameBuf, Rtype};

/// Describes the loop into which an alias leads; `None` if it leads elsewhere. All names are
/// relative.
pub fn loop_of(zone: &Zone, owner: &[u8], target: &[u8]) -> Option<String> {
    let mut path = vec![owner.to_vec()];
    let mut next = target.to_vec();
    loop {
        if let Some(start) = path.iter().position(|name| *name == next) {
            path.push(next);
            let names: Vec<String> = path[start..].iter().map(|name| shown(zone, name)).collect();
            let chain = names.join(", ");
            return Some(match start {
                0 => format!("the alias leads back to itself: {chain}"),
                _ => format!("the alias leads into a loop: {chain}"),
            });
        }
        // A longer chain is broken for clients, too, but it ends.
        if path.len() == ALIASES_MAX {
            return None;
        }
        let there = zone.names().get(&next).or_else(|| wildcard(zone, &next))?;
        let alias = there.set(Rtype::CNAME)?.records().next()?;
        let target = zone.relative(Name::parse(alias).ok()?)?;
        path.push(std::mem::replace(&mut next, target));
    }
}

fn shown(zone: &Zone, name: &[u8]) -> String {
    let name = NameBuf::joined(name, zone.origin());
    name.map(|name| format!("`{name}`")).unwrap_or_default()
}

/// The wildcard that covers a missing name (RFC 4592 §3.3.1).
pub fn wildcard<'z>(zone: &'z Zone, name: &[u8]) -> Option<Node<'z>> {
    let mut rest = name;
    while let [len, ..] = rest {
        rest = rest.get(1 + usize::from(*len)..).unwrap_or_default();
        if zone.names().get(rest).is_some() {
            return zone.names().get(&[b"\x01*", rest].concat());
        }
    }
    None
}
