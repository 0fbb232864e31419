//! Against a server that refuses, is silent, and then takes requests.
use super::*;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn secret(test: &str, text: &str) -> PathBuf {
    let file = std::env::temp_dir().join(format!("dunlin-hook-{test}-{}", std::process::id()));
    std::fs::write(&file, text).expect("a file");
    file
}

fn event(number: u32) -> Event {
    Event {
        check: "web".into(),
        address: IpAddr::from((0x0a00_0000 + number).to_be_bytes()),
        before: "up",
        state: "down",
        reason: "connection refused".into(),
        since_seconds: 5,
    }
}

/// Reads a request: its signature and its body.
fn request(stream: &TcpStream) -> (String, String) {
    let mut reader = BufReader::new(stream);
    let (mut len, mut signature) = (0, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        let Some((name, value)) = line.trim().split_once(": ") else {
            if line == "\r\n" {
                break;
            }
            continue;
        };
        match &*name.to_ascii_lowercase() {
            "content-length" => len = value.parse().expect("a length"),
            "dunlin-signature" => signature = value.to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; len];
    reader.read_exact(&mut body).expect("the body");
    (signature, String::from_utf8(body).expect("UTF-8"))
}

#[test]
fn refused_request_is_sent_again_and_its_signature_is_right() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://127.0.0.1:{}/hook?x=1", listener.local_addr().unwrap().port());
    let file = secret("retry", &format!("{SECRET}\n"));
    let counters = Arc::<HealthCounters>::default();
    let (webhook, sender) = new(&WebhookSettings { url, secret: file.clone() }, &counters).unwrap();
    std::fs::remove_file(file).unwrap();
    for number in 1..=3 {
        webhook.put(event(number));
    }
    drop(webhook);
    let server = std::thread::spawn(move || {
        let mut bodies = Vec::new();
        for status in ["500 Not now", "302 Found\r\nLocation: http://127.0.0.1:1/", "204 Thanks"] {
            let (mut stream, _) = listener.accept().unwrap();
            let (signature, body) = request(&stream);
            let (time, mac) = signature.split_once(",v1=").expect("both parts");
            let signed = format!("{}.{body}", time.strip_prefix("t=").expect("a time"));
            let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
            let mac: Vec<u8> = (0..mac.len() / 2)
                .map(|at| u8::from_str_radix(&mac[2 * at..][..2], 16).expect("hex"))
                .collect();
            hmac::verify(&key, signed.as_bytes(), &mac).expect("the signature");
            assert!(hmac::verify(&key, format!("{signed} ").as_bytes(), &mac).is_err());
            bodies.push(body);
            let response = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(response.as_bytes()).unwrap();
        }
        bodies
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(sender.run());
    let bodies = server.join().expect("the assertions hold");
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
    let body: serde_json::Value = serde_json::from_str(&bodies[0]).expect("JSON");
    assert_eq!(body["transitions"].as_array().map(Vec::len), Some(3));
    assert_eq!(body["transitions"][0]["address"], "10.0.0.1");
    assert_eq!(counters.webhook_sent.load(Relaxed), 3);
}

#[test]
fn silent_receiver_fills_a_bounded_queue_and_delays_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let file = secret("silent", SECRET);
    let counters = Arc::<HealthCounters>::default();
    let (webhook, sender) = new(&WebhookSettings { url, secret: file.clone() }, &counters).unwrap();
    std::fs::remove_file(file).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let start = Instant::now();
    runtime.block_on(async {
        let sending = tokio::spawn(sender.run());
        for number in 0..10 * WEBHOOK_QUEUE_MAX as u32 {
            webhook.put(event(number));
            if number.is_multiple_of(100) {
                tokio::task::yield_now().await;
            }
        }
        assert!(!sending.is_finished());
        sending.abort();
    });
    assert!(start.elapsed() < WEBHOOK_TIMEOUT, "put waits for no response");
    let dropped = counters.webhook_dropped.load(Relaxed);
    let most = (WEBHOOK_QUEUE_MAX + WEBHOOK_BATCH_MAX) as u64;
    assert!(dropped >= 10 * WEBHOOK_QUEUE_MAX as u64 - most, "{dropped}");
}

#[test]
fn wrong_url_and_short_secret_are_refused_without_showing_the_secret() {
    let file = secret("short", "short-secret");
    let told = |url: &str, secret: &Path| {
        let settings = WebhookSettings { url: url.into(), secret: secret.to_owned() };
        new(&settings, &Arc::default()).err().expect("it is refused")
    };
    let why = told("http://127.0.0.1", &file);
    assert!(why.contains("16 to 1024 bytes") && !why.contains("short-secret"), "{why}");
    assert!(told("http://127.0.0.1", Path::new("/no/such")).contains("/no/such"));
    for url in ["ftp://x", "/path", "http://", "nothing at all"] {
        assert!(told(url, &file).contains("webhook"), "{url}");
    }
    std::fs::remove_file(file).unwrap();
}
