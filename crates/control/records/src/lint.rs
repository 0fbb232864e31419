//! Warnings about the sets that a write changes: those of `dunlin check`, at a cost that depends on
//! the write and not on the zone.
use crate::limits::WARNINGS_MAX;
use crate::{RecordService, SetKey, SetWarning, View, WrittenSet};
use compile::{Finding, Zone};
use wire::{Name, NameBuf, Rtype};

/// Warnings about these sets, each an absolute name and a type.
pub fn of_sets<'n>(zone: &Zone, sets: impl Iterator<Item = (Name<'n>, Rtype)>) -> Vec<SetWarning> {
    let relative: Vec<_> =
        sets.filter_map(|(name, rtype)| Some((zone.relative(name)?, rtype))).collect();
    warnings(zone, relative.iter().map(|(name, rtype)| (&name[..], *rtype)))
}

/// Warnings about the sets of a new zone.
pub fn of_changes(zone: &Zone, changes: &[WrittenSet]) -> Vec<SetWarning> {
    let of_all = changes.iter().filter(|change| change.view == View::DEFAULT);
    warnings(zone, of_all.map(|change| (&change.name[..], change.rtype)))
}

fn warnings<'s>(zone: &Zone, sets: impl Iterator<Item = (&'s [u8], Rtype)>) -> Vec<SetWarning> {
    let found = zone.lint_sets(sets, WARNINGS_MAX).into_iter();
    let warning = |Finding { name, rtype, rule, what, help, .. }: Finding| {
        let name = NameBuf::joined(&name, zone.origin()).ok()?;
        Some(SetWarning { name, rtype, rule, what, help })
    };
    found.filter_map(warning).collect()
}

impl RecordService {
    /// Warnings about these sets of one zone, as they are served now.
    pub fn warnings(&self, origin: Name<'_>, sets: &[SetKey]) -> Vec<SetWarning> {
        let image = self.0.publisher.image();
        let Some(zone) = image.zone(origin) else { return Vec::new() };
        let of_all = sets.iter().filter(|set| set.view == View::DEFAULT);
        of_sets(zone, of_all.map(|set| (set.name.as_name(), set.rtype)))
    }
}
