//! The layouts of `ContainerDNS` and KDNS: the last part of a key names one record of a name.
use crate::key::{Key, Keys, name_of};
use crate::path::{absolute, quoted};
use crate::service::HostKind;
use crate::sets::Sets;
use crate::{Imported, KeyReport};
use wire::{Name, Rtype};

/// The view of a record that is for all clients, beside the empty one.
const VIEW_OF_ALL: &str = "no_info";

/// Converts the keys of a zone.
pub fn import(keys: &Keys, zone: Name<'_>, imported: &mut Imported) {
    let mut sets = Sets::default();
    let mut aliases = Vec::new();
    for key in &keys.keys {
        if key.service.rtype.eq_ignore_ascii_case("CNAME") {
            aliases.push(key);
        } else if let Err(what) = add(key, keys.depth, &mut sets) {
            imported.notes.push(KeyReport { key: key.text.clone(), what, is_lost: true });
        }
    }
    for key in aliases {
        if let Err(what) = add_alias(key, zone, &mut sets) {
            imported.notes.push(KeyReport { key: key.text.clone(), what, is_lost: true });
        }
    }
    sets.finish(imported);
}

fn add(key: &Key, depth: usize, sets: &mut Sets) -> Result<(), String> {
    let service = &key.service;
    if !service.view.is_empty() && service.view != VIEW_OF_ALL {
        let view = &service.view;
        let help = "write it into a zone file of a `[[zone]] view`";
        return Err(format!("is for the view {view:?}: {help}"));
    }
    let above = &key.parts[..key.parts.len().saturating_sub(1).max(depth)];
    // Records of the apex stand below `dns/ns`, `dns/mail` and `dns/txt`.
    let apex = match above {
        [zone @ .., dns, _] if dns == "dns" && zone.len() == depth => Some(zone),
        _ => None,
    };
    let owner = |parts: &[String]| name_of(parts).ok_or_else(|| "is no name".to_owned());
    let address = match service.kind() {
        HostKind::Address(address) => Some(address),
        _ => None,
    };
    match (&*service.rtype.to_ascii_uppercase(), address) {
        ("A" | "AAAA" | "", Some(address)) => {
            let rtype = if address.is_ipv4() { Rtype::A } else { Rtype::AAAA };
            sets.add(&owner(above)?, rtype, &address.to_string(), key)
        }
        ("SRV", address) => {
            let target = match address {
                Some(address) => {
                    let own = owner(&key.parts)?;
                    let rtype = if address.is_ipv4() { Rtype::A } else { Rtype::AAAA };
                    sets.add(&own, rtype, &address.to_string(), key)?;
                    own.to_string()
                }
                None => absolute(&service.host),
            };
            let (priority, weight, port) = (service.priority(), service.weight, service.port);
            let data = format!("{priority} {weight} {port} {target}");
            sets.add(&owner(above)?, Rtype::SRV, &data, key)
        }
        ("PTR", None) => sets.add(&owner(above)?, Rtype::PTR, &absolute(&service.host), key),
        ("NS", None) => {
            sets.add(&owner(apex.unwrap_or(above))?, Rtype::NS, &absolute(&service.host), key)
        }
        ("MX", None) => {
            let data = format!("{} {}", service.priority(), absolute(&service.host));
            sets.add(&owner(apex.unwrap_or(above))?, Rtype::MX, &data, key)
        }
        ("TXT", _) => {
            sets.add(&owner(apex.unwrap_or(above))?, Rtype::TXT, &quoted(&service.text), key)
        }
        (rtype, _) => Err(format!("type {rtype:?} with the host {:?} is no record", service.host)),
    }
}

/// A CNAME is at the key's own name.
fn add_alias(key: &Key, zone: Name<'_>, sets: &mut Sets) -> Result<(), String> {
    let name = name_of(&key.parts).ok_or("is no name")?;
    if name.as_name() == zone || sets.has_other(&name, Rtype::CNAME) {
        return Err("is no CNAME: other records are at its name (RFC 1034 §3.6.2)".into());
    }
    sets.add(&name, Rtype::CNAME, &absolute(&key.service.host), key)
}
