//! What is opened before privileges are dropped: every socket, be it new, passed by the service
//! manager, or a predecessor's; and what is read then.
use crate::bypass::{Bypass, QueuePort};
use crate::privileges::Identity;
use crate::sockets::{self, Listening, Sockets};
use crate::workers::{self, CorePlanner, Places};
use admin::{Endpoint, RestartOffer, SharedSocket, SocketOwner};
use api::Tls;
use config::trust;
use config::{Admin, Config};
use std::error::Error;
use std::net::TcpListener;
use std::path::Path;
use upstream::TrustAnchors;

/// The version of this binary.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What there is to serve with.
pub struct Opened {
    /// Where each worker runs.
    pub places: Places,
    pub listening: Vec<Listening>,
    /// Another descriptor of each socket that is listened on, for a successor.
    pub shared: Vec<SharedSocket>,
    /// Streams that may be open at a time: as configured, or as many as there may be files.
    pub connections: usize,
    /// For metrics and health.
    pub ops: Option<TcpListener>,
    /// For the REST API, and what it is secured by.
    pub api: Option<TcpListener>,
    pub tls: Option<Tls>,
    /// For `dunlin status` and its like.
    pub admin: Option<Endpoint>,
    /// Whose certificates are believed, where servers are asked over TLS.
    pub trust: Option<TrustAnchors>,
    /// What is served past the kernel, and its ports.
    pub bypass: Bypass,
    pub queues: Vec<QueuePort>,
    /// From the server whose place is to be taken.
    pub offer: Option<RestartOffer>,
}

impl Opened {
    /// Opens all that the config asks for.
    ///
    /// # Errors
    /// The first that cannot be had, with what to do.
    pub fn open(
        config: &Config,
        hot_restart: bool,
        passed: Vec<SharedSocket>,
        identity: Option<Identity>,
        plan_cores: CorePlanner,
    ) -> Result<Self, Box<dyn Error>> {
        let places = workers::place(config, plan_cores)?;
        let trust = trust::load(config).map_err(|error| error.to_string())?;
        sockets::raise_file_limit();
        let mut offer = None;
        let mut inherited = passed;
        if hot_restart {
            let Some(path) = &config.admin.socket else {
                return Err(
                    "--hot-restart asks the running server over [admin] socket, which the \
                            config leaves empty"
                        .into(),
                );
            };
            let mut found = admin::request_restart(path, VERSION)?;
            inherited.append(&mut found.sockets);
            offer = Some(found);
        }
        let mut sockets = Sockets::new(inherited);
        let given = sockets.given();
        let addresses = match config.server.listens_by_default() && !given.is_empty() {
            true => &given,
            false => &config.server.listen,
        };
        let listening = sockets.open(addresses, places.len())?;
        let ops = config.ops.listen.map(|address| sockets.open_ops(address)).transpose()?;
        let api = config.api.listen.map(|address| sockets.open_api(address)).transpose()?;
        let tls = config.api.tls.clone().map(Tls::open).transpose();
        let tls = tls.map_err(|why| format!("[api.tls] {why}"))?;
        let owner = identity.map(|Identity { uid, gid, .. }| SocketOwner { uid, gid });
        let path = config.admin.socket.as_deref();
        let admin = path.map(|path| endpoint(path, offer.is_some(), owner)).transpose()?.flatten();
        let shared = sockets.finish()?;
        let addresses = listening.iter().map(|all| all.address).collect();
        // What a predecessor serves is attached anew once that has let it go.
        let (bypass, queues) = match hot_restart {
            true => Default::default(),
            false => Bypass::open(config, addresses),
        };
        // Each socket is here twice.
        let files = 2 * shared.len() + bypass.files();
        let connections = sockets::reserve_files(files, config.streams.connections)?;
        Ok(Self {
            places,
            listening,
            shared,
            connections,
            ops,
            api,
            tls,
            admin,
            trust,
            bypass,
            queues,
            offer,
        })
    }
}

/// The admin socket. A server goes without the one at the default place where it cannot be had; one
/// that the config names must be.
fn endpoint(
    path: &Path,
    beside: bool,
    owner: Option<SocketOwner>,
) -> Result<Option<Endpoint>, Box<dyn Error>> {
    let bind = if beside { Endpoint::bind_beside } else { Endpoint::bind };
    match bind(path, owner) {
        Ok(endpoint) => Ok(Some(endpoint)),
        Err(error) if path == Path::new(Admin::SOCKET) => {
            tracing::warn!("no `dunlin status`, `top`, `reload` and hot restart: {error}");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
