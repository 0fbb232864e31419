//! A running server that is told something: to read again, to end, and what it tells meanwhile.
mod served;

use rustix::process::{Pid, Signal, kill_process};
use served::{HEAD, NOERROR, PATIENCE, Served, binary, rcode, zone};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

/// A server with an admin socket, and one zone.
fn start(test: &str, config: &str) -> Served {
    // The path of a unix socket is short.
    let socket = std::env::temp_dir().join(format!("dunlin-{test}-{}.sock", std::process::id()));
    let config = format!("{config}[admin]\nsocket = \"{}\"\n", socket.display()) + &zone("a.test");
    Served::start(test, &config, &[("a.test.zone", HEAD)])
}

/// Changes its config by text, and the socket that it names.
fn edit(served: &Served, old: &str, new: &str) {
    let file = served.folder.join("dunlin.toml");
    let text = fs::read_to_string(&file).expect("a config");
    assert!(text.contains(old), "{text}");
    fs::write(file, text.replace(old, new)).expect("a config");
}

fn ask(served: &Served, command: &str) -> Output {
    let output =
        binary().args([command, "--socket"]).arg(served.socket().expect("a path")).output();
    output.expect("it runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_reload_tells_what_is_another_than_before() {
    let served = start("operate_told", "drain = \"0s\"\n");
    let told = text(&ask(&served, "reload"));
    assert_eq!(told, "reloaded; no config key changed; read 1 zone file\n");
    edit(&served, "drain = \"0s\"\n", "drain = \"1s\"\nworkers = 1\n");
    edit(&served, "workers = 2\n", "nsid = \"here\"\n");
    let output = ask(&served, "reload");
    let expected = "\
        reloaded; changed: server.nsid, server.drain; read 1 zone file\n\
        server.workers needs a restart, or `dunlin serve --hot-restart`\n";
    assert_eq!((text(&output).as_str(), output.status.code()), (expected, Some(0)));
    edit(&served, "drain = \"1s\"", "drain = 1\nnsid2 = \"\"");
    let output = ask(&served, "reload");
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output);
    assert!(told.contains("a duration") && told.contains("`nsid2`"), "{told}");
    assert!(told.ends_with("config refused; the previous config stays in effect\n"), "{told}");
}

/// A pipe that nobody writes neither holds the server up nor changes it.
#[test]
fn a_config_that_has_become_a_pipe_is_refused() {
    let served = start("operate_pipe", "drain = \"0s\"\n");
    let (config, socket) = (served.folder.join("dunlin.toml"), served.socket().expect("a path"));
    let aside = served.folder.join("aside.toml");
    fs::rename(&config, &aside).expect("a config");
    let made = std::process::Command::new("mkfifo").arg(&config).status();
    assert!(made.expect("coreutils").success());
    let output = binary().args(["reload", "--socket"]).arg(&socket).output();
    let output = output.expect("it runs");
    fs::rename(&aside, &config).expect("a config");
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output);
    assert!(told.contains("cannot be read: it is not a regular file"), "{told}");
    assert_eq!(rcode(&served.ask("ns.a.test")), NOERROR);
}

/// A server that loads a zone of so many hosts, and can be asked already.
struct Loading {
    server: Process,
    socket: PathBuf,
    /// What it said first.
    status: String,
}

impl Loading {
    fn start(test: &str, hosts: u32) -> Self {
        let hosts: String =
            (0..hosts).map(|n| format!("h{n} A 10.0.{}.{}\n", n >> 8 & 255, n & 255)).collect();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("a.test.zone"), format!("{HEAD}{hosts}")).expect("a zone");
        let socket = std::env::temp_dir().join(format!("dunlin-{test}-{}", std::process::id()));
        let config = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\ndata_dir = \"\"\n[admin]\nsocket = \"{}\"\n{}",
            socket.display(),
            zone("a.test")
        );
        fs::write(folder.join("dunlin.toml"), config).expect("a config");
        let mut command = binary();
        command.args(["serve", "-c"]).arg(folder.join("dunlin.toml")).stderr(Stdio::piped());
        let server = Process(command.spawn().expect("it runs"));
        let mut loading = Self { server, socket, status: String::new() };
        let until = Instant::now() + PATIENCE;
        while !loading.status.starts_with("dunlin ") {
            assert!(Instant::now() < until, "nobody answers");
            loading.status = loading.told("status");
        }
        loading
    }

    fn told(&self, command: &str) -> String {
        let output = binary().arg(command).arg("--socket").arg(&self.socket).output();
        text(&output.expect("it runs"))
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        // The server may have removed it.
        let _ = fs::remove_file(&self.socket);
    }
}

