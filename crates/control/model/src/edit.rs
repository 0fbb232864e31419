//! Edits of record sets: what a source or a client wants to change.
use crate::{BrokenRule, MemberRules, Policy, SetRules, View};
use std::fmt;
use wire::{NameBuf, Rtype};

/// The number of a write to the store. It survives a restart and never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// Before the first write; for a set: it does not exist.
    pub const NONE: Self = Self(0);

    /// The serial of a zone with this offset last written at this revision. Serials wrap (RFC
    /// 1982): secondaries must not miss 2^31 writes.
    pub fn serial(self, offset: u32) -> u32 {
        (self.0 as u32).wrapping_add(offset)
    }

    /// The next revision.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identifies a set.
#[derive(Clone, Debug)]
pub struct SetKey {
    /// Its zone, by the origin.
    pub zone: NameBuf,
    /// Its name, absolute.
    pub name: NameBuf,
    /// Its type.
    pub rtype: Rtype,
    /// Its view.
    pub view: View,
}

impl PartialEq for SetKey {
    fn eq(&self, other: &Self) -> bool {
        let names = |key: &Self| (key.rtype, key.view);
        names(self) == names(other)
            && self.zone.as_name() == other.zone.as_name()
            && self.name.as_name() == other.name.as_name()
    }
}

impl Eq for SetKey {}

/// The content of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetValue {
    /// Its TTL in seconds.
    pub ttl: u32,
    /// Which of its records an answer contains.
    pub policy: Policy,
    /// The data of each record, in wire form with uncompressed names.
    pub data: Vec<Box<[u8]>>,
}

impl SetValue {
    /// These records, all in each answer.
    pub fn new(ttl: u32, data: Vec<Box<[u8]>>) -> Self {
        Self { ttl, policy: Policy::All, data }
    }

    /// A set whose data the journal does not store.
    pub const UNKEPT: Self = Self { ttl: 0, policy: Policy::All, data: Vec::new() };

    /// Whether this is content, not [`SetValue::UNKEPT`]: a set has at least one record.
    pub fn is_kept(&self) -> bool {
        !self.data.is_empty()
    }
}

impl From<image::RecordSet<'_>> for SetValue {
    fn from(set: image::RecordSet<'_>) -> Self {
        let data = set.records().map(Box::from).collect();
        // Only packed rules are in a zone.
        let policy = Policy::unpack(set.rules()).unwrap_or(Policy::All);
        Self { ttl: set.ttl(), policy, data }
    }
}

impl SetValue {
    /// Adds members. The TTL becomes theirs; the rules of the set do only if there were no members.
    /// A member that is there already gets its new rules.
    pub fn add(&mut self, added: Self) {
        let Self { ttl, policy, data } = added;
        let (old, new) = (std::mem::replace(&mut self.policy, Policy::All), policy);
        self.ttl = ttl;
        let held = std::mem::take(&mut self.data);
        self.policy = if held.is_empty() { new.clone() } else { old.clone() };
        let kept = held.into_iter().enumerate().filter(|(_, member)| !data.contains(member));
        let mut members: Vec<_> = kept.map(|(at, member)| (member, old.member(at))).collect();
        members.extend(data.iter().cloned().enumerate().map(|(at, m)| (m, new.member(at))));
        self.set_members(members);
    }

    /// Removes members.
    pub fn take(&mut self, taken: &[Box<[u8]>]) {
        let members = std::mem::take(&mut self.data).into_iter().enumerate();
        let left = members.filter(|(_, member)| !taken.contains(member));
        let left = left.map(|(at, member)| (member, self.policy.member(at))).collect();
        self.set_members(left);
    }

    /// Starts the changes of weights that are written now, from the weights that the members have
    /// in the set as it was.
    pub fn start_ramps(&mut self, held: Option<&Self>, now: u64) {
        let Some(rules) = self.policy.rules_mut().filter(|rules| !rules.ramps.is_empty()) else {
            return;
        };
        for (data, ramp) in self.data.iter().zip(&mut rules.ramps) {
            let Some(ramp) = ramp else { continue };
            let present = || {
                let held = held?;
                let at = held.data.iter().position(|member| member == data)?;
                Some(held.policy.member(at).weight_at(now))
            };
            ramp.from = ramp.from.or_else(|| Some(present().unwrap_or_default()));
            ramp.start = ramp.start.or(Some(now));
        }
    }

