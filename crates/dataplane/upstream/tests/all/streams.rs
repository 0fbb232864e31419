//! Servers that answer over streams, and what they may do there.

use crate::client_thread::{ClientThread, FakeServer, answer, answered, closed_address, failed};
use crate::stream_server::{Authority, CertificateOptions, End, StreamServer, plain};
use std::io::Read;
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};
use test_support::wait;
use upstream::limits::{CONNECTIONS_PER_SERVER, QUERIES_BUSY};
use upstream::{QueryTransport, StatusView, TlsFault, UpstreamAddress};

const PATIENCE: Duration = Duration::from_secs(8);

/// Answers one query after the other.
fn answer_all(end: &mut End) {
    while let Some(query) = end.next_query() {
        end.send(&reply(&query));
    }
}

/// An answer to a query, whatever its OPT holds.
fn reply(query: &[u8]) -> Vec<u8> {
    answer(&plain(query), 60, 1)
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("name-{n}.example.net.")).collect()
}

fn query(thread: &mut ClientThread, names: &[String]) -> usize {
    let got = thread.query(names, PATIENCE);
    assert_eq!(got.len(), names.len(), "every client gets an answer");
    got.iter().filter(|got| **got == answered(1)).count()
}

fn fault(thread: &ClientThread) -> TlsFault {
    StatusView::server([&thread.upstream_client.view()], 0).fault
}

fn over_tcp(server: &StreamServer) -> ClientThread {
    ClientThread::over(vec![server.tcp()], None)
}

#[test]
fn many_queries_share_a_connection() {
    let server = StreamServer::start(answer_all);
    let mut thread = over_tcp(&server);
    assert_eq!(query(&mut thread, &names(QUERIES_BUSY)), QUERIES_BUSY);
    assert_eq!(thread.query_one("www.example.net."), answered(1));
    assert_eq!(server.opened(), 1);
    let reported = StatusView::server([&thread.upstream_client.view()], 0);
    assert_eq!((reported.connections, reported.opened, reported.fault), (1, 1, TlsFault::None));
}

#[test]
fn replies_come_in_any_order() {
    let server = StreamServer::start(|end| {
        let queries: Vec<_> = (0..20).filter_map(|_| end.next_query()).collect();
        let mut ids: Vec<_> = queries.iter().map(|query| query[..2].to_vec()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 20, "each has an id of its own");
        queries.iter().rev().for_each(|query| end.send(&reply(query)));
        end.wait();
    });
    assert_eq!(query(&mut over_tcp(&server), &names(20)), 20);
}

/// Replies may also come in pieces, or several at once.
#[test]
fn messages_end_where_their_lengths_say() {
    let server = StreamServer::start(|end| {
        let mut bytes = Vec::new();
        for _ in 0..10 {
            let message = reply(&end.next_query().unwrap());
            bytes.extend((message.len() as u16).to_be_bytes());
            bytes.extend(message);
        }
        for piece in bytes.chunks(37) {
            end.send_raw(piece);
            thread::sleep(Duration::from_millis(1));
        }
        end.wait();
    });
    assert_eq!(query(&mut over_tcp(&server), &names(10)), 10);
}

/// Slow answers on one connection have another opened, up to a few.
#[test]
fn second_connection_opens_when_the_first_is_busy() {
    let server = StreamServer::start(|end| {
        while let Some(query) = end.next_query() {
            thread::sleep(Duration::from_millis(1));
            end.send(&reply(&query));
        }
    });
    let mut thread = over_tcp(&server);
    for round in 0..8 {
        let names: Vec<_> = names(200).iter().map(|name| format!("round-{round}.{name}")).collect();
        assert_eq!(query(&mut thread, &names), 200);
    }
    let opened = server.opened();
    assert!((2..=CONNECTIONS_PER_SERVER).contains(&opened), "{opened}");
}

/// RFC 7766 §6.2.4: unanswered queries are sent again.
#[test]
fn queries_of_a_closed_connection_are_sent_again() {
    let server = StreamServer::start(|end| {
        for _ in 0..3 {
            let Some(query) = end.next_query() else { return };
            end.send(&reply(&query));
        }
    });
    let mut thread = over_tcp(&server);
    for round in 0..10 {
        let names: Vec<_> = names(6).iter().map(|name| format!("round-{round}.{name}")).collect();
        assert_eq!(query(&mut thread, &names), 6, "round {round}");
    }
    assert_eq!(fault(&thread), TlsFault::None, "it may do so");
}

