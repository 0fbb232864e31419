//! Hot restarts between two real processes, and their failures.
use crate::common::{PATIENCE, Running};
use admin::{Connection, Endpoint, RestartOffer, SharedSocket, SocketKind, request_restart};
use durable::lock::DataLock;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use test_support::wait;

/// Connections between a client and a server.
fn connections(count: usize) -> (Vec<TcpStream>, Vec<Connection>) {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
        .expect("up to the most");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("bound");
    (0..count)
        .map(|n| {
            let near = TcpStream::connect(address).expect("a listener");
            near.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            let (far, peer) = listener.accept().expect("a connection");
            let client = "192.0.2.1:53".parse().expect("an address");
            let inbox = (n as u32).to_be_bytes().into();
            (near, Connection { fd: far.into(), peer, client, header_due: n % 2 == 1, inbox })
        })
        .unzip()
}

/// The new process: performs a hot restart up to a given step, reports it, and waits to be killed.
#[test]
#[ignore = "part: another test starts it as a process"]
fn new_process() {
    let variable = |name| std::env::var(name).expect("it is set by the other test");
    let (path, last) =
        (PathBuf::from(variable("DUNLIN_TEST_SOCKET")), variable("DUNLIN_TEST_STEP"));
    let reached = |step: &str| {
        println!("\nreached {step}");
        if step == last {
            loop {
                thread::park();
            }
        }
    };
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
        .expect("up to the most");
    let mut offer = request_restart(&path, "0.2.0").expect("an offer");
    reached("offered");
    for SharedSocket { kind, fd, .. } in std::mem::take(&mut offer.sockets) {
        if kind == SocketKind::Udp {
            thread::spawn(move || echo(&UdpSocket::from(fd)));
        }
    }
    let mut endpoint = Endpoint::bind_beside(&path, None).expect("a place beside");
    reached("bound");
    let taken = offer.serving(|| endpoint.reveal().expect("our folder")).expect("it hands over");
    assert!(taken.problem.is_none(), "{:?}", taken.problem);
    for (n, connection) in taken.connections.into_iter().enumerate() {
        let Connection { fd, client, header_due, inbox, .. } = connection;
        assert_eq!(header_due, n % 2 == 1);
        assert_eq!(client.to_string(), "192.0.2.1:53");
        TcpStream::from(fd).write_all(&inbox).expect("a connection");
    }
    reached("done");
}

fn echo(socket: &UdpSocket) {
    let mut room = [0; 64];
    while let Ok((len, peer)) = socket.recv_from(&mut room) {
        let _ = socket.send_to(&room[..len], peer);
    }
}

/// A [`new_process`] waiting at a step; killed when dropped.
struct Process(Child);

impl Process {
    fn start(path: &Path, step: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "restart::new_process", "--ignored", "--nocapture"])
            .env("DUNLIN_TEST_SOCKET", path)
            .env("DUNLIN_TEST_STEP", step)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let wanted = format!("reached {step}");
        let reached = lines.map_while(Result::ok).any(|line| line == wanted);
        assert!(reached, "it came to {step}");
        Self(child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().expect("a process");
        self.0.wait().expect("a process");
    }
}

/// Waits until another hot restart may begin, since a server notices an end a moment later.
fn offered(path: &Path) -> RestartOffer {
    wait::until_ok("another hot restart may begin", || request_restart(path, "0.2.0"))
}

#[test]
fn sockets_and_a_thousand_connections_change_process() {
    let (clients, connections) = connections(1_000);
    let running = Running::start("process", 220, connections);
    // Queued before the new process exists, answered by it.
    let asking = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    asking.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    for SharedSocket { address, .. } in
        running.fake.sockets.iter().filter(|s| s.kind == SocketKind::Udp)
    {
        asking.send_to(b"early", address).expect("loopback");
    }
    let process = Process::start(&running.path, "done");
    for _ in 0..220 {
        assert_eq!(asking.recv(&mut [0; 64]).expect("an answer"), 5);
    }
    for (n, mut client) in clients.into_iter().enumerate() {
        let mut bytes = [0; 4];
        client.read_exact(&mut bytes).expect("the connection lives on");
        assert_eq!(u32::from_be_bytes(bytes), n as u32);
    }
    let restart = running.ended.recv_timeout(PATIENCE).expect("the old one ends");
    assert_eq!(restart.new_process.pid, Some(process.0.id()));
    assert_eq!(restart.new_process.version, "0.2.0");
    assert_eq!(restart.connections, 1_000);
    assert!(restart.problem.is_none(), "{:?}", restart.problem);
    UnixStream::connect(&running.path).expect("the socket file is the new_process's");
}

