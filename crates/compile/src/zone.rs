//! A zone, persistent: a changed one shares with the old all that did not change.
use crate::limits::NSEC3_ITERATIONS_MAX;
use crate::loader::Problem;
use crate::names::Names;
use crate::pack;
use image::{Facts, HashKey, Node, Nsec3Params, RecordSet, Tree};
use model::Rule;
use std::fmt;
use std::sync::Arc;
use wire::{Name, NameBuf, Rtype};

/// A zone as it is published.
#[derive(Clone)]
pub struct Zone {
    pub(crate) origin: NameBuf,
    pub(crate) facts: Facts,
    pub(crate) names: Names,
    pub(crate) hashed: Names,
}

impl Zone {
    /// A zone that was never loaded: it answers SERVFAIL (invariant I10).
    pub fn unloaded(key: Arc<HashKey>, origin: Name<'_>) -> Self {
        let mut lower = NameBuf::from(origin);
        lower.make_lowercase();
        let origin_labels = origin.labels().count() as u8;
        Self {
            origin: lower,
            facts: Facts { origin_labels, ..Facts::default() },
            names: Names::new(Arc::clone(&key)),
            hashed: Names::new(key),
        }
    }

    /// The same, but that what a hosts file says goes before what it says.
    pub fn yielding(mut self) -> Self {
        self.facts.yields = true;
        self
    }

    /// The name of its apex, in lower case.
    pub fn origin(&self) -> Name<'_> {
        self.origin.as_name()
    }

    /// What is known about it as a whole.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Its names, but for the hashed ones of NSEC3.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The serial of its SOA.
    pub fn serial(&self) -> Option<u32> {
        let soa = self.names.get(&[])?.set(Rtype::SOA)?.records().next()?;
        let numbers = soa.last_chunk::<20>()?;
        Some(u32::from_be_bytes([numbers[0], numbers[1], numbers[2], numbers[3]]))
    }

    /// A name's labels below the origin, in lower case; nothing for a name of elsewhere.
    pub fn relative(&self, name: Name<'_>) -> Option<Vec<u8>> {
        name.is_within(self.origin())
            .then(|| name.octets()[..name.len() - self.origin.as_name().len()].to_ascii_lowercase())
    }

    /// The record set of a name and type.
    pub fn set(&self, name: Name<'_>, rtype: Rtype) -> Option<RecordSet<'_>> {
        self.names.get(&self.relative(name)?)?.set(rtype)
    }

    /// Replaces a record set, or with `None` takes it away.
    ///
    /// # Errors
    /// When the name does not lie in the zone, the set is too large, or the record sets of the
    /// name would contradict each other. The zone is unchanged then.
    pub fn change(
        &mut self,
        name: Name<'_>,
        rtype: Rtype,
        set: Option<(u32, &[&[u8]])>,
    ) -> Result<(), Problem> {
        let problem = |rule, what: String| Problem { place: None, rule, what };
        let limit = |what| problem(Rule::LIMIT, what);
        let broken = |why: Broken| problem(why.rule, format!("{name}: {why}"));
        let relative = self.relative(name).ok_or_else(|| {
            let what = format!("{name} does not lie in the zone {}", self.origin());
            problem(Rule::OUT_OF_ZONE, what)
        })?;
        let node = self.names.get(&relative);
        let packed = match set {
            None if node.and_then(|node| node.set(rtype)).is_none() => return Ok(()),
            None => None,
            Some((ttl, records)) => {
                let mut packed = Vec::new();
                pack::set(&mut packed, rtype, ttl, records.iter().copied()).map_err(limit)?;
                Some(packed)
            }
        };
        let octets = match node {
            Some(node) => pack::with_set(node, rtype, packed.as_deref()),
            None => {
                pack::with_set(Node::new(&pack::bare_node(&relative)), rtype, packed.as_deref())
            }
        }
        .map_err(|why| limit(format!("{name}: {why}")))?;
        check_node(Node::new(&octets)).map_err(broken)?;
        if Node::new(&octets).is_empty() && !self.names.has_below(&relative) {
            self.remove_with_empty_parents(&relative);
            return Ok(());
        }
        self.facts.note(Node::new(&octets)).map_err(broken)?;
        self.names.put(octets).and_then(|()| self.add_empty_parents(&relative)).map_err(limit)
    }

    /// Every name above one that exists exists too (RFC 8020, RFC 4592 §2.2.2).
    fn add_empty_parents(&mut self, name: &[u8]) -> Result<(), String> {
        let mut rest = name;
        while let Some(parent) = parent(rest) {
            if self.names.get(parent).is_some() {
                break;
            }
            self.names.put(pack::bare_node(parent))?;
            rest = parent;
        }
        Ok(())
    }

    fn remove_with_empty_parents(&mut self, name: &[u8]) {
        self.names.remove(name);
        let mut rest = name;
        while let Some(parent) = parent(rest) {
            let empty = self.names.get(parent).is_some_and(|node| node.is_empty());
            if parent.is_empty() || !empty || self.names.has_below(parent) {
                break;
            }
            self.names.remove(parent);
            rest = parent;
        }
    }

    /// Every name there is, empty non-terminals and the owners of NSEC3 among them, as they lie.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        let trees = [&self.names, &self.hashed];
        let leaves = trees.into_iter().flat_map(|names| names.leaves().iter());
        leaves.flat_map(|leaf| image::Leaf::new(leaf).nodes())
    }

    /// How many names have records, and how many records there are: a walk over all of it.
    pub fn count(&self) -> (usize, usize) {
        self.nodes().fold((0, 0), |(names, records), node| {
            let here: usize = node.sets().map(|set| set.count()).sum();
            (names + usize::from(here > 0), records + here)
        })
    }
}

