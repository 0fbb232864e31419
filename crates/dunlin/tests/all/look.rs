//! `dunlin status` and `dunlin top` as a user sees them, at the socket of a test server.
use crate::served::text;
use admin::{AdminServer, Connection, Endpoint, Handler, NewProcess, SharedSocket};
use api::{
    Api, ApiCounters, ControlFuture, CredentialFile, Credentials, LocalApi, ServerControl,
    TokenRefused,
};
use server_status::command::{
    AcceptedZone, Command as ServerCommand, CommandOutcome, ReloadOutcome, TokenOutcome,
    TokenRequest,
};
use server_status::{ServerState, Status, ThreadStatus, ZoneState, ZoneStatus, find_faults};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use test_support::wait;

/// A server that received a thousand more queries at each status request.
struct TestServer {
    zone: ZoneState,
    looks: AtomicU64,
}

impl ServerControl for TestServer {
    fn status(&self) -> Status {
        let looks = self.looks.fetch_add(1, Ordering::Relaxed);
        let zone = ZoneStatus { name: "a.test.".into(), state: self.zone, ..Default::default() };
        let thread = ThreadStatus {
            name: "worker-0".into(),
            received: 1_000 * looks,
            ..ThreadStatus::default()
        };
        let status = Status {
            version: "0.1.0".into(),
            state: ServerState::Serving,
            zones: vec![zone],
            threads: vec![thread],
            ..Status::default()
        };
        Status { faults: find_faults(&status), ..status }
    }

    fn served_zone(&self, _: wire::Name<'_>) -> Option<Arc<compile::Zone>> {
        unreachable!("only the status is requested")
    }

    fn explain(
        &self,
        _: api::ExplainRequest,
    ) -> ControlFuture<'_, Result<server_status::explain::Explanation, String>> {
        unreachable!("only the status is requested")
    }

    fn command(&self, _: ServerCommand) -> ControlFuture<'_, Result<CommandOutcome, String>> {
        unreachable!("only the status is requested")
    }

    fn withdraw(&self, _: Option<String>, _: bool) -> Result<(), String> {
        unreachable!("only the status is requested")
    }

    fn reload(&self, _: bool) -> ControlFuture<'_, ReloadOutcome> {
        unreachable!("only the status is requested")
    }

    fn accept(&self, _: Option<String>) -> ControlFuture<'_, Result<Vec<AcceptedZone>, String>> {
        unreachable!("only the status is requested")
    }

    fn manage_tokens(
        &self,
        _: TokenRequest,
    ) -> ControlFuture<'_, Result<TokenOutcome, TokenRefused>> {
        unreachable!("only the status is requested")
    }
}

/// Serves the local socket.
struct LocalHandler(LocalApi);

impl Handler for LocalHandler {
    async fn http(&self, stream: tokio::net::UnixStream, uid: u32) {
        self.0.serve(stream, uid).await;
    }

    fn sockets(&self) -> std::io::Result<Vec<SharedSocket>> {
        unreachable!("no hot restart is requested")
    }

    fn resume(&self) {
        unreachable!("no hot restart is requested")
    }

    async fn hand_off(&self, _new: NewProcess) -> Vec<Connection> {
        unreachable!("no hot restart is requested")
    }
}

/// Where a test server listens. The file goes when this is dropped.
struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Starts a server; it ends with the test's process.
fn server(test: &str, zone: ZoneState) -> Socket {
    // The path of a unix socket is short.
    let socket = std::env::temp_dir().join(format!("dunlin-{test}-{}", std::process::id()));
    let endpoint = Endpoint::bind(&socket, None).unwrap();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = AdminServer::new(endpoint, |_| Ok(Vec::new()), "0.1.0");
        let api = Api {
            health: None,
            records: None,
            credentials: Arc::new(Credentials::new(CredentialFile::at(None))),
            operator: Arc::new(TestServer { zone, looks: AtomicU64::new(1) }),
            counters: Arc::new(ApiCounters::default()),
            requests_per_second: 1,
            powerdns: false,
            spool: std::env::temp_dir(),
        };
        let handler = Arc::new(LocalHandler(LocalApi::new(api)));
        runtime.block_on(server.run(handler)).map(drop).unwrap();
    });
    Socket(socket)
}

fn dunlin(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dunlin"));
    command.args(words);
    command
}

fn status(socket: &Path, more: &[&str]) -> Output {
    dunlin(&["status", "--socket", socket.to_str().unwrap()]).args(more).output().unwrap()
}

