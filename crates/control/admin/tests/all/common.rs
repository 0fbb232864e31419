//! A test server: real sockets, in its own thread.
use admin::{
    AdminServer, CompletedRestart, Connection, Endpoint, Handler, NewProcess, SharedSocket,
    SocketKind,
};
use durable::lock::DataLock;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::oneshot;

pub const PATIENCE: Duration = Duration::from_secs(20);

/// The end of a request's head.
const END: &[u8] = b"\r\n\r\n";

/// The response to an HTTP request at a socket.
pub fn http(path: &Path) -> io::Result<String> {
    said(path, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// The reply to these bytes, until the server closes.
pub fn said(path: &Path, bytes: &[u8]) -> io::Result<String> {
    let mut stream = std::os::unix::net::UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // It may have refused before everything was sent.
    let _ = stream.write_all(bytes);
    let mut said = Vec::new();
    // It may close with unread input, which is an error after its reply.
    let _ = stream.read_to_end(&mut said);
    String::from_utf8(said).map_err(io::Error::other)
}

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
    /// Answers each request with the user's number and the state.
    async fn http(&self, mut stream: UnixStream, uid: u32) {
        let mut head = [0; 512];
        while stream.read(&mut head).await.is_ok_and(|len| len > 0 && !head[..len].ends_with(END)) {
        }
        let state = if self.handing_over.load(Ordering::SeqCst) { "draining" } else { "serving" };
        let body = format!("{uid} {state}");
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        // The client may have left.
        let _ = stream.write_all((head + &body).as_bytes()).await;
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
        http(&self.path).expect("a response").contains("serving")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.path.parent().expect("a folder"));
    }
}
