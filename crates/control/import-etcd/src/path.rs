//! `SkyDNS`' layout: a name has the records of all keys below it.
use crate::group::grouped;
use crate::key::{Key, Keys, name_of};
use crate::service::HostKind;
use crate::sets::Sets;
use crate::{Imported, KeyReport};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wire::{Name, NameBuf, Rtype};

/// Bytes of a character-string.
const STRING_MAX: usize = 255;

/// Converts the keys of a zone.
pub fn import(keys: &Keys, zone: Name<'_>, imported: &mut Imported) {
    let mut names = BTreeSet::new();
    for key in &keys.keys {
        names.extend((keys.depth..=key.parts.len()).map(|depth| key.parts[..depth].to_vec()));
        if key.service.host.is_empty() && key.service.text.is_empty() {
            report(imported, key, "has neither `host` nor `text`");
        }
    }
    let is_reverse = zone.labels().last().is_some_and(|label| label == b"arpa");
    let mut tree = Tree { keys, is_reverse, sets: Sets::default(), imported };
    for parts in &names {
        if let Some(name) = name_of(parts) {
            tree.add_name(&name, parts);
        }
    }
    if let Some(parts) = names.first() {
        tree.add_servers(&zone.into(), parts);
    }
    for parts in &names {
        if let Some(name) = name_of(parts) {
            tree.add_alias(&name, parts);
        }
    }
    let Tree { sets, imported, .. } = tree;
    sets.finish(imported);
}

struct Tree<'k> {
    keys: &'k Keys,
    is_reverse: bool,
    sets: Sets,
    imported: &'k mut Imported,
}

fn report(imported: &mut Imported, key: &Key, what: &str) {
    imported.notes.push(KeyReport { key: key.text.clone(), what: what.to_owned(), is_lost: true });
}

impl Tree<'_> {
    fn add(&mut self, name: &NameBuf, rtype: Rtype, data: &str, key: &Key) {
        if let Err(why) = self.sets.add(name, rtype, data, key) {
            report(self.imported, key, &format!("{name} {rtype} {data:?}: {why}"));
        }
    }

    /// The services that a query for a name finds; `with_text`: a query for TXT.
    fn services(&self, parts: &[String], with_text: bool) -> Vec<&Key> {
        let mut found = self.keys.below(parts);
        found.retain(|key| {
            !key.service.host.is_empty() || (with_text && !key.service.text.is_empty())
        });
        grouped(found)
    }

    /// Adds the sets of a name, but for an alias.
    fn add_name(&mut self, name: &NameBuf, parts: &[String]) {
        let services: Vec<Key> = self.services(parts, false).into_iter().cloned().collect();
        let texts: Vec<Key> = self.services(parts, true).into_iter().cloned().collect();
        let addresses = match self.special(parts, "apex") {
            Some(apex) if parts.len() == self.keys.depth => apex,
            _ => services.clone(),
        };
        for key in &addresses {
            if let HostKind::Address(address) = key.service.kind() {
                let rtype = if address.is_ipv4() { Rtype::A } else { Rtype::AAAA };
                self.add(name, rtype, &address.to_string(), key);
            }
        }
        self.add_srv(name, parts, &services);
        for key in services.iter().filter(|key| key.service.mail) {
            if let Some(target) = target_of(key) {
                self.add(name, Rtype::MX, &format!("{} {target}", key.service.priority()), key);
            }
        }
        for key in texts.iter().filter(|key| key.service.kind() == HostKind::Text) {
            self.add(name, Rtype::TXT, &quoted(&key.service.text), key);
        }
        if let Some(key) = self.keys.exactly(parts).cloned().filter(|_| self.is_reverse)
            && key.service.host.parse::<IpAddr>().is_err()
            && !key.service.host.is_empty()
        {
            self.add(name, Rtype::PTR, &absolute(&key.service.host), &key);
        }
    }

    fn add_srv(&mut self, name: &NameBuf, parts: &[String], services: &[Key]) {
        let mut sums = BTreeMap::new();
        let weight_of = |key: &Key| if key.service.weight == 0 { 100 } else { key.service.weight };
        for key in services {
            *sums.entry(key.service.priority()).or_insert(0_i64) += weight_of(key);
        }
        let mut seen = BTreeSet::new();
        for key in services.iter().filter(|key| key.service.port != -1) {
            // An alias has no other records: `add_alias`.
            let is_alias =
                key.service.kind() == HostKind::Name && key.service.port == 0 && key.parts == parts;
            let Some(target) = target_of(key).filter(|_| !is_alias) else { continue };
            let part = 100.0 / sums[&key.service.priority()] as f64 * weight_of(key) as f64;
            let weight = (part.floor() as u16).max(1);
            let (priority, port) = (key.service.priority(), key.service.port as u16);
            let is_address = matches!(key.service.kind(), HostKind::Address(_));
            if is_address && !seen.insert((target.clone(), port)) {
                continue;
            }
            self.add(name, Rtype::SRV, &format!("{priority} {weight} {port} {target}"), key);
        }
    }

    /// The services of a special name of the zone: `apex.dns` or `ns.dns`; `None`: no keys.
    fn special(&self, parts: &[String], what: &str) -> Option<Vec<Key>> {
        let mut path = parts[..self.keys.depth].to_vec();
        path.extend(["dns".to_owned(), what.to_owned()]);
        let is_there = !self.keys.below(&path).is_empty();
        is_there.then(|| self.services(&path, false).into_iter().cloned().collect())
    }

    /// The NS set of the zone, of the addresses below `ns.dns`.
    fn add_servers(&mut self, origin: &NameBuf, parts: &[String]) {
        for key in self.special(parts, "ns").unwrap_or_default() {
            match key.service.kind() {
                HostKind::Address(_) => {
                    let Some(target) = target_of(&key) else { continue };
                    self.add(origin, Rtype::NS, &target, &key);
                }
                _ => report(self.imported, &key, "the host of a name server is an address"),
            }
        }
    }

    /// Adds the CNAME of a name whose only service is another name; reports what cannot be one.
    fn add_alias(&mut self, name: &NameBuf, parts: &[String]) {
        let Some(key) = self.keys.exactly(parts).cloned().filter(|_| !self.is_reverse) else {
            return;
        };
        let Service { is_name, is_loop } = Service::of(&key, name);
        if !is_name {
            return;
        }
        let is_alone = self.services(parts, false).len() == 1 && parts.len() > self.keys.depth;
        if key.service.port > 0 {
            report(self.imported, &key, "is an SRV record only: a CNAME has no other records");
        } else if is_loop {
            report(self.imported, &key, "leads back to itself");
        } else if !is_alone || self.sets.has_other(name, Rtype::CNAME) {
            let what = "is no CNAME: other records are at its name (RFC 1034 §3.6.2)";
            report(self.imported, &key, what);
        } else {
            self.add(name, Rtype::CNAME, &absolute(&key.service.host), &key);
            let what = "the names above it answer it as an SRV record only, no longer as an alias";
            let (key, what) = (key.text, what.to_owned());
            self.imported.notes.push(KeyReport { key, what, is_lost: false });
        }
    }
}

