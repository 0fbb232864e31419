//! Several threads that leave names to each other.

use crate::client_thread::{ClientThread, FakeServer, Reply, answer, answered, failed};
use crate::peer_threads::{PATIENCE, PeerThreads};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use upstream::limits::{OWNER_LATE, PEER_SHARDS_MAX, PEERS_MAX};
use upstream::{NameScope, ResolverCommand, ShardCounts, StatusView, peer_shards};
use wire::{Name, NameBuf};

fn good(ttl: u32) -> FakeServer {
    FakeServer::start(move |query, nth| vec![answer(query, ttl, 1 + nth as u16 % 2)])
}

/// SERVFAIL.
fn refusal(query: &[u8]) -> Vec<u8> {
    let mut message = answer(query, 0, 0);
    message[3] = 0x82;
    message
}

#[test]
fn equal_queries_at_all_threads_are_one_query() {
    let query_count = Arc::new(Barrier::new(2));
    let all_asked = Arc::clone(&query_count);
    let server = FakeServer::start(move |query, nth| {
        if nth == 0 {
            all_asked.wait();
        }
        vec![answer(query, 60, 1)]
    });
    let mut peers = PeerThreads::new(4, &[server.address]);
    let names: Vec<String> = (0..20).map(|n| format!("n{n}.example.")).collect();
    let mut got: Vec<_> = peers.threads.iter().map(|_| Vec::new()).collect();
    for (thread, got) in peers.threads.iter_mut().zip(&mut got) {
        thread.send(&names, got);
    }
    query_count.wait();
    peers.wait(&mut got, &[20; 4]);
    assert!(got.iter().flatten().all(|got| *got == answered(1)), "{got:?}");
    let owner_shards = peers.owner_shards();
    // Each name is the own one of one of the four.
    assert_eq!(owner_shards, ShardCounts { answered: 60, ..ShardCounts::default() });
    assert_eq!(server.query_count(), 20);
}

#[test]
fn cached_answer_is_shared_with_other_threads() {
    let server = good(60);
    let mut peers = PeerThreads::new(3, &[server.address]);
    for number in [0, 1, 2, 2, 1, 0] {
        assert_eq!(peers.query(number, &["www.example."]), [answered(1)]);
    }
    assert_eq!(server.query_count(), 1);
    assert_eq!(peers.owner_shards(), ShardCounts { answered: 2, ..ShardCounts::default() });
}

/// What is old where it comes from is as old where it goes.
#[test]
fn shared_answer_keeps_its_age() {
    let server = good(60);
    let mut peers = PeerThreads::new(2, &[server.address]);
    let name = peers.foreign();
    let query_count = server.query_count();
    peers.query(1, &[&name]);
    peers.pass(Duration::from_secs(50));
    peers.query(0, &[&name]);
    assert_eq!(server.query_count(), query_count + 1);
    let (age, ttl) = peers.cached(0, &name).unwrap();
    assert_eq!(Some((age, ttl)), peers.cached(1, &name));
    assert!((50..55).contains(&age) && ttl == 60, "{age} of {ttl}");
    peers.pass(Duration::from_secs(10));
    peers.query(0, &[&name]);
    assert_eq!(server.query_count(), query_count + 2, "it has ended for both");
}

#[test]
fn refreshed_answer_is_shared_with_all_threads() {
    let server = good(100);
    let mut peers = PeerThreads::new(3, &[server.address]);
    let name = "www.example.";
    (0..3).for_each(|number| assert_eq!(peers.query(number, &[name]), [answered(1)]));
    assert_eq!(server.query_count(), 1);
    peers.pass(Duration::from_secs(95));
    for number in 0..3 {
        // What is found twice is worth renewing.
        (0..3).for_each(|_| drop(peers.query(number, &[name])));
        peers.settle();
    }
    assert_eq!(server.query_count(), 2);
    for number in 0..3 {
        assert!(peers.cached(number, name).unwrap().0 < 50, "{number}");
    }
}

#[test]
fn stuck_or_ended_owner_shard_is_not_awaited() {
    let server = good(60);
    let mut peers = PeerThreads::new(2, &[server.address]);
    let name = peers.foreign();
    let before = peers.owner_shards();
    peers.resume_time();
    let begun = Instant::now();
    assert_eq!(peers.threads[0].query_one(&name).0, 0);
    assert!(begun.elapsed() >= OWNER_LATE, "{:?}", begun.elapsed());
    assert_eq!(peers.owner_shards(), ShardCounts { late: before.late + 1, ..before });
    // Its late messages must do no harm.
    peers.settle();
    assert_eq!(peers.query(0, &[&name]).len(), 1);
    peers.flush(0);
    drop(peers.threads.pop());
    assert_eq!(peers.threads[0].query_one(&name).0, 0);
}

