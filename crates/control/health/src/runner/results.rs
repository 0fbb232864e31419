//! Processes the results of probes, and logs changes.
use super::{Done, Runner, wall, whole_days};
use crate::outcome::{Failure, Passed};
use crate::prober::{ProbeId, Transition};
use crate::state::{ProbeState, TargetState};
use crate::webhook::Event;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::Instant;
use zone_manager::HealthTarget;

/// Lines of the log a second for single targets.
const LINES_MAX: u32 = 20;

/// The time between two lines of the log about probes that this host could not make.
const NOT_MADE_LOG_INTERVAL: Duration = Duration::from_secs(60);

impl Runner {
    pub(super) fn take_done(&mut self, done: Done) {
        let (id, result) = match done {
            Ok(done) => done,
            Err(error) => {
                // The prober takes it for lost.
                tracing::error!("a probe panicked: {error}");
                return;
            }
        };
        let counter = match &result {
            Ok(_) => &self.counters.passed,
            Err(Failure::Failed(_)) => &self.counters.failed,
            Err(Failure::NotMade(why)) => {
                self.counters.skipped.fetch_add(1, Relaxed);
                self.prober.not_made(id, why);
                return self.log_not_made(why);
            }
        };
        counter.fetch_add(1, Relaxed);
        if let Ok(Passed { certificate_end: Some(end) }) = result {
            self.take_certificate(id, end);
        }
        let was_suspect = self.prober.suspects_itself();
        let result = result.as_ref().map(drop).map_err(Failure::reason);
        let transition = self.prober.result(id, result, wall());
        match (transition, &self.fleet) {
            (Some(transition), None) => self.take_transition(transition, true),
            (_, Some(_)) => self.say(id),
            (None, None) => {}
        }
        let is_suspect = self.prober.suspects_itself();
        if is_suspect && !was_suspect {
            tracing::warn!(
                "too many targets that are up fail at once: the network of this host may be down, \
                 so none is taken for down for one more round"
            );
        }
        self.counters.suspects_itself.store(is_suspect, Relaxed);
    }

    fn take_certificate(&mut self, id: ProbeId, end: Duration) {
        let wall = wall();
        if let Some(target) = self.prober.certificate(id, end, wall) {
            tracing::warn!(%target, "its certificate expires in {}", whole_days(wall, end));
        }
        self.counters.expiring.store(self.prober.expiring() as u64, Relaxed);
    }

    /// Logs why a probe was not made, once a minute.
    fn log_not_made(&mut self, why: &str) {
        let now = Instant::now();
        if self.not_made_logged.is_none_or(|last| last + NOT_MADE_LOG_INTERVAL <= now) {
            self.not_made_logged = Some(now);
            tracing::error!("a probe is not made, and the state of its target stays: {why}");
        }
    }

    /// Takes in a change of state; `tells`: this server tells the webhook of it.
    pub(super) fn take_transition(
        &mut self,
        Transition { target, before, now }: Transition,
        tells: bool,
    ) {
        let counter = match now.state {
            ProbeState::Up => &self.counters.went_up,
            _ => &self.counters.went_down,
        };
        counter.fetch_add(1, Relaxed);
        let class = self.class(&target, &now);
        self.verdicts.insert(target.clone(), Some(class));
        self.has_changed = true;
        self.log(&target, before, &now);
        if let Some(webhook) = self.webhook.as_ref().filter(|_| tells) {
            webhook.put(Event {
                check: target.check.to_string(),
                address: target.address,
                before: before.word(),
                state: now.state.word(),
                reason: now.reason.to_string(),
                since_seconds: now.since.as_secs(),
            });
        }
    }

    /// Logs a transition, unless there are too many.
    fn log(&mut self, target: &HealthTarget, before: ProbeState, now: &TargetState) {
        let second = wall().as_secs();
        if second != self.log_second {
            (self.log_second, self.log_lines) = (second, 0);
        }
        self.log_lines += 1;
        let (before, state, reason) = (before.word(), now.state.word(), &now.reason);
        match self.log_lines {
            ..=LINES_MAX if now.state == ProbeState::Down => {
                tracing::warn!(%target, before, state, %reason, "target is down");
            }
            ..=LINES_MAX => tracing::info!(%target, before, state, "target is up"),
            n if n == LINES_MAX + 1 => {
                tracing::warn!("more targets change: `dunlin health` shows them");
            }
            _ => {}
        }
    }
}
