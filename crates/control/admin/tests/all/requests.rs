//! Well-behaved and other clients.
use crate::common::{Running, http, said};
use admin::Endpoint;
use admin::limits::{CLIENTS_MAX, REQUEST_LEN_MAX};
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use test_support::wait;

/// Why a hot restart fails.
fn restart(path: &Path) -> String {
    admin::request_restart(path, "0.1.0").expect_err("refused").to_string()
}

#[test]
fn http_is_passed_on_with_the_user() {
    let running = Running::start("http", 1, Vec::new());
    let response = http(&running.path).expect("a response");
    let uid = rustix::process::geteuid().as_raw();
    assert!(response.ends_with(&format!("\r\n\r\n{uid} serving")), "{response}");
}

#[test]
fn invalid_requests_are_refused_and_harmless() {
    let running = Running::start("nonsense", 1, Vec::new());
    let long = vec![b'{'; REQUEST_LEN_MAX * 4];
    for (bytes, word) in [
        (&b"{\n"[..], "not a request"),
        (b"{\xff\xfe\x00\n", "not a request"),
        (b"{\"protocol\":1,\"says\":\"dance\"}\n", "not a request"),
        (b"{\"protocol\":1,\"says\":\"serving\"}\n", "there was no hot restart"),
        (b"{\"protocol\":1,\"says\":\"status\"}\n", "not a request"),
        (b"{\"protocol\":9,\"says\":\"dance\"}\n", "version 9"),
        (&long, "at most"),
    ] {
        let said = said(&running.path, bytes).expect("a reply");
        assert!(said.contains("refused") && said.contains(word), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert!(running.is_intact());
}

#[test]
fn silent_client_gets_an_error_after_a_while() {
    let running = Running::start("silent", 1, Vec::new());
    let (began, said) = (Instant::now(), said(&running.path, b"{\"protocol\":1"));
    let said = said.expect("a reply");
    assert!(said.contains("in time"), "{said}");
    assert!(began.elapsed() >= Duration::from_secs(4), "{:?}", began.elapsed());
}

#[test]
fn clients_above_the_limit_are_refused() {
    let running = Running::start("many", 1, Vec::new());
    let idle: Vec<_> =
        (0..CLIENTS_MAX).map(|_| UnixStream::connect(&running.path).expect("a server")).collect();
    let message = http(&running.path).expect("a response");
    assert!(message.starts_with("HTTP/1.1 503") && message.contains("try again"), "{message}");
    let message = restart(&running.path);
    assert!(message.contains("try again"), "{message}");
    drop(idle);
    wait::until_value(
        "there is room again",
        || http(&running.path).expect("a response"),
        |response| response.contains("serving"),
    );
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
    let message = restart(&path);
    assert!(message.contains("is dunlin running?"), "{message}");
    drop(UnixListener::bind(&path).expect("a socket"));
    let message = restart(&path);
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
            let mut request = [0; 512];
            assert!(stream.read(&mut request).expect("a request") > 0);
            stream.write_all(line).expect("it listens");
        });
        let message = restart(&path);
        assert!(message.contains(word), "{message}");
        other.join().expect("no panic");
        fs::remove_file(path).expect("ours");
    }
}

/// Run as another user by `a_stranger_is_refused`.
#[test]
#[ignore = "part: another test starts it as a process"]
fn stranger() {
    let path = std::env::var_os("DUNLIN_TEST_SOCKET").map(PathBuf::from).expect("a path");
    println!("message: {}", restart(&path));
    println!("response: {}", http(&path).unwrap_or_default());
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
        assert!(!message.contains("200 OK"), "{message}");
    }
    assert!(running.is_intact());
}
