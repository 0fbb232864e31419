//! A zone. Persistent: a changed zone shares all unchanged parts with the old one.
use crate::laid_view::LaidView;
use crate::limits::NSEC3_ITERATIONS_MAX;
use crate::names::{Names, is_below};
use crate::pack;
use crate::problem::ZoneProblem;
use image::{Declared, HashKey, Node, Nsec3Params, RecordSet, Tree, ZoneFacts};
use model::{BrokenRule, Policy, SetRules};
use packet::View;
use std::fmt;
use std::sync::Arc;
use wire::{Name, NameBuf, Rtype};

/// A view of a zone.
pub(crate) type ZoneView = (View, Arc<dyn LaidView<Zone>>);

/// A zone as it is published.
#[derive(Clone)]
pub struct Zone {
    pub(crate) origin: NameBuf,
    pub(crate) facts: ZoneFacts,
    pub(crate) names: Names,
    pub(crate) hashed: Names,
    /// The zone as other views see it: those with sets of their own.
    pub(crate) views: Arc<[ZoneView]>,
}

impl Zone {
    /// A zone that was never loaded: queries get SERVFAIL (invariant I10).
    pub fn unloaded(key: Arc<HashKey>, origin: Name<'_>) -> Self {
        let mut lower = NameBuf::from(origin);
        lower.make_lowercase();
        let origin_labels = origin.labels().count() as u8;
        Self {
            origin: lower,
            facts: ZoneFacts { origin_labels, ..ZoneFacts::default() },
            names: Names::new(Arc::clone(&key)),
            hashed: Names::new(key),
            views: Arc::default(),
        }
    }

    /// Gives hosts files priority over the zone.
    pub fn yielding(mut self) -> Self {
        self.facts.yields = true;
        self
    }