/// Asks a server that loads so many hosts what it does, and to reload: what it told to either, if
/// both came while it loaded. It serves afterwards in any case.
fn ask_while_it_loads(hosts: u32) -> Option<(String, String)> {
    let loading = Loading::start("operate_start", hosts);
    let refused = loading.told("reload");
    let until = Instant::now() + 6 * PATIENCE;
    while !loading.told("status").contains(", serving, ") {
        assert!(Instant::now() < until, "it does not serve");
        std::thread::sleep(Duration::from_millis(10));
    }
    let both = loading.status.contains(", starting, ") && !refused.starts_with("reloaded");
    both.then(|| (loading.status.clone(), refused))
}

/// Whoever asks while zones are loaded, be it a probe, an operator or a successor, is told so.
#[test]
fn a_server_that_starts_can_be_asked() {
    // However fast the machine and the build: some zone takes longer to load than two questions.
    let told = (0..6).find_map(|doubled| ask_while_it_loads(60_000 << doubled));
    let (status, refused) = told.expect("it never told that it starts");
    assert!(status.contains("1 not loaded"), "{status}");
    assert!(refused.contains("the server is starting: wait until it serves"), "{refused}");
}

/// A successor has read the config before it asks, and would go on with what it read.
#[test]
fn a_reload_in_the_middle_of_a_hot_restart_is_refused() {
    let served = start("operate_between", "drain = \"0s\"\n");
    let offer =
        admin::request_restart(&served.socket().expect("a path"), "0.1.0").expect("an offer");
    let output = ask(&served, "reload");
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output);
    assert!(
        told.contains("a hot restart is in progress") && told.contains("reload after"),
        "{told}"
    );
    served.signal(Signal::HUP);
    for _ in ["by command", "by signal"] {
        served.expect_line("not reloaded", "a successor");
    }
    drop(offer);
    served.expect_line("going on alone", "WARN");
    let until = Instant::now() + PATIENCE;
    while ask(&served, "reload").status.code() != Some(0) {
        assert!(Instant::now() < until, "it is not taken");
    }
}

/// A load that is at work is finished first, unless a second signal says not to.
#[test]
fn a_second_signal_ends_a_server_that_loads_at_once() {
    let mut loading = Loading::start("operate_twice", 600_000);
    let server = &mut loading.server.0;
    let mut log = BufReader::new(server.stderr.take().expect("a pipe")).lines();
    let pid = Pid::from_child(server);
    kill_process(pid, Signal::TERM).expect("it runs");
    let told = log.find(|line| line.as_ref().is_ok_and(|line| line.contains("ending")));
    assert!(told.is_some());
    kill_process(pid, Signal::TERM).expect("it loads");
    assert_eq!(server.wait().expect("it ends").code(), Some(1));
}

/// It may come at any time, as from a script that runs at the same event.
#[test]
fn a_signal_to_reload_that_comes_too_early_kills_nobody() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("operate_early");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let socket = std::env::temp_dir().join(format!("dunlin-early-{}.sock", std::process::id()));
    let _ = fs::remove_file(&socket);
    // Who asks this one for its place waits for a reply before it opens anything.
    let silent = UnixListener::bind(&socket).expect("a socket");
    let config = format!("[admin]\nsocket = \"{}\"\n", socket.display());
    fs::write(folder.join("dunlin.toml"), config).expect("a config");
    let mut command = binary();
    command.args(["serve", "--hot-restart", "-c"]).arg(folder.join("dunlin.toml"));
    let mut server = Process(command.stderr(Stdio::null()).spawn().expect("it runs"));
    let waiting = silent.accept().expect("it asks");
    kill_process(Pid::from_child(&server.0), Signal::HUP).expect("it runs");
    drop((waiting, silent));
    let status = server.0.wait().expect("it ends, as nobody has told it anything");
    assert_eq!(status.code(), Some(1), "{status}");
    let _ = fs::remove_file(socket);
}

