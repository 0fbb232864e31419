//! The state that all handlers share.
use crate::counters::ApiCounters;
use crate::credentials::{Credentials, TokenRefused};
use crate::failed_logins::FailedLogins;
use crate::limits::{
    BODIES_LEN_MAX, BODIES_PER_PRINCIPAL_MAX, EXPORTS_MAX, EXPORTS_PER_PRINCIPAL_MAX, IMPORTS_MAX,
    REQUESTS_PER_PRINCIPAL_MAX, SNAPSHOTS_MAX,
};
use crate::problem::{Problem, plainly};
use crate::quota::Quota;
use crate::rate_limiter::RateLimiter;
use compile::Zone;
use health::HealthService;
use records::{RecordService, Refused, WriteResult};
use server_status::command::{
    AcceptedZone, Command, CommandOutcome, ReloadOutcome, TokenOutcome, TokenRequest,
};
use server_status::explain::Explanation;
use server_status::{AnycastStatus, Status};
use std::future::Future;
use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use wire::{ClientSubnet, Name, NameBuf, Rtype};
use zone_manager::Answer;

/// A query whose answer is to be explained.
#[derive(Clone, Debug)]
pub struct ExplainRequest {
    /// The name.
    pub name: NameBuf,
    /// The type.
    pub rtype: Rtype,
    /// The client.
    pub client: IpAddr,
    /// The client subnet that it names.
    pub subnet: Option<ClientSubnet>,
    /// Where it is, in place of the location of its network: a path that
    /// [`image::Location::parse`] takes.
    pub location: Option<String>,
}

/// An outcome that is awaited: the threads that answer queries, or a disk, take part.
pub type ControlFuture<'s, T> = Pin<Box<dyn Future<Output = T> + Send + 's>>;

/// The running server: its status, and its commands.
///
/// Errors are sentences for the client: why the command failed, and what to do.
pub trait ServerControl: Send + Sync + 'static {
    /// Gathers the status. May block.
    fn status(&self) -> Status;

    /// The zone of this origin, as it is served now. May not block.
    fn served_zone(&self, origin: Name<'_>) -> Option<Arc<Zone>>;

    /// Why a client gets the answer to a query.
    fn explain(&self, request: ExplainRequest) -> ControlFuture<'_, Result<Explanation, String>>;

    /// Runs a command on the threads that answer queries, and waits for them.
    fn command(&self, command: Command) -> ControlFuture<'_, Result<CommandOutcome, String>>;

    /// Reloads config and zones. `accepts`: also a config that removes most of the zones.
    fn reload(&self, accepts: bool) -> ControlFuture<'_, ReloadOutcome>;

    /// Serves the held content of a zone, or of every held zone.
    fn accept(&self, zone: Option<String>) -> ControlFuture<'_, Result<Vec<AcceptedZone>, String>>;

    /// Accepts what the etcd of another site has, although its history is another one; `None`:
    /// there is no such site.
    fn accept_site(&self, _name: &str) -> Option<Answer<WriteResult, Refused>> {
        None
    }

    /// The announced addresses; `None`: there are none. May block.
    fn anycast(&self) -> Option<AnycastStatus> {
        self.status().anycast
    }

    /// Withdraws the announced addresses for a reason, or (`None`) leaves them to the server again,
    /// durably. `is_forced`: however many other servers are withdrawn. May block.
    fn withdraw(&self, reason: Option<String>, is_forced: bool) -> Result<(), String>;

    /// Creates, lists, rotates or revokes credentials.
    fn manage_tokens(
        &self,
        request: TokenRequest,
    ) -> ControlFuture<'_, Result<TokenOutcome, TokenRefused>>;
}

/// What the API serves.
#[derive(Clone)]
pub struct Api {
    /// Reads and writes zones; empty while the store is opened. `None`: no store is configured.
    pub records: Option<Arc<OnceLock<RecordService>>>,
    /// Who may use the API.
    pub credentials: Arc<Credentials>,
    /// The prober; `None`: there are no health checks.
    pub health: Option<HealthService>,
    /// The running server.
    pub operator: Arc<dyn ServerControl>,
    /// Counters of connections and requests.
    pub counters: Arc<ApiCounters>,
    /// Whether `PowerDNS`' API is served, too.
    pub powerdns: bool,
    /// Requests that each principal may make in a second, at least 1.
    pub requests_per_second: u32,
    /// A folder with room for a snapshot that is restored.
    pub spool: PathBuf,
}