#[test]
fn new_process_killed_before_serving_changes_nothing() {
    let (clients, connections) = connections(3);
    let running = Running::start("killed", 2, connections);
    for step in ["offered", "bound"] {
        drop(Process::start(&running.path, step));
        assert!(running.is_intact(), "killed when {step}");
    }
    let went_on = || running.fake.went_on.load(Ordering::SeqCst);
    wait::until_value("the server goes on after each", went_on, |count| *count >= 2);
    // One that dies within a line, and one that does not read.
    for bytes in [&b"{\"protocol\":1,\"says\":{\"take-ov"[..], REQUEST] {
        let mut stream = UnixStream::connect(&running.path).expect("a server");
        stream.write_all(bytes).expect("it listens");
    }
    assert!(running.is_intact());
    let mut offer = offered(&running.path);
    for shared in offer.sockets.drain(..).filter(|shared| shared.kind == SocketKind::Udp) {
        let asking = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        asking.send_to(b"still here", shared.address).expect("loopback");
        let socket = UdpSocket::from(shared.fd);
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        assert_eq!(socket.recv(&mut [0; 64]).expect("the socket works"), 10);
    }
    assert_eq!(offer.serving(|| ()).expect("it hands over").connections.len(), clients.len());
    let restart = running.ended.recv_timeout(PATIENCE).expect("the old one ends");
    assert_eq!(restart.connections, clients.len());
}

#[test]
fn lock_returns_when_the_new_process_fails() {
    let running = Running::start("lock", 1, Vec::new());
    let folder = running.path.parent().expect("a folder").join("data");
    let is_taken = || DataLock::take(&folder, None).is_err();
    let lock = DataLock::take(&folder, None).expect("free");
    *running.fake.lock.lock().expect("no panic") = lock;
    for step in ["offered", "bound"] {
        drop(Process::start(&running.path, step));
        assert!(is_taken(), "the old process has it when the new one was killed {step}");
    }
    let mut offer = offered(&running.path);
    drop(offer.lock.take().expect("the lock"));
    drop(offer);
    assert!(is_taken());

    let mut offer = offered(&running.path);
    let new = DataLock::take(&folder, offer.lock.take()).expect("shared").expect("a lock");
    offer.serving(|| ()).expect("it hands over");
    running.ended.recv_timeout(PATIENCE).expect("the old one ends");
    *running.fake.lock.lock().expect("no panic") = None;
    assert!(is_taken(), "the new process has it");
    drop(new);
    assert!(!is_taken());
}

/// A version without the lock could not tell its descriptor from a socket's.
#[test]
fn lock_is_passed_only_on_request() {
    let running = Running::start("no-lock", 1, Vec::new());
    let folder = running.path.parent().expect("a folder").join("data");
    let lock = DataLock::take(&folder, None).expect("free");
    *running.fake.lock.lock().expect("no panic") = lock;
    let mut stream = UnixStream::connect(&running.path).expect("a server");
    stream.write_all(REQUEST).expect("it listens");
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).expect("a line");
    assert!(line.contains("offer") && line.contains("\"lock\":false"), "{line}");
}

#[test]
fn socket_path_always_answers_during_a_hot_restart() {
    let (_clients, connections) = connections(200);
    let running = Running::start("path", 1, connections);
    let mut endpoint = Endpoint::bind_beside(&running.path, None).expect("a place beside");
    let reveal = || {
        // The old process still listens, and may do anything from now on.
        UnixStream::connect(&running.path).expect("the old_process");
        endpoint.reveal().expect("our folder");
        UnixStream::connect(&running.path).expect("the new_process");
    };
    offered(&running.path).serving(reveal).expect("it hands over");
    running.ended.recv_timeout(PATIENCE).expect("the old one ends");
    UnixStream::connect(&running.path).expect("the file is the new_process's");
}

/// Between checking and removing a file, a new process may replace it.
#[test]
fn old_process_leaves_its_file_to_the_new_process() {
    let running = Running::start("left", 1, Vec::new());
    offered(&running.path).serving(|| ()).expect("it hands over");
    running.ended.recv_timeout(PATIENCE).expect("the old one ends");
    assert!(running.path.exists());
    Endpoint::bind(&running.path, None).expect("it is stale, and so replaced");
}

const REQUEST: &[u8] = b"{\"protocol\":1,\"says\":{\"take-over\":{\"version\":\"0.2.0\"}}}\n";