impl image::Zone for Zone {
    #[inline]
    fn origin(&self) -> Name<'_> {
        self.origin.as_name()
    }

    #[inline]
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn names(&self) -> &dyn Tree {
        &self.names
    }

    fn hashed(&self) -> &dyn Tree {
        &self.hashed
    }

    #[inline]
    fn leaf(&self, hash: u64) -> &[u8] {
        self.names.leaf(hash)
    }
}

/// The name without its first label.
pub(crate) fn parent(name: &[u8]) -> Option<&[u8]> {
    name.get(1 + usize::from(*name.first()?)..)
}

/// A rule that the records of a zone break, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub rule: Rule,
    /// A clause.
    pub what: String,
}

impl Broken {
    fn new(rule: Rule, what: impl Into<String>) -> Self {
        Self { rule, what: what.into() }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// What the record sets of one name may not do to each other.
///
/// # Errors
/// What is wrong.
pub(crate) fn check_node(node: Node<'_>) -> Result<(), Broken> {
    let at_apex = node.name().is_empty();
    let mut others = false;
    let mut alias = false;
    for set in node.sets() {
        match set.rtype() {
            Rtype::CNAME => alias = true,
            // RFC 4035 §2.5: what a signed alias has beside it.
            Rtype::RRSIG | Rtype::NSEC | Rtype::KEY => {}
            _ => others = true,
        }
        let single = matches!(set.rtype(), Rtype::CNAME | Rtype::DNAME | Rtype::SOA);
        if single && set.count() > 1 {
            let rule = if set.rtype() == Rtype::SOA { Rule::SOA } else { Rule::SINGLE };
            let (count, rtype) = (set.count(), set.rtype());
            let what = format!("{count} different {rtype} records, but only one can be");
            return Err(Broken::new(rule, what));
        }
        if set.rtype() == Rtype::SOA && !at_apex {
            return Err(Broken::new(Rule::SOA, "an SOA record below the apex of the zone"));
        }
    }
    if alias && others {
        let types: Vec<String> = node.sets().map(|set| set.rtype().to_string()).collect();
        let what = match at_apex {
            true => "a CNAME record at the apex, beside".to_owned(),
            false => "a CNAME record beside other records:".to_owned(),
        };
        let others = types.into_iter().filter(|rtype| rtype != "CNAME");
        let what = format!("{what} {}", others.collect::<Vec<_>>().join(" and "));
        return Err(Broken::new(Rule::CNAME_ALONE, what));
    }
    Ok(())
}

/// What notes a node in the facts of its zone.
pub(crate) trait Note {
    /// # Errors
    /// What the zone may not have.
    fn note(&mut self, node: Node<'_>) -> Result<(), Broken>;
}

impl Note for Facts {
    fn note(&mut self, node: Node<'_>) -> Result<(), Broken> {
        let name = node.name();
        let depth = std::iter::successors(Some(name), |name| parent(name)).count() - 1;
        self.depth_max = self.depth_max.max(depth as u8);
        if name.starts_with(b"\x01*") {
            self.wildcards.insert(depth - 1);
        }
        if depth > 0 && node.set(Rtype::NS).is_some() || node.set(Rtype::DNAME).is_some() {
            self.cuts.insert(depth);
        }
        if name.is_empty() {
            self.nsec3 = nsec3_params(node)?;
            self.signed = node.set(Rtype::RRSIG).is_some();
        }
        Ok(())
    }
}

/// The parameters to deny names with (RFC 5155 §7.1: those with no flags).
fn nsec3_params(apex: Node<'_>) -> Result<Option<Nsec3Params>, Broken> {
    let Some(set) = apex.set(Rtype::NSEC3PARAM) else { return Ok(None) };
    for data in set.records() {
        let [1, 0, high, low, salt_len, salt @ ..] = data else { continue };
        let iterations = u16::from_be_bytes([*high, *low]);
        if iterations > NSEC3_ITERATIONS_MAX {
            let what = format!(
                "NSEC3 with {iterations} extra iterations; more than {NSEC3_ITERATIONS_MAX} would \
                 let questions cost too much (RFC 9276 §3.1 asks for 0)"
            );
            return Err(Broken::new(Rule::NSEC3, what));
        }
        let mut params = Nsec3Params { iterations, salt_len: *salt_len, salt: [0; 255] };
        let cut = || Broken::new(Rule::DATA, "NSEC3PARAM with a salt cut short");
        let salt = salt.get(..usize::from(*salt_len)).ok_or_else(cut)?;
        params.salt[..salt.len()].copy_from_slice(salt);
        return Ok(Some(params));
    }
    Ok(None)
}
