//! The interface with friendly, denied and hostile clients.

use crate::common::{Server, ops, rest, split, status, working};
use ops::limits;
use server_status::HeldZone;
use server_status::{CacheStatus, ServerState, ShardStatus, Status};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Instant;
use test_support::wait;

#[test]
fn metrics_have_the_requested_format() {
    let server = Server::start(ops(working()));
    let (code, text) = server.get("/metrics", "");
    assert_eq!(code, 200);
    assert!(text.contains("\n# TYPE dunlin_bursts_total counter\n"), "{text}");
    let open = server
        .send(b"GET /metrics HTTP/1.1\r\nHost: d\r\nAccept: application/openmetrics-text\r\n\r\n");
    assert!(open.contains("content-type: application/openmetrics-text; version=1.0.0"), "{open}");
    assert!(open.ends_with("\n# EOF\n"), "{open}");
    let head = server.send(b"HEAD /metrics HTTP/1.1\r\nHost: d\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn every_reason_to_drop_is_there_from_the_start() {
    let mut never = status(1);
    never.threads.iter_mut().for_each(|thread| thread.dropped.clear());
    let server = Server::start(ops(move || never.clone()));
    let (_, text) = server.get("/metrics", "");
    for reason in packet::DropReason::ALL.map(packet::DropReason::name) {
        for thread in
            ["thread=\"worker-0\",transport=\"udp\"", "thread=\"streams-0\",transport=\"tcp\""]
        {
            let line =
                format!("\ndunlin_messages_dropped_total{{{thread},reason=\"{reason}\"}} 0\n");
            assert!(text.contains(&line), "{line} in {text}");
        }
    }
}

#[test]
fn results_of_shared_cache_misses_are_reported() {
    let mut busy = status(1);
    let homes = ShardStatus { answered: 4, full: 3, late: 2, refused: 1 };
    busy.cache = Some(CacheStatus { homes, crowded: 5, ..CacheStatus::default() });
    let server = Server::start(ops(move || busy.clone()));
    let (_, text) = server.get("/metrics", "");
    assert!(text.contains("\ndunlin_clients_crowded_total 5\n"), "{text}");
    for (result, count) in [("answered", 4), ("full", 3), ("late", 2), ("refused", 1)] {
        let line = format!("\ndunlin_cache_shard_lookups_total{{result=\"{result}\"}} {count}\n");
        assert!(text.contains(&line), "{line} in {text}");
    }
}

#[test]
fn many_zones_make_no_more_series_than_the_limit() {
    let mut many = status(1);
    many.zones = vec![many.zones[0].clone(); limits::ZONE_SERIES_MAX + 7];
    for (index, zone) in many.zones.iter_mut().enumerate() {
        zone.name = format!("{index}.");
    }
    many.held.insert("3.".into(), HeldZone::default());
    let server = Server::start(ops(move || many.clone()));
    let (_, text) = server.get("/metrics", "");
    assert_eq!(text.matches("\ndunlin_zone_serial{").count(), limits::ZONE_SERIES_MAX);
    assert!(text.contains("\ndunlin_zones_without_series 7\n"), "{text}");
    assert!(text.contains("\ndunlin_zones_held 1\n"), "{text}");
    let all = limits::ZONE_SERIES_MAX + 7;
    assert!(text.contains(&format!("\ndunlin_zones{{state=\"current\"}} {all}\n")), "{text}");
}

#[test]
fn health_and_readiness_come_with_a_reason() {
    let ready = Server::start(ops(working()));
    assert_eq!(ready.get("/healthz", ""), (200, "alive\n".into()));
    assert_eq!(ready.get("/readyz?verbose", ""), (200, "ready\n".into()));
    let mut ops = ops(|| Status { state: ServerState::Draining, ..status(1) });
    ops.health = Arc::new(|| Err("the thread control has ended".into()));
    let draining = Server::start(ops);
    assert_eq!(draining.get("/healthz", ""), (503, "the thread control has ended\n".into()));
    assert_eq!(draining.get("/readyz", ""), (503, "draining: the server will stop soon\n".into()));
}

#[test]
fn denied_client_gets_403() {
    let mut ops = ops(working());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    ops.allow = Arc::new(move |address: IpAddr| {
        assert_eq!(address, IpAddr::from([127, 0, 0, 1]));
        // The first three are denied.
        count.fetch_add(1, Ordering::Relaxed) > 2
    });
    let server = Server::start(ops);
    for path in ["/metrics", "/healthz", "/readyz"] {
        let (code, why) = server.get(path, "");
        assert!(code == 403 && why.contains("[acl] metrics"), "{code} {why}");
    }
    let (code, text) = server.get("/metrics", "");
    assert_eq!(code, 200);
    assert!(text.contains("\ndunlin_ops_refused_total{reason=\"denied\"} 3\n"), "{text}");
}

#[test]
fn request_other_than_a_plain_get_is_refused() {
    let server = Server::start(ops(working()));
    assert_eq!(server.get("/", "").0, 404);
    let body = "Content-Length: 3\r\n";
    assert_eq!(server.get("/metrics", body).0, 413);
    assert_eq!(server.get("/metrics", "Transfer-Encoding: chunked\r\n").0, 413);
    let post = server.send(b"POST /metrics HTTP/1.1\r\nHost: d\r\nContent-Length: 0\r\n\r\n");
    assert!(split(&post).0 == 405 && post.contains("allow: GET, HEAD"), "{post}");
    let long = format!("X: {}\r\n", "x".repeat(limits::HEADER_LEN_MAX));
    assert_eq!(server.get("/metrics", &long).0, 431);
    let many = "X: y\r\n".repeat(limits::HEADERS_MAX);
    assert_eq!(server.get("/metrics", &many).0, 431);
    assert_eq!(split(&server.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\r\n\r\n")).0, 400);
    assert_eq!(server.get("/healthz", "").0, 200);
}

/// A web page under a name of its own, which has become a loopback address.
#[test]
fn request_for_a_foreign_host_at_a_loopback_address_is_refused() {
    let server = Server::start(ops(working()));
    let get = |host: &str| {
        split(&server.send(format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()))
    };
    let (code, why) = get("evil.example:9153");
    assert!(code == 421 && why.contains("[ops] hosts"), "{code} {why}");
    for host in ["127.0.0.1:9153", "[::1]", "localhost", "d:9153"] {
        assert_eq!(get(host).0, 200, "{host}");
    }
}

#[test]
fn one_connection_serves_one_request() {
    let server = Server::start(ops(working()));
    let twice = "GET /healthz HTTP/1.1\r\nHost: d\r\n\r\n".repeat(2);
    assert_eq!(server.send(twice.as_bytes()).matches("HTTP/1.1 200").count(), 1);
}

#[test]
fn silent_connections_make_room_and_are_closed_in_time() {
    let server = Server::start(ops(working()));
    let begun = Instant::now();
    let mut silent: Vec<_> = (0..limits::CONNECTIONS_PER_CLIENT_MAX)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ").unwrap();
            stream
        })
        .collect();
    // One more is served, in the place of the connection that was silent for the longest time.
    assert_eq!(server.get("/healthz", "").0, 200);
    assert_eq!(rest(&mut silent.remove(0)), "");
    // Another client is served meanwhile.
    let other = SocketAddr::from(([127, 0, 0, 2], 0));
    assert!(ask_from(other, server.address).starts_with("HTTP/1.1 200"));
    silent.iter_mut().for_each(|stream| assert_eq!(rest(stream), ""));
    assert!(begun.elapsed() >= limits::HEADER_TIME_MAX / 2, "they were cut off for their silence");
    let (code, text) = server.get("/metrics", "");
    assert_eq!(code, 200);
    assert!(text.contains("\ndunlin_ops_refused_total{reason=\"full\"} 0\n"), "{text}");
}

/// Asks for the health from an address of one's own.
fn ask_from(from: SocketAddr, to: SocketAddr) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(from).unwrap();
        socket.connect(to).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: d\r\n\r\n").unwrap();
    rest(&mut stream)
}

