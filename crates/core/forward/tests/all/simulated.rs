//! Servers that are slow, lossy, dead or lying, asked by datagram and by stream.

use crate::world::{
    CaseManner, DEAD, FAST, MILLI, Manner, Outcome, SECOND, SLOW, SLOW_STREAM, STREAM, World, name,
};
use forward::limits::{QUERIES_MAX, WAITERS_PER_QUERY_MAX};
use forward::{QueryOutcome, StreamLoss, UpstreamHealth};

#[test]
fn fastest_server_is_queried() {
    let mut world = World::loaded(&[SLOW, FAST, SLOW], 5000);
    world.expect_answers(5000);
    assert!(world.sent[1] > 4900, "{:?}", world.sent);
}

#[test]
fn dying_server_costs_little_and_its_return_is_noticed() {
    let mut world = World::loaded(&[FAST, SLOW], 1000);
    world.servers[0] = DEAD;
    world.load(1000, 9000);
    let asked_dead = world.sent[0];
    world.servers[0] = FAST;
    world.load(10_000, 40_000);
    let sum = world.expect_end(50_000, 0);
    println!("{sum:?}, {:?}", world.sent);
    assert!(sum.late * 100 <= 9000, "{sum:?}");
    assert!(asked_dead < 1200, "{asked_dead}");
    assert!(world.sent[0] > asked_dead + 5000, "{:?}", world.sent);
}

/// Its answers come when the faster one's are already there.
#[test]
fn return_of_a_slower_server_is_noticed() {
    let mut world = World::new(&[FAST, SLOW]);
    world.call(|forwarder, now, _| forwarder.upstream(1).record_unreachable(now));
    world.load(0, 3_000);
    let health = world.call(|forwarder, now, _| forwarder.upstream(1).health(now));
    assert_eq!(health, UpstreamHealth::Up);
    assert_eq!((&world.sent[..], world.probes.len()), (&[3_000, 0][..], 1), "by a probe");
    world.end();
}

#[test]
fn one_in_five_lost_datagrams_fails_no_client() {
    let lossy = Manner { lost: 20, ..FAST };
    let mut world = World::loaded(&[lossy, lossy], 20_000);
    let sum = world.end();
    println!("{sum:?}");
    assert!(sum.failed * 1000 <= sum.all, "{sum:?}");
}

#[test]
fn known_failure_is_reported_at_once() {
    let mut world = World::loaded(&[DEAD, DEAD], 2000);
    let all_sent = |world: &World| world.sent.iter().sum::<u64>() + world.probes.len() as u64;
    let (before, sent) = (world.outcomes.len(), all_sent(&world));
    world.load(2000, 10_000);
    let told_late = world.outcomes.iter().skip(before).filter(|(_, took)| *took > 0).count();
    let asked = all_sent(&world) - sent;
    world.expect_end(12_000, 12_000);
    println!("{told_late} told late, {asked} asked");
    // Except for a new name now and then; probes notice the return.
    assert!(told_late < 20, "{told_late}");
    assert!(asked < 20, "{asked}");
}

#[test]
fn failing_server_is_not_believed() {
    for rcode in [1, 2, 4, 5] {
        let mut world = World::loaded(&[Manner { rcode, ..FAST }, SLOW], 2000);
        world.expect_answers(2000);
        assert!(world.sent[0] < 100, "{:?}", world.sent);
    }
}

#[test]
fn forged_replies_are_counted_and_change_nothing() {
    let mut world = World::loaded(&[Manner { lies: true, ..FAST }], 1000);
    world.expect_answers(1000);
    let counts = world.call(|forwarder, _, _| forwarder.upstream(0).counts);
    assert_eq!((counts.answered, counts.mismatched), (1000, 8000));
}

/// RFC 9520 §3.1, and what was refused once is refused.
#[test]
fn one_server_gets_a_query_at_most_three_times() {
    for (manner, most) in [(DEAD, 3), (Manner { rcode: 2, ..FAST }, 1)] {
        let mut world = World::new(&[manner]);
        assert_eq!(world.query(1), QueryOutcome::Pending);
        world.expect_end(1, 1);
        assert_eq!(world.sent, [most]);
    }
}