#[test]
fn request_without_room_is_sent_directly_and_counted() {
    let server = good(60);
    let mut peers = PeerThreads::new(2, &[server.address]);
    peers.resume_time();
    let names: Vec<String> = (0..2_000).map(|n| format!("n{n}.example.")).collect();
    // The other one does nothing.
    let got = peers.threads[0].query(&names, PATIENCE);
    assert!(got.len() == 2_000 && got.iter().all(|got| got.0 == 0));
    let owner_shards = peers.owner_shards();
    assert!(
        owner_shards.full > 100 && owner_shards.late > 100 && owner_shards.answered == 0,
        "{owner_shards:?}"
    );
}

#[test]
fn requests_to_an_owner_shard_are_bounded() {
    let silent = FakeServer::start(|_, _| Vec::new());
    let mut peers = PeerThreads::with_owner_shards(2, 1, &[silent.address]);
    let names: Vec<String> = (0..PEERS_MAX + 500).map(|n| format!("n{n}.example.")).collect();
    let mut got = Vec::new();
    for (client, some) in (0..).zip(names.chunks(100)) {
        // One alone has a share of the room.
        peers.threads[1].client = ([192, 0, 2, client], 5353).into();
        peers.threads[1].send(some, &mut got);
        peers.threads[0].turn(&mut got, Duration::from_millis(1));
    }
    peers.threads[1].turn(&mut got, Duration::from_millis(1));
    let owner_shards = peers.owner_shards();
    assert_eq!(owner_shards, ShardCounts { refused: 500, ..ShardCounts::default() });
    assert_eq!(
        StatusView::own(&[peers.threads[0].upstream_client.view()]).waiting,
        0,
        "none is its client"
    );
}

#[test]
fn failure_of_the_owner_shard_holds_for_all_threads() {
    let server = FakeServer::start(|query, _| vec![refusal(query)]);
    let mut peers = PeerThreads::new(3, &[server.address]);
    for number in 0..3 {
        assert_eq!(peers.query(number, &["www.example."]), [failed(22)], "{number}");
        // It is remembered.
        assert_eq!(peers.query(number, &["www.example."]), [failed(13)], "{number}");
    }
    let ages: Vec<_> = (0..3).map(|number| peers.cached(number, "www.example.")).collect();
    assert!(ages[0].is_some() && ages.iter().all(|age| *age == ages[0]), "{ages:?}");
    let owner_shards = peers.owner_shards();
    assert_eq!((owner_shards.answered, owner_shards.refused), (2, 0), "{owner_shards:?}");
}

/// The cached answer was valid until it was queried again; the new answer is only for that client.
#[test]
fn uncacheable_answer_leaves_no_stale_one() {
    let ttl = Arc::new(AtomicU32::new(60));
    let its = Arc::clone(&ttl);
    let server =
        FakeServer::start(move |query, _| vec![answer(query, its.load(Ordering::SeqCst), 1)]);
    let mut peers = PeerThreads::new(2, &[server.address]);
    let name = peers.foreign();
    let query_count = server.query_count();
    peers.query(0, &[&name]);
    ttl.store(0, Ordering::SeqCst);
    peers.pass(Duration::from_secs(57));
    (0..2).for_each(|_| assert_eq!(peers.query(0, &[&name]), [answered(1)]));
    while server.query_count() < query_count + 2 {
        peers.settle();
    }
    peers.settle();
    peers.pass(Duration::from_secs(4));
    for number in [0, 1] {
        assert_eq!(peers.query(number, &[&name]), [answered(1)]);
        assert_eq!(server.query_count(), query_count + 3 + number);
    }
}

/// Whichever thread had the newer answer, and whether it was cached.
#[test]
fn newer_answer_displaces_those_of_all_threads() {
    let sent = Arc::new(AtomicU32::new(0));
    let its = Arc::clone(&sent);
    let server = FakeServer::start(move |query, _| {
        vec![match its.load(Ordering::SeqCst) {
            0 => answer(query, 60, 1),
            1 => answer(query, 60, 2),
            2 => answer(query, 0, 3),
            _ => refusal(query),
        }]
    });
    let mut peers = PeerThreads::new(2, &[server.address]);
    let name = peers.foreign();
    for (newer, after) in [(1, Reply(0, 2, Some(3))), (2, failed(22))] {
        sent.store(0, Ordering::SeqCst);
        assert_eq!(peers.query(0, &[&name]), [answered(1)]);
        peers.pass(Duration::from_secs(61));
        sent.store(newer, Ordering::SeqCst);
        assert_eq!(peers.query(1, &[&name]), [answered(newer as u16 + 1)]);
        peers.settle();
        peers.pass(Duration::from_secs(61));
        sent.store(3, Ordering::SeqCst);
        assert_eq!(peers.query(0, &[&name]), [after]);
        peers.pass(Duration::from_secs(61));
    }
}

