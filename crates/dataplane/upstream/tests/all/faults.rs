//! Servers that answer, or do not, on sockets of their own.

use crate::client_thread::{
    ClientThread, FakeServer, Reply, answer, answered, closed_address, failed, framed, group,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use test_support::wait;
use upstream::{StatusView, TlsFault, UpstreamServers};

#[test]
fn answer_is_cached() {
    let (server, mut thread) = ClientThread::of_server(|query, _| vec![answer(query, 60, 2)]);
    assert_eq!(thread.query_one("www.example.net."), answered(2));
    assert_eq!(thread.query_one("WWW.example.net."), answered(2));
    assert_eq!(server.query_count(), 1);
}

#[test]
fn uncacheable_answer_is_queried_again() {
    let (server, mut thread) = ClientThread::of_server(|query, _| vec![answer(query, 0, 1)]);
    for nth in 1..=3 {
        assert_eq!(thread.query_one("www.example.net."), answered(1));
        assert_eq!(server.query_count(), nth);
    }
}

#[test]
fn equal_concurrent_queries_are_one_query() {
    let (server, mut thread) = ClientThread::of_server(|query, _| vec![answer(query, 0, 1)]);
    let got = thread.query(&["www.example.net."; 60], Duration::from_secs(5));
    assert_eq!(got.len(), 60);
    assert!(!thread.upstream_client.has_deferred());
    assert_eq!(server.query_count(), 1);
}

#[test]
fn invalid_reply_is_ignored() {
    let (_server, mut thread) = ClientThread::of_server(|query, _| {
        let right = answer(query, 60, 1);
        let changed = |at: usize| {
            let mut lie = answer(query, 60, 66);
            lie[at] ^= 0x20;
            lie
        };
        vec![changed(0), changed(1), changed(13), changed(25), right[..11].to_vec(), right]
    });
    assert_eq!(thread.query_one("www.example.net."), answered(1));
    assert_eq!(StatusView::server([&thread.upstream_client.view()], 0).counts.mismatched, 5);
}

#[test]
fn source_ports_are_many_and_change() {
    let (server, mut thread) = ClientThread::of_server(|query, _| vec![answer(query, 60, 1)]);
    let mut query = |from: usize| {
        (from..from + 5_000).for_each(|n| {
            thread.query_one(&format!("name-{n}.example.net."));
        });
        server.ports.lock().unwrap().len()
    };
    let few = query(0);
    assert!(few >= 16, "{few}");
    assert!(query(5_000) > few + 8, "others take their places");
}

#[test]
fn fixed_source_ports_are_few_and_stay() {
    let server = FakeServer::start(|query, _| vec![answer(query, 60, 1)]);
    let group = UpstreamServers { fixed_ports: Some(2), ..group(".", vec![server.address.into()]) };
    let mut thread = ClientThread::grouped(vec![group], None, 1 << 20);
    (0..2_000).for_each(|n| {
        thread.query_one(&format!("name-{n}.example.net."));
    });
    assert_eq!(server.ports.lock().unwrap().len(), 2);
}

#[test]
fn truncated_reply_is_queried_over_a_stream() {
    let server = FakeServer::start_long(usize::MAX);
    let mut thread = ClientThread::new(&[server.address]);
    // Not all of it fits into the client's datagram, but it is known then.
    assert_eq!(thread.query_one("www.example.net."), answered(74));
    assert_eq!(thread.query_one("www.example.net."), answered(74));
    assert_eq!(server.query_count(), 1);
}

#[test]
fn stream_that_ends_early_is_a_failure() {
    let server = FakeServer::start_long(100);
    let mut thread = ClientThread::new(&[server.address]).frozen();
    assert_eq!(thread.query_one("www.example.net."), failed(22));
}

#[test]
fn refused_connection_is_noticed_and_remembered() {
    let mut thread = ClientThread::new(&[closed_address()]);
    assert_eq!(thread.query_one("www.example.net."), failed(22));
    assert_eq!(thread.query_one("www.example.net."), failed(13), "remembered (RFC 9520)");
    assert_eq!(thread.query_one("other.example.net."), failed(22), "of another name nothing is");
}

#[test]
fn another_server_is_queried_if_one_fails() {
    let good = FakeServer::start(|query, _| vec![answer(query, 60, 1)]);
    let servfail = FakeServer::start(|query, _| {
        let mut message = answer(query, 0, 0);
        message[3] |= 2;
        vec![message]
    });
    let silent = FakeServer::start(|_, _| vec![]);
    for bad in [servfail.address, silent.address, closed_address()] {
        let mut thread = ClientThread::new(&[bad, good.address]);
        thread.expect_twenty(1);
    }
}

/// RFC 6891 §6.1.3: the lower bits of BADVERS, 16, are those of NOERROR.
#[test]
fn extended_code_is_a_failure_of_its_server() {
    let bad = FakeServer::start(|query, _| {
        let mut message = answer(query, 60, 1);
        message[11] = 1;
        message.extend([0, 0, 41, 4, 208, 1, 0, 0, 0, 0, 0]);
        vec![message]
    });
    let good = FakeServer::start(|query, _| vec![answer(query, 60, 2)]);
    let mut thread = ClientThread::new(&[bad.address]);
    assert_eq!(thread.query_one("www.example.net."), failed(22));
    assert_eq!(thread.query_one("www.example.net."), failed(13), "and it is not kept");
    let mut thread = ClientThread::new(&[bad.address, good.address]);
    thread.expect_twenty(2);
}

#[test]
fn silent_server_costs_a_client_few_seconds() {
    let silent = FakeServer::start(|_, _| vec![]);
    let mut thread = ClientThread::new(&[silent.address]);
    assert_eq!(thread.query_one("www.example.net."), failed(22));
    assert!(silent.query_count() > 1, "a datagram may get lost");
}

/// RFC 8767 §5: a client with a stale answer waits 1.8 s for a better one; after a failure, clients
/// do not wait for a while.
#[test]
fn stale_answer_is_given_after_a_wait() {
    let (_server, mut thread) = ClientThread::of_server(|query, nth| match nth {
        0 => vec![answer(query, 1, 1)],
        _ => vec![],
    });
    assert_eq!(thread.query_one("www.example.net."), answered(1));
    thread.later += Duration::from_millis(2_100);
    assert_eq!(thread.query_one("www.example.net."), Reply(0, 1, Some(3)));
    // The query continues, in vain.
    thread.query(&["other.example.net."], wait::deadline());
    let mut thread = thread.frozen();
    assert_eq!(thread.query_one("www.example.net."), Reply(0, 1, Some(3)), "nothing is waited for");
}

/// The first has to be known when the second has answered, though nothing of it may be kept.
#[test]
fn alias_to_a_forwarded_name_is_answered_when_its_upstream_answers() {
    for caches in [true, false] {
        let all = FakeServer::start(|query, _| {
            let mut alias = answer(query, 0, 1);
            let record = alias.len() - 16;
            alias.truncate(record);
            alias.extend(b"\xc0\x0c\0\x05\0\x01\0\0\0\0\0\x09\x04corp\x02in\0");
            vec![alias]
        });
        let corp = FakeServer::start(|query, _| vec![answer(query, 0, 2)]);
        let group = |suffix: &str, server: &FakeServer| UpstreamServers {
            caches,
            ..group(suffix, vec![server.address.into()])
        };
        let groups = vec![group(".", &all), group("in.", &corp)];
        let mut thread = ClientThread::grouped(groups, None, 1 << 20);
        assert_eq!(thread.query_one("www.example.net."), answered(3));
        assert_eq!((all.query_count(), corp.query_count()), (1, 1), "{caches}");
    }
}

/// The alias that a server sends instead of an address: the next number in front of the name.
fn numbered_alias(query: &[u8], number: u8) -> Vec<u8> {
    let mut alias = answer(query, 0, 1);
    let record = alias.len() - 16;
    alias.truncate(record);
    // The target has another first label of one letter, and then the same ones.
    alias.extend(b"\xc0\x0c\0\x05\0\x01\0\0\0\0\0\x04\x01");
    alias.extend([number, 0xc0, 14]);
    alias
}

#[test]
fn target_of_an_alias_is_queried_at_the_same_server() {
    let (server, mut thread) =
        ClientThread::of_server(|query, _| match query[13].to_ascii_lowercase() {
            b'a' => vec![numbered_alias(query, b'b')],
            b'b' => vec![numbered_alias(query, b'c')],
            b'c' => vec![answer(query, 60, 2)],
            // A loop, and a chain without an end.
            b'l' => vec![numbered_alias(query, b'm')],
            b'm' => vec![numbered_alias(query, b'l')],
            other => vec![numbered_alias(query, other + 1)],
        });
    assert_eq!(thread.query_one("a.example.net."), answered(4));
    assert_eq!(server.query_count(), 3);
    assert_eq!(thread.query_one("l.example.net."), answered(2));
    assert_eq!(server.query_count(), 5);
    let Reply(code, count, _) = thread.query_one("\\128.example.net.");
    assert!(code == 0 && (16..=17).contains(&count), "{count}");
    assert!(server.query_count() <= 5 + 17, "{}", server.query_count());
}

/// RFC 8767 §6: an alias with TTL 0 is kept only while its target is queried.
#[test]
fn alias_that_may_not_be_cached_is_never_stale() {
    let is_broken = Arc::new(AtomicBool::new(false));
    let breaks = Arc::clone(&is_broken);
    let (_server, mut thread) = ClientThread::of_server(move |query, _| {
        let mut message = match query[13].to_ascii_lowercase() {
            b'a' => numbered_alias(query, b'b'),
            _ => answer(query, 60, 2),
        };
        message[3] |= if breaks.load(Ordering::SeqCst) { 2 } else { 0 };
        vec![message]
    });
    assert_eq!(thread.query_one("a.example.net."), answered(3));
    is_broken.store(true, Ordering::SeqCst);
    thread.later = Duration::from_secs(100);
    assert_eq!(thread.query_one("a.example.net."), failed(22));
    assert_eq!(thread.query_one("a.example.net."), failed(13), "the failure is cached");
    assert_eq!(thread.query_one("b.example.net."), Reply(0, 2, Some(3)));
}

/// RFC 6891 §6.2.2.
#[test]
fn server_without_edns_answers() {
    for code in [1, 4] {
        for is_bare in [false, true] {
            let server = FakeServer::start(move |query, _| match query[11] {
                0 => vec![answer(&[query, &[0; 11]].concat(), 60, 2)],
                _ => {
                    let mut error = answer(query, 0, 0);
                    error[3] |= code;
                    error.truncate(if is_bare { 12 } else { error.len() });
                    vec![error]
                }
            });
            let mut thread = ClientThread::new(&[server.address]);
            thread.expect_twenty(2);
            assert_eq!(server.query_count(), 21, "it is remembered");
        }
    }
}

#[test]
fn server_that_does_not_keep_the_case_is_queried_over_tcp() {
    let lower = |query: &[u8]| {
        let mut reply = answer(query, 60, 2);
        reply[12..].make_ascii_lowercase();
        reply
    };
    let server =
        FakeServer::start_both(move |query, _| vec![lower(query)], move |q| framed(&lower(q)));
    let mut thread = ClientThread::new(&[server.address]);
    let fault =
        |thread: &ClientThread| StatusView::server([&thread.upstream_client.view()], 0).fault;
    thread.expect_twenty(2);
    assert_eq!(server.query_count(), 1, "then it is queried over TCP at once");
    assert_eq!(fault(&thread), TlsFault::Case);
    assert!(TlsFault::Case.what().is_some_and(|what| what.contains("mix_case")));
}