#[test]
fn slow_server_does_not_count_as_dead() {
    for round_trip in [150, 300, 600, 900] {
        let slow = Manner { round_trip: round_trip * MILLI, ..FAST };
        let mut world = World::loaded(&[FAST, FAST], 1000);
        world.servers = vec![slow, slow];
        world.load(1000, 9000);
        let sum = world.end();
        println!("{round_trip} ms: {sum:?}, {:?}", world.sent);
        assert!(sum.failed * 100 <= 9000 * 5, "{round_trip} ms: {sum:?}");
        let asked = world.sent.iter().sum::<u64>();
        assert!(asked < 25_000, "{asked}");
    }
}

/// What a server cannot tell says nothing of what it can.
#[test]
fn failing_server_is_queried_if_there_is_no_other() {
    let failing = Manner { rcode: 2, ..FAST };
    let mut world = World::loaded(&[failing], 2000);
    assert!(world.outcomes.iter().all(|(outcome, _)| *outcome == Outcome::Failed));
    assert_eq!(world.sent, [2000]);
    world.servers[0] = FAST;
    world.load(2000, 2000);
    world.expect_end(4000, 2000);
}

/// However few ask, and however long all they ask cannot be told.
#[test]
fn server_that_fails_some_queries_gets_all_others() {
    for gap in [300, 1_500, 20_000, 60_000] {
        let mut world = World::new(&[Manner { rcode: 2, ..FAST }]);
        for number in 0..50 {
            assert_eq!(world.query(number), QueryOutcome::Pending, "{gap} ms, {number}");
            world.pass(world.now + gap * MILLI);
        }
        world.servers[0] = FAST;
        assert_eq!(world.query(50), QueryOutcome::Pending, "{gap} ms");
        world.expect_end(51, 50);
        // Silence still means that the server is down.
        world.servers[0] = Manner { rcode: 2, ..FAST };
        world.load(100, 100);
        world.servers[0] = DEAD;
        world.load(200, 2000);
        assert_eq!(world.query(9_999), QueryOutcome::NoUpstream);
    }
}

#[test]
fn truncated_reply_is_repeated_over_a_stream() {
    let mut world = World::loaded(&[Manner { truncates: true, ..FAST }], 100);
    let sum = world.end();
    assert_eq!((sum.all, sum.failed, world.by_stream), (100, 0, 100));
}

#[test]
fn one_stream_carries_all_queries_and_its_handshake_is_no_round_trip() {
    let mut world = World::loaded(&[STREAM], 5000);
    world.expect_answers(5000);
    assert_eq!((world.by_stream, world.opened), (5000, 1));
    let took = world.call(|forwarder, _, _| forwarder.upstream(0).round_trip_micros());
    assert!((MILLI..3 * MILLI).contains(&took.into()), "{took}");
}

#[test]
fn death_and_return_of_a_stream_server_are_noticed() {
    let mut world = World::loaded(&[STREAM, SLOW_STREAM], 1000);
    world.servers[0] = Manner { lost: 100, ..STREAM };
    world.load(1000, 9000);
    world.servers[0] = STREAM;
    // What the network forgot, the server does not know.
    world.close(0, StreamLoss::Failed);
    let asked_dead = world.sent[0];
    world.load(10_000, 40_000);
    let sum = world.expect_end(50_000, 0);
    println!("{sum:?}, {:?}", world.sent);
    // All that is asked until it is sure: for a round trip, what TCP may need, and some questions.
    assert!(sum.late <= 350, "{sum:?}");
    assert!(world.sent[0] > asked_dead + 5000, "{:?}", world.sent);
}

/// Few questions are asked, and all of them a second one where the first is late: who never
/// answers is not asked first for ever all the same.
#[test]
fn server_that_always_loses_the_race_is_not_first() {
    for dead in [DEAD, Manner { lost: 100, ..STREAM }] {
        let mut world = World::new(&[dead, FAST]);
        for number in 0..100 {
            world.query(number);
            world.pass(world.now + 600 * MILLI);
        }
        let sum = world.expect_end(100, 0);
        assert!(sum.late <= 5, "{sum:?}");
    }
}