#[test]
fn status_exits_with_one_if_something_is_wrong() {
    let fine = server("fine", ZoneState::Current);
    let output = status(&fine.0, &[]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{told}{}", text(&output.stderr));
    assert!(told.contains("zones       1 current\n"), "{told}");

    let behind = server("behind", ZoneState::Behind);
    assert_eq!(status(&behind.0, &[]).status.code(), Some(1));

    let absent = status(Path::new("/nonexistent/socket"), &[]);
    assert_eq!(absent.status.code(), Some(1));
    let why = text(&absent.stderr);
    assert!(why.starts_with("dunlin: no server answers at /nonexistent/socket: "), "{why}");

    assert_eq!(status(&fine.0, &["-o", "yaml"]).status.code(), Some(2));
    assert_eq!(dunlin(&["top", "--interval", "1"]).output().unwrap().status.code(), Some(2));
}

#[test]
fn status_as_json_is_the_whole_status() {
    let socket = server("json", ZoneState::Behind);
    let output = status(&socket.0, &["-o", "json"]);
    assert_eq!(output.status.code(), Some(1), "JSON or not");
    let told: Status = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((told.zones[0].state, told.threads[0].received), (ZoneState::Behind, 1_000));
}

#[test]
fn top_in_a_pipe_writes_lines_and_ends_with_the_pipe() {
    let socket = server("pipe", ZoneState::Current);
    let mut top = dunlin(&["top", "--interval", "100ms", "--socket", socket.0.to_str().unwrap()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().starts_with("TIME "));
    let line = lines.next().unwrap();
    let rate = line.split_whitespace().nth(1).unwrap().replace(',', "");
    let rate: f64 = rate.parse().unwrap();
    assert!((1.0..=10_001.0).contains(&rate), "1,000 in 100 ms or more: {line}");
    drop(lines);
    assert_eq!(wait::until_exit("top", &mut top).code(), Some(0));
}

#[test]
fn top_as_json_writes_an_object_a_line_and_ends_with_the_pipe() {
    let socket = server("pipe_json", ZoneState::Behind);
    let mut top = dunlin(&["top", "-o", "json", "-i", "100ms"])
        .args(["--socket", socket.0.to_str().unwrap()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines().map(Result::unwrap);
    let look: serde_json::Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
    let rate = look["threads"][0]["received_per_second"].as_f64().unwrap();
    assert!((1.0..=10_001.0).contains(&rate), "1,000 in 100 ms or more: {look}");
    assert_eq!((&look["zones"], &look["zones_not_current"]), (&1.into(), &1.into()), "{look}");
    drop(lines);
    assert_eq!(wait::until_exit("top", &mut top).code(), Some(0));
}

/// Whether script(1) exists. If not, prints so, and panics if nothing may be skipped.
fn terminals_can_be_made() -> bool {
    let made = Command::new("script").arg("--version").stdout(Stdio::null()).status();
    if let Err(why) = &made {
        assert!(std::env::var_os("DUNLIN_REQUIRE_ALL").is_none(), "script: {why}");
        eprintln!("SKIPPED: script is not installed (bsdutils): {why}");
    }
    made.is_ok()
}

/// Runs `dunlin top` on a terminal of script(1) until it has drawn a rate, ends it by `end`, and
/// asserts that the terminal is restored.
fn check_on_a_terminal(test: &str, end: impl FnOnce(&mut Child, &str)) {
    if !terminals_can_be_made() {
        return;
    }
    let socket = server(test, ZoneState::Current);
    // The shell becomes the command, so its process ID is the command's.
    let command = format!(
        "echo PID=$$; stty cols 80 rows 24; exec {} top --interval 100ms --socket {}",
        env!("CARGO_BIN_EXE_dunlin"),
        socket.0.display()
    );
    let mut script = Command::new("script")
        .args(["--quiet", "--return", "--flush", "--command", &command, "/dev/null"])
        .env("TERM", "xterm-256color")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = script.stdout.take().unwrap();
    let mut all = Vec::new();
    let mut some = [0; 4096];
    while !text_of(&all).contains("RECEIVED/s") {
        let len = out.read(&mut some).unwrap();
        assert!(len > 0, "it ended: {}", text_of(&all));
        all.extend_from_slice(&some[..len]);
    }
    let shown = text_of(&all);
    let pid = shown.split("PID=").nth(1).unwrap().lines().next().unwrap().trim().to_owned();
    end(&mut script, &pid);
    out.read_to_end(&mut all).unwrap();
    assert_eq!(wait::until_exit("script", &mut script).code(), Some(0), "{}", text_of(&all));
    assert_restored(&text_of(&all));
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The alternate screen was entered and left.
fn assert_restored(sent: &str) {
    let (_, shown) = sent.split_once("\u{1b}[?1049h").expect("the other screen");
    let (_, after) = shown.split_once("\u{1b}[?1049l").expect("back from it");
    assert!(after.contains("\u{1b}[?25h") || shown.contains("\u{1b}[?25h"), "the cursor shows");
    assert!(!after.contains("RECEIVED/s"), "and nothing is drawn any more: {after:?}");
}

#[test]
fn terminal_is_restored_when_a_key_ends_top() {
    check_on_a_terminal("key", |script, _| {
        script.stdin.take().unwrap().write_all(b"q").unwrap();
    });
}

#[test]
fn terminal_is_restored_when_a_signal_ends_top() {
    check_on_a_terminal("signal", |_, pid| {
        assert!(Command::new("kill").arg(pid).status().unwrap().success());
    });
}

#[test]
fn dumb_terminal_gets_lines() {
    if !terminals_can_be_made() {
        return;
    }
    let socket = server("dumb", ZoneState::Current);
    let top =
        format!("{} top -i 100ms --socket {}", env!("CARGO_BIN_EXE_dunlin"), socket.0.display());
    let mut script = Command::new("script")
        .args(["--quiet", "--flush", "--command", &top, "/dev/null"])
        .env("TERM", "dumb")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(script.stdout.take().unwrap()).lines();
    let lines: Vec<String> = lines.take(3).map(Result::unwrap).collect();
    script.kill().unwrap();
    script.wait().unwrap();
    assert!(lines[0].starts_with("TIME"), "{lines:?}");
    assert!(!lines.concat().contains('\u{1b}'), "{lines:?}");
}
