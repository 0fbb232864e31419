//! The resources that a server opens before it drops privileges: sockets, certificates, AF_XDP.
//! Sockets are new, from the service manager, or from the old process of a hot restart.
use admin::{Endpoint, HotRestart, RestartOffer, SharedSocket, SocketOwner};
use announcer::StartedKeeper;
use config::trust;
use config::{Admin, Config};
use data_plane::{
    Bypass, CorePlanner, DpdkDevices, Listening, Placement, QueuePort, Sockets, place,
    raise_file_limit, reserve_files,
};
use listen::{Protocol, Tls};
use process::Identity;
use std::error::Error;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use transfer::TlsListeners;
use upstream::TrustAnchors;

/// The version of this binary.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Everything that `serve` needs to start threads.
pub struct Resources {
    /// Where the workers run.
    pub placement: Placement,
    pub listening: Vec<Listening>,
    /// Another descriptor of each listening socket, for a new process.
    pub shared: Vec<SharedSocket>,
    /// Maximum of open streams: the configured one, or what the limit of open files allows.
    pub connections: usize,
    /// Listener of `[ops]`.
    pub ops: Option<TcpListener>,
    /// Listener of the REST API, and its TLS setup.
    pub api: Option<TcpListener>,
    pub tls: Option<Tls>,
    /// Listeners of transfers over TLS.
    pub transfers: Option<TlsListeners>,
    /// The admin socket.
    pub admin: Option<Endpoint>,
    /// Trusted CA certificates, if upstreams are queried over TLS.
    pub trust: Option<TrustAnchors>,
    /// The AF_XDP interface, and the ports of its queues.
    pub bypass: Bypass,
    pub queues: Vec<QueuePort>,
    /// The devices of DPDK, which are opened later.
    pub dpdk: DpdkDevices,
    /// The keeper of the routes to announced addresses.
    pub keeper: Option<StartedKeeper>,
    /// The offer of the old process in a hot restart.
    pub offer: Option<RestartOffer>,
}

impl Resources {
    /// Opens all resources that the config names.
    ///
    /// # Errors
    /// The first resource that cannot be opened, with a remedy.
    pub fn open(
        config: &Config,
        hot_restart: Option<HotRestart>,
        passed: Vec<SharedSocket>,
        identity: Option<Identity>,
        plan_cores: CorePlanner,
    ) -> Result<Self, Box<dyn Error>> {
        let worker_cpus = place(config, plan_cores)?;
        let trust = trust::load(config).map_err(|error| error.to_string())?;
        raise_file_limit();
        announcer::add_addresses(config)?;
        let mut offer = None;
        let mut inherited = passed;
        if let Some(when) = hot_restart {
            let Some(path) = &config.admin.socket else {
                return Err(
                    "--hot-restart asks the running server over [admin] socket, which the \
                            config leaves empty"
                        .into(),
                );
            };
            offer = match admin::request_restart(path, VERSION) {
                Err(error) if when == HotRestart::IfRunning && error.is_absent() => None,
                found => Some(found?),
            };
        }
        if let Some(found) = &mut offer {
            // Those of the holder are the same ones, or of a server that has ended.
            inherited.retain(|socket| socket.given);
            inherited.append(&mut found.sockets);
        }
        let mut sockets = Sockets::new(inherited);
        let given = sockets.activated();
        let addresses = match config.server.listens_by_default() && !given.is_empty() {
            true => &given,
            false => &config.server.listen,
        };
        let listening = sockets.open(addresses, worker_cpus.len())?;
        let ops = config.ops.listen.map(|address| sockets.open_ops(address)).transpose()?;
        let api = config.api.listen.map(|address| sockets.open_api(address)).transpose()?;
        let tls = config
            .api
            .tls
            .clone()
            .map(|files| Tls::open("api.tls", Protocol::Http, files))
            .transpose();
        let tls = tls.map_err(|why| format!("[api.tls] {why}"))?;
        let transfers = open_transfers(config, &mut sockets)?;
        let owner = identity.map(|Identity { uid, gid, .. }| SocketOwner { uid, gid });
        let path = config.admin.socket.as_deref();
        let admin = path.map(|path| endpoint(path, offer.is_some(), owner)).transpose()?.flatten();
        let shared = sockets.finish()?;
        let addresses = listening.iter().map(|all| all.address).collect();
        // In a hot restart the interface is attached once the old process has released it.
        let (bypass, queues) = match offer.is_some() {
            true => Default::default(),
            false => Bypass::open(config, addresses),
        };
        // Each socket has two descriptors.
        let files = 2 * shared.len() + bypass.files();
        let connections = reserve_files(files, config.streams.connections)?;
        let passed = offer.as_mut().and_then(|offer| offer.keeper.take());
        Ok(Self {
            placement: Placement::new(worker_cpus, plan_cores),
            listening,
            shared,
            connections,
            ops,
            api,
            tls,
            transfers,
            admin,
            trust,
            bypass,
            queues,
            dpdk: DpdkDevices::new(config).map_err(|why| format!("[dpdk] interfaces: {why}"))?,
            keeper: announcer::start_keeper(config, passed)?,
            offer,
        })
    }
}

/// Opens what transfers over TLS need, if there are any.
fn open_transfers(
    config: &Config,
    sockets: &mut Sockets,
) -> Result<Option<TlsListeners>, Box<dyn Error>> {
    let Some(files) = config.transfer.tls.clone() else { return Ok(None) };
    let tls = Tls::open("transfer.tls", Protocol::Transfer, files);
    let tls = Arc::new(tls.map_err(|why| format!("[transfer.tls] {why}"))?);
    let opened = config.transfer.tls_listen.iter().map(|address| sockets.open_transfer(*address));
    Ok(Some(TlsListeners { listeners: opened.collect::<Result<_, _>>()?, tls }))
}

/// Opens the admin socket. A failure at the default path is only a warning; one at a configured
/// path is an error.
fn endpoint(
    path: &Path,
    beside: bool,
    owner: Option<SocketOwner>,
) -> Result<Option<Endpoint>, Box<dyn Error>> {
    let bind = if beside { Endpoint::bind_beside } else { Endpoint::bind };
    match bind(path, owner) {
        Ok(endpoint) => Ok(Some(endpoint)),
        Err(error) if path == Path::new(Admin::SOCKET) => {
            tracing::warn!("`dunlin status`, `top`, `reload` and hot restart do not work: {error}");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