/// A stale answer of the owner shard goes to all threads if no upstream answers (RFC 8767).
#[test]
fn stale_answer_is_shared_if_no_upstream_answers() {
    let is_broken = Arc::new(AtomicBool::new(false));
    let breaks = Arc::clone(&is_broken);
    let server = FakeServer::start(move |query, _| {
        let is_broken = breaks.load(Ordering::SeqCst);
        vec![if is_broken { refusal(query) } else { answer(query, 60, 1) }]
    });
    let mut peers = PeerThreads::new(2, &[server.address]);
    let name = peers.foreign();
    peers.query(1, &[&name]);
    is_broken.store(true, Ordering::SeqCst);
    peers.pass(Duration::from_secs(61));
    let stale = Reply(0, 1, Some(3));
    assert_eq!(peers.query(1, &[&name]), [stale]);
    let query_count = server.query_count();
    // No query is sent so soon, and a thread without an answer gets the stale one.
    assert_eq!(peers.query(0, &[&name]), [Reply(0, 1, Some(3))]);
    assert_eq!(peers.query(0, &[&name]), [Reply(0, 1, Some(3))]);
    assert_eq!(server.query_count(), query_count);
    assert_eq!(peers.cached(0, &name), peers.cached(1, &name));
    // The same where a query for it fails.
    peers.reported(0, &ResolverCommand::Flush(NameScope::All));
    peers.reported(1, &ResolverCommand::Flush(NameScope::Name(NameBuf::root())));
    peers.pass(Duration::from_secs(31));
    assert_eq!(peers.query(0, &[&name]), [Reply(0, 1, Some(3))]);
    assert_eq!(server.query_count(), query_count + 1);
    // Where that is back, it is heard by both.
    is_broken.store(false, Ordering::SeqCst);
    peers.pass(Duration::from_secs(31));
    assert_eq!(peers.query(0, &[&name]), [answered(1)]);
    assert_eq!(peers.query(1, &[&name]), [answered(1)]);
    assert_eq!(server.query_count(), query_count + 2);
}

/// A thread that ends, as in a hot restart, answers its waiting peers.
#[test]
fn ending_thread_answers_its_waiting_peers() {
    waiting_peer_is_answered(|threads| drop(threads.pop()));
}

/// After a panic.
#[test]
fn restarted_thread_answers_its_waiting_peers() {
    waiting_peer_is_answered(|threads| threads[1].upstream_client.restart().unwrap());
}

/// An answer to a query from before the restart is not taken for one to a query behind it.
#[test]
fn restarted_thread_takes_no_answer_to_an_earlier_query() {
    let server = FakeServer::start(|query, _| {
        let count = if query[13].eq_ignore_ascii_case(&b'a') { 1 } else { 2 };
        vec![answer(query, 60, count)]
    });
    let mut peers = PeerThreads::with_owner_shards(2, 1, &[server.address]);
    let mut got = Vec::new();
    let thread = &mut peers.threads[1];
    thread.send(&["a.example."], &mut got);
    thread.upstream_client.restart().unwrap();
    assert!(thread.upstream_client.has_deferred());
    thread.wait(&mut got, 1, PATIENCE);
    assert_eq!(got, [failed(22)]);
    assert_eq!(peers.query(1, &["b.example."]), [answered(2)]);
    assert!(!peers.threads[1].upstream_client.has_deferred());
}

/// What the second thread does costs a client of the first nothing that waits for it.
fn waiting_peer_is_answered(leave: impl FnOnce(&mut Vec<ClientThread>)) {
    let is_silent = Arc::new(AtomicBool::new(false));
    let listens = Arc::clone(&is_silent);
    let server = FakeServer::start(move |query, _| {
        if listens.load(Ordering::SeqCst) { Vec::new() } else { vec![answer(query, 60, 1)] }
    });
    let mut peers = PeerThreads::new(2, &[server.address]);
    let name = peers.foreign();
    is_silent.store(true, Ordering::SeqCst);
    let (mut got, query_count) = (Vec::new(), server.query_count());
    peers.threads[0].send(&[&name], &mut got);
    while server.query_count() == query_count {
        peers.threads[1].turn(&mut Vec::new(), Duration::from_millis(1));
    }
    is_silent.store(false, Ordering::SeqCst);
    leave(&mut peers.threads);
    let before = peers.owner_shards();
    peers.threads[0].wait(&mut got, 1, PATIENCE);
    assert_eq!(got, [answered(1)]);
    assert_eq!(peers.owner_shards(), ShardCounts { refused: before.refused + 1, ..before });
}