/// The shared state of all handlers.
#[derive(Clone)]
pub struct ApiState {
    pub api: Arc<Api>,
    pub failed_logins: Arc<FailedLogins>,
    pub rate_limiter: Arc<RateLimiter>,
    /// Requests in progress, until their responses are taken.
    pub requests: Arc<Quota>,
    /// Request bodies that have not arrived completely.
    pub bodies: Arc<Quota>,
    /// KiB that bodies in memory may still take.
    pub room: Arc<Semaphore>,
    /// Imports that may still begin.
    pub imports: Arc<Semaphore>,
    /// Exports that may still begin.
    pub exports: Arc<Semaphore>,
    /// Exports in progress, of each principal.
    pub own_exports: Arc<Quota>,
    /// Snapshots that may still be taken or restored.
    pub snapshots: Arc<Semaphore>,
    /// Held while a status is gathered: one at a time.
    pub gathering: Arc<tokio::sync::Mutex<()>>,
}

impl ApiState {
    /// The state before the first request.
    pub fn new(api: Api) -> Self {
        Self {
            failed_logins: Arc::default(),
            rate_limiter: Arc::new(RateLimiter::new(api.requests_per_second)),
            requests: Quota::new(REQUESTS_PER_PRINCIPAL_MAX),
            bodies: Quota::new(BODIES_PER_PRINCIPAL_MAX),
            room: Arc::new(Semaphore::new(BODIES_LEN_MAX >> 10)),
            imports: Arc::new(Semaphore::new(IMPORTS_MAX)),
            exports: Arc::new(Semaphore::new(EXPORTS_MAX)),
            own_exports: Quota::new(EXPORTS_PER_PRINCIPAL_MAX),
            snapshots: Arc::new(Semaphore::new(SNAPSHOTS_MAX)),
            gathering: Arc::default(),
            api: Arc::new(api),
        }
    }

    /// The service that reads and writes zones.
    ///
    /// # Errors
    /// There is no store, or it is being opened.
    pub fn records(&self) -> Result<&RecordService, Problem> {
        let records = self.api.records.as_ref().ok_or_else(|| {
            let detail = "the server has no store: set [store] kind = \"redb\" and restart it";
            Problem::missing(detail)
        })?;
        records.get().ok_or_else(|| {
            Problem::later("starting", "the server loads its zones: /v1/lifecycle shows how far")
        })
    }

    /// The same of a store that many servers share.
    ///
    /// # Errors
    /// As [`Self::records`].
    pub fn fleet_records(&self) -> Result<&RecordService, Problem> {
        if self.api.records.is_none() {
            let detail = "the server is in no fleet: set [store] kind = \"etcd\" and restart it";
            return Err(Problem::missing(detail));
        }
        self.records()
    }

    /// Refuses a change of what the servers of a fleet share on one that has no right to write.
    ///
    /// # Errors
    /// It has not.
    pub fn check_shared_write(&self) -> Result<(), Problem> {
        let records = self.api.records.as_ref().and_then(|records| records.get());
        match records {
            Some(records) if records.fleet().is_some() && !records.may_write() => {
                Err(Problem::refused(Refused::ReadOnly, plainly))
            }
            _ => Ok(()),
        }
    }

    /// Reads from the store on a thread that may wait for the disk.
    ///
    /// # Errors
    /// The refusal of the record service, or the server ends.
    pub async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&RecordService) -> Result<T, Refused> + Send + 'static,
    ) -> Result<T, Problem> {
        let records = self.records()?.clone();
        let read = blocking(move || read(&records)).await?;
        read.map_err(|refused| Problem::refused(refused, plainly))
    }
}

/// Runs on a thread that may wait for the disk.
///
/// # Errors
/// The server ends.
pub async fn blocking<T: Send + 'static>(
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let done = spawn_blocking(run).await;
    done.map_err(|_| Problem::later("stopping", "the server ends: try again later"))
}
