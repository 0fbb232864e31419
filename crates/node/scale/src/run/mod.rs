//! `dunlin scale`: scales targets in a cluster until it is ended.
mod config_map;
mod context;
mod discover;
mod lease;
mod nodes;
mod others;
mod pages;
mod pods;
mod rights;
mod scrape;
mod show;
mod status;
mod target;

pub use show::run as show;

use crate::cli::Run;
use config_map::{ConfigMap, read_defaults};
use context::Context;
use discover::find_dns;
use jiff::Timestamp;
use kube_api::{Api, Messages, Rights, seconds};
use lease::Candidate;
use nodes::{Counts, NodeTable, watch_nodes};
use pages::Pages;
use rights::Feature;
use scale_rules::election::RETRY_S;
use scale_rules::target::parse;
use scale_rules::{Dialect, Params};
use status::Status;
use std::error::Error;
use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use target::TargetScaler;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep_until};

/// Changes of nodes within this time are one.
const GATHER: Duration = Duration::from_millis(20);
/// The status object is written again after this many seconds, also if nothing has changed.
const STATUS_AGE_MAX_S: f64 = 60.0;

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// A flag is wrong, no API server is known, the address is taken, or so many polls in a row failed
/// as --max-sync-failures says.
pub fn run(command: &Run) -> Result<ExitCode, Box<dyn Error>> {
    let dialect = if command.strict { Dialect::Strict } else { Dialect::Lenient };
    let targets = command.target.as_deref().map(|text| parse(text, dialect)).transpose();
    let targets = targets.map_err(|error| format!("--target: {error}"))?;
    let defaults = command.default_params.as_deref().map(|text| read_defaults(text, dialect));
    let defaults = defaults.transpose()?;
    let listener = TcpListener::bind(command.listen)
        .map_err(|error| format!("--listen {}: {error}", command.listen))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let api = Api::connect(command.kubeconfig.as_deref()).await?;
        let namespace = command.namespace();
        let context = Context {
            api,
            namespace: namespace.clone(),
            nodes: NodeTable::new(),
            rights: Rights::default(),
            messages: Messages::new("dunlin scale"),
            is_dry: command.dry_run,
            period: Duration::from_secs(command.poll_period_seconds),
            begun: Instant::now(),
        };
        let id = identity();
        // A dry run changes nothing, and keeps no other scaler from its work.
        let candidate =
            (!command.dry_run).then(|| Candidate::new(&namespace, &command.configmap, id.clone()));
        let status = Status {
            scaler: id,
            version: env!("CARGO_PKG_VERSION").into(),
            is_dry: command.dry_run,
            ..Status::default()
        };
        let mut scaler = ClusterScaler {
            config: ConfigMap::new(
                &namespace,
                &command.configmap,
                dialect,
                defaults,
                command.dry_run,
            ),
            name: command.configmap.clone(),
            candidate,
            params: None,
            targets: targets.unwrap_or_default().into_iter().map(TargetScaler::new).collect(),
            failures: 0,
            failures_max: command.max_sync_failures,
            status,
            shown: Arc::default(),
            written: None,
            context,
        };
        scaler.run(listener, command.nodelabels.clone()).await
    })
}

/// A name that no other scaler has: that of the Pod, and of this process.
fn identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "dunlin-scale".into());
    format!("{host}_{}_{:x}", std::process::id(), Timestamp::now().as_nanosecond())
}

/// Scales all targets of one scaler.
struct ClusterScaler {
    context: Context,
    config: ConfigMap,
    /// The name of the ConfigMap and of the Lease.
    name: String,
    /// `None` in a dry run, and where leases may not be used: this scaler decides then.
    candidate: Option<Candidate>,
    /// The parameters in force.
    params: Option<Params>,
    targets: Vec<TargetScaler>,
    failures: u32,
    failures_max: u32,
    status: Status,
    shown: Arc<Mutex<Status>>,
    /// The status object as it was written, and when.
    written: Option<(Status, f64)>,
}

