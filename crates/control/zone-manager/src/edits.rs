//! Applies the changes of one call to a zone. A refused change does not affect the others.
use crate::source::Refusal;
use crate::validate::{self, relative};
use compile::{SetChange, Zone};
use image::Declared;
use model::sort_key;
use model::{BrokenRule, Change, Edit, Precondition, SetValue};
use std::collections::BTreeMap;
use wire::{Name, NameBuf, Rtype};

/// A set as the changes before leave it.
struct EditedSet {
    name: NameBuf,
    rtype: Rtype,
    value: Option<SetValue>,
}

/// Sets by the canonical order of their names, then by type.
type EditedSets = BTreeMap<(Vec<u8>, u16), EditedSet>;

/// Applies changes; returns the result of each. Changes of one name are applied together if they
/// are valid so: an alias can replace other sets in any order.
pub fn apply(zone: &mut Zone, mut changes: Vec<Change>) -> Vec<Result<(), Refusal>> {
    let origin = NameBuf::from(zone.origin());
    let mut results: Vec<_> =
        changes.iter_mut().map(|change| check(change, origin.as_name())).collect();
    let valid: Vec<usize> = (0..changes.len()).filter(|at| results[*at].is_ok()).collect();
    if try_all(zone, &changes, &valid).is_ok() {
        return results;
    }
    let mut by_name: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
    for at in valid {
        by_name.entry(changes[at].name().as_name().as_bytes()).or_default().push(at);
    }
    for same in by_name.into_values() {
        if try_all(zone, &changes, &same).is_ok() {
            continue;
        }
        for at in same {
            results[at] = try_all(zone, &changes, &[at]);
        }
    }
    results
}

/// Validates a change by itself; its name is in lower case afterwards.
fn check(change: &mut Change, origin: Name<'_>) -> Result<(), Refusal> {
    match change {
        Change::Set(edit) => validate::edit(edit, origin)?,
        Change::Add(edit) | Change::Take(edit) if edit.put.is_some() => {
            validate::edit(edit, origin)?;
        }
        Change::Add(_) | Change::Take(_) => {
            let what = "records to add or to take are missing".to_owned();
            return Err(Refusal::Invalid { field: "data", rule: BrokenRule::DATA, what });
        }
        Change::AddName(name) | Change::RemoveName(name) => validate::name(name, origin)?,
        Change::AddAddresses(name) => validate::wildcard(name, origin)?,
    }
    Ok(())
}

/// What a change declares of its name.
pub(crate) fn declared_by(change: &Change) -> Option<Declared> {
    match change {
        Change::AddName(_) => Some(Declared::Name),
        Change::AddAddresses(_) => Some(Declared::Addresses),
        Change::RemoveName(_) => Some(Declared::Nothing),
        Change::Set(_) | Change::Add(_) | Change::Take(_) => None,
    }
}

/// Applies all these changes, or none.
fn try_all(zone: &mut Zone, changes: &[Change], which: &[usize]) -> Result<(), Refusal> {
    let mut sets = EditedSets::new();
    let origin = NameBuf::from(zone.origin());
    for change in which.iter().map(|at| &changes[*at]) {
        let (Change::Set(edit) | Change::Add(edit) | Change::Take(edit)) = change else { continue };
        let mut key = Vec::new();
        sort_key(&mut key, relative(edit.name.as_name(), origin.as_name()));
        let set = sets.entry((key, edit.rtype.0)).or_insert_with(|| {
            let value = zone.set(edit.name.as_name(), edit.rtype).map(SetValue::from);
            EditedSet { name: edit.name.clone(), rtype: edit.rtype, value }
        });
        set.edit(change, edit)?;
        set.check_apex(origin.as_name())?;
    }
    let mut new = zone.clone();
    let edited: Vec<_> = sets.values().map(|set| set.change(origin.as_name())).collect();
    let invalid = |rule, what| Refusal::Invalid { field: "edits", rule, what };
    let changed = new.change_all(&edited).and_then(|()| new.check_dnames(&edited));
    changed.map_err(|problem| invalid(problem.rule, problem.what))?;
    for change in which.iter().map(|at| &changes[*at]) {
        let Some(declared) = declared_by(change) else { continue };
        let name = relative(change.name().as_name(), origin.as_name());
        let done = new.declare(name, declared);
        done.map_err(|problem| invalid(problem.rule, problem.what))?;
    }
    *zone = new;
    Ok(())
}

impl EditedSet {
    fn edit(&mut self, change: &Change, edit: &Edit) -> Result<(), Refusal> {
        if !self.meets(&edit.expect) {
            return Err(Refusal::Unmet);
        }
        let Some(put) = edit.put.clone() else {
            self.value = None;
            return Ok(());
        };
        match change {
            Change::Add(_) => {
                let mut value =
                    self.value.take().unwrap_or_else(|| SetValue::new(put.ttl, Vec::new()));
                value.add(put);
                self.value = Some(value);
            }
            Change::Take(_) => {
                if let Some(value) = &mut self.value {
                    value.take(&put.data);
                }
                self.value.take_if(|value| value.data.is_empty());
            }
            _ => self.value = Some(put),
        }
        let count = self.value.as_ref().map_or(0, |value| value.data.len());
        if count > model::RECORDS_MAX {
            return Err(Refusal::TooMany { what: "records in a set", max: model::RECORDS_MAX });
        }
        Ok(())
    }

    /// A zone keeps its SOA and NS records, also when the last one is taken.
    fn check_apex(&self, origin: Name<'_>) -> Result<(), Refusal> {
        let mut edit = Edit::remove(self.name.clone(), self.rtype);
        match &self.value {
            Some(_) => Ok(()),
            None => Ok(validate::edit(&mut edit, origin)?),
        }
    }

    fn meets(&self, expect: &Precondition) -> bool {
        match (expect, &self.value) {
            (Precondition::Anything, _) => true,
            (Precondition::Absent, value) => value.is_none(),
            (Precondition::Present, value) => value.is_some(),
            (Precondition::Equal(wanted), Some(value)) => {
                let sorted = |value: &SetValue| {
                    let mut data = value.data.clone();
                    data.sort_unstable();
                    data
                };
                wanted.ttl == value.ttl && sorted(wanted) == sorted(value)
            }
            // Only sets of the store have a revision.
            (Precondition::At(_) | Precondition::Equal(_), _) => false,
        }
    }

    fn change(&self, origin: Name<'_>) -> SetChange<'_, Box<[u8]>> {
        let set = self.value.as_ref().map(|value| (value.ttl, &value.data[..]));
        let name = relative(self.name.as_name(), origin);
        let rules = self.value.as_ref().map(|value| value.policy.pack()).unwrap_or_default();
        SetChange { name, rtype: self.rtype, set, rules }
    }
}
