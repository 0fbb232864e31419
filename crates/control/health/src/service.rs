//! The thread of the prober, and its interface.
use crate::check::Check;
use crate::checks::{CheckRefused, Checks, DefinedCheck};
use crate::fleet::FleetStates;
use crate::limits::REQUESTS_MAX;
use crate::operator::{self, Override, OverrideKey};
use crate::outcome::FindUser;
use crate::probe::Probes;
use crate::report::{HealthCounters, HealthReport};
use crate::request::{HealthSettings, Request, TargetFilter};
use crate::runner::Runner;
use crate::saved;
use crate::webhook;
use documents::{ChangeError, DocumentSet};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use server_status::HealthStatus;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use tokio::sync::{mpsc, oneshot};
use zone_manager::ZonePublisher;

/// The name of the thread.
pub const THREAD: &str = "health";
/// Other threads come first: answers, and the zone manager.
const NICENESS: i32 = 5;

/// A handle on the prober. Dropping the last one ends its thread.
#[derive(Clone)]
pub struct HealthService {
    requests: mpsc::Sender<Request>,
    counters: Arc<HealthCounters>,
    checks: Arc<Checks>,
    endpoints: Arc<dyn DocumentSet>,
    find_user: FindUser,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
    stop: Arc<tokio::sync::Notify>,
    publisher: ZonePublisher,
    /// Whether this server probes.
    probes: bool,
    /// What the servers of a fleet find; `None`: there is no fleet.
    fleet: Option<Arc<FleetStates>>,
}

/// The prober has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

impl HealthService {
    /// Reads the saved states, publishes them, and starts to probe. Called before zones are
    /// loaded, so that no first answer names a target that was down.
    ///
    /// # Errors
    /// The thread could not be started, or a check cannot be used.
    pub fn start(publisher: &ZonePublisher, settings: HealthSettings) -> io::Result<Self> {
        let (find_user, avoided) = (settings.find_user, settings.avoided_cpus.clone());
        let mut probes = Probes::new(&settings.checks, find_user).map_err(io::Error::other)?;
        let set = Arc::clone(&settings.api_checks);
        let checks = Arc::new(Checks::new(&settings.checks, set, settings.read_check));
        let endpoints = Arc::clone(&settings.endpoints);
        let all = checks.all();
        for DefinedCheck { check, .. } in all.iter().filter(|one| !one.is_configured) {
            // Its probes are not made, and say so.
            if let Err(why) = probes.insert(check) {
                tracing::error!("the check {} of the API cannot be used: {why}", check.name);
            }
        }
        let loaded = match &settings.folder {
            Some(folder) => saved::load(folder),
            None => Ok(saved::SavedHealth::default()),
        };
        if let Err(why) = &loaded {
            tracing::error!("health states are unknown: {why}");
        }
        publisher.health().set_ttl_max(settings.ttl_max.as_secs().try_into().unwrap_or(u32::MAX));
        let (requests, receiver) = mpsc::channel(REQUESTS_MAX);
        let counters = Arc::<HealthCounters>::default();
        let stop = Arc::<tokio::sync::Notify>::default();
        let webhook = settings.webhook.as_ref().map(|webhook| webhook::new(webhook, &counters));
        let (webhook, sender) = webhook.transpose().map_err(io::Error::other)?.unzip();
        let probes_here = settings.allow.is_some();
        let fleet = settings.fleet.as_ref().map(|(states, _)| Arc::clone(states));
        let runner = Runner::new(
            publisher.clone(),
            settings,
            Arc::clone(&checks),
            probes,
            loaded,
            (Arc::clone(&counters), webhook),
        );
        runner.publish_saved();
        publisher.health().set_checks(checks.names());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stopped = Arc::clone(&stop);
        let run = move || {
            avoid(&avoided);
            // Without the right to it, the prober runs at the priority of the process.
            let _ = rustix::process::setpriority_process(None, NICENESS);
            if let Some(sender) = sender {
                runtime.spawn(sender.run());
            }
            runtime.block_on(runner.run(receiver, stopped));
        };
        let thread = thread::Builder::new().name(THREAD.into()).spawn(run)?;
        let thread = Arc::new(Mutex::new(Some(thread)));
        let publisher = publisher.clone();
        Ok(Self {
            requests,
            counters,
            checks,
            endpoints,
            find_user,
            thread,
            stop,
            publisher,
            probes: probes_here,
            fleet,
        })
    }

    /// Whether there is any check.
    pub fn has_checks(&self) -> bool {
        !self.checks.all().is_empty()
    }

    /// Whether there is a check of this name.
    pub fn has_check(&self, name: &str) -> bool {
        self.check(name).is_some()
    }

    /// The check of this name.
    pub fn check(&self, name: &str) -> Option<DefinedCheck> {
        self.checks.get(name)
    }

    /// All checks, by name.
    pub fn checks(&self) -> Vec<DefinedCheck> {
        self.checks.all()
    }

    /// Defines or changes a check of the API. Durable when it answers; probes of its targets begin
    /// again, and their states stay. Returns whether it is new.
    ///
    /// # Errors
    /// Why nothing has changed.
    pub async fn put_check(
        &self,
        name: String,
        keys: serde_json::Map<String, serde_json::Value>,
    ) -> Result<bool, CheckRefused> {
        let check = (self.checks.read)(&name, &keys).map_err(CheckRefused::Invalid)?;
        // All that it needs is there.
        Probes::new([&check], self.find_user).map_err(CheckRefused::Invalid)?;
        let service = self.clone();
        finished(async move { service.change_check(name, Some(Arc::new(check))).await }).await
    }

