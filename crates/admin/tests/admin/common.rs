//! A server to ask: real sockets, on a thread of its own.
use admin::{
    Command, Connection, Endpoint, HandedOver, Handler, Kind, Outcome, Reloaded, Server, Shared,
    Successor, TokenDone, TokenRequest, ZoneChange,
};
use control::status::{State, Status};
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

pub const PATIENCE: Duration = Duration::from_secs(20);

/// What it serves.
pub struct Fake {
    pub sockets: Vec<Shared>,
    pub connections: Mutex<Vec<Connection>>,
    pub handing_over: AtomicBool,
    /// How often an offer came to nothing.
    pub went_on: AtomicUsize,
}

impl Handler for Fake {
    async fn status(&self) -> Status {
        let draining = self.handing_over.load(Ordering::SeqCst);
        let state = if draining { State::Draining } else { State::Serving };
        Status { pid: std::process::id(), state, ..Status::default() }
    }

    async fn reload(&self) -> Reloaded {
        Reloaded::Taken {
            changed: vec!["log.level".into()],
            zones: vec![ZoneChange::Added { zone: "a.".into() }],
            restart_needed: vec!["server.workers".into()],
        }
    }

    async fn command(&self, command: Command) -> Result<Outcome, String> {
        match command {
            Command::Drain { server, drained: true } => Ok(Outcome::Drained(vec![server])),
            other => Err(format!("not for {other:?}")),
        }
    }

    async fn token(&self, request: TokenRequest) -> Result<TokenDone, String> {
        match request {
            TokenRequest::Revoke { principal } if principal == "ci" => Ok(TokenDone::Revoked),
            other => Err(format!("not for {other:?}")),
        }
    }

    fn sockets(&self) -> io::Result<Vec<Shared>> {
        self.sockets.iter().map(Shared::try_clone).collect()
    }

    fn go_on(&self) {
        self.went_on.fetch_add(1, Ordering::SeqCst);
    }

    async fn hand_over(&self, _successor: Successor) -> Vec<Connection> {
        self.handing_over.store(true, Ordering::SeqCst);
        std::mem::take(&mut self.connections.lock().expect("no panic"))
    }
}

/// A running server in a folder of its own; stopped when dropped.
pub struct Running {
    pub path: PathBuf,
    pub fake: Arc<Fake>,
    /// Gets what [`Server::run`] returned.
    pub ended: Receiver<HandedOver>,
    _stop: oneshot::Sender<()>,
}

impl Running {
    /// Starts one with `sockets` UDP sockets, a listener, and these connections.
    pub fn start(test: &str, sockets: usize, connections: Vec<Connection>) -> Self {
        let folder = std::env::temp_dir().join(format!("dunlin-{test}-{}", std::process::id()));
        let path = folder.join("dunlin.sock");
        let shared = |kind, fd: OwnedFd, address| Shared { kind, address, given: false, fd };
        let mut all: Vec<Shared> = (0..sockets)
            .map(|_| UdpSocket::bind("127.0.0.1:0").expect("a socket"))
            .map(|socket| (socket.local_addr().expect("bound"), socket))
            .map(|(address, socket)| shared(Kind::Udp, socket.into(), address))
            .collect();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("bound");
        all.push(shared(Kind::Tcp, listener.into(), address));
        let fake = Arc::new(Fake {
            sockets: all,
            connections: Mutex::new(connections),
            handing_over: AtomicBool::new(false),
            went_on: AtomicUsize::new(0),
        });
        let endpoint = Endpoint::bind(&path, None).expect("an endpoint");
        let server = Server::new(endpoint, |_| Ok(Vec::new()), "0.1.0");
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, ended) = channel();
        let handler = fake.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                tokio::select! {
                    handed_over = server.run(handler) => {
                        // The test may have ended.
                        let _ = tell.send(handed_over.expect("a watched socket"));
                    }
                    _ = stopped => {}
                }
            });
        });
        Self { path, fake, ended, _stop: stop }
    }

    /// Asks for the status, and tells whether it still serves alone.
    pub fn is_intact(&self) -> bool {
        let status = admin::Client::connect(&self.path).and_then(admin::Client::status);
        status.expect("a status").state == State::Serving
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.path.parent().expect("a folder"));
    }
}
