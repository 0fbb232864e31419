//! The loop of the prober: makes due probes, reports verdicts, saves states, answers requests.
mod list;
mod results;
mod targets;
mod vantage;

use crate::allow::Allow;
use crate::check::Check;
use crate::checks::{Checks, DefinedCheck};
use crate::limits::{PROBES_PER_SECOND_MAX, REMEMBERED_TIME, SAVE_INTERVAL, SOCKETS_MAX};
use crate::operator::Overrides;
use crate::outcome::{Failure, Passed};
use crate::probe::Probes;
use crate::prober::{ProbeId, Prober, RATE_UNIT};
use crate::report::HealthCounters;
use crate::request::{HealthSettings, Request};
use crate::runner::vantage::FleetView;
use crate::saved::{self, SavedHealth};
use crate::state::TargetState;
use crate::webhook::Webhook;
use documents::Content;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};
use zone_manager::shares::FairShares;
use zone_manager::{Answer, HealthTarget, MemberClass, Sequence, ZoneKey, ZonePublisher};

/// A target that is not probed.
struct IdleTarget {
    state: TargetState,
    /// Why not; `None`: other servers probe it.
    why: Option<Cow<'static, str>>,
}

/// The result of a probe, or that it panicked.
type Done = Result<(ProbeId, Result<Passed, Failure>), tokio::task::JoinError>;

/// A save in progress, and its waiters.
type Saving = JoinHandle<Result<(), String>>;

pub(crate) struct Runner {
    publisher: ZonePublisher,
    prober: Prober,
    probes: Probes,
    /// `None`: this server does not probe.
    allow: Option<Allow>,
    counters: Arc<HealthCounters>,
    /// Receives transitions.
    webhook: Option<Webhook>,
    start: Instant,
    in_flight: JoinSet<(ProbeId, Result<Passed, Failure>)>,
    /// Targets that sets name and that are not probed.
    idle: HashMap<HealthTarget, IdleTarget>,
    /// The zones that name each target.
    zones: HashMap<HealthTarget, Vec<ZoneKey>>,
    /// The zones' shares of the probes a second.
    shares: FairShares<ZoneKey, HealthTarget>,
    /// Targets whose address has enough probes a second.
    crowded: HashMap<IpAddr, HashSet<HealthTarget>>,
    /// Targets of addresses that have fewer probes a second now.
    uncrowded: Vec<HealthTarget>,
    /// Targets that no set names now, with the time when one did.
    remembered: HashMap<HealthTarget, (TargetState, Duration)>,
    checks: Arc<Checks>,
    /// The checks that the prober knows.
    known_checks: BTreeMap<String, Arc<Check>>,
    check_changes: watch::Receiver<Arc<Content>>,
    overrides: Overrides,
    endpoints: watch::Receiver<Arc<Content>>,
    /// `None`: this server is in no fleet.
    fleet: Option<FleetView>,
    /// Verdicts to report, and the report in progress.
    verdicts: HashMap<HealthTarget, Option<MemberClass>>,
    reporting: Option<Answer<Sequence>>,
    /// `None`: states are not saved.
    folder: Option<PathBuf>,
    not_saved: Option<String>,
    has_changed: bool,
    saving: Option<Saving>,
    save_after: Instant,
    /// Why targets are not probed: what was logged already.
    logged: HashSet<&'static str>,
    not_made_logged: Option<Instant>,
    log_second: u64,
    log_lines: u32,
}

impl Runner {
    pub fn new(
        publisher: ZonePublisher,
        settings: HealthSettings,
        checks: Arc<Checks>,
        probes: Probes,
        loaded: Result<SavedHealth, String>,
        (counters, webhook): (Arc<HealthCounters>, Option<Webhook>),
    ) -> Self {
        let not_saved = match (&loaded, &settings.folder) {
            (Err(why), _) => Some(why.clone()),
            (_, None) => Some("[server] data_dir names no folder".to_owned()),
            _ => None,
        };
        counters.is_saved.store(not_saved.is_none(), Relaxed);
        let folder = settings.folder.filter(|_| not_saved.is_none());
        let saved = loaded.unwrap_or_default();
        let (all, mut check_changes) = (checks.all(), checks.changes());
        // All changes after these are taken in.
        check_changes.mark_changed();
        let known_checks = by_name(&all);
        let mut endpoints = settings.endpoints.content();
        let overrides = Overrides::of_content(&endpoints.borrow_and_update());
        let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let seed = seed.unwrap_or_default().as_nanos() as u64;
        Self {
            publisher,
            prober: Prober::new(all.iter().map(|one| (*one.check).clone()), seed),
            probes,
            allow: settings.allow,
            counters,
            webhook,
            start: Instant::now(),
            in_flight: JoinSet::new(),
            idle: HashMap::new(),
            zones: HashMap::new(),
            shares: FairShares::new(u64::from(PROBES_PER_SECOND_MAX) * RATE_UNIT),
            crowded: HashMap::new(),
            uncrowded: Vec::new(),
            remembered: saved.states.into_iter().collect(),
            checks,
            known_checks,
            check_changes,
            overrides,
            endpoints,
            fleet: settings.fleet.map(|(states, vantage)| FleetView::new(states, vantage)),
            verdicts: HashMap::new(),
            reporting: None,
            folder,
            not_saved,
            has_changed: false,
            saving: None,
            save_after: Instant::now(),
            logged: HashSet::new(),
            not_made_logged: None,
            log_second: 0,
            log_lines: 0,
        }
    }