/// A server of long metrics, and clients that do not read so many of them that no more may be in
/// progress.
fn server_with_unread_responses() -> (Server, Vec<TcpStream>) {
    let mut many = status(1);
    let name = "x".repeat(500);
    many.threads = vec![server_status::ThreadStatus { name, ..many.threads[0].clone() }; 800];
    let server = Server::start(ops(move || many.clone()));
    let (_, text) = server.get("/metrics", "");
    let fit = limits::RESPONSES_LEN_MAX / text.len();
    assert!((1..limits::CONNECTIONS_PER_CLIENT_MAX).contains(&fit), "{} bytes", text.len());
    // None is sent whole before it is read: no buffer of the kernel is that large.
    let unread = (0..fit)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: d\r\n\r\n").unwrap();
            stream.read_exact(&mut [0]).unwrap();
            stream
        })
        .collect();
    assert_eq!(server.get("/metrics", "").0, 503);
    (server, unread)
}

#[test]
fn client_that_does_not_read_is_disconnected() {
    let (server, mut unread) = server_with_unread_responses();
    wait::until_eq("the code once a client was cut", || server.get("/metrics", "").0, 200);
    let got = rest(&mut unread[0]);
    let head = got.split("\r\n\r\n").next().unwrap();
    let promised: usize =
        head.split("content-length: ").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
    assert!(got.len() < promised, "{} of {promised} came: the buffers took all", got.len());
}

#[test]
fn responses_in_progress_are_bounded_in_bytes() {
    let (server, unread) = server_with_unread_responses();
    assert_eq!(server.get("/readyz", "").0, 200);
    drop(unread);
    wait::until_eq("the code once there is room", || server.get("/metrics", "").0, 200);
}

#[test]
fn hanging_collection_is_reported_and_hangs_once() {
    let barrier = Arc::new(Barrier::new(2));
    let hanging = Arc::clone(&barrier);
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let mut ops = ops(working());
    ops.health = Arc::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
        hanging.wait();
        Ok(())
    });
    let server = Server::start(ops);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let (code, why) = server.get("/healthz", "");
                assert!(code == 503 && why.contains("health took more than"), "{code} {why}");
            });
        }
    });
    assert_eq!(calls.load(Ordering::Relaxed), 1, "the others waited for it");
    assert_eq!(server.get("/readyz", "").0, 200, "nothing else hangs");
    barrier.wait();
}

#[test]
fn hanging_thread_is_a_metric() {
    let mut ops = ops(working());
    let well = Server::start(ops.clone());
    assert!(well.get("/metrics", "").1.contains("\ndunlin_healthy 1\n"));
    ops.health = Arc::new(|| Err("worker-0 has done nothing for 10 s".into()));
    let ill = Server::start(ops);
    assert!(ill.get("/metrics", "").1.contains("\ndunlin_healthy 0\n"));
}

#[test]
fn panic_gives_503() {
    let server = Server::start(ops(|| panic!("a defect")));
    let (code, why) = server.get("/metrics", "");
    assert!(code == 503 && why.contains("panicked"), "{code} {why}");
    assert_eq!(server.get("/healthz", "").0, 200);
}

#[test]
fn stopping_waits_for_nobody_silent() {
    let mut server = Server::start(ops(working()));
    let mut silent = server.connect();
    silent.write_all(b"GET").unwrap();
    assert_eq!(server.get("/healthz", "").0, 200);
    server.stop();
    assert_eq!(rest(&mut silent), "");
}
