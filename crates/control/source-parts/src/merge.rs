//! The merge of all parts of a name. It is a function of the parts alone, whatever their order: all
//! servers that know the same parts have the same sets.
//!
//! The records of the zone itself, which no cluster wrote, come first, then the parts by the age of
//! their objects. What does not go with what came before it is a conflict, and is left out.
use crate::limits::SET_LEN_MAX;
use crate::part::{Part, PartKey, PartSet};
use model::{Choice, MemberRules, Policy, RECORDS_MAX, SetRules, SetValue};
use std::collections::BTreeMap;
use wire::{Name, NameBuf, Rtype};

/// Bytes of a record in a message without its data.
const RECORD_HEAD_LEN: usize = 12;

/// The kind of exported services in the keys of parts (KEP-1645). They give way to what the zone
/// itself has of a name: a controller has imported the service there.
pub const EXPORTS: &str = "serviceexports";

/// The key of a set: its name in wire form and lower case, and its type.
pub type SetKey = (Box<[u8]>, Rtype);
/// The records of the zone itself, by their sets.
pub type Own = BTreeMap<SetKey, SetValue>;

/// What of a part is left out, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// The object.
    pub key: PartKey,
    /// The name.
    pub name: String,
    /// Why: a sentence without a period.
    pub why: String,
}

/// The sets of a name and of its ports, and what was left out of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// The sets.
    pub sets: BTreeMap<SetKey, SetValue>,
    /// What was left out.
    pub conflicts: Vec<Conflict>,
}

/// The name that a set belongs to: without the labels before it that begin with an underscore, as
/// those of a port.
pub(crate) fn base_of<'n>(name: Name<'n>, origin: Name<'_>) -> Name<'n> {
    let mut base = name;
    while base.len() > origin.len() && base.as_bytes().get(1) == Some(&b'_') {
        let Some(parent) = base.parent() else { break };
        base = parent;
    }
    base
}

/// A set that is put together.
struct Building {
    ttl: u32,
    /// The rules that the zone itself says.
    own: Option<SetRules>,
    members: BTreeMap<Box<[u8]>, MemberRules>,
    /// The first part in it.
    first: Option<PartKey>,
    /// Bytes in a message.
    len: usize,
}

impl Building {
    fn of_own(value: &SetValue) -> Self {
        let members = value.data.iter().enumerate();
        let members = members.map(|(at, data)| (data.clone(), value.policy.member(at)));
        let own = Some(value.policy.rules().cloned().unwrap_or_default());
        let len = value.data.iter().map(|data| RECORD_HEAD_LEN + data.len()).sum();
        Self { ttl: value.ttl, own, members: members.collect(), first: None, len }
    }

    /// Adds records; whether a message has room for all.
    fn add(&mut self, records: &[Box<[u8]>], member: &MemberRules) -> bool {
        for data in records.iter().filter(|data| !data.is_empty()) {
            if self.members.contains_key(data) {
                continue;
            }
            let len = self.len + RECORD_HEAD_LEN + data.len();
            if self.members.len() >= RECORDS_MAX || len > SET_LEN_MAX {
                return false;
            }
            self.len = len;
            self.members.insert(data.clone(), member.clone());
        }
        true
    }
}

/// A rule that the first who names it decides, and who that is.
type Decided<T> = Option<(T, String)>;

struct Merge<'m> {
    base: Name<'m>,
    sets: BTreeMap<SetKey, Building>,
    namespace: Option<(Box<str>, String)>,
    policy: Decided<Choice>,
    check: Decided<Box<str>>,
    conflicts: Vec<Conflict>,
}