/// Such as a resolver that has lost its own way out: its probes are no reason to ask it first.
#[test]
fn server_that_answers_only_probes_is_not_first() {
    let half = Manner { only_probes: true, ..FAST };
    let mut world = World::loaded(&[FAST, SLOW], 1_000);
    world.servers[0] = half;
    let before = world.sent[0];
    world.load(1_000, 9_000);
    let sent = world.sent[0] - before;
    let sum = world.expect_end(10_000, 0);
    println!("{sum:?}, {sent}");
    assert!(sum.late * 100 <= 9_000 && sent < 1_000, "{sum:?}, {sent}");
}

#[test]
fn queries_of_a_closed_connection_are_sent_again() {
    let mut world = World::loaded(&[Manner { answers: 100, ..STREAM }], 5000);
    let sum = world.expect_end(5000, 0);
    println!("{sum:?}, {:?}", world.sent);
    assert!(world.opened > 40, "{}", world.opened);
    assert!(world.sent[0] > 5000, "{:?}", world.sent);
}

#[test]
fn server_that_refuses_streams_gets_no_queries() {
    let mut world = World::loaded(&[Manner { refuses: true, ..STREAM }, SLOW_STREAM], 5000);
    world.expect_end(5000, 0);
    assert!(world.sent[0] < 200, "{:?}", world.sent);
}

#[test]
fn stream_and_datagram_servers_work_side_by_side() {
    let mut world = World::loaded(&[DEAD, SLOW_STREAM], 2000);
    world.expect_end(2000, 0);
    assert!(world.sent[1] >= 2000, "{:?}", world.sent);
}

#[test]
fn equal_queries_share_one_query() {
    let mut world = World::new(&[SLOW]);
    for _ in 0..WAITERS_PER_QUERY_MAX {
        assert_eq!(world.query(1), QueryOutcome::Pending);
    }
    assert_eq!(world.query(1), QueryOutcome::Full);
    assert_eq!(world.query(2), QueryOutcome::Pending);
    world.expect_end(usize::from(WAITERS_PER_QUERY_MAX) + 1, 0);
    assert_eq!(world.sent, [2]);
}

#[test]
fn full_table_is_reported_and_recovers() {
    let mut world = World::new(&[DEAD]);
    for number in 0..QUERIES_MAX as u64 {
        assert_eq!(world.query(number), QueryOutcome::Pending);
    }
    assert_eq!(world.query(QUERIES_MAX as u64), QueryOutcome::Full);
    world.expect_end(QUERIES_MAX, QUERIES_MAX);
    world.servers[0] = FAST;
    assert_eq!(world.query(0), QueryOutcome::Pending);
    world.expect_end(QUERIES_MAX + 1, QUERIES_MAX);
}

#[test]
fn drained_server_is_queried_if_there_is_no_other() {
    let mut world = World::loaded(&[FAST, SLOW], 100);
    world.call(|forwarder, _, _| forwarder.upstream(0).is_drained = true);
    let drained = world.sent[0];
    world.load(100, 2_000);
    assert_eq!(world.sent[0], drained, "the slower one answers");
    world.servers[1] = DEAD;
    world.load(2_100, 20_000);
    assert!(world.sent[0] > drained + 15_000, "{:?}", world.sent);
    world.servers[1] = SLOW;
    world.load(22_100, 40_000);
    let back = world.sent[0];
    world.load(62_100, 1_000);
    assert_eq!(world.sent[0], back, "and not when the other one is back");
    world.call(|forwarder, _, _| forwarder.upstream(0).is_drained = false);
    world.load(63_100, 30_000);
    assert!(world.sent[0] > back + 1_000, "{:?}", world.sent);
    world.expect_end(93_100, 0);
}

#[test]
fn all_drained_is_like_none_drained() {
    let mut world = World::new(&[FAST, SLOW]);
    for number in 0..2 {
        world.call(|forwarder, _, _| forwarder.upstream(number).is_drained = true);
    }
    world.load(0, 1_000);
    assert!(world.sent[0] > 900, "{:?}", world.sent);
    world.expect_answers(1_000);
}

