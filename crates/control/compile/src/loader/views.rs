//! Loads the sets of a view of a zone.
use super::{AbsoluteName, Loader, ZoneWarnings};
use crate::limits::PROBLEMS_MAX;
use crate::problem::ZoneProblem;
use crate::view::{self, ViewSets};
use crate::zone::Zone;
use image::Node;
use model::BrokenRule;
use std::sync::Arc;

/// The sets of a view, and warnings about them.
type CheckedSets = (ViewSets, Vec<ZoneProblem>);

impl Loader<'_> {
    /// Builds the sets of a view of a zone. Also returns warnings, up to [`PROBLEMS_MAX`].
    ///
    /// # Errors
    /// All problems, up to [`PROBLEMS_MAX`].
    pub fn finish_view(self, zone: &Zone) -> Result<CheckedSets, Vec<ZoneProblem>> {
        drop(self.recent);
        let mut problems = Vec::new();
        if zone.facts.signed {
            let what = "a signed zone has no views: its signatures are of its own sets".to_owned();
            problems.push(ZoneProblem { place: None, rule: BrokenRule::SIGNED, what });
        }
        let mut check = |node: Node<'_>, place: u32| {
            if let Err(why) = view::check(zone, node) {
                let what = format!("{}: {why}", AbsoluteName(node.name(), &self.origin));
                problems.push(ZoneProblem { place: Some(place), rule: why.rule, what });
            }
        };
        let mut warnings = ZoneWarnings { origin: &self.origin, all: Vec::new() };
        let built = self.names.build(&self.key, None, &mut warnings, &mut check);
        let mut warnings = warnings.all;
        let built = built.map_err(|problem| problems.push(problem));
        if let Ok(names) = &built {
            problems.extend(view::hidden_by_own(zone, names));
        }
        if self.hashed.names() > 0 {
            let what = "a view has no NSEC3 records: they are those of the zone".to_owned();
            problems.push(ZoneProblem { place: None, rule: BrokenRule::SIGNED, what });
        }
        problems.sort_by_key(|problem| problem.place.unwrap_or(u32::MAX));
        problems.truncate(PROBLEMS_MAX);
        warnings.sort_by_key(|warning| warning.place);
        match built {
            Ok(names) if problems.is_empty() => Ok((ViewSets(Arc::new(names)), warnings)),
            _ => Err(problems),
        }
    }
}