    /// The name of its apex, in lower case.
    pub fn origin(&self) -> Name<'_> {
        self.origin.as_name()
    }

    /// Summary facts about the zone.
    pub fn facts(&self) -> &ZoneFacts {
        &self.facts
    }

    /// Its names, without the hashed ones of NSEC3.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The serial of its SOA.
    pub fn serial(&self) -> Option<u32> {
        let soa = self.names.get(&[])?.set(Rtype::SOA)?.records().next()?;
        let numbers = soa.last_chunk::<20>()?;
        Some(u32::from_be_bytes([numbers[0], numbers[1], numbers[2], numbers[3]]))
    }

    /// A name's labels below the origin, in lower case; `None` outside of the zone.
    pub fn relative(&self, name: Name<'_>) -> Option<Vec<u8>> {
        name.is_within(self.origin()).then(|| {
            name.as_bytes()[..name.len() - self.origin.as_name().len()].to_ascii_lowercase()
        })
    }

    /// The record set of a name and type.
    pub fn set(&self, name: Name<'_>, rtype: Rtype) -> Option<RecordSet<'_>> {
        self.names.get(&self.relative(name)?)?.set(rtype)
    }

    /// Replaces a record set, or removes it (`None`).
    ///
    /// # Errors
    /// The name is outside of the zone, or as [`Zone::change_all`].
    pub fn change(
        &mut self,
        name: Name<'_>,
        rtype: Rtype,
        set: Option<(u32, &[&[u8]])>,
    ) -> Result<(), ZoneProblem> {
        let relative = self.relative(name).ok_or_else(|| {
            let what = format!("{name} is outside of the zone {}", self.origin());
            ZoneProblem { place: None, rule: BrokenRule::OUT_OF_ZONE, what }
        })?;
        self.change_all(&[SetChange { name: &relative, rtype, set, rules: Vec::new() }])
    }

    /// Changes record sets, all or none. They are in canonical order of their names, each once.
    /// Removals come before additions, so that an alias can replace other sets.
    ///
    /// # Errors
    /// A set is too large, or sets of a name conflict. The place is the index in `changes`.
    pub fn change_all<R: AsRef<[u8]>>(
        &mut self,
        changes: &[SetChange<'_, R>],
    ) -> Result<(), ZoneProblem> {
        let mut work = ZoneEdit { facts: self.facts, ..ZoneEdit::default() };
        let mut first = 0;
        for group in changes.chunk_by(|a, b| a.name == b.name) {
            work.change_name(self, group).map_err(|(at, broken)| {
                let name = NameBuf::joined(group[0].name, self.origin());
                let name = name.map(|name| name.as_name().to_string()).unwrap_or_default();
                let what = format!("{name}: {broken}");
                ZoneProblem { place: Some((first + at) as u32), rule: broken.rule, what }
            })?;
            first += group.len();
        }
        let crowded = |what| ZoneProblem { place: None, rule: BrokenRule::LIMIT, what };
        self.names.put_all(&mut work.nodes, &work.is_new).map_err(crowded)?;
        self.facts = work.facts;
        for name in work.emptied {
            let declared = self.names.get(name).map(|node| node.declared()).unwrap_or_default();
            if declared != Declared::Nothing || self.names.has_below(name) {
                let mut bare = Vec::new();
                pack::bare_node(&mut bare, name);
                pack::set_declared(&mut bare, declared);
                self.names.put_all(&mut bare, &[false]).map_err(crowded)?;
            } else {
                self.remove_with_empty_parents(name);
            }
        }
        let changed: Vec<&[u8]> = changes.iter().map(|change| change.name).collect();
        self.lay_views_again(Some(&changed));
        Ok(())
    }

    /// Declares that a name exists, even without records, or takes that back with
    /// [`Declared::Nothing`]. It is relative and in lower case. Queries for a name without records
    /// get NODATA.
    ///
    /// # Errors
    /// Too many names share the hash of a new one.
    pub fn declare(&mut self, name: &[u8], declared: Declared) -> Result<(), ZoneProblem> {
        let old = self.names.get(name);
        if old.map(|node| node.declared()).unwrap_or_default() == declared {
            return Ok(());
        }
        if declared == Declared::Nothing
            && old.is_some_and(|node| node.is_empty())
            && !self.names.has_below(name)
        {
            self.remove_with_empty_parents(name);
            self.lay_views_again(Some(&[name]));
            return Ok(());
        }
        let mut work = ZoneEdit { facts: self.facts, ..ZoneEdit::default() };
        if old.is_none() {
            work.add_empty_parents(self, name);
        }
        let start = work.nodes.len();
        match old {
            Some(node) => work.nodes.extend_from_slice(node.as_bytes()),
            None => pack::bare_node(&mut work.nodes, name),
        }
        pack::set_declared(&mut work.nodes[start..], declared);
        work.is_new.push(old.is_none());
        let mut facts = work.facts;
        let noted = facts.note(Node::new(&work.nodes[start..]));
        noted.map_err(|why| ZoneProblem { place: None, rule: why.rule, what: why.what })?;
        let crowded = |what| ZoneProblem { place: None, rule: BrokenRule::LIMIT, what };
        self.names.put_all(&mut work.nodes, &work.is_new).map_err(crowded)?;
        self.facts = facts;
        self.lay_views_again(Some(&[name]));
        Ok(())
    }

    fn remove_with_empty_parents(&mut self, name: &[u8]) {
        self.names.remove(name);
        let mut rest = name;
        while let Some(parent) = parent(rest) {
            let is_needless = |node: Node<'_>| node.is_empty() && !node.is_declared();
            let empty = self.names.get(parent).is_some_and(is_needless);
            if parent.is_empty() || !empty || self.names.has_below(parent) {
                break;
            }
            self.names.remove(parent);
            rest = parent;
        }
    }

    /// All names in storage order, with empty non-terminals and the owners of NSEC3.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        let trees = [&self.names, &self.hashed];
        let leaves = trees.into_iter().flat_map(|names| names.leaves().iter());
        leaves.flat_map(|leaf| image::Leaf::new(leaf).nodes())
    }

    /// Whether another zone has the same records. Parts that both share cost nothing.
    pub fn has_same_records(&self, other: &Self) -> bool {
        let pairs = [(&self.names, &other.names), (&self.hashed, &other.hashed)];
        pairs.into_iter().all(|(mine, its)| {
            let (mine, its) = (mine.leaves(), its.leaves());
            let is_same = |(a, b): (&Arc<[u8]>, &Arc<[u8]>)| Arc::ptr_eq(a, b) || a == b;
            mine.len() == its.len() && mine.iter().zip(its.iter()).all(is_same)
        })
    }

    /// Counts names with records, and records; walks the whole zone.
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
    fn facts(&self) -> &ZoneFacts {
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

/// A change of one record set.
#[derive(Clone, Debug)]
pub struct SetChange<'c, R> {
    /// The relative name of the set, in lower case.
    pub name: &'c [u8],
    /// The type of the set.
    pub rtype: Rtype,
    /// The new TTL and data; `None` removes the set.
    pub set: Option<(u32, &'c [R])>,
    /// The packed rules; empty: a plain set.
    pub rules: Vec<u8>,
}

/// The effect of changes on a zone.
#[derive(Default)]
struct ZoneEdit<'c> {
    facts: ZoneFacts,
    /// Packed nodes to add or replace, in canonical order.
    nodes: Vec<u8>,
    /// Whether each of these names is new.
    is_new: Vec<bool>,
    /// The last of these names.
    last: Option<&'c [u8]>,
    /// Names without sets from now on.
    emptied: Vec<&'c [u8]>,
    set: Vec<u8>,
    bare: Vec<u8>,
}

impl<'c> ZoneEdit<'c> {
    /// Applies the changes of one name. Errors have their index among the changes.
    fn change_name<R: AsRef<[u8]>>(
        &mut self,
        zone: &Zone,
        changes: &[SetChange<'c, R>],
    ) -> Result<(), (usize, RuleViolation)> {
        let name = changes[0].name;
        let old = zone.names.get(name);
        if old.is_none() {
            if changes.iter().all(|change| change.set.is_none()) {
                return Ok(());
            }
            self.add_empty_parents(zone, name);
        }
        let start = self.nodes.len();
        self.bare.clear();
        pack::bare_node(&mut self.bare, name);
        let before = old.map_or(&self.bare[..], |node| node.as_bytes());
        self.nodes.extend_from_slice(before);
        let (go, come): (Vec<usize>, Vec<usize>) =
            (0..changes.len()).partition(|at| changes[*at].set.is_none());
        for at in go.into_iter().chain(come) {
            self.change_set(start, &changes[at]).map_err(|broken| (at, broken))?;
        }
        let node = Node::new(&self.nodes[start..]);
        self.facts.note(node).map_err(|broken| (0, broken))?;
        if node.is_empty() {
            self.nodes.truncate(start);
            self.emptied.push(name);
        } else {
            self.is_new.push(old.is_none());
            self.last = Some(name);
        }
        Ok(())
    }

    /// Applies one change to the last node.
    fn change_set<R: AsRef<[u8]>>(
        &mut self,
        start: usize,
        change: &SetChange<'c, R>,
    ) -> Result<(), RuleViolation> {
        let limit = |what| RuleViolation::new(BrokenRule::LIMIT, what);
        self.set.clear();
        if let Some((ttl, records)) = change.set {
            let records = records.iter().map(AsRef::as_ref);
            pack::set(&mut self.set, change.rtype, ttl, records, &change.rules).map_err(limit)?;
        }
        self.bare.clear();
        self.bare.extend_from_slice(&self.nodes[start..]);
        self.nodes.truncate(start);
        let set = change.set.is_some().then_some(&self.set[..]);
        let old = Node::new(&self.bare);
        pack::with_set(&mut self.nodes, old, change.rtype, set).map_err(limit)?;
        check_node(Node::new(&self.nodes[start..]))
    }

    /// A name exists if one below it exists (RFC 8020, RFC 4592 §2.2.2).
    fn add_empty_parents(&mut self, zone: &Zone, name: &'c [u8]) {
        let mut missing = Vec::new();
        let mut rest = name;
        while let Some(above) = parent(rest) {
            // The previous new name is in the same branch if any new name is.
            let comes = self.last.is_some_and(|last| last == above || is_below(last, above));
            if comes || zone.names.get(above).is_some() {
                break;
            }
            missing.push(above);
            rest = above;
        }
        for name in missing.iter().rev() {
            let start = self.nodes.len();
            pack::bare_node(&mut self.nodes, name);
            // One may be a wildcard. Only an apex can be wrong.
            let _ = self.facts.note(Node::new(&self.nodes[start..]));
        }
        self.is_new.extend(missing.iter().map(|_| true));
    }
}

/// The name without its first label.
pub(crate) fn parent(name: &[u8]) -> Option<&[u8]> {
    name.get(1 + usize::from(*name.first()?)..)
}

/// A broken rule, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleViolation {
    pub rule: BrokenRule,
    /// A clause.
    pub what: String,
}

impl RuleViolation {
    pub(crate) fn new(rule: BrokenRule, what: impl Into<String>) -> Self {
        Self { rule, what: what.into() }
    }
}

impl fmt::Display for RuleViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Checks conflicts between the record sets of one name.
pub(crate) fn check_node(node: Node<'_>) -> Result<(), RuleViolation> {
    let at_apex = node.name().is_empty();
    let mut others = false;
    let mut alias = false;
    for set in node.sets() {
        match set.rtype() {
            Rtype::CNAME => alias = true,
            // RFC 4035 §2.5: allowed beside a signed alias.
            Rtype::RRSIG | Rtype::NSEC | Rtype::KEY => {}
            _ => others = true,
        }
        let single = matches!(set.rtype(), Rtype::CNAME | Rtype::DNAME | Rtype::SOA | Rtype::ALIAS);
        if single && set.count() > 1 {
            let rule = if set.rtype() == Rtype::SOA { BrokenRule::SOA } else { BrokenRule::SINGLE };
            let (count, rtype) = (set.count(), set.rtype());
            let what = format!("{count} different {rtype} records, but only one can be");
            return Err(RuleViolation::new(rule, what));
        }
        if set.rtype() == Rtype::SOA && !at_apex {
            return Err(RuleViolation::new(
                BrokenRule::SOA,
                "an SOA record below the apex of the zone",
            ));
        }
    }
    if node.set(Rtype::RRSIG).is_some() && node.sets().any(|set| has_choice(&set)) {
        let what =
            "a signed set cannot have a policy or a check: its signature covers all its records";
        return Err(RuleViolation::new(BrokenRule::SIGNED, what));
    }
    if node.set(Rtype::ALIAS).is_some() {
        check_computed(node)?;
    }
    if alias && others {
        let types: Vec<String> = node.sets().map(|set| set.rtype().to_string()).collect();
        let what = match at_apex {
            true => "a CNAME record at the apex, beside".to_owned(),
            false => "a CNAME record beside other records:".to_owned(),
        };
        let others = types.into_iter().filter(|rtype| rtype != "CNAME");
        let what = format!("{what} {}", others.collect::<Vec<_>>().join(" and "));
        return Err(RuleViolation::new(BrokenRule::CNAME_ALONE, what));
    }
    Ok(())
}

/// Checks a name whose addresses are computed.
fn check_computed(node: Node<'_>) -> Result<(), RuleViolation> {
    let broken = |what: &str| Err(RuleViolation::new(BrokenRule::ALIAS_ADDRESSES, what));
    if [Rtype::A, Rtype::AAAA].iter().any(|rtype| node.set(*rtype).is_some()) {
        return broken("an ALIAS record beside addresses: it stands for those of its target");
    }
    if node.set(Rtype::RRSIG).is_some() {
        return broken("an ALIAS record in a signed zone: its addresses would have no signature");
    }
    Ok(())
}

/// Whether an answer may lack records of a set: it has more than a comment.
fn has_choice(set: &RecordSet<'_>) -> bool {
    let is_choice = |policy: Policy| policy.rules().is_some_and(SetRules::has_choice);
    set.has_rules() && Policy::unpack(set.rules()).is_none_or(is_choice)
}

/// Whether workers read something else than the set that the source has.
pub(crate) fn is_chosen(set: &RecordSet<'_>) -> bool {
    set.has_rules() || set.rtype() == Rtype::ALIAS
}

/// Collects facts about a zone from its nodes.
pub(crate) trait FactObserver {
    /// # Errors
    /// The node is not allowed in a zone.
    fn note(&mut self, node: Node<'_>) -> Result<(), RuleViolation>;
}

impl FactObserver for ZoneFacts {
    fn note(&mut self, node: Node<'_>) -> Result<(), RuleViolation> {
        let name = node.name();
        let depth = std::iter::successors(Some(name), |name| parent(name)).count() - 1;
        self.depth_max = self.depth_max.max(depth as u8);
        if name.starts_with(b"\x01*") {
            self.wildcards.insert(depth - 1);
        }
        if depth > 0 && node.set(Rtype::NS).is_some() || node.set(Rtype::DNAME).is_some() {
            self.cuts.insert(depth);
        }
        self.has_rules |= node.sets().any(|set| is_chosen(&set));
        if name.is_empty() {
            self.nsec3 = nsec3_params(node)?;
            self.signed = node.set(Rtype::RRSIG).is_some();
        }
        Ok(())
    }
}

/// The parameters for denials (RFC 5155 §7.1: those without flags).
fn nsec3_params(apex: Node<'_>) -> Result<Option<Nsec3Params>, RuleViolation> {
    let Some(set) = apex.set(Rtype::NSEC3PARAM) else { return Ok(None) };
    for data in set.records() {
        let [1, 0, high, low, salt_len, salt @ ..] = data else { continue };
        let iterations = u16::from_be_bytes([*high, *low]);
        if iterations > NSEC3_ITERATIONS_MAX {
            let what = format!(
                "NSEC3 has {iterations} extra iterations; more than {NSEC3_ITERATIONS_MAX} would \
                 make queries too expensive (RFC 9276 §3.1 asks for 0)"
            );
            return Err(RuleViolation::new(BrokenRule::NSEC3, what));
        }
        let mut params = Nsec3Params { iterations, salt_len: *salt_len, salt: [0; 255] };
        let cut = || RuleViolation::new(BrokenRule::DATA, "NSEC3PARAM has a truncated salt");
        let salt = salt.get(..usize::from(*salt_len)).ok_or_else(cut)?;
        params.salt[..salt.len()].copy_from_slice(salt);
        return Ok(Some(params));
    }
    Ok(None)
}
