//! Probes against real servers, also hostile ones.
mod kinds;

use health::{Check, CheckKind, Failure, HttpCheck, Passed, Probes, TlsCheck};
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_millis(600);

fn http() -> HttpCheck {
    HttpCheck {
        path: "/healthz".into(),
        host: String::new(),
        status: vec![200..=299],
        body: String::new(),
        tls: None,
    }
}

fn check(port: u16, kind: CheckKind) -> Check {
    Check {
        name: "web".into(),
        kind,
        port,
        interval: Duration::from_secs(1),
        timeout: TIMEOUT,
        rise: 2,
        fall: 3,
        jitter: 10,
    }
}

/// Probes a port of loopback once.
fn probe(port: u16, kind: CheckKind) -> Result<Passed, String> {
    probe_at(Ipv4Addr::LOCALHOST.into(), port, kind).map_err(|failure| match failure {
        Failure::Failed(why) => why,
        Failure::NotMade(why) => format!("not made: {why}"),
    })
}

/// The number of a user, which is that of its group.
fn find_user(user: &str) -> Result<(u32, u32), String> {
    user.parse().map(|number| (number, number)).map_err(|_| "there is no such user".into())
}

fn probe_at(address: IpAddr, port: u16, kind: CheckKind) -> Result<Passed, Failure> {
    let check = check(port, kind);
    let probes = Probes::new([&check], find_user).map_err(Failure::NotMade)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let start = Instant::now();
    let result = runtime.block_on(probes.probe(&check, address));
    assert!(start.elapsed() < TIMEOUT + Duration::from_secs(2), "its deadline is kept");
    result
}

/// A server that handles each connection with this function.
fn serve(handle: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let handle = Arc::new(handle);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let handle = Arc::clone(&handle);
            thread::spawn(move || handle(stream));
        }
    });
    port
}

/// Reads a request, and answers with this text.
fn answer(mut stream: TcpStream, text: &[u8]) -> String {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|len| len > 0) {
        request.push(byte[0]);
    }
    let _ = stream.write_all(text);
    String::from_utf8_lossy(&request).into_owned()
}

fn fails(port: u16, kind: CheckKind, reason: &str) {
    let why = probe(port, kind).expect_err("it fails");
    assert!(why.contains(reason), "{why:?} does not mention {reason:?}");
}

#[test]
fn open_port_passes_and_closed_port_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    assert!(probe(port, CheckKind::Tcp).is_ok());
    drop(listener);
    fails(port, CheckKind::Tcp, "refused");
}

#[test]
fn http_status_decides() {
    for (status, passes) in [("200 OK", true), ("204 No Content", true), ("500 Error", false)] {
        let text = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        let port = serve(move |stream| drop(answer(stream, text.as_bytes())));
        assert_eq!(probe(port, CheckKind::Http(http())).is_ok(), passes, "{status}");
    }
}

#[test]
fn request_has_the_path_and_the_host_of_the_check() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let port = serve(move |stream| {
        let request = answer(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        sender.lock().unwrap().send(request).unwrap();
    });
    let of_host = HttpCheck { host: "www.example.org".into(), path: "/up?x=1".into(), ..http() };
    probe(port, CheckKind::Http(of_host)).unwrap();
    let request = receiver.recv().unwrap().to_ascii_lowercase();
    assert!(request.starts_with("get /up?x=1 http/1.1\r\n"), "{request}");
    assert!(request.contains("host: www.example.org\r\n"), "{request}");
}