impl ClusterScaler {
    async fn run(
        &mut self,
        listener: TcpListener,
        labels: String,
    ) -> Result<ExitCode, Box<dyn Error>> {
        let (mut term, mut int) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let pages = Arc::new(Pages(Arc::clone(&self.shown)));
        let messages = Messages::new("dunlin scale");
        let nodes =
            watch_nodes(self.context.api.clone(), labels, self.context.nodes.clone(), |text| {
                messages.tell(text);
            });
        tokio::select! {
            result = self.decide() => result,
            served = ops::serve_pages(listener, pages, std::future::pending()) => {
                served?;
                Ok(ExitCode::SUCCESS)
            }
            () = nodes => Ok(ExitCode::SUCCESS),
            _ = term.recv() => Ok(ExitCode::SUCCESS),
            _ = int.recv() => Ok(ExitCode::SUCCESS),
        }?;
        if let Some(candidate) = &mut self.candidate {
            candidate.give_up(&self.context.api, self.context.now_s()).await;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Renews the Lease, and decides each period and whenever nodes change.
    async fn decide(&mut self) -> Result<ExitCode, Box<dyn Error>> {
        let mut counts = self.context.nodes.subscribe();
        let mut renewal = interval(Duration::from_secs_f64(RETRY_S));
        renewal.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut next = tokio::time::Instant::now();
        loop {
            tokio::select! {
                _ = renewal.tick() => {
                    let was_leader = self.is_leader();
                    self.renew().await;
                    if was_leader || !self.is_leader() {
                        continue;
                    }
                }
                () = sleep_until(next) => {}
                Ok(()) = counts.changed() => tokio::time::sleep(GATHER).await,
            }
            next = tokio::time::Instant::now() + self.context.period;
            self.poll(&mut counts).await;
            if self.failures_max > 0 && self.failures >= self.failures_max {
                let text = format!("{} polls in a row failed (--max-sync-failures)", self.failures);
                return Err(text.into());
            }
        }
    }

    fn is_leader(&self) -> bool {
        self.candidate.as_ref().is_none_or(|candidate| candidate.is_leader(self.context.now_s()))
    }

    async fn renew(&mut self) {
        let Some(candidate) = &mut self.candidate else { return };
        let context = &self.context;
        let stepped = candidate.step(&context.api, || context.now_s()).await;
        let tell = |text: &str| context.tell(text);
        match context.rights.judge(Feature::LeaderElection, stepped, tell) {
            Ok(Some(_)) => {}
            Ok(None) => self.candidate = None,
            Err(error) => context.tell(&format!("the Lease cannot be renewed: {error}")),
        }
    }

    /// One poll: parameters, nodes, each target. A failing target does not stop the others.
    async fn poll(&mut self, counts: &mut watch::Receiver<Option<Counts>>) {
        let counts = *counts.borrow_and_update();
        self.status.is_leader = self.is_leader();
        if self.status.is_leader {
            let is_done = self.scale(counts).await;
            self.status.polls += 1;
            self.status.polls_failed += u64::from(!is_done);
            self.failures = if is_done { 0 } else { self.failures + 1 };
        }
        self.status.time = seconds(Timestamp::now());
        let is_off = |feature: &Feature| self.context.rights.is_off(*feature);
        let off = Feature::ALL.into_iter().filter(is_off);
        self.status.features_off = off.map(|feature| feature.name().to_owned()).collect();
        self.status.targets = self.targets.iter().map(|target| target.status.clone()).collect();
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = self.status.clone();
        if self.status.is_leader {
            self.write_status().await;
        }
    }

    /// Whether everything was in order.
    async fn scale(&mut self, counts: Option<Counts>) -> bool {
        let found = self.config.poll(&self.context.api).await;
        if found.is_created {
            self.context.tell("the ConfigMap was missing; it was created with --default-params");
        }
        if let Some(params) = found.params {
            self.status.mode = params.mode().to_owned();
            self.targets.iter_mut().for_each(|target| target.set_params(&params));
            self.params = Some(params);
        }
        let mut is_done = true;
        if let Some(error) = &found.error {
            let kept = if self.status.mode.is_empty() {
                "nothing is scaled"
            } else {
                "the last valid parameters stay in effect"
            };
            let text = format!("the parameters are not in force, {kept}: {error}");
            let is_new = self.context.tell_new(&text);
            if let Some(target) = self.targets.first().filter(|_| is_new) {
                target.warn(&self.context, "BadParameters", &text).await;
            }
            is_done = !self.status.mode.is_empty();
        }
        self.status.config_error = found.error;
        if self.targets.is_empty() && !self.discover().await {
            return false;
        }
        let Some(counts) = counts else {
            // A list takes a moment; the watch says why it takes longer.
            return self.context.now_s() < self.context.period.as_secs_f64();
        };
        self.status.count(&counts.nodes);
        for target in &mut self.targets {
            let polled = target.poll(&self.context, self.candidate.as_mut(), &counts).await;
            target.status.error = polled.err().map(|error| error.to_string());
            if let Some(error) = &target.status.error {
                is_done = false;
                self.context.tell(&format!("{}: {error}", target.status.target));
            }
        }
        is_done
    }

    async fn write_status(&mut self) {
        if self.context.is_dry || !self.context.rights.allow(Feature::StatusObject) {
            return;
        }
        let mut news = self.status.clone();
        // What changes with every poll is no news.
        (news.time, news.polls) = (String::new(), 0);
        let now_s = self.context.now_s();
        let is_known = self
            .written
            .as_ref()
            .is_some_and(|(status, time_s)| *status == news && now_s - time_s < STATUS_AGE_MAX_S);
        if is_known {
            return;
        }
        let context = &self.context;
        let written =
            status::write(&context.api, &context.namespace, &self.name, &self.status).await;
        let tell = |text: &str| context.tell(text);
        match context.rights.judge(Feature::StatusObject, written, tell) {
            Ok(_) => self.written = Some((news, now_s)),
            Err(error) => context.tell(&format!("the status cannot be written: {error}")),
        }
    }

    /// Looks for DNS. Whether it was found.
    async fn discover(&mut self) -> bool {
        match find_dns(&self.context).await {
            Ok(target) => {
                self.context.tell(&format!("no --target is named; {target} was found"));
                let mut scaler = TargetScaler::new(target);
                if let Some(params) = &self.params {
                    scaler.set_params(params);
                }
                self.targets.push(scaler);
                self.status.target_error = None;
                true
            }
            Err(error) => {
                let text = format!("no --target is named: {error}");
                self.context.tell(&text);
                self.status.target_error = Some(text);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests;