/// What the host of a key is as an alias.
struct Service {
    is_name: bool,
    /// The host is at or below the name.
    is_loop: bool,
}

impl Service {
    fn of(key: &Key, name: &NameBuf) -> Self {
        let is_name = key.service.kind() == HostKind::Name && !key.service.host.is_empty();
        let host = zonefile::read_name(&key.service.host).ok();
        let is_loop = host.is_some_and(|host| host.as_name().is_within(name.as_name()));
        Self { is_name, is_loop }
    }
}

/// The target of an SRV or MX record: the host, or the key's own name if the host is an address.
pub fn target_of(key: &Key) -> Option<String> {
    let target = match key.service.kind() {
        HostKind::Address(_) => name_of(&key.parts)?.to_string(),
        HostKind::Name if !key.service.host.is_empty() => absolute(&key.service.host),
        _ => return None,
    };
    let labels: Vec<&str> = target.trim_end_matches('.').split('.').collect();
    let strip = usize::try_from(key.service.targetstrip).unwrap_or(0);
    // One that strips every label strips none.
    Some(if strip < labels.len() { format!("{}.", labels[strip..].join(".")) } else { target })
}

pub fn absolute(host: &str) -> String {
    if host.ends_with('.') { host.to_owned() } else { format!("{host}.") }
}

/// A text as character-strings.
pub fn quoted(text: &str) -> String {
    let strings = text.as_bytes().chunks(STRING_MAX).map(|bytes| {
        let byte = |byte: &u8| match byte {
            b'"' | b'\\' => format!("\\{}", char::from(*byte)),
            b' '..=b'~' => char::from(*byte).to_string(),
            _ => format!("\\{byte:03}"),
        };
        format!("\"{}\"", bytes.iter().map(byte).collect::<String>())
    });
    strings.collect::<Vec<_>>().join(" ")
}
