//! The announced addresses: from the config to the keeper of their routes, and the thread that
//! decides and sends heartbeats.
use crate::limits::WITHDRAWAL_LEN_MAX as FILE_LEN_MAX;
use admin::SharedKeeper;
use anycast::limits::{HEARTBEAT_INTERVAL, TAKEN_OVER_MAX};
use anycast::{Announcement, Link, Observed, PassedLink, ProbeTarget, Prober, Verdict, now};
use config::{Anycast, Config, Diagnostic, holds};
use data_plane::seconds;
use durable::FileForm;
use handler::{OwnQuery, TOKEN_LEN};
use server_status::AnycastStatus;
use std::error::Error;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

/// The program of this process, also if its file was replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// The file of an operator's withdrawal in `[server] data_dir`: its reason, or nothing.
const FILE: &str = "anycast.state";

fn form() -> FileForm {
    let (what, owner) = ("withdrawal", "announced addresses".to_owned());
    FileForm { what, owner, form: 1, len_max: FILE_LEN_MAX, old: Vec::new() }
}

/// Why an operator has withdrawn the addresses. A file that cannot be used withdraws, too: the
/// operator may have had reasons.
fn read_reason(file: &Path) -> Option<String> {
    let unusable = |why: String| format!("{why}; `dunlin anycast announce` replaces it");
    let mut text = String::new();
    match form().open(file) {
        Err(why) => Some(unusable(why)),
        Ok(None) => None,
        Ok(Some(mut content)) => match content.read_to_string(&mut text) {
            Err(why) => Some(unusable(format!("{}: {why}", file.display()))),
            Ok(_) => Some(text).filter(|text| !text.is_empty()),
        },
    }
}

/// What is announced; `None`: nothing.
fn announcement(config: &Config) -> Option<Announcement> {
    let Anycast { addresses, table, .. } = &config.anycast;
    let announcement = Announcement { addresses: addresses.clone(), table: *table };
    (config.server.roles.dns && !addresses.is_empty()).then_some(announcement)
}

/// Adds the addresses to the interface, if the server is to do that: before sockets are opened at
/// them.
///
/// # Errors
/// The kernel refuses.
pub fn add_addresses(config: &Config) -> Result<(), Box<dyn Error>> {
    match announcement(config).filter(|_| config.anycast.add_addresses) {
        Some(announcement) => anycast::add_addresses(&announcement, &config.anycast.interface)
            .map_err(|why| format!("[anycast] add_addresses: {why}").into()),
        None => Ok(()),
    }
}

/// A keeper, and the token of the server's queries to itself.
pub struct StartedKeeper {
    link: Link,
    token: [u8; TOKEN_LEN],
}

/// The keeper of the old process of a hot restart, if it was started for the same; else starts the
/// starter of a keeper: before privileges are dropped and before any thread starts. Says what will
/// keep the addresses from being announced; the server starts all the same.
///
/// # Errors
/// No process can be started, or the kernel returns no random bytes.
pub fn start_keeper(
    config: &Config,
    passed: Option<SharedKeeper>,
) -> Result<Option<StartedKeeper>, Box<dyn Error>> {
    let Some(announcement) = announcement(config) else { return Ok(None) };
    let Anycast { interface, add_addresses, .. } = &config.anycast;
    for finding in anycast::find_problems(&announcement, interface, *add_addresses) {
        match finding.is_error {
            true => tracing::error!("[anycast] {}", finding.text),
            false => tracing::warn!("[anycast] {}", finding.text),
        }
    }
    // While both processes serve the same sockets, each gets queries of the other.
    let token = match passed.as_ref().and_then(|passed| passed.token[..].try_into().ok()) {
        Some(token) => token,
        None => random_token()?,
    };
    let own_terms = terms(&announcement, config);
    if let Some(passed) = passed.filter(|passed| passed.terms == own_terms) {
        let SharedKeeper { socket, starter, is_announced, .. } = passed;
        let link = Link::receive(PassedLink { socket, starter }, is_announced);
        return Ok(Some(StartedKeeper { link, token }));
    }
    let mut command = own_command("anycast-starter", &announcement);
    let (user, group) = (&config.server.user, &config.server.group);
    command.args(["--user", user, "--group", group]).process_group(0);
    let link = Link::start(command);
    let link = link.map_err(|why| format!("[anycast] the keeper cannot be started: {why}"))?;
    Ok(Some(StartedKeeper { link, token }))
}

fn random_token() -> Result<[u8; TOKEN_LEN], getrandom::Error> {
    let mut token = [0; TOKEN_LEN];
    getrandom::fill(&mut token)?;
    Ok(token)
}

/// What a keeper is started for. One that was started for anything else is not passed on: its
/// messages, its routes or its rights are not those of this process.
fn terms(announcement: &Announcement, config: &Config) -> Vec<String> {
    let (user, group) = (config.server.user.clone(), config.server.group.clone());
    let own = [anycast::VERSION.to_string(), user, group];
    own.into_iter().chain(Link::arguments(announcement)).collect()
}

/// A command of this program for one of the processes beside the server.
pub fn own_command(name: &str, announcement: &Announcement) -> Command {
    let mut command = Command::new(OWN_PROGRAM);
    command.arg0("dunlin").arg(name).args(Link::arguments(announcement));
    command
}

/// What is wrong with this machine and config for an announcement: errors and warnings.
pub fn check(config: &Config, file: &Path) -> (Vec<Diagnostic>, Vec<Diagnostic>) {
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    let Some(announcement) = announcement(config) else { return (errors, warnings) };
    let Anycast { interface, add_addresses, .. } = &config.anycast;
    let of_file = |text: &str| Diagnostic::of_file(file, format!("[anycast] {text}"));
    for finding in anycast::find_problems(&announcement, interface, *add_addresses) {
        let found = if finding.is_error { &mut errors } else { &mut warnings };
        found.push(of_file(&finding.text));
    }
    for ip in &announcement.addresses {
        let listen = &config.server.listen;
        if !listen.iter().any(|one| holds(one, &SocketAddr::new(*ip, one.port()))) {
            errors.push(of_file(&format!(
                "no address of [server] listen receives queries for {ip}: add it there"
            )));
        }
    }
    (errors, warnings)
}

