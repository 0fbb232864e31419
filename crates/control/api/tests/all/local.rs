//! The API at the local socket.
use crate::scene::{PATIENCE, Reply, Scene, receive};
use api::LocalApi;
use serde_json::json;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use tokio::runtime::Builder;

/// Sends a request as a local user.
fn ask(api: &Arc<LocalApi>, method: &str, path: &str, body: &str) -> Reply {
    let (mut near, far) = UnixStream::pair().expect("a pair");
    near.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    far.set_nonblocking(true).expect("a socket");
    let api = Arc::clone(api);
    let server = thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            api.serve(tokio::net::UnixStream::from_std(far).expect("a socket"), 1_000).await;
        });
    });
    let len = body.len();
    write!(
        near,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {len}\r\n\r\n{body}"
    )
    .expect("sent");
    let reply = receive(&mut near).expect("a reply");
    server.join().expect("no panic");
    reply
}

#[test]
fn local_user_manages_credentials() {
    let scene = Scene::new();
    let api = Arc::new(LocalApi::new(scene.api.clone()));
    let body = r#"{"principal":"ci","grants":["read *"],"lifetime_seconds":3600}"#;
    let token = ask(&api, "POST", "/v1/credentials", body).done()["token"].clone();
    let status = |token: &str| scene.ask("GET", "/v1/zones", token, &[], b"").status;
    assert_eq!(status(token.as_str().expect("a token")), 200);
    let listed = ask(&api, "GET", "/v1/credentials", "").done();
    assert_eq!(listed["credentials"][0]["principal"], "ci", "by name: {listed}");
    assert!(!listed.to_string().contains("token_"), "no secrets: {listed}");
    let rotated = ask(&api, "POST", "/v1/credentials/ci/rotate", "").done()["token"].clone();
    assert_eq!(status(token.as_str().expect("a token")), 401, "the old token");
    assert_eq!(status(rotated.as_str().expect("a token")), 200);
    assert_eq!(ask(&api, "DELETE", "/v1/credentials/ci", "").status, 204);
    assert_eq!(status(rotated.as_str().expect("a token")), 401, "revoked");
    ask(&api, "DELETE", "/v1/credentials/ci", "").refused(409);
}

#[test]
fn local_user_writes_without_a_token_and_is_named_in_the_journal() {
    let scene = Scene::new();
    let api = Arc::new(LocalApi::new(scene.api.clone()));
    ask(&api, "PUT", "/v1/zones/local.example", r#"{"nameservers":["ns1.example.net"]}"#).done();
    let journal = ask(&api, "GET", "/v1/zones/local.example/journal", "").done();
    assert_eq!(journal["entries"][0]["by"], "local:1000", "{journal}");
    let accepted = ask(&api, "POST", "/v1/accept", r#"{"zone":"a.test"}"#).done();
    assert_eq!(accepted["accepted"][0]["had"], 40);
    assert_eq!(ask(&api, "POST", "/v1/accept", "{}").done(), json!({ "accepted": [] }));
    let reloaded = ask(&api, "POST", "/v1/reload", "").done();
    assert_eq!(reloaded, json!({ "refused": { "errors": ["dunlin.toml:1:1: no"] } }));
}

#[test]
fn server_without_a_store_says_so() {
    let scene = Scene::new();
    let api = Arc::new(LocalApi::new(api::Api { records: None, ..scene.api.clone() }));
    let reply = ask(&api, "GET", "/v1/zones", "");
    let detail = reply.json()["detail"].to_string();
    reply.refused(404);
    assert!(detail.contains("[store] kind"), "{detail}");
    assert_eq!(ask(&api, "GET", "/v1/status", "").done()["state"], "serving");
}