#[test]
fn body_has_to_contain_the_text() {
    let of = |body: &str| CheckKind::Http(HttpCheck { body: body.into(), ..http() });
    let port = serve(|stream| {
        drop(answer(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\nstatus: alive\n"));
    });
    assert!(probe(port, of("alive")).is_ok());
    fails(port, of("dead"), "do not contain");
}

#[test]
fn redirects_are_not_followed() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let port = serve(move |stream| {
        counted.fetch_add(1, Ordering::Relaxed);
        let port = stream.local_addr().unwrap().port();
        let text = format!(
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{port}/\r\nContent-Length: 0\r\n\r\n"
        );
        drop(answer(stream, text.as_bytes()));
    });
    fails(port, CheckKind::Http(http()), "status 302");
    assert_eq!(requests.load(Ordering::Relaxed), 1);
}

#[test]
fn silent_server_fails_at_the_deadline() {
    // It accepts, as the backlog of a stopped process does, and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    assert!(probe(port, CheckKind::Tcp).is_ok(), "the kernel opens the connection");
    fails(port, CheckKind::Http(http()), "no result within 600 ms");
}

#[test]
fn slow_header_fails_at_the_deadline() {
    let port = serve(|mut stream| {
        for byte in b"HTTP/1.1 200 OK\r\nX: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".iter().cycle()
        {
            if stream.write_all(&[*byte]).is_err() {
                break;
            }
            thread::sleep(Duration::from_millis(30));
        }
    });
    fails(port, CheckKind::Http(http()), "no result within");
}

#[test]
fn endless_head_and_endless_body_are_cut() {
    let port = serve(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while stream.write_all(b"X: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n").is_ok() {}
    });
    fails(port, CheckKind::Http(http()), "HTTP");
    let port = serve(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'a'; 4096]).is_ok() {}
    });
    let wanted = HttpCheck { body: "never".into(), ..http() };
    fails(port, CheckKind::Http(wanted), "the first 65536 bytes");
    assert_eq!(probe(port, CheckKind::Http(http())), Ok(Passed::default()), "any body will do");
}

#[test]
fn garbage_and_resets_fail() {
    let port = serve(|stream| drop(answer(stream, &[0xff; 64])));
    fails(port, CheckKind::Http(http()), "HTTP");
    let port = serve(drop);
    fails(port, CheckKind::Http(http()), "HTTP");
    let tls = HttpCheck { tls: Some(TlsCheck::default()), ..http() };
    let port = serve(|mut stream| {
        let _ = stream.write_all(&[0x16, 3, 1, 0xff, 0xff, 0, 0]);
        let _ = stream.read(&mut [0; 4096]);
    });
    fails(port, CheckKind::Http(tls.clone()), "TLS");
    let port = serve(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        let _ = stream.read(&mut [0; 4096]);
    });
    fails(port, CheckKind::Http(tls), "TLS");
}

/// A server with a certificate for this name; returns its port and the PEM of its CA.
fn serve_tls(name: &str) -> (u16, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, key).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &ca).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.serialize_der().try_into().unwrap())
        .unwrap();
    let config = Arc::new(config);
    let port = serve(move |mut stream| {
        let mut session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = rustls::Stream::new(&mut session, &mut stream);
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
    (port, ca.pem())
}

#[test]
fn certificate_is_verified_against_the_ca_and_the_name() {
    let (port, ca) = serve_tls("www.example.org");
    let file = std::env::temp_dir().join(format!("dunlin-health-ca-{}.pem", std::process::id()));
    std::fs::write(&file, ca).unwrap();
    let of = |sni: &str, ca| {
        let tls = TlsCheck { sni: sni.into(), ca, ..TlsCheck::default() };
        CheckKind::Http(HttpCheck { tls: Some(tls), ..http() })
    };
    let passed = probe(port, of("www.example.org", Some(file.clone()))).expect("it passes");
    // 1 January 4096: what the certificate says.
    assert_eq!(passed.certificate_end, Some(Duration::from_secs(67_090_118_400)));
    fails(port, of("other.example.org", Some(file.clone())), "TLS");
    fails(port, of("www.example.org", None), "TLS");
    std::fs::write(&file, "nothing").unwrap();
    fails(port, of("www.example.org", Some(file.clone())), "no certificate");
    std::fs::remove_file(file).unwrap();
}