/// Each fault of a server alone, and beside one that answers.
fn check_fault(act: fn(&mut End), reported_fault: TlsFault) {
    let (bad, good) = (StreamServer::start(act), StreamServer::start(answer_all));
    let mut thread = over_tcp(&bad);
    assert_eq!(thread.query_one("www.example.net."), failed(22), "{reported_fault:?}");
    assert_eq!(fault(&thread), reported_fault);
    let mut thread = ClientThread::over(vec![bad.tcp(), good.tcp()], None);
    assert_eq!(query(&mut thread, &names(20)), 20);
}

#[test]
fn close_before_an_answer_is_a_failure() {
    check_fault(|end| drop(end.next_query()), TlsFault::Closed);
}

#[test]
fn close_inside_an_answer_is_a_failure() {
    let act = |end: &mut End| {
        if let Some(query) = end.next_query() {
            let message = reply(&query);
            end.send_raw(&(message.len() as u16).to_be_bytes());
            end.send_raw(&message[..message.len() / 2]);
        }
    };
    check_fault(act, TlsFault::Closed);
}

#[test]
fn reply_without_a_query_is_a_failure() {
    let act = |end: &mut End| {
        if let Some(query) = end.next_query() {
            let mut message = reply(&query);
            message[0] ^= 0x55;
            end.send(&message);
            end.wait();
        }
    };
    check_fault(act, TlsFault::Nonsense);
}

#[test]
fn reply_to_another_query_is_a_failure() {
    let server = StreamServer::start(|end| {
        while let Some(query) = end.next_query() {
            let mut message = reply(&query);
            message[14] ^= 1;
            end.send(&message);
        }
    });
    let mut thread = over_tcp(&server).frozen();
    assert_eq!(thread.query_one("www.example.net."), failed(22));
}

#[test]
fn silence_is_a_failure() {
    check_silent(End::wait);
}

#[test]
fn half_of_a_length_is_a_failure() {
    check_silent(|end| {
        end.send_raw(&[0]);
        end.wait();
    });
}

fn check_silent(act: fn(&mut End)) {
    let (bad, good) = (StreamServer::start(act), StreamServer::start(answer_all));
    assert_eq!(over_tcp(&bad).query_one("www.example.net."), failed(22));
    let mut thread = ClientThread::over(vec![bad.tcp(), good.tcp()], None);
    assert_eq!(query(&mut thread, &names(20)), 20);
}

#[test]
fn refused_stream_is_noticed_at_once() {
    let server = UpstreamAddress { at: closed_address(), over: QueryTransport::Tcp };
    let mut thread = ClientThread::over(vec![server], None).frozen();
    assert_eq!(thread.query_one("www.example.net."), failed(22));
    assert_eq!(fault(&thread), TlsFault::Refused);
}

/// RFC 7828 §3.1: a server says how long a connection may be idle.
#[test]
fn idle_connection_is_closed_by_the_timeout_of_its_server() {
    let (send, reported) = channel();
    let server = StreamServer::start(move |end| {
        let Some(query) = end.next_query() else { return };
        let mut message = reply(&query);
        message[11] = 1;
        message.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 6, 0, 11, 0, 2, 0, 10]);
        end.send(&message);
        end.wait();
        send.send(()).unwrap();
    });
    let mut thread = over_tcp(&server).frozen();
    assert_eq!(thread.query_one("www.example.net."), answered(1));
    thread.later += Duration::from_millis(600);
    thread.turn(&mut Vec::new(), Duration::ZERO);
    assert!(reported.try_recv().is_err(), "it is open");
    thread.later += Duration::from_millis(600);
    wait::until("the connection is closed", || {
        thread.turn(&mut Vec::new(), Duration::ZERO);
        reported.try_recv().ok()
    });
}

#[test]
fn tls_needs_the_name_in_the_certificate() {
    let authority = Authority::new();
    for name in ["dns.example", "127.0.0.1", "2001:db8::1"] {
        let server = StreamServer::start_tls(
            Some(authority.sign(name, CertificateOptions::default())),
            |end| {
                while let Some(query) = end.next_query() {
                    assert!(query.len().is_multiple_of(128), "RFC 8467");
                    end.send(&reply(&query));
                }
            },
        );
        let mut thread = ClientThread::over(vec![server.tls(name)], authority.trust());
        assert_eq!(query(&mut thread, &names(50)), 50);
        assert_eq!(thread.query_one("www.example.net."), answered(1));
        assert!(server.opened() <= 2);
    }
}