#[test]
fn new_process_dying_after_serving_ends_the_old_process() {
    let (mut clients, connections) = connections(1_000);
    let running = Running::start("midway", 1, connections);
    let mut stream = UnixStream::connect(&running.path).expect("a server");
    stream.write_all(REQUEST).expect("it listens");
    stream.write_all(b"{\"protocol\":1,\"says\":\"serving\"}\n").expect("it listens");
    let mut said = BufReader::new(&stream);
    let mut line = String::new();
    while !line.contains("handing-over") {
        line.clear();
        assert!(said.read_line(&mut line).expect("a line") > 0, "it goes on");
    }
    drop(stream);
    let restart = running.ended.recv_timeout(PATIENCE).expect("the old one ends");
    assert!(restart.problem.is_some() || restart.connections == 1_000);
    // No process has the connections any more: they are closed.
    for client in &mut clients {
        let end = client.read(&mut [0; 4]);
        assert!(matches!(&end, Ok(0)) || is_reset(&end), "{end:?}");
    }
}

/// Until then the new process may not have replaced the socket's file.
#[test]
fn old_process_stays_until_the_new_process_disconnects() {
    let running = Running::start("until", 1, Vec::new());
    let mut stream = UnixStream::connect(&running.path).expect("a server");
    stream.write_all(REQUEST).expect("it listens");
    stream.write_all(b"{\"protocol\":1,\"says\":\"serving\"}\n").expect("it listens");
    let lines = BufReader::new(&stream).lines().map_while(Result::ok);
    let rest = lines.skip_while(|line| !line.contains("handing-over"));
    assert!(rest.into_iter().any(|line| line.contains("done")), "it gives all");
    assert!(running.ended.recv_timeout(Duration::from_millis(300)).is_err(), "it is there");
    drop(stream);
    running.ended.recv_timeout(PATIENCE).expect("the old one ends");
}

fn is_reset(end: &std::io::Result<usize>) -> bool {
    end.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

/// Run by `new_process_with_too_few_descriptors_changes_nothing`.
#[test]
#[ignore = "part: another test starts it as a process"]
fn starved() {
    let path = std::env::var_os("DUNLIN_TEST_SOCKET").map(PathBuf::from).expect("a path");
    setrlimit(Resource::Nofile, Rlimit { current: Some(100), ..getrlimit(Resource::Nofile) })
        .expect("less is always granted");
    println!("message: {}", request_restart(&path, "0.2.0").expect_err("more than it may open"));
}

#[test]
fn new_process_with_too_few_descriptors_changes_nothing() {
    let running = Running::start("starved", 220, Vec::new());
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "restart::starved", "--ignored", "--nocapture"])
        .env("DUNLIN_TEST_SOCKET", &running.path)
        .output()
        .expect("it runs");
    let message = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && message.contains("LimitNOFILE"), "{output:?}");
    assert!(running.is_intact());
}

#[test]
fn panic_while_passing_connections_ends_the_old_process() {
    let running = Running::start("panics", 1, Vec::new());
    let offer = offered(&running.path);
    let fake = running.fake.clone();
    let poisoner = thread::spawn(move || {
        let _held = fake.connections.lock();
        panic!("as the test wants it");
    });
    poisoner.join().expect_err("it panicked");
    let taken = offer.serving(|| ()).expect("all is ours");
    assert!(taken.connections.is_empty() && taken.problem.is_some());
    let restart = running.ended.recv_timeout(PATIENCE).expect("the old one ends");
    assert!(restart.problem.expect("it is message").to_string().contains("panic"));
}

#[test]
fn only_one_hot_restart_runs_at_a_time() {
    let running = Running::start("one", 1, Vec::new());
    let first = request_restart(&running.path, "0.2.0").expect("an offer");
    let message = request_restart(&running.path, "0.2.0").expect_err("taken").to_string();
    assert!(message.contains("another hot restart"), "{message}");
    assert!(running.is_intact());
    drop(first);
    let offer = offered(&running.path);
    assert_eq!((offer.version.as_str(), offer.pid), ("0.1.0", std::process::id()));
}

#[test]
fn unexpected_request_during_a_hot_restart_is_refused() {
    let running = Running::start("between", 1, Vec::new());
    let mut stream = UnixStream::connect(&running.path).expect("a server");
    stream.write_all(REQUEST).expect("it listens");
    stream.write_all(b"{\"protocol\":1,\"says\":\"status\"}\n").expect("it listens");
    let mut said = String::new();
    // It closes without unread input.
    stream.read_to_string(&mut said).expect("UTF-8");
    assert!(said.contains("sockets") && !said.contains("handing-over"), "{said}");
    assert!(running.is_intact());
}

#[test]
fn long_partial_message_is_passed_completely() {
    let (_clients, mut connections) = connections(9);
    for connection in &mut connections {
        connection.inbox = vec![0x5a; 80 << 10];
    }
    let running = Running::start("inbox", 1, connections);
    let taken = offered(&running.path).serving(|| ()).expect("it hands over");
    assert!(taken.problem.is_none(), "{:?}", taken.problem);
    assert_eq!(taken.connections.len(), 9);
    assert!(taken.connections.iter().all(|connection| connection.inbox == vec![0x5a; 80 << 10]));
}