#[test]
fn flushed_thread_accepts_nothing_from_an_unflushed_one() {
    let server = good(60);
    let mut peers = PeerThreads::new(2, &[server.address]);
    let name = peers.foreign();
    peers.query(0, &[&name]);
    let (query_count, before) = (server.query_count(), peers.owner_shards());
    peers.flush(0);
    peers.query(0, &[&name]);
    assert_eq!(server.query_count(), query_count + 1, "the home still knows what was flushed");
    assert_eq!(peers.owner_shards(), ShardCounts { refused: before.refused + 1, ..before });
    // It forgets too, and they are at one again.
    peers.flush(1);
    peers.reported(0, &ResolverCommand::Flush(NameScope::Name(NameBuf::root())));
    peers.reported(1, &ResolverCommand::Flush(NameScope::Name(NameBuf::root())));
    peers.query(1, &["other.example."]);
    peers.query(0, &["other.example."]);
    assert_eq!(peers.owner_shards().refused, before.refused + 1);
}

/// An alias for a name of which this is the address.
fn alias(query: &[u8]) -> Vec<u8> {
    let target = b"\x06target\x07example\0";
    let mut message = answer(query, 60, 0);
    message[7] = 2;
    message.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, target.len() as u8]);
    message.extend(target);
    message.extend(target);
    message.extend([0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
    message
}

#[test]
fn shared_answer_in_progress_during_a_flush_is_not_cached() {
    let target = NameBuf::from_text(b"target.example.", Name::ROOT).unwrap();
    for scope in [NameScope::All, NameScope::Name(target)] {
        [false, true].into_iter().for_each(|is_late| cross(scope.clone(), is_late));
    }
}

/// A thread begins a flush while the answer of a home is on its way, which may be late.
fn cross(scope: NameScope, is_late: bool) {
    let is_silent = Arc::new(AtomicBool::new(false));
    let listens = Arc::clone(&is_silent);
    let server = FakeServer::start(move |query, _| {
        if listens.load(Ordering::SeqCst) { Vec::new() } else { vec![alias(query)] }
    });
    let mut peers = PeerThreads::new(2, &[server.address]);
    let name = peers.foreign();
    assert_eq!(peers.query(1, &[&name]), [answered(2)]);
    is_silent.store(true, Ordering::SeqCst);
    let (mut got, before) = (Vec::new(), peers.owner_shards());
    peers.threads[0].send(&[&name], &mut got);
    if is_late {
        peers.pass(2 * OWNER_LATE);
        peers.threads[0].turn(&mut got, Duration::from_millis(1));
        assert_eq!(peers.owner_shards(), ShardCounts { late: before.late + 1, ..before });
    }
    peers.command_senders[0].send(&ResolverCommand::Flush(scope.clone())).unwrap();
    // The owner shard answers before it gets the command, and the reply is not read yet.
    peers.threads[1].turn(&mut Vec::new(), Duration::from_millis(1));
    peers.reported(1, &ResolverCommand::Flush(scope));
    let mut is_done = false;
    while !is_done || got.is_empty() {
        peers.threads[0].turn(&mut got, Duration::from_millis(1));
        is_done |= peers.command_senders[0].report().is_some();
    }
    assert_eq!(got, [answered(2)]);
    assert_eq!((peers.cached(0, &name), peers.cached(1, &name)), (None, None));
}

#[test]
fn thread_that_owns_no_names_only_sends_requests() {
    let server = good(60);
    let mut peers = PeerThreads::with_owner_shards(3, 1, &[server.address]);
    let names: Vec<String> = (0..20).map(|n| format!("n{n}.example.")).collect();
    // The others do nothing, and are not missed.
    assert_eq!(peers.threads[0].query(&names, PATIENCE).len(), 20);
    assert_eq!(peers.owner_shards(), ShardCounts::default());
    for number in [1, 2] {
        assert_eq!(peers.query(number, &names).len(), 20);
    }
    assert_eq!(peers.owner_shards(), ShardCounts { answered: 40, ..ShardCounts::default() });
    assert_eq!(server.query_count(), 20);
}

#[test]
fn single_or_surplus_thread_has_no_peers() {
    for (owner_shards, others) in
        [(0, 0), (0, 5), (1, 0), (PEER_SHARDS_MAX, 1), (1, PEER_SHARDS_MAX)]
    {
        assert!(peer_shards(owner_shards, others).unwrap().is_empty(), "{owner_shards} {others}");
    }
    for (owner_shards, others) in [(PEER_SHARDS_MAX, 0), (1, 1), (2, 1)] {
        assert_eq!(peer_shards(owner_shards, others).unwrap().len(), owner_shards + others);
    }
}