#[test]
fn cut_off_query_gets_no_new_clients_and_answers_the_waiting_ones() {
    let mut world = World::new(&[SLOW]);
    for _ in 0..3 {
        assert_eq!(world.query(1), QueryOutcome::Pending);
    }
    assert_eq!(world.query(2), QueryOutcome::Pending);
    let gone = name(1);
    let cut = |world: &mut World| {
        world.call(|forwarder, _, _| forwarder.cut_off(|query| query.key().name == gone))
    };
    assert_eq!((cut(&mut world), cut(&mut world)), (1, 0), "once");
    for _ in 0..3 {
        assert_eq!(world.query(1), QueryOutcome::Pending);
        assert_eq!(world.query(2), QueryOutcome::Pending);
    }
    assert_eq!(world.sent, [3], "one of them anew, for all who come after");
    assert_eq!(cut(&mut world), 1, "the new one, again");
    world.expect_end(10, 0);
    assert_eq!(world.query(1), QueryOutcome::Pending);
    assert_eq!(cut(&mut world), 1, "its room was not what was cut off");
    world.end();
}

/// RFC 6891 §6.2.2, §7.
#[test]
fn server_without_edns_is_queried_without_it_and_remembered() {
    for opt_rcode in [1, 4] {
        for bare_errors in [false, true] {
            let old = Manner { opt_rcode, bare_errors, ..FAST };
            let mut world = World::loaded(&[old], 1000);
            assert!((1001..1010).contains(&world.sent[0]), "{:?}", world.sent);
            // Later, it is queried with EDNS again.
            world.pass(world.now + 601 * SECOND);
            let before = world.sent[0];
            world.load(1000, 100);
            assert!((101..110).contains(&(world.sent[0] - before)), "{:?}", world.sent);
            world.expect_answers(1100);
        }
    }
}

#[test]
fn server_that_understands_nothing_is_queried_twice_and_another_one_answers() {
    let broken = Manner { rcode: 1, bare_errors: true, ..FAST };
    let mut world = World::new(&[broken]);
    assert_eq!(world.query(1), QueryOutcome::Pending);
    let sum = world.end();
    assert_eq!((sum.all, sum.failed, sum.late), (1, 1, 0), "at once");
    assert_eq!(world.sent, [2]);
    let mut world = World::loaded(&[broken, SLOW], 2000);
    world.expect_answers(2000);
}

/// Over TCP, or in lower case if there is no TCP; and after the first queries, at once.
#[test]
fn server_that_does_not_keep_the_case_of_letters_answers() {
    for case in [CaseManner::Lowers, CaseManner::Denies, CaseManner::Ignores] {
        for refuses in [false, true] {
            let mut world = World::new(&[Manner { case, refuses, ..FAST }]);
            for number in 0..3 {
                world.query(number);
                world.pass(world.now + 3 * SECOND);
            }
            assert!(world.call(|forwarder, _, _| forwarder.upstream(0).has_case_fault()));
            let (first, sent) = (world.outcomes.len(), world.sent[0]);
            world.load(10, 1000);
            let slow = world.outcomes[first..].iter().filter(|(_, took)| *took > 50 * MILLI);
            assert_eq!(slow.count(), 0, "{case:?}");
            let each = if refuses { 2 } else { 1 };
            assert_eq!(world.sent[0], sent + 1000 * each, "{case:?}");
            // It is queried in random case again after a while: it may have been replaced.
            world.pass(world.now + 601 * SECOND);
            world.servers[0] = FAST;
            let by_stream = world.by_stream;
            world.load(2000, 100);
            assert_eq!(world.by_stream, by_stream);
            assert!(!world.call(|forwarder, _, _| forwarder.upstream(0).has_case_fault()));
            world.expect_end(1103, 0);
        }
    }
}

#[test]
fn denials_of_a_server_that_keeps_the_case_are_not_checked() {
    let mut world = World::loaded(&[FAST], 10);
    world.servers[0] = Manner { rcode: 3, ..FAST };
    world.load(10, 1000);
    assert_eq!((world.sent[0], world.by_stream), (1010, 0));
    // Of a server that answered nothing so far, few are.
    let mut world = World::loaded(&[Manner { rcode: 3, ..FAST }], 10_000);
    assert!(world.by_stream <= 27, "{}", world.by_stream);
    world.expect_answers(10_000);
}