/// The queries through the announced addresses: each at the first port that receives them.
pub fn probe_targets(config: &Config, listen: &[SocketAddr], query: &OwnQuery) -> Vec<ProbeTarget> {
    let of_address = |ip| {
        let at = |one: &SocketAddr| SocketAddr::new(ip, one.port());
        let at = listen.iter().find(|one| holds(one, &at(one))).map(at)?;
        let (query, text) = (query.message().to_vec(), query.token().to_vec());
        Some(ProbeTarget { at, query, text })
    };
    config.anycast.addresses.iter().copied().filter_map(of_address).collect()
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
}

impl Announcer {
    /// An announcer without its thread. `None`: nothing is announced.
    pub fn new(config: &Config, keeper: Option<StartedKeeper>) -> Option<Self> {
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
        Some(Self {
            announcement,
            terms,
            own_query: OwnQuery::new(token),
            settle: config.anycast.settle,
            state: Mutex::new(State {
                link: Some(link),
                verdict,
                since,
                withdrawn,
                taken_over_until: None,
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
        lock(&self.state).taken_over_until = None;
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
        let State { link: Some(link), verdict, since, withdrawn, taken_over_until } = &mut *state
        else {
            return;
        };
        match *taken_over_until {
            Some(until) if hindrance.is_some() && now() < until => hindrance = None,
            _ => *taken_over_until = None,
        }
        let was = verdict.reason().is_none();
        let by_operator = || withdrawn.as_ref().map(|why| format!("by an operator: {why}"));
        // Before the server is ready, its own reason says more.
        let hindrance = hindrance.or_else(by_operator);
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
    ///
    /// # Errors
    /// It cannot be made durable; nothing has changed.
    pub fn withdraw(&self, reason: Option<String>) -> Result<(), String> {
        let Some(file) = &self.file else {
            return Err("a withdrawal outlives restarts: set [server] data_dir".into());
        };
        let text = reason.clone().unwrap_or_default();
        let written = form().replace(file, 0o640, |out| out.write_all(text.as_bytes()));
        written.map_err(|why| format!("{} cannot be saved: {why}", file.display()))?;
        match &reason {
            Some(why) => tracing::warn!("an operator withdraws the addresses: {why}"),
            None => tracing::info!("an operator leaves the addresses to the server"),
        }
        lock(&self.state).withdrawn = reason;
        Ok(())
    }

    /// The status.
    pub fn status(&self) -> AnycastStatus {
        let state = lock(&self.state);
        let link = state.link.as_ref();
        AnycastStatus {
            addresses: self.announcement.addresses.iter().map(ToString::to_string).collect(),
            table: self.announcement.table,
            is_announced: link.is_some_and(Link::is_announced),
            device: link.and_then(Link::device).map(str::to_owned),
            since_seconds: seconds(state.since),
            reason: state.verdict.reason().map(str::to_owned),
            fault: link.and_then(Link::fault),
            withdrawals: state.verdict.withdrawals(),
            ..AnycastStatus::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(Path::new("f"), text).expect("a config")
    }

    #[test]
    fn each_address_is_probed_at_a_port_that_receives_its_queries() {
        let config = config("anycast.addresses = [\"192.0.2.53\", \"2001:db8::53\"]");
        let listen = |all: &[&str]| all.iter().map(|one| one.parse().expect("one")).collect();
        let targets = |all: &[&str]| {
            let listen: Vec<SocketAddr> = listen(all);
            let query = OwnQuery::new([7; TOKEN_LEN]);
            let targets = probe_targets(&config, &listen, &query).into_iter();
            targets.map(|target| target.at.to_string()).collect::<Vec<_>>()
        };
        let both = ["192.0.2.53:53", "[2001:db8::53]:5353"];
        assert_eq!(targets(&["192.0.2.53:53", "[::]:5353", "0.0.0.0:5300"]), both);
        assert_eq!(targets(&["127.0.0.1:53"]), [""; 0]);
    }

    #[test]
    fn address_that_no_socket_receives_is_an_error_of_the_check() {
        let listen = "server.listen = [\"127.0.0.1:53\"]\n";
        let config = config(&format!("{listen}anycast.addresses = [\"192.0.2.53\"]"));
        let (errors, _) = check(&config, Path::new("f"));
        let found =
            errors.iter().any(|one| one.message.contains("receives queries for 192.0.2.53"));
        assert!(found, "{errors:?}");
        assert_eq!(
            check(&Config::load(None).expect("defaults"), Path::new("f")),
            Default::default()
        );
    }

    #[test]
    fn withdrawal_outlives_a_restart_and_a_damaged_file_withdraws() {
        let folder = std::env::temp_dir().join(format!("dunlin-withdrawn-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join(FILE);
        assert_eq!(read_reason(&file), None);
        for (text, expected) in [("rack 7", Some("rack 7")), ("", None)] {
            form().replace(&file, 0o640, |out| out.write_all(text.as_bytes())).expect("written");
            assert_eq!(read_reason(&file).as_deref(), expected);
        }
        std::fs::write(&file, "damaged").expect("written");
        let told = read_reason(&file).expect("withdrawn");
        assert!(told.contains(FILE) && told.contains("dunlin anycast announce"), "{told}");
        assert_eq!(std::fs::read(&file).expect("it stays"), b"damaged");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