/// Merges the parts of a name with what the zone itself has of it. `parts` are those that have sets
/// whose base is this name.
pub fn merge(
    base: Name<'_>,
    origin: Name<'_>,
    own: Option<&Own>,
    mut parts: Vec<(&PartKey, &Part)>,
) -> Merged {
    parts.sort_by_key(|(key, part)| (part.created, *key));
    let of_own = own.into_iter().flatten();
    let sets = of_own.map(|(key, value)| (key.clone(), Building::of_own(value))).collect();
    let (policy, check, namespace) = (None, None, None);
    let mut merge = Merge { base, sets, namespace, policy, check, conflicts: Vec::new() };
    let is_own = own.is_some_and(|own| !own.is_empty());
    for (key, part) in parts {
        if is_own && *key.kind == *EXPORTS {
            continue;
        }
        let here = part.sets.iter().filter(|set| base_of(set.name.as_name(), origin) == base);
        let here: Vec<&PartSet> = here.collect();
        match merge.refusal(key, &here) {
            Some(why) => merge.refuse(key, why),
            None => merge.add(key, part, &here),
        }
    }
    merge.finish(own)
}

impl Merge<'_> {
    fn refuse(&mut self, key: &PartKey, why: String) {
        let name = self.base.to_string();
        self.conflicts.push(Conflict { key: key.clone(), name, why });
    }

    /// Why nothing of a part can be added; `None`: it can.
    fn refusal(&self, key: &PartKey, sets: &[&PartSet]) -> Option<String> {
        if let Some((namespace, who)) = &self.namespace
            && *namespace != key.namespace
        {
            return Some(format!("the name is that of {who}, in another namespace"));
        }
        for set in sets {
            let name = set.name.as_name();
            let at = |(of, _): &&SetKey| **of == *name.as_bytes();
            let is_alias = set.rtype == Rtype::CNAME;
            for other in self.sets.keys().filter(at) {
                let who = self.sets[other].first.as_ref();
                let who = who.map_or("the zone itself".to_owned(), ToString::to_string);
                match (is_alias, other.1 == Rtype::CNAME) {
                    (false, false) => {}
                    (true, false) => {
                        return Some(format!(
                            "it is an alias, and {who} has other records of the name"
                        ));
                    }
                    (false, true) => return Some(format!("{who} makes the name an alias")),
                    (true, true) => {
                        let is_same = self.sets[other].members.keys().eq(set.data.iter());
                        if !is_same {
                            return Some(format!("{who} makes the name an alias of another one"));
                        }
                    }
                }
            }
            let own_types = sets.iter().filter(|other| other.name == set.name);
            if is_alias && (set.data.len() > 1 || own_types.count() > 1) {
                return Some("an alias has no other records".into());
            }
        }
        None
    }

    fn add(&mut self, key: &PartKey, part: &Part, sets: &[&PartSet]) {
        if sets.is_empty() {
            return;
        }
        self.namespace.get_or_insert_with(|| (key.namespace.clone(), key.to_string()));
        self.decide(key, part);
        let member = MemberRules {
            tier: part.tier,
            weight: part.weight,
            location: part.location.clone(),
            ..MemberRules::default()
        };
        for set in sets {
            let new = || Building {
                ttl: set.ttl,
                own: None,
                members: BTreeMap::new(),
                first: Some(key.clone()),
                len: 0,
            };
            let at = (set.name.as_name().as_bytes().into(), set.rtype);
            let building = self.sets.entry(at).or_insert_with(new);
            let (has_room, ttl) = (building.add(&set.data, &member), building.ttl);
            if ttl != set.ttl {
                let (rtype, own) = (set.rtype, set.ttl);
                self.refuse(
                    key,
                    format!("{rtype}: its TTL is {own} s, and that of the set {ttl} s"),
                );
            }
            if !has_room {
                self.refuse(key, format!("{}: no message carries all its records", set.rtype));
            }
        }
    }

    /// Takes the policy and the check of a part, or notes that another part has decided.
    fn decide(&mut self, key: &PartKey, part: &Part) {
        if let Some(choice) = part.policy {
            let who = || key.to_string();
            let (decided, by) = self.policy.get_or_insert_with(|| (choice, who()));
            if *decided != choice {
                let (word, decided) = (choice.word(), decided.word());
                let why = format!("its policy is {word}, and that of {by} is {decided}");
                self.refuse(key, why);
            }
        }
        if !part.check.is_empty() {
            let new = || (part.check.clone(), key.to_string());
            let (decided, by) = self.check.get_or_insert_with(new);
            if *decided != part.check {
                let why = format!("its check is {}, and that of {by} is {decided}", part.check);
                self.refuse(key, why);
            }
        }
    }

    fn finish(mut self, own: Option<&Own>) -> Merged {
        let mut sets = BTreeMap::new();
        for (at, building) in std::mem::take(&mut self.sets) {
            // What the zone itself has is as it was written, if nothing joined it.
            let unchanged = own.and_then(|own| own.get(&at));
            let unchanged = unchanged.filter(|value| value.data.len() == building.members.len());
            let value = match unchanged {
                Some(value) => value.clone(),
                None => self.value(at.1, building),
            };
            sets.insert(at, value);
        }
        self.conflicts.sort();
        self.conflicts.dedup();
        Merged { sets, conflicts: self.conflicts }
    }

    fn value(&mut self, rtype: Rtype, building: Building) -> SetValue {
        let Building { ttl, own, members, first, .. } = building;
        let (data, mut members): (Vec<_>, Vec<_>) = members.into_iter().unzip();
        let is_addresses = matches!(rtype, Rtype::A | Rtype::AAAA);
        let can_choose = is_addresses || matches!(rtype, Rtype::SRV | Rtype::HTTPS | Rtype::PTR);
        let plain = SetRules {
            comment: own.as_ref().map(|own| own.comment.clone()).unwrap_or_default(),
            ..SetRules::default()
        };
        let mut rules = match own {
            Some(own) if own.has_choice() => own,
            _ if can_choose => {
                let mut rules = SetRules { choice: self.choice(&members), ..plain.clone() };
                if let Some((check, _)) = self.check.as_ref().filter(|_| is_addresses) {
                    rules.check = check.clone();
                }
                rules
            }
            _ => plain.clone(),
        };
        if !can_choose {
            return SetValue { ttl, policy: Policy::new(plain), data };
        }
        if rules.choice != Choice::Nearest {
            members.iter_mut().for_each(|member| member.location = Box::default());
        }
        rules.set_members(&members);
        if let Err((field, _, why)) = rules.check(rtype, data.len()) {
            if let Some(key) = first {
                self.refuse(&key, format!("{rtype} has no policy: {field} {why}"));
            }
            let check = std::mem::take(&mut rules.check);
            rules = SetRules { check, ..plain };
        }
        SetValue { ttl, policy: Policy::new(rules), data }
    }

    /// The policy: that of the oldest part that names one; else the nearest members are answered,
    /// if they are at several places.
    fn choice(&self, members: &[MemberRules]) -> Choice {
        let places = || members.iter().map(|member| &member.location);
        let are_apart = places().any(|place| Some(place) != places().next());
        match &self.policy {
            Some((choice, _)) => *choice,
            None if are_apart => Choice::Nearest,
            None => Choice::All,
        }
    }
}

impl Conflict {
    /// What of a part is no record, whatever other parts there are.
    pub(crate) fn of_fault(key: &PartKey, why: &str) -> Self {
        Self { key: key.clone(), name: String::new(), why: why.to_owned() }
    }

    /// The name, if it has one, and why.
    pub fn text(&self) -> String {
        let Self { name, why, .. } = self;
        if name.is_empty() { why.clone() } else { format!("{name}: {why}") }
    }
}

/// `services shop/web of fra1-a: web.shop.svc.example.: why`.
impl std::fmt::Display for Conflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.key, self.text())
    }
}

/// A name of a key of a set.
pub(crate) fn name_of(bytes: &[u8]) -> NameBuf {
    Name::parse(bytes).map_or_else(|_| Name::ROOT.into(), NameBuf::from)
}
