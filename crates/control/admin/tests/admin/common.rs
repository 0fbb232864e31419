//! A test server: real sockets, in its own thread.
use admin::{
    AdminServer, Command, CommandOutcome, CompletedRestart, Connection, Endpoint, Handler,
    NewProcess, ReloadOutcome, SharedSocket, SocketKind, TokenOutcome, TokenRequest, ZoneChange,
};
use std::fs;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tokio::sync::oneshot;
use zone_manager::lock::DataLock;
use zone_manager::status::{ServerState, Status};

pub const PATIENCE: Duration = Duration::from_secs(20);

/// Its state.
pub struct Fake {
    pub sockets: Vec<SharedSocket>,
    pub connections: Mutex<Vec<Connection>>,
    pub lock: Mutex<Option<DataLock>>,
    pub handing_over: AtomicBool,
    /// Failed hot restarts.
    pub went_on: AtomicUsize,
}

impl Handler for Fake {
    async fn status(&self) -> Status {
        let draining = self.handing_over.load(Ordering::SeqCst);
        let state = if draining { ServerState::Draining } else { ServerState::Serving };
        Status { pid: std::process::id(), state, ..Status::default() }
    }

    async fn reload(&self) -> ReloadOutcome {
        ReloadOutcome::Applied {
            changed: vec!["log.level".into()],
            zones: vec![ZoneChange::Added { zone: "a.".into() }],
            restart_needed: vec!["server.workers".into()],
        }
    }

    async fn command(&self, command: Command) -> Result<CommandOutcome, String> {
        match command {
            Command::Drain { server, drained: true } => Ok(CommandOutcome::Drained(vec![server])),
            other => Err(format!("not for {other:?}")),
        }
    }

    async fn accept(&self, zone: Option<String>) -> Result<Vec<admin::AcceptedZone>, String> {
        let Some(zone) = zone else { return Err("not for all".into()) };
        Ok(vec![admin::AcceptedZone { zone, had: 2_000, has: 12, serial: Some(7), waits: None }])
    }

    async fn token(&self, request: TokenRequest) -> Result<TokenOutcome, String> {
        match request {
            TokenRequest::Revoke { principal } if principal == "ci" => Ok(TokenOutcome::Revoked),
            other => Err(format!("not for {other:?}")),
        }
    }

    fn sockets(&self) -> io::Result<Vec<SharedSocket>> {
        self.sockets.iter().map(SharedSocket::try_clone).collect()
    }

    fn lock(&self) -> io::Result<Option<OwnedFd>> {
        self.lock.lock().expect("no panic").as_ref().map(DataLock::share).transpose()
    }

    fn resume(&self) {
        self.went_on.fetch_add(1, Ordering::SeqCst);
    }

    async fn hand_off(&self, _new_process: NewProcess) -> Vec<Connection> {
        self.handing_over.store(true, Ordering::SeqCst);
        std::mem::take(&mut self.connections.lock().expect("no panic"))
    }
}

/// A running server in its own folder, stopped when dropped.
pub struct Running {
    pub path: PathBuf,
    pub fake: Arc<Fake>,
    /// Receives the result of [`AdminServer::run`].
    pub ended: Receiver<CompletedRestart>,
    _stop: oneshot::Sender<()>,
}

impl Running {
    /// Starts a server with `sockets` UDP sockets, a listener, and these connections.
    pub fn start(test: &str, sockets: usize, connections: Vec<Connection>) -> Self {
        let folder = std::env::temp_dir().join(format!("dunlin-{test}-{}", std::process::id()));
        let path = folder.join("dunlin.sock");
        let shared = |kind, fd: OwnedFd, address| SharedSocket { kind, address, given: false, fd };
        let mut all: Vec<SharedSocket> = (0..sockets)
            .map(|_| UdpSocket::bind("127.0.0.1:0").expect("a socket"))
            .map(|socket| (socket.local_addr().expect("bound"), socket))
            .map(|(address, socket)| shared(SocketKind::Udp, socket.into(), address))
            .collect();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("bound");
        all.push(shared(SocketKind::Tcp, listener.into(), address));
        let fake = Arc::new(Fake {
            sockets: all,
            connections: Mutex::new(connections),
            lock: Mutex::default(),
            handing_over: AtomicBool::new(false),
            went_on: AtomicUsize::new(0),
        });
        let endpoint = Endpoint::bind(&path, None).expect("an endpoint");
        let server = AdminServer::new(endpoint, |_| Ok(Vec::new()), "0.1.0");
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, ended) = channel();
        let handler = fake.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                tokio::select! {
                    restart = server.run(handler) => {
                        // The test may have ended.
                        let _ = tell.send(restart.expect("a watched socket"));
                    }
                    _ = stopped => {}
                }
            });
        });
        Self { path, fake, ended, _stop: stop }
    }

    /// Whether it answers, and no hot restart has begun.
    pub fn is_intact(&self) -> bool {
        let status = admin::Client::connect(&self.path).and_then(admin::Client::status);
        status.expect("a status").state == ServerState::Serving
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.path.parent().expect("a folder"));
    }
}
