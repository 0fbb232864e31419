//! The sets of views as layers beside the zone: each has leaves of its own, from whose sets members
//! are chosen as from those of the zone.
use super::{OwnSets, ViewZone};
use crate::laid_view::LaidView;
use crate::names::Names;
use crate::zone::Zone;
use image::{Leaf, Node, Tree};
use packet::View;
use std::sync::Arc;

impl Zone {
    /// Lays views over the zone of which these records were chosen, at names that differ from those
    /// that an older version has, or may.
    pub(crate) fn lay_chosen(
        &mut self,
        before: Option<&Self>,
        chosen: Vec<(View, Names)>,
        changed: &[&[u8]],
    ) {
        let bare = self.without_views();
        let mut laid = Vec::with_capacity(self.views.len());
        for (view, source) in self.views.iter() {
            let sets = self.own_sets(*view).map(|own| own.sets.clone());
            let names = chosen.iter().find(|(known, _)| known == view);
            let own = sets.map(|sets| OwnSets { sets, chosen: names.map(|(_, it)| it.clone()) });
            let old = before.and_then(|before| before.laid(*view));
            let known = old.and_then(|old| old.as_any().downcast_ref::<ViewZone>());
            let new = match (own, known.filter(|known| known.own.is_some())) {
                (Some(own), Some(known)) if changed.len() <= own.sets.0.len() => {
                    known.changed(bare.clone(), own, changed)
                }
                (own, _) => ViewZone::lay(bare.clone(), own),
            };
            // One for which that fails stays as it was.
            let new = new.map(|new| Arc::new(new) as _);
            laid.push((*view, new.unwrap_or_else(|_| Arc::clone(old.unwrap_or(source)))));
        }
        self.views = laid.into();
    }

    pub(super) fn laid(&self, view: View) -> Option<&Arc<dyn LaidView<Self>>> {
        self.views.iter().find(|(known, _)| *known == view).map(|(_, laid)| laid)
    }

    fn own_sets(&self, view: View) -> Option<&OwnSets> {
        self.laid(view)?.as_any().downcast_ref::<ViewZone>()?.own.as_ref()
    }

    /// The views that were loaded.
    pub(crate) fn loaded_views(&self) -> impl Iterator<Item = View> {
        let views = self.views.iter().map(|(view, _)| *view);
        views.filter(|view| self.own_sets(*view).is_some())
    }

    /// The names with sets of a view alone; of [`View::DEFAULT`], those of the zone.
    pub fn names_of(&self, view: View) -> Option<&Names> {
        match view {
            View::DEFAULT => Some(&self.names),
            view => self.own_sets(view).map(|own| own.sets.names()),
        }
    }

    /// What was chosen of the sets of a view; of [`View::DEFAULT`], the names of the zone.
    pub(crate) fn chosen_of(&self, view: View) -> Option<&Names> {
        match view {
            View::DEFAULT => Some(&self.names),
            view => self.own_sets(view)?.chosen.as_ref(),
        }
    }

    /// The node of a relative name, in lower case, as the clients of a view see it.
    pub fn node_in(&self, view: View, name: &[u8]) -> Option<Node<'_>> {
        let hash = self.names.key().hash_of(name);
        Leaf::new(self.in_view(view).leaf(hash)).find(hash, name)
    }
}