    /// Members with what the rules say of each.
    fn set_members(&mut self, mut members: Vec<(Box<[u8]>, MemberRules)>) {
        members.sort_unstable();
        members.dedup_by(|a, b| a.0 == b.0);
        let (data, members): (Vec<_>, Vec<_>) = members.into_iter().unzip();
        self.data = data;
        let mut rules = match std::mem::replace(&mut self.policy, Policy::All) {
            Policy::Rules(rules) => *rules,
            Policy::All => SetRules::default(),
        };
        rules.set_members(&members);
        self.policy = Policy::new(rules);
    }

    /// Sorts the members by their data, each with its rules, and removes duplicates. Returns
    /// whether the rules say one thing of each member.
    #[must_use = "a member with two tiers is invalid"]
    pub fn sort(&mut self) -> bool {
        let has_all = |len| len == 0 || len == self.data.len();
        let is_whole = self.policy.rules().is_some_and(|rules| {
            let (ramps, locations) = (rules.ramps.len(), rules.locations.len());
            let lens = [rules.tiers.len(), rules.weights.len(), ramps, locations];
            lens.iter().any(|len| *len > 0) && lens.into_iter().all(has_all)
        });
        if !is_whole {
            // Without rules of members, or invalid: `SetRules::check` says so.
            self.data.sort_unstable();
            self.data.dedup();
            return true;
        }
        let members = std::mem::take(&mut self.data).into_iter().enumerate();
        let members = members.map(|(at, member)| (member, self.policy.member(at)));
        let mut members: Vec<_> = members.collect();
        members.sort_unstable();
        members.dedup();
        let is_unique = members.array_windows().all(|[one, next]| one.0 != next.0);
        self.set_members(members);
        is_unique
    }
}

/// A condition for an edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Precondition {
    /// None.
    #[default]
    Anything,
    /// The set does not exist (`If-None-Match: *`).
    Absent,
    /// The set exists (`If-Match: *`).
    Present,
    /// The set's last revision (`If-Match: "7"`).
    At(Revision),
    /// The set has exactly this TTL and these records, in any order.
    Equal(Box<SetValue>),
}

/// A change of one set.
#[derive(Clone, Debug)]
pub struct Edit {
    /// The name of the set, absolute.
    pub name: NameBuf,
    /// Its type.
    pub rtype: Rtype,
    /// Its view.
    pub view: View,
    /// Its condition.
    pub expect: Precondition,
    /// What happens with `put`; the zone manager takes it from [`Change`] instead.
    pub kind: EditKind,
    /// The new content; `None` removes the set.
    pub put: Option<SetValue>,
}

/// What an edit does with its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EditKind {
    /// They replace those of the set.
    #[default]
    Replace,
    /// They are added to the set, which need not exist. Its TTL becomes theirs.
    Add,
    /// They are removed from the set. A set without records is removed.
    Take,
}

impl Edit {
    /// Replaces the content of a set, without a condition.
    pub fn put(name: NameBuf, rtype: Rtype, value: SetValue) -> Self {
        Self { put: Some(value), ..Self::remove(name, rtype) }
    }

    /// Removes a set, without a condition.
    pub fn remove(name: NameBuf, rtype: Rtype) -> Self {
        let (view, expect) = (View::DEFAULT, Precondition::Anything);
        Self { name, rtype, view, expect, kind: EditKind::Replace, put: None }
    }
}

/// A change of a zone or layer by its source.
#[derive(Clone, Debug)]
pub enum Change {
    /// Replaces or removes a set.
    Set(Edit),
    /// Adds the records of `put` to the set, whose TTL becomes that of `put`. Creates the set if it
    /// does not exist.
    Add(Edit),
    /// Removes the records of `put` from the set. A set without records is removed.
    Take(Edit),
    /// The name exists, even without records: queries get NODATA instead of NXDOMAIN.
    AddName(NameBuf),
    /// The same for a wildcard name: it also stands for each label that is an address with hyphens,
    /// such as `10-0-0-1` for 10.0.0.1, with the TTL of the zone's SOA.
    AddAddresses(NameBuf),
    /// The name need not exist without records any more.
    RemoveName(NameBuf),
}

impl Change {
    /// The changed name.
    pub fn name(&self) -> &NameBuf {
        match self {
            Self::Set(edit) | Self::Add(edit) | Self::Take(edit) => &edit.name,
            Self::AddName(name) | Self::AddAddresses(name) | Self::RemoveName(name) => name,
        }
    }
}

impl From<Edit> for Change {
    fn from(edit: Edit) -> Self {
        Self::Set(edit)
    }
}

/// Why an edit is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidEdit {
    /// Its index in the batch, from 0.
    pub edit: usize,
    /// The invalid field: `name`, `type`, `ttl`, `data` or `edits`.
    pub field: &'static str,
    /// The broken rule.
    pub rule: BrokenRule,
    /// The fault: a sentence without a period.
    pub what: String,
}