#[test]
fn tls_session_is_resumed() {
    let authority = Authority::new();
    let tls = authority.sign("dns.example", CertificateOptions::default());
    let server = StreamServer::start_tls(Some(tls), |end| {
        if let Some(query) = end.next_query() {
            end.send(&reply(&query));
        }
    });
    let mut thread = ClientThread::over(vec![server.tls("dns.example")], authority.trust());
    for n in 0..3 {
        assert_eq!(thread.query_one(&format!("name-{n}.example.net.")), answered(1));
        thread.rest(Duration::from_millis(50));
    }
    let sessions = server.sessions.lock().unwrap().clone();
    let [first, others @ ..] = &sessions[..] else { panic!("none") };
    assert!(others.len() == 2 && *first != rustls::HandshakeKind::Resumed, "{sessions:?}");
    assert_eq!(others, [rustls::HandshakeKind::Resumed; 2]);
}

/// RFC 8310 §5: nothing is sent to a server without a valid certificate.
#[test]
fn server_without_a_valid_certificate_gets_no_query() {
    let (authority, other) = (Authority::new(), Authority::new());
    let expired = CertificateOptions { is_expired: true, ..CertificateOptions::default() };
    let early = CertificateOptions { is_early: true, ..CertificateOptions::default() };
    let good = StreamServer::start_tls(
        Some(authority.sign("good.example", CertificateOptions::default())),
        answer_all,
    );
    for (signed, reported) in [
        (authority.sign("dns.example", expired), TlsFault::Expired),
        (authority.sign("dns.example", early), TlsFault::Early),
        (authority.sign("other.example", CertificateOptions::default()), TlsFault::Name),
        (authority.sign("127.0.0.1", CertificateOptions::default()), TlsFault::Name),
        (other.sign("dns.example", CertificateOptions::default()), TlsFault::Issuer),
    ] {
        let server = StreamServer::start_tls(Some(signed), |end| {
            assert_eq!(end.next_query(), None, "it is query_count nothing");
        });
        let servers = vec![server.tls("dns.example")];
        let mut thread = ClientThread::over(servers, authority.trust()).frozen();
        assert_eq!(thread.query_one("www.example.net."), failed(22), "{reported:?}");
        assert_eq!(fault(&thread), reported);
        let servers = vec![server.tls("dns.example"), good.tls("good.example")];
        assert_eq!(query(&mut ClientThread::over(servers, authority.trust()), &names(20)), 20);
    }
}

/// What listens there without TLS sees the beginning of a handshake, and no name.
#[test]
fn nothing_is_sent_unencrypted() {
    let (send, reported) = channel();
    let at = closed_address();
    let listener = TcpListener::bind(at).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut bytes = [0; 4096];
            let len = stream.read(&mut bytes).unwrap();
            send.send(bytes[..len].to_vec()).unwrap();
        }
    });
    // Nor by datagram.
    let datagrams = std::net::UdpSocket::bind(at).unwrap();
    datagrams.set_nonblocking(true).unwrap();
    let name = "dns.example".try_into().unwrap();
    let server = UpstreamAddress { at, over: QueryTransport::Tls(name) };
    let mut thread = ClientThread::over(vec![server], Authority::new().trust());
    assert_eq!(thread.query_one("secret.example.net."), failed(22));
    let seen: Vec<Vec<u8>> = reported.try_iter().collect();
    assert!(!seen.is_empty());
    for bytes in seen {
        assert_eq!(bytes[..2], [0x16, 3], "TLS");
        assert!(!bytes.windows(6).any(|six| six == b"secret"));
    }
    assert!(datagrams.recv(&mut [0; 512]).is_err());
}

/// A slow handshake delays only the queries to its server.
#[test]
fn slow_handshake_delays_no_other_query() {
    let authority = Authority::new();
    let slow = StreamServer::start(End::wait);
    let good = FakeServer::start(|query, _| vec![answer(query, 60, 1)]);
    let servers = vec![slow.tls("dns.example"), good.address.into()];
    let mut thread = ClientThread::over(servers, authority.trust());
    for n in 0..50 {
        let begun = Instant::now();
        assert_eq!(thread.query_one(&format!("name-{n}.example.net.")), answered(1));
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
}
