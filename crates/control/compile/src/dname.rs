//! Records below a DNAME record, which answers for all names below its own (RFC 6672 §2.4).
use crate::names::is_below;
use crate::problem::ZoneProblem;
use crate::zone::{SetChange, Zone, parent};
use image::{Node, Tree};
use model::BrokenRule;
use wire::{NameBuf, Rtype};

/// A name with records below the owner of a DNAME record. Both are relative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenName {
    /// The name.
    pub name: Box<[u8]>,
    /// The owner of the DNAME record.
    pub dname: Box<[u8]>,
}

impl HiddenName {
    fn new(name: &[u8], dname: &[u8]) -> Self {
        Self { name: name.into(), dname: dname.into() }
    }

    /// What is wrong with it in this zone.
    pub fn problem(&self, zone: &Zone, place: Option<u32>) -> ZoneProblem {
        let absolute = |name: &[u8]| {
            let name = NameBuf::joined(name, zone.origin());
            name.map(|name| name.as_name().to_string()).unwrap_or_default()
        };
        let (name, dname) = (absolute(&self.name), absolute(&self.dname));
        let what = format!("{name}: it is below {dname}, whose DNAME record answers for it");
        ZoneProblem { place, rule: BrokenRule::BELOW_DNAME, what }
    }
}

impl Zone {
    /// The names with records below a DNAME record, up to `max`. Costs nothing in a zone without
    /// delegations and DNAME records.
    pub fn names_below_dnames(&self, max: usize) -> Vec<HiddenName> {
        let mut found = Vec::new();
        if !self.may_have_dnames() || !self.nodes().any(has_dname) {
            return found;
        }
        let mut above: Option<&[u8]> = None;
        // In canonical order, all names below another one follow it.
        for node in (0..self.names.len()).filter_map(|rank| self.names.at(rank)) {
            above = above.filter(|above| is_below(node.name(), above));
            match above {
                Some(_) if found.len() == max => break,
                Some(dname) if !node.is_empty() => found.push(HiddenName::new(node.name(), dname)),
                Some(_) => {}
                None if has_dname(node) => above = Some(node.name()),
                None => {}
            }
        }
        found
    }

    /// Whether these changes may create records below a DNAME record.
    pub fn may_hide<R>(&self, changes: &[SetChange<'_, R>]) -> bool {
        let puts_dname = |change: &SetChange<'_, R>| change.rtype == Rtype::DNAME;
        self.may_have_dnames() || changes.iter().any(puts_dname)
    }

    /// Checks that these changes, which the zone already has, created no record below a DNAME
    /// record.
    ///
    /// # Errors
    /// The first one that did; the place is its index.
    pub fn check_dnames<R>(&self, changes: &[SetChange<'_, R>]) -> Result<(), ZoneProblem> {
        let puts = changes.iter().enumerate().filter(|(_, change)| change.set.is_some());
        for (index, change) in puts {
            if let Some(hidden) = self.hidden_by(change.name, change.rtype) {
                return Err(hidden.problem(self, Some(index as u32)));
            }
        }
        Ok(())
    }

    fn may_have_dnames(&self) -> bool {
        self.facts.cuts != Default::default()
    }

    fn hidden_by(&self, name: &[u8], rtype: Rtype) -> Option<HiddenName> {
        let mut rest = name;
        while let Some(above) = parent(rest) {
            if self.names.get(above).is_some_and(has_dname) {
                return Some(HiddenName::new(name, above));
            }
            rest = above;
        }
        let first = (rtype == Rtype::DNAME).then(|| self.names.first_below(name)).flatten()?;
        Some(HiddenName::new(first.name(), name))
    }
}

fn has_dname(node: Node<'_>) -> bool {
    node.set(Rtype::DNAME).is_some()
}

#[cfg(test)]
mod tests {
    use crate::{Loader, Zone};
    use image::HashKey;
    use std::sync::Arc;
    use wire::{Name, NameBuf, Rtype};

    fn name(text: &str) -> NameBuf {
        NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
    }

    /// `example` with these names with an A record, and these with a DNAME record.
    fn zone(hosts: &[&str], dnames: &[&str]) -> Zone {
        let key = Arc::new(HashKey::new([7; image::HASH_KEY_WORDS]));
        let mut loader = Loader::new(key, name("example.").as_name(), None);
        let soa = b"\x02ns\0\x01h\0\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\x04\0\0\0\x05";
        let mut add = |owner: &str, rtype, data: &[u8]| {
            loader.add(name(owner).as_name(), rtype, 60, data, 0).expect("it is in the zone");
        };
        add("example.", Rtype::SOA, soa);
        add("example.", Rtype::NS, b"\x02ns\0");
        hosts.iter().for_each(|host| add(host, Rtype::A, &[192, 0, 2, 1]));
        dnames.iter().for_each(|dname| add(dname, Rtype::DNAME, b"\x01x\0"));
        loader.finish().expect("a zone")
    }

    fn hidden(zone: &Zone) -> Vec<String> {
        let found = zone.names_below_dnames(10);
        found.iter().map(|hidden| hidden.problem(zone, None).what).collect()
    }

    #[test]
    fn names_below_a_dname_are_found() {
        let beside = ["d.example.", "xd.example.", "a.example."];
        assert_eq!(hidden(&zone(&beside, &["d.example."])), Vec::<String>::new());
        let below = ["a.d.example.", "b.a.d.example.", "e.example."];
        assert_eq!(
            hidden(&zone(&below, &["d.example."])),
            ["a.d.example.", "b.a.d.example."]
                .map(|n| format!("{n}: it is below d.example., whose DNAME record answers for it"))
        );
        assert_eq!(hidden(&zone(&["a.example."], &["example."])).len(), 1);
        assert_eq!(zone(&below, &["d.example."]).names_below_dnames(1).len(), 1);
    }

    #[test]
    fn change_that_puts_a_record_below_a_dname_is_found() {
        let check = |zone: &Zone, owner: &str, rtype, data: Option<&[u8]>| {
            let (mut zone, owner) = (zone.clone(), name(owner));
            let relative = zone.relative(owner.as_name()).expect("a name of the zone");
            let data: Option<[&[u8]; 1]> = data.map(|data| [data]);
            let set = data.as_ref().map(|data| (60, &data[..]));
            let change = crate::SetChange { name: &relative, rtype, set, rules: Vec::new() };
            let changes = [change];
            assert!(zone.may_hide(&changes));
            zone.change_all(&changes).expect("valid by itself");
            zone.check_dnames(&changes).map_err(|problem| problem.what)
        };
        let with = zone(&["d.example.", "e.example."], &["d.example."]);
        let a = Some(&[192, 0, 2, 2][..]);
        assert!(check(&with, "a.b.d.example.", Rtype::A, a).is_err());
        assert_eq!(check(&with, "d.example.", Rtype::A, a), Ok(()));
        assert_eq!(check(&with, "a.e.example.", Rtype::A, a), Ok(()));
        let dname = Some(&b"\x01x\0"[..]);
        let without = zone(&["a.d.example.", "e.example."], &[]);
        let why = check(&without, "d.example.", Rtype::DNAME, dname).unwrap_err();
        assert!(why.starts_with("a.d.example.: it is below d.example."), "{why}");
        assert_eq!(check(&without, "e.example.", Rtype::DNAME, dname), Ok(()));
        // Zones of earlier versions may have such records; they can be removed.
        let old = zone(&["a.d.example.", "e.example."], &["d.example."]);
        assert_eq!(check(&old, "a.d.example.", Rtype::A, None), Ok(()));
        assert_eq!(check(&old, "e.example.", Rtype::A, a), Ok(()));
    }
}