    /// Reports the saved states, and waits until they hold.
    pub fn publish_saved(&self) {
        let states = self.remembered.iter();
        let class = |(target, (state, _)): (&HealthTarget, &(TargetState, Duration))| {
            (target.clone(), Some(self.class(target, state)))
        };
        let verdicts: Vec<_> = states.map(class).collect();
        if !verdicts.is_empty() {
            // The zone manager has ended, and so will the prober.
            let _ = self.publisher.report_health(verdicts).wait();
        }
    }

    /// Runs until it is stopped, or all handles are gone.
    pub async fn run(mut self, mut requests: mpsc::Receiver<Request>, stop: Arc<Notify>) {
        let publisher = self.publisher.clone();
        loop {
            let due = self.prober.next_due().map(|due| self.start + due);
            let save_at = (self.has_changed && self.saving.is_none()).then_some(self.save_after);
            tokio::select! {
                () = publisher.health().changed() => {}
                Some(done) = self.in_flight.join_next(), if !self.in_flight.is_empty() => {
                    self.take_done(done);
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
                Ok(()) = self.check_changes.changed() => self.take_checks(),
                Ok(()) = self.endpoints.changed() => self.take_endpoints(),
                () = vantage::changed(self.fleet.as_ref()) => self.take_findings(),
                request = requests.recv() => match request {
                    Some(request) => self.handle(request),
                    None => break,
                },
                () = reported(&mut self.reporting) => self.reporting = None,
                result = saved_result(&mut self.saving) => self.take_saved(result),
                () = sleep_until(save_at.unwrap_or_else(Instant::now)), if save_at.is_some() => {
                    self.start_save();
                }
                () = stop.notified() => break,
            }
            self.take_targets();
            self.start_probes();
            self.report();
        }
        self.end().await;
    }

    async fn end(mut self) {
        self.in_flight.abort_all();
        if let Some(saving) = self.saving.take() {
            let result = saving.await.unwrap_or_else(|error| Err(error.to_string()));
            self.take_saved(result);
        }
        if self.has_changed {
            self.start_save();
            let result = saved_result(&mut self.saving).await;
            self.take_saved(result);
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn class(&self, target: &HealthTarget, state: &TargetState) -> MemberClass {
        let of_probes = || self.agreed(target, state).class();
        self.overrides.of(target).map_or_else(of_probes, |set| set.state.class())
    }

    fn start_probes(&mut self) {
        let now = self.now();
        while let Some(due) = self.prober.due(now) {
            if self.in_flight.len() >= SOCKETS_MAX {
                self.prober.skip(due.id);
                self.counters.skipped.fetch_add(1, Relaxed);
                continue;
            }
            let probes = self.probes.clone();
            self.in_flight
                .spawn(async move { (due.id, probes.probe(&due.check, due.address).await) });
        }
    }

    /// Reports verdicts, one batch at a time.
    fn report(&mut self) {
        if self.reporting.is_none() && !self.verdicts.is_empty() {
            let verdicts = self.verdicts.drain().collect();
            self.reporting = Some(self.publisher.report_health(verdicts));
            self.count();
        }
    }

    fn count(&self) {
        let mut counts = [0u64; 3];
        for (target, state) in self.named() {
            counts[self.agreed(target, state).state as usize] += 1;
        }
        let not_probed = self.idle.values().filter(|idle| idle.why.is_some()).count();
        // Those that this server does not take count, too.
        let not_taken = self.publisher.health().waiting();
        let waiting = self.shares.waiting() + not_taken;
        let [unknown, up, down] = counts;
        let (unknown, not_probed) = (unknown + not_taken as u64, not_probed + not_taken);
        self.counters.waiting.store(waiting as u64, Relaxed);
        self.counters.unknown.store(unknown, Relaxed);
        self.counters.up.store(up, Relaxed);
        self.counters.down.store(down, Relaxed);
        self.counters.not_probed.store(not_probed as u64, Relaxed);
    }

    /// All targets that sets name, with what this server knows by itself.
    fn named(&self) -> impl Iterator<Item = (&HealthTarget, &TargetState)> {
        self.prober.states().chain(self.idle.iter().map(|(target, idle)| (target, &idle.state)))
    }

    fn handle(&mut self, request: Request) {
        match request {
            Request::List(filter, promise) => {
                // The client may be gone.
                let _ = promise.send(self.list(&filter));
            }
            Request::Uses(check, promise) => {
                let _ = promise.send(self.targets_of(&check).len());
            }
            Request::Refresh(promise) => {
                self.take_checks();
                self.take_endpoints();
                let _ = promise.send(());
            }
        }
    }

    fn targets_of(&self, check: &str) -> Vec<HealthTarget> {
        let idle = self.idle.keys().filter(|target| *target.check == *check).cloned();
        self.prober.targets_of(check).into_iter().chain(idle).collect()
    }

    /// Defines, changes or removes a check. Its targets keep their states.
    fn set_check(&mut self, name: &str, check: Option<Arc<Check>>) {
        match check.as_ref().map(|check| self.probes.insert(check)) {
            Some(Ok(())) => {}
            // Its probes are not made, and say so.
            Some(Err(why)) => tracing::error!("the check {name} cannot be used: {why}"),
            None => self.probes.remove(name),
        }
        let mut stopped = Vec::new();
        for target in self.targets_of(name) {
            let state = self.stop(&target).unwrap_or_default();
            stopped.push((target, state));
        }
        self.prober.set_check(name, check);
        for (target, state) in stopped {
            self.start(target, state);
        }
        self.settle();
    }

    /// Takes in checks that were defined, changed or deleted.
    fn take_checks(&mut self) {
        self.check_changes.mark_unchanged();
        let newest = by_name(&self.checks.all());
        let known = std::mem::replace(&mut self.known_checks, newest.clone());
        let gone = known.keys().filter(|name| !newest.contains_key(*name));
        gone.for_each(|name| self.set_check(name, None));
        for (name, check) in newest.iter().filter(|(name, check)| known.get(*name) != Some(*check))
        {
            self.set_check(name, Some(Arc::clone(check)));
        }
        self.set_timing();
        // The prober knows a check before sources name it.
        self.publisher.health().set_checks(self.checks.names());
    }

    /// Takes in the states that operators have set.
    fn take_endpoints(&mut self) {
        let newest = Overrides::of_content(&self.endpoints.borrow_and_update());
        let changed = newest.changed(&self.overrides);
        self.overrides = newest;
        let remembered = self.remembered.iter().map(|(target, (state, _))| (target, state));
        let all = self.named().chain(remembered);
        let of_addresses = all.filter(|(target, _)| changed.contains(&target.address));
        let class = |(target, state): (&HealthTarget, &TargetState)| {
            (target.clone(), Some(self.class(target, state)))
        };
        let verdicts: Vec<_> = of_addresses.map(class).collect();
        self.verdicts.extend(verdicts);
    }

    fn start_save(&mut self) {
        self.has_changed = false;
        let Some(folder) = self.folder.clone() else { return };
        let wall = wall();
        let forgotten = |(_, named): &(TargetState, Duration)| *named + REMEMBERED_TIME < wall;
        let old: Vec<_> = self.remembered.extract_if(|_, entry| forgotten(entry)).collect();
        self.verdicts.extend(old.into_iter().map(|(target, _)| (target, None)));
        let entry = |(target, state): (&HealthTarget, &TargetState)| {
            (target.clone(), (self.agreed(target, state).clone(), wall))
        };
        let named = self.named().map(entry);
        let remembered =
            self.remembered.iter().map(|(target, entry)| (target.clone(), entry.clone()));
        let states = named.chain(remembered).collect();
        let saved = SavedHealth { states, ..SavedHealth::default() };
        self.saving = Some(tokio::task::spawn_blocking(move || saved::save(&folder, &saved)));
    }

    fn take_saved(&mut self, result: Result<(), String>) {
        self.saving = None;
        self.save_after = Instant::now() + SAVE_INTERVAL;
        match result {
            Ok(()) => self.not_saved = None,
            Err(why) => {
                if self.not_saved.is_none() {
                    tracing::error!("health states are not saved, and retried: {why}");
                }
                self.not_saved = Some(why);
                self.has_changed = true;
            }
        }
        self.counters.is_saved.store(self.not_saved.is_none(), Relaxed);
    }
}

fn by_name(all: &[DefinedCheck]) -> BTreeMap<String, Arc<Check>> {
    all.iter().map(|one| (one.check.name.clone(), Arc::clone(&one.check))).collect()
}

/// The time from now until then, as a text.
fn whole_days(now: Duration, then: Duration) -> String {
    const SECONDS_PER_DAY: u64 = 24 * 60 * 60;
    match then.saturating_sub(now).as_secs() / SECONDS_PER_DAY {
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}

/// The time since 1970.
fn wall() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Waits for a report; for ever if there is none.
async fn reported(reporting: &mut Option<Answer<Sequence>>) {
    match reporting {
        // Ended: so will the prober be.
        Some(answer) => drop(answer.await),
        None => std::future::pending().await,
    }
}

/// Waits for a save; for ever if there is none.
async fn saved_result(saving: &mut Option<Saving>) -> Result<(), String> {
    match saving {
        Some(saving) => saving.await.unwrap_or_else(|error| Err(error.to_string())),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
