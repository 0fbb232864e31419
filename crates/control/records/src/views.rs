//! The sets of views in the zones of the store.
use crate::limits::VIEWS_OF_ZONE_MAX;
use crate::{InvalidEdit, Refused, View, WrittenSet};
use compile::{SetChange, ViewSets, Zone, ZoneProblem};
use model::BrokenRule;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The numbers of the views that clients may have. A clone is the same.
#[derive(Clone, Default)]
pub struct KnownViews(Arc<RwLock<HashMap<View, compile::View>>>);

impl KnownViews {
    /// These views are known from now on. [`settle`](crate::RecordService::settle) lays their sets
    /// over the zones.
    pub fn set(&self, views: HashMap<View, compile::View>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = views;
    }

    /// The number of a view; `None`: no client has it.
    pub fn number(&self, view: View) -> Option<compile::View> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&view).copied()
    }

    /// Their names, sorted.
    pub fn names(&self) -> Vec<View> {
        let views = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<View> = views.keys().copied().collect();
        names.sort_by_key(|view| view.word().to_owned());
        names
    }

    /// Refuses an edit of a view that no client can have.
    ///
    /// # Errors
    /// Which views there are.
    pub fn check(&self, edit: usize, view: View) -> Result<(), Refused> {
        if view == View::DEFAULT || self.number(view).is_some() {
            return Ok(());
        }
        let known = self.names();
        let known: Vec<&str> = known.iter().map(View::word).collect();
        let what = match known.is_empty() {
            true => format!("there is no view {view}: name it in [store] views of the config"),
            false => format!(
                "there is no view {view}: [store] views of the config names {}",
                known.join(", ")
            ),
        };
        Err(Refused::Invalid(InvalidEdit {
            edit,
            field: "view",
            rule: BrokenRule::SET_RULES,
            what,
        }))
    }
}

/// The sets of each view of a zone that has any, sorted by view.
#[derive(Clone, Default)]
pub struct ZoneViews(Vec<(View, ViewSets)>);

impl ZoneViews {
    /// The sets of a view.
    pub fn get(&self, view: View) -> Option<&ViewSets> {
        self.0.iter().find(|(known, _)| *known == view).map(|(_, sets)| sets)
    }

    /// All views with their sets.
    pub fn iter(&self) -> impl Iterator<Item = &(View, ViewSets)> {
        self.0.iter()
    }

    /// Changes sets of a view, all or none.
    ///
    /// # Errors
    /// As [`ViewSets::change_all`], or there are too many views.
    pub fn change<R: AsRef<[u8]>>(
        &mut self,
        zone: &Zone,
        view: View,
        changes: &[SetChange<'_, R>],
    ) -> Result<(), ZoneProblem> {
        let at = self.0.binary_search_by_key(&view, |(known, _)| *known);
        let mut sets = match at {
            Ok(at) => self.0[at].1.clone(),
            Err(_) => ViewSets::none(Arc::clone(zone.names().key())),
        };
        sets.change_all(zone.origin(), changes)?;
        match at {
            Ok(at) if sets.is_empty() => drop(self.0.remove(at)),
            Ok(at) => self.0[at].1 = sets,
            Err(_) if sets.is_empty() => {}
            Err(_) if self.0.len() >= VIEWS_OF_ZONE_MAX => {
                let what = format!("a zone has at most {VIEWS_OF_ZONE_MAX} views");
                return Err(ZoneProblem { place: Some(0), rule: BrokenRule::LIMIT, what });
            }
            Err(at) => self.0.insert(at, (view, sets)),
        }
        Ok(())
    }
}

/// The changes of a write that concern one view.
pub struct ViewChanges<'c, R> {
    pub view: View,
    /// In canonical order.
    pub changes: Vec<SetChange<'c, R>>,
    /// The number of each among all changes of the write.
    numbers: Vec<usize>,
}

impl<R> ViewChanges<'_, R> {
    /// The relative name of each.
    pub fn names(&self) -> Vec<&[u8]> {
        self.changes.iter().map(|change| change.name).collect()
    }

    /// A problem of one of them, placed among all.
    pub fn placed(&self, problem: ZoneProblem) -> ZoneProblem {
        let number = self.numbers.get(problem.place.unwrap_or_default() as usize);
        ZoneProblem { place: number.map(|number| *number as u32), ..problem }
    }
}

/// Changes by their views, that of all clients first.
pub fn by_view<'c, R>(
    changes: impl Iterator<Item = (View, SetChange<'c, R>)>,
) -> Vec<ViewChanges<'c, R>> {
    let mut parts: Vec<ViewChanges<'c, R>> = Vec::new();
    for (number, (view, change)) in changes.enumerate() {
        let at = parts.binary_search_by_key(&view, |part| part.view).unwrap_or_else(|at| {
            parts.insert(at, ViewChanges { view, changes: Vec::new(), numbers: Vec::new() });
            at
        });
        parts[at].changes.push(change);
        parts[at].numbers.push(number);
    }
    parts
}

/// The changes of a write by their views.
pub fn parts_of(changes: &[WrittenSet]) -> Vec<ViewChanges<'_, Box<[u8]>>> {
    by_view(changes.iter().map(|change| (change.view, compiled(change))))
}

/// A set of a write, as the compiler takes it.
pub fn compiled(change: &WrittenSet) -> SetChange<'_, Box<[u8]>> {
    let set = change.after.as_ref().map(|value| (value.ttl, &value.data[..]));
    let rules = change.after.as_ref().map(|value| value.policy.pack()).unwrap_or_default();
    SetChange { name: &change.name, rtype: change.rtype, set, rules }
}
