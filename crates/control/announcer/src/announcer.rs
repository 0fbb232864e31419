//! The announcement of a running server: decides, sends heartbeats, and reports.
use crate::withdrawal_file::{FILE, form, read_reason};
use crate::{StartedKeeper, announcement, terms};
use admin::SharedKeeper;
use anycast::limits::{HEARTBEAT_INTERVAL, PERMIT_POLL, PERMIT_WAIT_MAX, TAKEN_OVER_MAX};
use anycast::{
    Announcement, Link, Observed, PassedLink, PermitRequest, PermitState, Permits, ProbeTarget,
    Prober, Verdict, now,
};
use config::Config;
use handler::OwnQuery;
use server_status::{AnycastStatus, seconds};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

fn texts(announcement: &Announcement) -> Vec<String> {
    announcement.addresses.iter().map(ToString::to_string).collect()
}

fn by_operator(reason: &str) -> String {
    format!("by an operator: {reason}")
}

/// Waits until a request is answered that the announcing thread makes.
fn wait_for_permit(permits: &dyn Permits) -> Result<(), String> {
    let until = Instant::now() + PERMIT_WAIT_MAX;
    loop {
        match permits.state() {
            PermitState::Granted => return Ok(()),
            PermitState::Refused(why) => return Err(why),
            _ if Instant::now() >= until => return Err("the fleet gives no permit in time".into()),
            _ => thread::sleep(PERMIT_POLL),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The announcement of a running server.
pub struct Announcer {
    announcement: Announcement,
    /// What its keeper was started for.
    terms: Vec<String>,
    own_query: OwnQuery,
    /// What gives permits to withdraw; `None`: there is no fleet.
    permits: Option<Box<dyn Permits>>,
    settle: Duration,
    state: Mutex<State>,
    /// What an operator has said; `None`: there is no `data_dir`.
    file: Option<PathBuf>,
    is_ended: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the status reports.
struct State {
    link: Option<Link>,
    verdict: Verdict,
    since: SystemTime,
    /// Why an operator has withdrawn the addresses.
    withdrawn: Option<String>,
    /// Until when being not ready yet does not withdraw: the old process of a hot restart announced
    /// the addresses.
    taken_over_until: Option<Duration>,
    /// The reason for which an operator waits for a permit.
    asked: Option<String>,
    is_draining: bool,
    /// An operator withdraws it however many others are withdrawn.
    is_forced: bool,
    /// Why it stays announced although it should be withdrawn.
    no_permit: Option<String>,
}

impl State {
    /// What withdraws: nothing, if the fleet gives no permit.
    fn permitted(
        &mut self,
        permits: Option<&dyn Permits>,
        hindrance: Option<String>,
    ) -> Option<String> {
        let Some(permits) = permits else { return hindrance };
        let withdrawn = self.verdict.reason().map(str::to_owned);
        // One that is withdrawn already needs none, but the others have to know.
        let is_forced = withdrawn.is_some() || self.is_draining || self.is_forced;
        let reason = hindrance.clone().or(withdrawn).or_else(|| self.asked.clone());
        permits.request(reason.map(|reason| PermitRequest { reason, is_forced }));
        self.no_permit = None;
        let why = hindrance?;
        if is_forced {
            return Some(why);
        }
        match permits.state() {
            PermitState::Granted => return Some(why),
            PermitState::Refused(refusal) => {
                self.no_permit =
                    Some(format!("to be withdrawn, but without a permit: {why}; {refusal}"));
            }
            PermitState::Waiting | PermitState::Unneeded => {}
        }
        None
    }
}

impl Announcer {
    /// An announcer without its thread. `None`: nothing is announced.
    /// `permits`: starts what gives permits to withdraw these addresses.
    pub fn new(
        config: &Config,
        keeper: Option<StartedKeeper>,
        permits: impl FnOnce(Vec<String>) -> Option<Box<dyn Permits>>,
    ) -> Option<Self> {
        let StartedKeeper { link, token } = keeper?;
        let announcement = announcement(config)?;
        let hold_down = config.anycast.hold_down;
        let verdict = match link.was_announced() {
            true => Verdict::announced(hold_down, now()),
            false => Verdict::new(hold_down),
        };
        let terms = terms(&announcement, config);
        let file = config.server.folder().map(|folder| folder.join(FILE));
        let withdrawn = file.as_deref().and_then(read_reason);
        let since = SystemTime::now();
        let permits = permits(texts(&announcement));
        Some(Self {
            announcement,
            permits,
            terms,
            own_query: OwnQuery::new(token),
            settle: config.anycast.settle,
            state: Mutex::new(State {
                link: Some(link),
                verdict,
                since,
                withdrawn,
                taken_over_until: None,
                asked: None,
                is_draining: false,
                is_forced: false,
                no_permit: None,
            }),
            file,
            is_ended: AtomicBool::new(false),
            thread: Mutex::default(),
        })
    }

    /// The query of the server to itself through the addresses.
    pub const fn own_query(&self) -> &OwnQuery {
        &self.own_query
    }

    /// The server is about to drain: returns for how long it answers after the withdrawal.
    pub fn start_drain(&self) -> Duration {
        let mut state = lock(&self.state);
        (state.taken_over_until, state.is_draining) = (None, true);
        self.settle
    }

    /// The socket to the keeper, for the new process of a hot restart.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn share(&self) -> io::Result<Option<SharedKeeper>> {
        let state = lock(&self.state);
        let Some(PassedLink { socket, starter }) =
            state.link.as_ref().map_or(Ok(None), Link::pass)?
        else {
            return Ok(None);
        };
        let is_announced = state.verdict.reason().is_none();
        let (terms, token) = (self.terms.clone(), self.own_query.token().to_vec());
        Ok(Some(SharedKeeper { terms, is_announced, token, socket, starter }))
    }

    /// The new process of a hot restart decides from now on: sends no heartbeats any more. A keeper
    /// that the new process has not taken sees its server end.
    pub fn pass_on(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
        lock(&self.state).link = None;
    }

    /// Starts the thread that decides, ten times a second: from what `hindrance` says of the
    /// server, and from queries through the addresses. It is started once.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        self: &Arc<Self>,
        targets: Vec<ProbeTarget>,
        mut hindrance: impl FnMut() -> Option<String> + Send + 'static,
    ) -> io::Result<()> {
        let mut thread = lock(&self.thread);
        if thread.is_some() {
            return Ok(());
        }
        {
            let mut state = lock(&self.state);
            let is_announced = state.verdict.reason().is_none();
            state.taken_over_until = is_announced.then(|| now() + TAKEN_OVER_MAX);
        }
        let own = Arc::clone(self);
        let run = move || own.run(targets, &mut hindrance);
        *thread = Some(thread::Builder::new().name("anycast".into()).spawn(run)?);
        Ok(())
    }

    /// Sends heartbeats until the end.
    fn run(&self, targets: Vec<ProbeTarget>, hindrance: &mut dyn FnMut() -> Option<String>) {
        let mut prober = None;
        while !self.is_ended.load(Ordering::Relaxed) {
            let hindrance = hindrance().or_else(|| match &prober {
                // The threads answer: now it can be seen whether the addresses lead to them.
                None => match Prober::start(targets.clone()) {
                    Ok(started) => {
                        prober = Some(started);
                        Some("the addresses are not probed yet".into())
                    }
                    Err(why) => Some(format!("the addresses cannot be probed: {why}")),
                },
                Some(prober) => prober.failure(),
            });
            self.beat(hindrance);
            thread::park_timeout(HEARTBEAT_INTERVAL);
        }
    }

    /// Withdraws, and ends the thread and the keeper.
    pub fn stop(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
        if let Some(thread) = lock(&self.thread).take() {
            thread.thread().unpark();
            // A panic is logged already; the keeper sees the end of its socket.
            let _ = thread.join();
        }
        lock(&self.state).link = None;
    }

    /// Decides, tells the keeper, and logs what has changed.
    fn beat(&self, mut hindrance: Option<String>) {
        let mut state = lock(&self.state);
        if state.link.is_none() {
            return;
        }
        match state.taken_over_until {
            Some(until) if hindrance.is_some() && now() < until => hindrance = None,
            _ => state.taken_over_until = None,
        }
        // Before the server is ready, its own reason says more.
        let hindrance = hindrance.or_else(|| state.withdrawn.as_deref().map(by_operator));
        let refused = state.no_permit.clone();
        let hindrance = state.permitted(self.permits.as_deref(), hindrance);
        if let Some(why) = state.no_permit.as_ref().filter(|why| refused.as_ref() != Some(*why)) {
            tracing::error!("[anycast] {why}");
        }
        let State { link: Some(link), verdict, since, .. } = &mut *state else { return };
        let was = verdict.reason().is_none();
        let is = verdict.decide(&Observed { hindrance }, now());
        let fault = link.fault();
        link.beat(is);
        if was != is {
            *since = SystemTime::now();
            match verdict.reason() {
                None => tracing::info!("the addresses are announced"),
                Some(why) => tracing::warn!("the addresses are withdrawn: {why}"),
            }
        }
        if let Some(new) = link.fault().filter(|new| fault.as_ref() != Some(new)) {
            tracing::error!("[anycast] {new}");
        }
    }

    /// Withdraws the addresses for a reason, also over restarts, or (`None`) decides again.
    /// `is_forced`: however many other servers are withdrawn.
    ///
    /// # Errors
    /// The fleet gives no permit, or it cannot be made durable; nothing has changed.
    pub fn withdraw(&self, reason: Option<String>, is_forced: bool) -> Result<(), String> {
        let Some(file) = &self.file else {
            return Err("a withdrawal outlives restarts: set [server] data_dir".into());
        };
        if let Some((reason, permits)) = reason.as_ref().zip(self.permits.as_deref())
            && !is_forced
        {
            lock(&self.state).asked = Some(by_operator(reason));
            let answer = wait_for_permit(permits);
            if let Err(why) = answer {
                lock(&self.state).asked = None;
                return Err(format!("{why}; `--force` withdraws nevertheless"));
            }
        }
        let done = self.write_reason(file, reason, is_forced);
        lock(&self.state).asked = None;
        done
    }

    /// Makes what an operator says durable, and acts on it.
    fn write_reason(
        &self,
        file: &Path,
        reason: Option<String>,
        is_forced: bool,
    ) -> Result<(), String> {
        let text = reason.clone().unwrap_or_default();
        let written = form().replace(file, 0o640, |out| out.write_all(text.as_bytes()));
        written.map_err(|why| format!("{} cannot be saved: {why}", file.display()))?;
        match &reason {
            Some(why) => tracing::warn!("an operator withdraws the addresses: {why}"),
            None => tracing::info!("an operator leaves the addresses to the server"),
        }
        let mut state = lock(&self.state);
        (state.withdrawn, state.is_forced) = (reason, is_forced);
        Ok(())
    }

    /// The status.
    pub fn status(&self) -> AnycastStatus {
        let state = lock(&self.state);
        let link = state.link.as_ref();
        AnycastStatus {
            addresses: texts(&self.announcement),
            table: self.announcement.table,
            is_announced: link.is_some_and(Link::is_announced),
            device: link.and_then(Link::device).map(str::to_owned),
            since_seconds: seconds(state.since),
            reason: state.verdict.reason().map(str::to_owned),
            fault: link.and_then(Link::fault),
            withdrawals: state.verdict.withdrawals(),
            no_permit: state.no_permit.clone(),
            ..AnycastStatus::default()
        }
    }
}
