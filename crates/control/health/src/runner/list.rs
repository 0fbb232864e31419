//! The list of targets for operators.
use super::{Runner, wall, whole_days};
use crate::report::{HealthReport, TargetReport};
use crate::request::{StateFilter, TargetFilter};
use crate::state::TargetState;
use std::borrow::Cow;
use std::collections::BTreeMap;
use zone_manager::HealthTarget;

impl Runner {
    pub(super) fn list(&self, filter: &TargetFilter) -> HealthReport {
        let is_it = |target: &HealthTarget| {
            filter.check.as_ref().is_none_or(|check| **check == *target.check)
                && (filter.addresses.is_empty() || filter.addresses.contains(&target.address))
                && filter.after.as_ref().is_none_or(|after| target > after)
        };
        let has_state =
            |target: &HealthTarget, own: &TargetState, is_refused: bool| match filter.state {
                None => true,
                Some(StateFilter::NotProbed) => is_refused,
                Some(StateFilter::Is(state)) => self.agreed(target, own).state == state,
            };
        let probed = self.prober.states().map(|(target, state)| (target, (state, None)));
        let idle =
            self.idle.iter().map(|(target, idle)| (target, (&idle.state, idle.why.as_ref())));
        let all = probed.chain(idle).filter(|(target, _)| is_it(target));
        let all = all.filter(|(target, (own, why))| has_state(target, own, why.is_some()));
        let all: BTreeMap<_, _> = all.collect();
        let has_more = all.len() > filter.limit;
        let last = all.keys().take(filter.limit).next_back().filter(|_| has_more);
        let next = last.map(|last| last.cursor());
        let targets = all.into_iter().take(filter.limit);
        let (table, wall) = (self.publisher.health(), wall());
        let report =
            |(target, (own, why)): (&HealthTarget, (&TargetState, Option<&Cow<'static, str>>))| {
                let state = self.agreed(target, own);
                let reason = why.map_or(&*state.reason, |why| why);
                let next = self.prober.next_probe(target);
                let check = self.prober.check(&target.check);
                let certificate = own.certificate.as_ref().zip(check);
                let ending =
                    certificate.filter(|(certificate, check)| certificate.ends_soon(check, wall));
                TargetReport {
                    check: target.check.to_string(),
                    address: target.address,
                    state: state.state.word().to_owned(),
                    since_seconds: state.since.as_secs(),
                    reason: (!reason.is_empty()).then(|| reason.to_owned()),
                    next_probe_seconds: next.map(|next| next.saturating_sub(self.now()).as_secs()),
                    vantages: self.vantages(target),
                    sets: table.sets(target),
                    operator: self.overrides.of(target).cloned(),
                    certificate_end_seconds: certificate.map(|(found, _)| found.end.as_secs()),
                    warning: ending.map(|(found, _)| {
                        format!("its certificate expires in {}", whole_days(wall, found.end))
                    }),
                }
            };
        HealthReport {
            targets: targets.map(report).collect(),
            has_more,
            next,
            not_taken: table.waiting(),
            open_sets: table.open(),
            suspects_itself: self.prober.suspects_itself(),
            not_saved: self.not_saved.clone(),
        }
    }
}
