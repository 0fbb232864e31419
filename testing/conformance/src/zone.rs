//! A zone as the query generator and the comparison see it: which names exist, and where it is cut.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use domain::base::Name as DomainName;
use domain::base::iana::{Class, Rtype};
use domain::base::name::ToName;
use domain::zonefile::inplace::{Entry, Zonefile};

use crate::Result;
use crate::names::{self, Name};

/// How a zone is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signing {
    /// Not at all.
    Unsigned,
    /// With NSEC (RFC 4034).
    Nsec,
    /// With NSEC3 (RFC 5155), salt and iterations as given.
    Nsec3,
    /// With NSEC3, insecure delegations left out of the chain.
    OptOut,
}

/// One zone, its file, and what stands in it.
#[derive(Clone, Debug)]
pub struct Zone {
    /// The apex.
    pub name: Name,
    /// The master file all servers read.
    pub file: PathBuf,
    /// How it is signed.
    pub signing: Signing,
    /// Every name that exists, empty non-terminals too, with its types.
    pub nodes: BTreeMap<Name, BTreeSet<Rtype>>,
}

impl Zone {
    /// Writes an unsigned zone into `directory`.
    pub fn write(directory: &Path, name: Name, text: &str) -> Result<Self> {
        let file = directory.join(format!("{name}.zone"));
        std::fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
        Self::read(name, file, Signing::Unsigned)
    }

    /// Reads `file` with `domain`'s reader.
    pub fn read(name: Name, file: PathBuf, signing: Signing) -> Result<Self> {
        let text = std::fs::read(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let mut reader = Zonefile::with_capacity(text.len() + 1);
        reader.extend_from_slice(&text);
        let origin = DomainName::bytes_from_str(&name.fmt_with_dot().to_string());
        reader.set_origin(origin.expect("a name stays a name"));
        reader.set_default_class(Class::IN);
        let mut zone = Self { name, file, signing, nodes: BTreeMap::new() };
        loop {
            match reader.next_entry() {
                Ok(Some(Entry::Record(record))) => {
                    zone.insert(record.owner().to_name(), record.rtype());
                }
                Ok(Some(Entry::Include { .. })) => return Err("no $INCLUDE here".into()),
                Ok(None) => return Ok(zone),
                Err(e) => return Err(format!("{}: {e}", zone.file.display())),
            }
        }
    }

    fn insert(&mut self, owner: Name, rtype: Rtype) {
        let mut above = names::parent(&owner);
        while let Some(name) = above.filter(|name| name.ends_with(&self.name)) {
            above = names::parent(&name);
            self.nodes.entry(name).or_default();
        }
        self.nodes.entry(owner).or_default().insert(rtype);
    }

    /// The cut nearest to the apex at or above `name`, if there is one.
    pub fn cut_above(&self, name: &Name) -> Option<Name> {
        let mut cut = None;
        let mut at = Some(name.clone());
        while let Some(name) = at.filter(|name| *name != self.name) {
            at = names::parent(&name);
            if self.nodes.get(&name).is_some_and(|types| types.contains(&Rtype::NS)) {
                cut = Some(name);
            }
        }
        cut
    }

    /// True when the nearest existing name at or above `name` owns nothing, and everything below it
    /// is at or below cuts without DS: opt-out leaves such a name out of its chain (RFC 5155 §6).
    pub fn is_insecure(&self, name: &Name) -> bool {
        let mut nearest = name.clone();
        while !self.nodes.contains_key(&nearest) {
            match names::parent(&nearest) {
                Some(above) => nearest = above,
                None => return false,
            }
        }
        let insecure = |name: &Name| {
            let cut = self.cut_above(name).and_then(|cut| self.nodes.get(&cut));
            cut.is_some_and(|types| !types.contains(&Rtype::DS))
        };
        let mut below = self.nodes.iter().filter(|(name, _)| name.ends_with(&nearest));
        self.nodes[&nearest].is_empty()
            && below.all(|(name, types)| types.is_empty() || insecure(name))
    }

    /// True when `name` owns an NSEC3 record and nothing of the zone itself.
    pub fn is_hash(&self, name: &Name) -> bool {
        self.nodes.get(name).is_some_and(|types| types.contains(&Rtype::NSEC3))
    }

    /// True when `name` is at or below the apex.
    pub fn holds(&self, name: &Name) -> bool {
        name.ends_with(&self.name)
    }
}

/// The zone of `zones` with the longest apex at or above `name`.
pub fn nearest<'a>(zones: &'a [Zone], name: &Name) -> Option<&'a Zone> {
    zones.iter().filter(|zone| zone.holds(name)).max_by_key(|zone| zone.name.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::name;

    #[test]
    fn empty_names_exist_and_cuts_are_found_from_above() {
        let text = "$TTL 1\n@ SOA ns h 1 1 1 1 1\n@ NS ns\na.b A 192.0.2.1\n\
                    cut NS ns.cut\nx.ent NS ns.cut\ninner.cut NS ns.cut\nns.cut A 192.0.2.2\n";
        let folder = test_support::folder::Folder::new("conformance-zone");
        let zone = Zone::write(&folder, name("example"), text).unwrap();
        assert!(zone.nodes[&name("b.example")].is_empty());
        assert!(zone.nodes[&name("example")].contains(&Rtype::NS));
        assert_eq!(zone.cut_above(&name("x.inner.cut.example")), Some(name("cut.example")));
        assert_eq!(zone.cut_above(&name("a.b.example")), None);
        assert!(zone.is_insecure(&name("y.ent.example")) && !zone.is_insecure(&name("b.example")));
    }
}
