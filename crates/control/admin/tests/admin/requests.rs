//! Well-behaved and other clients.
use crate::common::{PATIENCE, Running};
use admin::limits::{CLIENTS_MAX, REQUEST_LEN_MAX};
use admin::{Client, CommandOutcome, Endpoint, FlushScope, ReloadOutcome, ZoneChange};
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// The server's reply to these bytes, until it closes.
fn said(path: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(path).expect("a server");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    // It may have refused before everything was sent.
    let _ = stream.write_all(bytes);
    let mut said = Vec::new();
    // It may close with unread input, which is an error after its reply.
    let _ = stream.read_to_end(&mut said);
    String::from_utf8(said).expect("UTF-8")
}

fn status(path: &Path) -> Result<zone_manager::status::Status, String> {
    Client::connect(path).and_then(Client::status).map_err(|error| error.to_string())
}

#[test]
fn status_and_reload() {
    let running = Running::start("asked", 1, Vec::new());
    assert_eq!(status(&running.path).expect("a status").pid, std::process::id());
    let reloaded = Client::connect(&running.path).expect("a server").reload();
    let ReloadOutcome::Applied { changed, zones, restart_needed } = reloaded.expect("an outcome")
    else {
        panic!("it was not refused")
    };
    assert_eq!(
        (&*changed, &*restart_needed),
        (&["log.level".into()][..], &["server.workers".into()][..])
    );
    assert_eq!(zones, [ZoneChange::Added { zone: "a.".into() }]);
}

#[test]
fn a_command_is_done_or_refused() {
    let running = Running::start("command", 1, Vec::new());
    let command = |command| {
        let done = Client::connect(&running.path).expect("a server").command(command);
        done.map_err(|error| error.to_string())
    };
    let done = command(admin::Command::Drain { server: "192.0.2.1:53".into(), drained: true });
    assert_eq!(done, Ok(CommandOutcome::Drained(vec!["192.0.2.1:53".into()])));
    let message = command(admin::Command::Flush(FlushScope::All)).expect_err("refused");
    assert!(message.contains("refused: not for Flush(All)"), "{message}");
    let token = |principal: &str| {
        let request = admin::TokenRequest::Revoke { principal: principal.into() };
        Client::connect(&running.path).expect("a server").token(request)
    };
    assert_eq!(token("ci").expect("done"), admin::TokenOutcome::Revoked);
    assert!(token("cd").expect_err("refused").to_string().contains("not for Revoke"));
    let accept = |zone: Option<&str>| {
        let accepted =
            Client::connect(&running.path).expect("a server").accept(zone.map(Into::into));
        accepted.map_err(|error| error.to_string())
    };
    let accepted = accept(Some("a.test")).expect("done");
    assert_eq!(
        (accepted[0].zone.as_str(), accepted[0].had, accepted[0].has),
        ("a.test", 2_000, 12)
    );
    assert!(accept(None).expect_err("refused").contains("not for all"));
    // A request that is too long is an error, and the server continues.
    let message = command(admin::Command::Flush(FlushScope::Name("a".repeat(REQUEST_LEN_MAX))));
    assert!(message.expect_err("refused").contains("at most"));
    assert!(running.is_intact());
}

