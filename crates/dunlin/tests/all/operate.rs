//! A running server: reload, status, drain and hot restart.
use crate::served::{HEAD, NOERROR, Process, Served, binary, rcode, short_socket, zone};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use test_support::thread::StoppedThread;
use test_support::wait::{self, deadline};

/// A server with an admin socket, and one zone.
fn start(test: &str, config: &str) -> Served {
    let socket = short_socket(test);
    let config = format!("{config}[admin]\nsocket = \"{}\"\n", socket.display()) + &zone("a.test");
    Served::start(test, &config, &[("a.test.zone", HEAD)])
}

/// Replaces text in the config, and in the path of its socket.
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
fn reload_reports_what_changed() {
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

/// `> dunlin.toml` and a reload: the zones stay, and so do their copies when it is accepted.
#[test]
fn config_that_removes_most_zones_is_held_until_accepted() {
    let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join("operate_emptied_data");
    let _ = fs::remove_dir_all(&data);
    let config = format!("drain = \"0s\"\ndata_dir = \"{}\"\n", data.display());
    let more: String = (0..30).map(|n| zone(&format!("z{n}.test"))).collect();
    let socket = std::env::temp_dir().join(format!("dunlin-emptied-{}.sock", std::process::id()));
    let config = format!("{config}[admin]\nsocket = \"{}\"\n{more}", socket.display());
    let files: Vec<(String, &str)> = (0..30).map(|n| (format!("z{n}.test.zone"), HEAD)).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, *text)).collect();
    let served = Served::start("operate_emptied", &config, &files);
    let copy = data.join("zones/z7.test.zone");
    wait::until_true("its copy is saved", || copy.exists());
    let ask = |args: &[&str]| {
        let output = binary().args(args).arg("--socket").arg(&socket).output();
        output.expect("it runs")
    };
    let file = served.folder.join("dunlin.toml");
    let whole = fs::read_to_string(&file).expect("a config");
    fs::write(&file, "").expect("a config");
    let output = ask(&["reload"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = text(&output);
    assert!(told.starts_with("held: the config removes 30 of 30 zones: z0.test., "), "{told}");
    assert!(told.contains("`dunlin reload --accept`") && told.lines().count() == 1, "{told}");
    let status = ask(&["status"]);
    assert_eq!(status.status.code(), Some(1));
    assert!(text(&status).contains("the config removes 30 of 30 zones"), "{}", text(&status));
    served.signal(Signal::HUP);
    served.expect_line("not reloaded: the config removes 30 of 30 zones", "ERROR");
    assert_eq!(rcode(&served.ask("ns.z7.test")), NOERROR);
    let kept = whole.split("[[zone]]").next().expect("the beginning");
    fs::write(&file, kept).expect("a config");
    let output = ask(&["reload", "--accept"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(rcode(&served.ask("ns.z7.test")), 5, "REFUSED");
    wait::until_true("its copy is set aside", || copy.with_extension("zone.removed").exists());
    fs::remove_file(served.folder.join("z7.test.zone")).expect("it goes");
    fs::write(&file, whole).expect("a config");
    assert_eq!(ask(&["reload"]).status.code(), Some(1), "one file is missing");
    assert_eq!(rcode(&served.ask("ns.z7.test")), NOERROR, "from the copy");
    wait::until_true("its copy is back in place", || copy.exists());
}

/// A pipe without a writer neither blocks the server nor changes it.
#[test]
fn config_that_became_a_pipe_is_refused() {
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

/// A server that is loading a zone of this many hosts.
struct Loading {
    server: Process,
    socket: PathBuf,
    /// The first status.
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
        let status = || loading.told("status");
        loading.status =
            wait::until_value("a status", status, |status| status.starts_with("dunlin "));
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

/// The status, and the result of a reload, while a server loads this many hosts; `None` if loading
/// ended first. The server serves afterwards in any case.
fn ask_while_it_loads(hosts: u32) -> Option<(String, String)> {
    let loading = Loading::start("operate_start", hosts);
    let refused = loading.told("reload");
    let status = || loading.told("status");
    wait::until_value("it serves", status, |status| status.contains(", serving, "));
    let both = loading.status.contains(", starting, ") && !refused.starts_with("reloaded");
    both.then(|| (loading.status.clone(), refused))
}

/// A probe, an operator and a new process get a reason while zones are loaded.
#[test]
fn starting_server_reports_its_start() {
    // However fast the machine and the build: some zone takes longer to load than two requests.
    let told = (0..6).find_map(|doubled| ask_while_it_loads(60_000 << doubled));
    let (status, refused) = told.expect("the start was never seen");
    assert!(status.contains("1 not loaded"), "{status}");
    assert!(refused.contains("the server is starting: wait until it serves"), "{refused}");
}

/// The new process has read the config before, and would use the old one.
#[test]
fn reload_during_a_hot_restart_is_refused() {
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
        served.expect_line("not reloaded", "a hot restart");
    }
    drop(offer);
    served.expect_line("going on alone", "WARN");
    let reload = || ask(&served, "reload");
    wait::until_value("a reload", reload, |output| output.status.code() == Some(0));
}

/// A load in progress is finished first, unless a second signal ends the process.
#[test]
fn second_signal_ends_a_loading_server_at_once() {
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

/// It may come at any time, for example from a script that reacts to the same event.
#[test]
fn early_sighup_does_not_end_the_process() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("operate_early");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let socket = std::env::temp_dir().join(format!("dunlin-early-{}.sock", std::process::id()));
    let _ = fs::remove_file(&socket);
    // The new process waits for a reply of this server before it opens anything.
    let silent = UnixListener::bind(&socket).expect("a socket");
    let config = format!("[admin]\nsocket = \"{}\"\n", socket.display());
    fs::write(folder.join("dunlin.toml"), config).expect("a config");
    let mut command = binary();
    command.args(["serve", "--hot-restart", "-c"]).arg(folder.join("dunlin.toml"));
    let mut server = Process(command.stderr(Stdio::null()).spawn().expect("it runs"));
    let waiting = silent.accept().expect("it asks");
    kill_process(Pid::from_child(&server.0), Signal::HUP).expect("it runs");
    drop((waiting, silent));
    let status = server.0.wait().expect("it ends, without any reply");
    assert_eq!(status.code(), Some(1), "{status}");
    let _ = fs::remove_file(socket);
}

/// A pipe without a reader, as behind a pager, blocks nothing except the log.
#[test]
fn log_without_a_reader_delays_nothing() {
    let (mut held, far) = std::io::pipe().expect("a pipe");
    let served = start("operate_stuck", "drain = \"0s\"\n");
    let config = served.folder.join("dunlin.toml");
    let mut new_process = binary();
    new_process.args(["serve", "--hot-restart", "-c"]).arg(&config).stderr(far);
    let mut new_process = Process(new_process.spawn().expect("it runs"));
    served.expect_line("handed over", "INFO");
    // Each line names a zone: together far more than a pipe holds.
    for nth in 0..600 {
        let output = ask(&served, "reload");
        assert_eq!(output.status.code(), Some(0), "the {nth}th is not done: {output:?}");
    }
    assert_eq!(rcode(&served.ask("ns.a.test")), NOERROR);
    let pid = Pid::from_child(&new_process.0);
    kill_process(pid, Signal::TERM).expect("it runs");
    wait::until_exit("the new process", &mut new_process.0);
    let mut begin = [0; 1 << 10];
    held.read_exact(&mut begin).expect("what was written before");
}

#[test]
fn reloads_faster_than_they_finish_are_merged() {
    let served = start("operate_storm", "drain = \"0s\"\n");
    let threads = || {
        let tasks = format!("/proc/{}/task", served.child.id());
        fs::read_dir(tasks).expect("it runs").count()
    };
    let before = threads();
    for _ in 0..300 {
        served.signal(Signal::HUP);
        // One thread waits for the zones, the others are blocking threads of tokio.
        assert!(threads() <= before + 4, "{} threads, {before} before", threads());
    }
    let status = || text(&ask(&served, "status"));
    wait::until_value("a reload in the status", status, |status| status.contains("reloaded"));
    assert_eq!(rcode(&served.ask("ns.a.test")), NOERROR);
}

/// The status line of `/readyz`.
fn readiness(ops: SocketAddr) -> String {
    let mut stream = TcpStream::connect(ops).expect("a listener");
    stream.set_read_timeout(Some(deadline())).expect("a timeout");
    stream
        .write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("a response");
    said.lines().next().unwrap_or_default().to_owned()
}

/// Load balancers would remove the server although it loses no query.
#[test]
fn readiness_does_not_flap_during_a_hot_restart() {
    // A free port at an address that no client and no other test uses.
    let free = TcpListener::bind("127.0.0.5:0").expect("a socket");
    let ops = free.local_addr().expect("bound");
    drop(free);
    let config = format!("drain = \"0s\"\n[ops]\nlisten = \"{ops}\"\n");
    let mut served = start("operate_ready", &config);
    let mut command = binary();
    command.args(["serve", "--hot-restart", "-c"]).arg(served.folder.join("dunlin.toml"));
    let _new_process = Process(command.stderr(Stdio::null()).spawn().expect("it runs"));
    let mut asked = 0;
    wait::until("the end of the old process", || {
        let ended = served.child.try_wait().expect("a child");
        if ended.is_none() {
            let said = readiness(ops);
            assert!(said.contains("200"), "{said:?}, the {asked}th");
            asked += 1;
        }
        ended
    });
    assert!(asked > 0 && served.status() == Some(0));
    assert!(readiness(ops).contains("200"), "the new process's");
}

/// What one server needs from others may fail for all at once; a thread that hangs is its own.
#[test]
fn hanging_thread_makes_the_server_unready_until_it_goes_on() {
    // A free port at an address that no client and no other test uses.
    let free = TcpListener::bind("127.0.0.6:0").expect("a socket");
    let ops = free.local_addr().expect("bound");
    drop(free);
    let config = format!("[ops]\nlisten = \"{ops}\"\n");
    let mut served = start("operate_hang", &config);
    wait::until_value("readiness", || readiness(ops), |line| line.contains("200"));
    for thread in ["worker-1", "streams-0"] {
        let hanging = StoppedThread::stop(served.child.id(), thread);
        wait::until_value("unreadiness", || readiness(ops), |line| line.contains("503"));
        let status = ask(&served, "status");
        let told = text(&status);
        assert_eq!(status.status.code(), Some(1), "{told}");
        assert!(told.contains(&format!("{thread} has answered no query")), "{told}");
        drop(hanging);
        wait::until_value("readiness again", || readiness(ops), |line| line.contains("200"));
    }
    served.end();
}
