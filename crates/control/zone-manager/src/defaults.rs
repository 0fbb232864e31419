//! Checks of zones: each is the check of all sets of addresses that name none themselves.
use crate::health::ZoneKey;
use crate::validate::relative;
use compile::{ChosenSets, View, Zone};
use image::{Node, RecordSet};
use model::{CHECK_OFF, Policy, SetRules};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use wire::{Name, NameBuf, Rtype};

/// The check of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultCheck {
    origin: NameBuf,
    check: Arc<str>,
    /// Names that have none, below the origin.
    without: HashSet<Box<[u8]>>,
    /// Names below which none has one.
    without_below: HashSet<Box<[u8]>>,
}

impl DefaultCheck {
    /// For a zone. `except`: names of it that have none; `*.x` stands for all names below `x`.
    /// Names are in lower case.
    pub fn new(origin: NameBuf, check: &str, except: &[NameBuf]) -> Self {
        let (mut without, mut without_below) = (HashSet::new(), HashSet::new());
        let within = except.iter().filter(|name| name.as_name().is_within(origin.as_name()));
        for name in within {
            match relative(name.as_name(), origin.as_name()) {
                [1, b'*', above @ ..] => without_below.insert(above.into()),
                name => without.insert(name.into()),
            };
        }
        Self { origin, check: check.into(), without, without_below }
    }

    /// The zone.
    pub fn origin(&self) -> Name<'_> {
        self.origin.as_name()
    }

    fn key(&self) -> ZoneKey {
        self.origin.as_name().as_bytes().into()
    }

    /// Whether it is for a name, relative to the origin.
    fn is_for(&self, name: &[u8]) -> bool {
        let mut above = std::iter::successors(parent(name), |name| parent(name));
        !self.without.contains(name) && !above.any(|above| self.without_below.contains(above))
    }
}

/// The name above a relative one; `None`: it is the origin.
fn parent(name: &[u8]) -> Option<&[u8]> {
    name.get(1 + usize::from(*name.first()?)..)
}

/// The checks of all zones that have one.
#[derive(Default)]
pub(crate) struct DefaultChecks(HashMap<ZoneKey, Arc<DefaultCheck>>);

impl DefaultChecks {
    pub fn of(&self, zone: &[u8]) -> Option<Arc<DefaultCheck>> {
        self.0.get(zone).cloned()
    }

    /// Replaces all. Returns the zones whose check is another one now.
    pub fn set(&mut self, all: Vec<DefaultCheck>) -> Vec<NameBuf> {
        let mut old = std::mem::take(&mut self.0);
        let mut changed = Vec::new();
        for new in all {
            let key = new.key();
            let same = old.remove(&key).filter(|old| **old == new);
            if same.is_none() {
                changed.push(new.origin.clone());
            }
            self.0.insert(key, same.unwrap_or_else(|| Arc::new(new)));
        }
        changed.extend(old.into_values().map(|gone| gone.origin.clone()));
        changed
    }
}

/// The sets of a zone with this check that members are chosen of.
pub(crate) fn chosen_sets(default: Option<&DefaultCheck>) -> ChosenSets {
    match default {
        Some(_) => ChosenSets::RuledOrAddresses,
        None => ChosenSets::Ruled,
    }
}

/// The rules of a set of a view, with the check that it has by itself or by its zone, whose names
/// it is for. `None`: it has none.
pub(crate) fn rules_of(
    zone: &Zone,
    default: Option<&DefaultCheck>,
    (view, node): (View, Node<'_>),
    set: RecordSet<'_>,
) -> Option<SetRules> {
    let own = match Policy::unpack(set.rules()) {
        Some(Policy::Rules(rules)) => Some(*rules),
        _ => None,
    };
    if let Some(mut rules) = own.clone().filter(|rules| !rules.check.is_empty()) {
        if *rules.check == *CHECK_OFF {
            rules.check = Box::default();
        }
        return Some(rules);
    }
    let is_of_addresses = matches!(set.rtype(), Rtype::A | Rtype::AAAA);
    match default.filter(|default| is_of_addresses && default.is_for(node.name())) {
        Some(default) if zone.may_lack_records(view, node) => {
            let check = Box::from(&*default.check);
            Some(SetRules { check, ..own.unwrap_or_default() })
        }
        _ => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> NameBuf {
        NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
    }

    fn default(origin: &str, check: &str, except: &[&str]) -> DefaultCheck {
        let except: Vec<NameBuf> = except.iter().map(|text| name(text)).collect();
        DefaultCheck::new(name(origin), check, &except)
    }

    #[test]
    fn check_of_a_zone_is_not_for_the_names_that_it_leaves_out() {
        let of = default("a.test.", "web", &["ns.a.test.", "*.static.a.test.", "ns.other.test."]);
        for (is_for, text) in [
            (true, &b""[..]),
            (true, b"\x03www"),
            (false, b"\x02ns"),
            (true, b"\x01x\x02ns"),
            (true, b"\x06static"),
            (false, b"\x01x\x06static"),
            (false, b"\x01y\x01x\x06static"),
        ] {
            assert_eq!(of.is_for(text), is_for, "{text:?}");
        }
        let all = default("a.test.", "web", &["*.a.test."]);
        assert!(all.is_for(b"") && !all.is_for(b"\x03www"));
    }

    #[test]
    fn only_zones_whose_check_is_another_one_change() {
        let mut checks = DefaultChecks::default();
        let set = |checks: &mut DefaultChecks, all: &[(&str, &str)]| {
            let all = all.iter().map(|(origin, check)| default(origin, check, &[])).collect();
            let mut changed: Vec<String> =
                checks.set(all).iter().map(|origin| origin.to_string()).collect();
            changed.sort();
            changed
        };
        assert_eq!(set(&mut checks, &[("a.", "web"), ("b.", "web")]), ["a.", "b."]);
        assert_eq!(set(&mut checks, &[("a.", "web"), ("b.", "tcp")]), ["b."]);
        assert_eq!(set(&mut checks, &[("b.", "tcp"), ("c.", "tcp")]), ["a.", "c."]);
        assert!(checks.of(b"\x01b\0").is_some() && checks.of(b"\x01a\0").is_none());
    }
}