/// A pipe that nobody reads, as behind a pager, holds up nothing but the log.
#[test]
fn a_log_that_nobody_reads_holds_up_nothing() {
    let (mut held, far) = std::io::pipe().expect("a pipe");
    let served = start("operate_stuck", "drain = \"0s\"\n");
    let config = served.folder.join("dunlin.toml");
    let mut successor = binary();
    successor.args(["serve", "--hot-restart", "-c"]).arg(&config).stderr(far);
    let mut successor = Process(successor.spawn().expect("it runs"));
    served.expect_line("handed over", "INFO");
    // Each tells of a zone and of itself: far more than a pipe holds.
    for nth in 0..600 {
        let output = ask(&served, "reload");
        assert_eq!(output.status.code(), Some(0), "the {nth}th is not done: {output:?}");
    }
    assert_eq!(rcode(&served.ask("ns.a.test")), NOERROR);
    let pid = Pid::from_child(&successor.0);
    kill_process(pid, Signal::TERM).expect("it runs");
    let until = Instant::now() + PATIENCE;
    while successor.0.try_wait().expect("a child").is_none() {
        assert!(Instant::now() < until, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut begin = [0; 1 << 10];
    held.read_exact(&mut begin).expect("what was written before");
}

#[test]
fn reloads_that_come_faster_than_they_are_done_are_one() {
    let served = start("operate_storm", "drain = \"0s\"\n");
    let threads = || {
        let tasks = format!("/proc/{}/task", served.child.id());
        fs::read_dir(tasks).expect("it runs").count()
    };
    let before = threads();
    for _ in 0..300 {
        served.signal(Signal::HUP);
        // One that waits for the zones, and those of tokio that block.
        assert!(threads() <= before + 4, "{} threads, {before} before", threads());
    }
    let until = Instant::now() + PATIENCE;
    while !text(&ask(&served, "status")).contains("reloaded") {
        assert!(Instant::now() < until, "none was heard");
    }
    assert_eq!(rcode(&served.ask("ns.a.test")), NOERROR);
}

/// A process that is not to outlive its test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself, which is for the test to find.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What `/readyz` says: the first line.
fn readiness(ops: SocketAddr) -> String {
    let mut stream = TcpStream::connect(ops).expect("somebody listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
        .write_all(b"GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("a response");
    said.lines().next().unwrap_or_default().to_owned()
}

/// Load balancers would look elsewhere, though not a question is lost.
#[test]
fn readiness_does_not_flap_while_a_server_changes_hands() {
    // A free port, at an address that no client and no other test has ports of.
    let free = TcpListener::bind("127.0.0.5:0").expect("a socket");
    let ops = free.local_addr().expect("bound");
    drop(free);
    let config = format!("drain = \"0s\"\n[ops]\nlisten = \"{ops}\"\n");
    let mut served = start("operate_ready", &config);
    let mut command = binary();
    command.args(["serve", "--hot-restart", "-c"]).arg(served.folder.join("dunlin.toml"));
    let _successor = Process(command.stderr(Stdio::null()).spawn().expect("it runs"));
    let begun = Instant::now();
    let mut asked = 0;
    while served.child.try_wait().expect("a child").is_none() {
        assert!(begun.elapsed() < PATIENCE, "the old one does not end");
        let said = readiness(ops);
        assert!(said.contains("200"), "{said:?} after {:?}", begun.elapsed());
        asked += 1;
    }
    assert!(asked > 0 && served.status() == Some(0));
    assert!(readiness(ops).contains("200"), "the successor's");
}
