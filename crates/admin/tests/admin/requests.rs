//! The socket as its clients meet it: those who ask properly, and all others.
use crate::common::{PATIENCE, Running};
use admin::limits::{CLIENTS_MAX, REQUEST_LEN_MAX};
use admin::{Client, Endpoint, Outcome, Reloaded, Scope, ZoneChange};
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// What the server says to these octets, until it closes.
fn said(path: &Path, octets: &[u8]) -> String {
    let mut stream = UnixStream::connect(path).expect("a server");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    // It may have refused before all was sent.
    let _ = stream.write_all(octets);
    let mut said = Vec::new();
    // It may close with some of it unread, which is an error here, behind what it said.
    let _ = stream.read_to_end(&mut said);
    String::from_utf8(said).expect("UTF-8")
}

fn status(path: &Path) -> Result<control::status::Status, String> {
    Client::connect(path).and_then(Client::status).map_err(|error| error.to_string())
}

#[test]
fn status_and_reload() {
    let running = Running::start("asked", 1, Vec::new());
    assert_eq!(status(&running.path).expect("a status").pid, std::process::id());
    let reloaded = Client::connect(&running.path).expect("a server").reload();
    let Reloaded::Taken { changed, zones, restart_needed } = reloaded.expect("an outcome") else {
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
    assert_eq!(done, Ok(Outcome::Drained(vec!["192.0.2.1:53".into()])));
    let told = command(admin::Command::Flush(Scope::All)).expect_err("refused");
    assert!(told.contains("refused: not for Flush(All)"), "{told}");
    let token = |principal: &str| {
        let request = admin::TokenRequest::Revoke { principal: principal.into() };
        Client::connect(&running.path).expect("a server").token(request)
    };
    assert_eq!(token("ci").expect("done"), admin::TokenDone::Revoked);
    assert!(token("cd").expect_err("refused").to_string().contains("not for Revoke"));
    // What does not fit into a request is told, and the server goes on.
    let told = command(admin::Command::Flush(Scope::Name("a".repeat(REQUEST_LEN_MAX))));
    assert!(told.expect_err("refused").contains("octets at most"));
    assert!(running.is_intact());
}

#[test]
fn who_says_nonsense_is_told_and_harms_nobody() {
    let running = Running::start("nonsense", 1, Vec::new());
    let long = vec![b'x'; REQUEST_LEN_MAX * 4];
    for (octets, word) in [
        (&b"\n"[..], "not a request"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", "not a request"),
        (b"\xff\xfe\x00\n", "not a request"),
        (b"{\"protocol\":1,\"says\":\"dance\"}\n", "not a request"),
        (b"{\"protocol\":1,\"says\":\"serving\"}\n", "nothing was taken over"),
        (b"{\"protocol\":1,\"says\":{\"command\":{\"flush\":7}}}\n", "not a request"),
        (b"{\"protocol\":1,\"says\":{\"command\":\"dance\"}}\n", "not a request"),
        (b"{\"protocol\":9,\"says\":\"dance\"}\n", "version 9"),
        (&long, "octets at most"),
    ] {
        let said = said(&running.path, octets);
        assert!(said.contains("refused") && said.contains(word), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert!(running.is_intact());
}

#[test]
fn who_says_nothing_is_told_after_a_while() {
    let running = Running::start("silent", 1, Vec::new());
    let (began, said) = (Instant::now(), said(&running.path, b"{\"protocol\":1"));
    assert!(said.contains("in time"), "{said}");
    assert!(began.elapsed() >= Duration::from_secs(4), "{:?}", began.elapsed());
}

#[test]
fn too_many_at_once_are_told() {
    let running = Running::start("many", 1, Vec::new());
    let idle: Vec<_> =
        (0..CLIENTS_MAX).map(|_| UnixStream::connect(&running.path).expect("a server")).collect();
    let told = status(&running.path).expect_err("there is no room");
    assert!(told.contains("try again"), "{told}");
    drop(idle);
    let until = Instant::now() + PATIENCE;
    while status(&running.path).is_err() {
        assert!(Instant::now() < until, "there is room again");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_second_server_is_told_which_one_is_there() {
    let running = Running::start("second", 1, Vec::new());
    let told = Endpoint::bind(&running.path, None).expect_err("it is taken").to_string();
    assert!(told.contains(&format!("process {}", std::process::id())), "{told}");
    assert!(running.is_intact());
}

#[test]
fn nobody_there_says_what_to_do() {
    let path = std::env::temp_dir().join(format!("dunlin-nobody-{}", std::process::id()));
    let told = status(&path).expect_err("nobody");
    assert!(told.contains("is dunlin running?"), "{told}");
    drop(UnixListener::bind(&path).expect("a socket"));
    let told = status(&path).expect_err("nobody");
    assert!(told.contains("is dunlin running?"), "{told}");
    fs::remove_file(path).expect("ours");
}

#[test]
fn a_server_that_speaks_otherwise_is_told_apart() {
    for (line, word) in [
        (&b"{\"protocol\":7,\"says\":\"hello\"}\n"[..], "version 7"),
        (b"220 mail.example ESMTP\r\n", "does not speak as dunlin does"),
        (b"{\"protocol\":1,\"says\":\"done\"}\n", "not asked for"),
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
        let told = status(&path).expect_err("no status");
        assert!(told.contains(word), "{told}");
        other.join().expect("no panic");
        fs::remove_file(path).expect("ours");
    }
}

/// Run as another user by `a_stranger_is_refused`.
#[test]
#[ignore = "a part of another test"]
fn stranger() {
    let path = std::env::var_os("DUNLIN_TEST_SOCKET").map(PathBuf::from).expect("a path");
    println!("told: {}", status(&path).expect_err("not for strangers"));
}

#[test]
fn a_stranger_is_refused() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("DUNLIN_REQUIRE_ALL").is_none(), "it takes root");
        eprintln!("SKIPPED: becoming another user takes root");
        return;
    }
    let running = Running::start("stranger", 1, Vec::new());
    // The test's own file may be where others cannot reach it.
    let program = running.path.with_file_name("stranger");
    fs::copy(std::env::current_exe().expect("this test"), &program).expect("a copy");
    for (mode, word) in [(0o660, "permission denied"), (0o666, "are listened to")] {
        fs::set_permissions(&running.path, Permissions::from_mode(mode)).expect("ours");
        let output = Command::new(&program)
            .args(["--exact", "requests::stranger", "--ignored", "--nocapture"])
            .env("DUNLIN_TEST_SOCKET", &running.path)
            .current_dir("/")
            .uid(65_534)
            .gid(65_534)
            .output()
            .expect("it runs");
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && told.contains(word), "{output:?}");
    }
    assert!(running.is_intact());
}