    /// Deletes a check of the API that no record set names. Durable when it answers.
    ///
    /// # Errors
    /// Why nothing has changed.
    pub async fn delete_check(&self, name: String) -> Result<(), CheckRefused> {
        let service = self.clone();
        finished(async move { service.change_check(name, None).await }).await.map(drop)
    }

    async fn change_check(
        &self,
        name: String,
        change: Option<Arc<Check>>,
    ) -> Result<bool, CheckRefused> {
        if change.is_none() && self.check(&name).is_some_and(|found| !found.is_configured) {
            let (promise, answer) = oneshot::channel();
            self.send(Request::Uses(name.clone(), promise)).await?;
            match answer.await.map_err(|_| CheckRefused::Ended)? {
                0 => {}
                targets => return Err(CheckRefused::InUse(targets)),
            }
        }
        let checks = Arc::clone(&self.checks);
        let changing = move || checks.change(&name, change.as_deref());
        let changing = tokio::task::spawn_blocking(changing).await;
        let is_new = changing.map_err(|error| CheckRefused::NotSaved(error.to_string()))??;
        self.refresh().await.map_err(|_| CheckRefused::Ended)?;
        Ok(is_new)
    }

    /// Whether checks of the config can be used.
    ///
    /// # Errors
    /// The key, and why it cannot.
    pub fn try_checks(&self, configured: &[Check]) -> Result<(), String> {
        Probes::new(configured, self.find_user).map(drop)
    }

    /// Replaces the checks of the config. Probes of changed ones start again, and all states stay.
    ///
    /// # Errors
    /// The prober has ended.
    pub async fn set_configured(&self, configured: &[Check]) -> Result<(), Ended> {
        self.checks.set_configured(configured);
        self.refresh().await
    }

    /// Waits until the prober has taken in the newest checks and states of endpoints.
    async fn refresh(&self) -> Result<(), Ended> {
        let (promise, answer) = oneshot::channel();
        self.requests.send(Request::Refresh(promise)).await.map_err(|_| Ended)?;
        answer.await.map_err(|_| Ended)
    }

    async fn send(&self, request: Request) -> Result<(), CheckRefused> {
        self.requests.send(request).await.map_err(|_| CheckRefused::Ended)
    }

    /// The status.
    pub fn status(&self) -> HealthStatus {
        let of_fleet = self.fleet.as_ref().map(|fleet| fleet.vantages().len());
        let probers = of_fleet.unwrap_or(usize::from(self.probes));
        self.counters.status(self.publisher.health().open(), probers)
    }

    /// Whether the thread panicked; states stay as they were.
    pub fn has_failed(&self) -> bool {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// The targets and their states.
    ///
    /// # Errors
    /// The prober has ended.
    pub async fn list(&self, filter: TargetFilter) -> Result<HealthReport, Ended> {
        let (promise, answer) = oneshot::channel();
        self.requests.send(Request::List(filter, promise)).await.map_err(|_| Ended)?;
        answer.await.map_err(|_| Ended)
    }

    /// Whether a record set names the address as a target, or an operator has set its state.
    pub fn is_known(&self, address: IpAddr) -> bool {
        let set = self.endpoints.content();
        let is_set = set.borrow().documents.contains_key(&address.to_string());
        is_set || self.publisher.health().names(address)
    }

    /// Names sets of which this address is the last living member, or the last one that is not
    /// drained.
    ///
    /// # Errors
    /// The zone manager has ended.
    pub async fn last_member_of(&self, key: &OverrideKey) -> Result<Vec<String>, Ended> {
        self.publisher.last_member_of(key.address, key.check.as_deref()).await.map_err(|_| Ended)
    }

    /// Sets the state of an address, or with `None` takes it back. Durable when it answers.
    ///
    /// # Errors
    /// The prober has ended; or, inside, why the state is not set.
    pub async fn set(
        &self,
        key: OverrideKey,
        set: Option<Override>,
    ) -> Result<Result<(), ChangeError<String>>, Ended> {
        let endpoints = Arc::clone(&self.endpoints);
        let setting = move || operator::set(&*endpoints, &key, set.as_ref());
        let done = tokio::task::spawn_blocking(setting).await.map_err(|_| Ended)?;
        if done.is_ok() {
            self.refresh().await?;
        }
        Ok(done)
    }

    /// Saves the states, and ends the thread.
    pub fn stop(&self) {
        self.stop.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the prober panicked; states stay as they were");
        }
    }
}

/// Keeps this thread away from CPUs, if others are left. Without the right to it, it stays.
fn avoid(cpus: &[usize]) {
    let Ok(mut allowed) = sched_getaffinity(None) else { return };
    for cpu in cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU) {
        allowed.unset(*cpu);
    }
    if allowed.count() > 0 {
        let _ = sched_setaffinity(None, &allowed);
    }
}

/// Finishes a change also if its client goes away.
async fn finished<T: Send + 'static>(
    change: impl Future<Output = Result<T, CheckRefused>> + Send + 'static,
) -> Result<T, CheckRefused> {
    tokio::spawn(change).await.unwrap_or(Err(CheckRefused::Ended))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_leaves_cpus_to_others_if_any_is_left() {
        let own = || sched_getaffinity(None).expect("it is known");
        let before = own();
        let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| before.is_set(*cpu)).collect::<Vec<_>>();
        avoid(&cpus);
        assert_eq!(own(), before, "no other is left");
        let [first, others @ ..] = &cpus[..] else { panic!("a CPU") };
        avoid(&[*first, usize::MAX]);
        assert_eq!(own().is_set(*first), others.is_empty());
        assert!(others.iter().all(|cpu| own().is_set(*cpu)));
    }
}