#[test]
fn invalid_requests_are_refused_and_harmless() {
    let running = Running::start("nonsense", 1, Vec::new());
    let long = vec![b'x'; REQUEST_LEN_MAX * 4];
    for (bytes, word) in [
        (&b"\n"[..], "not a request"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", "not a request"),
        (b"\xff\xfe\x00\n", "not a request"),
        (b"{\"protocol\":1,\"says\":\"dance\"}\n", "not a request"),
        (b"{\"protocol\":1,\"says\":\"serving\"}\n", "there was no hot restart"),
        (b"{\"protocol\":1,\"says\":{\"command\":{\"flush\":7}}}\n", "not a request"),
        (b"{\"protocol\":1,\"says\":{\"command\":\"dance\"}}\n", "not a request"),
        (b"{\"protocol\":9,\"says\":\"dance\"}\n", "version 9"),
        (&long, "at most"),
    ] {
        let said = said(&running.path, bytes);
        assert!(said.contains("refused") && said.contains(word), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert!(running.is_intact());
}

#[test]
fn silent_client_gets_an_error_after_a_while() {
    let running = Running::start("silent", 1, Vec::new());
    let (began, said) = (Instant::now(), said(&running.path, b"{\"protocol\":1"));
    assert!(said.contains("in time"), "{said}");
    assert!(began.elapsed() >= Duration::from_secs(4), "{:?}", began.elapsed());
}

#[test]
fn clients_above_the_limit_are_refused() {
    let running = Running::start("many", 1, Vec::new());
    let idle: Vec<_> =
        (0..CLIENTS_MAX).map(|_| UnixStream::connect(&running.path).expect("a server")).collect();
    let message = status(&running.path).expect_err("there is no room");
    assert!(message.contains("try again"), "{message}");
    drop(idle);
    let until = Instant::now() + PATIENCE;
    while status(&running.path).is_err() {
        assert!(Instant::now() < until, "there is room again");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn second_server_error_names_the_first() {
    let running = Running::start("second", 1, Vec::new());
    let message = Endpoint::bind(&running.path, None).expect_err("it is taken").to_string();
    assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
    assert!(running.is_intact());
}

#[test]
fn missing_server_is_an_error_with_advice() {
    let path = std::env::temp_dir().join(format!("dunlin-no-server-{}", std::process::id()));
    let message = status(&path).expect_err("no server");
    assert!(message.contains("is dunlin running?"), "{message}");
    drop(UnixListener::bind(&path).expect("a socket"));
    let message = status(&path).expect_err("no server");
    assert!(message.contains("is dunlin running?"), "{message}");
    fs::remove_file(path).expect("ours");
}

#[test]
fn server_with_another_protocol_is_an_error() {
    for (line, word) in [
        (&b"{\"protocol\":7,\"says\":\"hello\"}\n"[..], "version 7"),
        (b"220 mail.example ESMTP\r\n", "does not speak dunlin"),
        (b"{\"protocol\":1,\"says\":\"done\"}\n", "unexpected reply"),
        (b"{\"protocol\":1,\"says\":", "hung up"),
    ] {
        let path = std::env::temp_dir().join(format!("dunlin-other-{}", std::process::id()));
        let listener = UnixListener::bind(&path).expect("a socket");
        let other = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut request = [0; 64];
            assert!(stream.read(&mut request).expect("a request") > 0);
            stream.write_all(line).expect("it listens");
        });
        let message = status(&path).expect_err("no status");
        assert!(message.contains(word), "{message}");
        other.join().expect("no panic");
        fs::remove_file(path).expect("ours");
    }
}

/// Run as another user by `a_stranger_is_refused`.
#[test]
#[ignore = "a part of another test"]
fn stranger() {
    let path = std::env::var_os("DUNLIN_TEST_SOCKET").map(PathBuf::from).expect("a path");
    println!("message: {}", status(&path).expect_err("not for strangers"));
}

#[test]
fn a_stranger_is_refused() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("DUNLIN_REQUIRE_ALL").is_none(), "it takes root");
        eprintln!("SKIPPED: becoming another user takes root");
        return;
    }
    let running = Running::start("stranger", 1, Vec::new());
    // Other users may not be able to reach the test's own file.
    let program = running.path.with_file_name("stranger");
    fs::copy(std::env::current_exe().expect("this test"), &program).expect("a copy");
    for (mode, word) in [(0o660, "permission denied"), (0o666, "may use this socket")] {
        fs::set_permissions(&running.path, Permissions::from_mode(mode)).expect("ours");
        let output = Command::new(&program)
            .args(["--exact", "requests::stranger", "--ignored", "--nocapture"])
            .env("DUNLIN_TEST_SOCKET", &running.path)
            .current_dir("/")
            .uid(65_534)
            .gid(65_534)
            .output()
            .expect("it runs");
        let message = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && message.contains(word), "{output:?}");
    }
    assert!(running.is_intact());
}
