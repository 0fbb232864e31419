//! A client that asks for names which no server can answer: what others notice.

use crate::world::{Attack, DEAD, FAST, MILLI, Manner, Outcome, SECOND, SLOW, STREAM, World};
use forward::UpstreamTransport;

/// A round trip that is longer than one question is waited for at first.
const FAR: Manner = Manner { round_trip: 1_500 * MILLI, ..FAST };
const FAR_STREAM: Manner = Manner { round_trip: 1_500 * MILLI, ..STREAM };

/// How other clients ask: this many names, one after this time each, after this long a pause.
#[derive(Clone, Copy, Debug)]
struct Others {
    count: u64,
    gap: u64,
    pause: u64,
}

const fn others(count: u64, gap: u64, pause: u64) -> Others {
    Others { count, gap, pause }
}

/// What others lose while an attack goes on that had some seconds to do its worst.
fn check(seed: u64, servers: &[Manner], attack: Attack, rhythm: Others) {
    let mut world = World::seeded(seed, servers);
    // The servers are known, as they are on any day before.
    world.load_every(10 * MILLI, 0, 100);
    world.pass(world.now + 3 * SECOND);
    world.outcomes.clear();
    world.attack = Some(attack);
    world.pass(world.now + 5 * SECOND);
    let Others { count, gap, pause } = rhythm;
    for round in 0..2 {
        world.pass(world.now + pause);
        world.load_every(gap, 10_000 + round * count, count);
    }
    world.pass(world.now + 5 * SECOND);
    let all = world.outcomes.len();
    let failed = world.outcomes.iter().filter(|(it, _)| *it == Outcome::Failed).count();
    let purpose = format!(
        "seed {seed}, {attack:?}, {rhythm:?}, {} servers of {} us: {failed} of {all} failed, \
         {} probes",
        servers.len(),
        servers[0].round_trip,
        world.probes.len()
    );
    println!("{purpose}");
    assert_eq!(all as u64, 2 * count, "{purpose}");
    assert!(failed * 100 <= all, "{purpose}");
}

const RHYTHMS: [Others; 6] = [
    others(15, SECOND, 0),
    others(60, 50 * MILLI, 0),
    others(100, 0, 3 * SECOND),
    others(57, 5 * MILLI, 3 * SECOND),
    others(149, MILLI, 12 * SECOND),
    others(438, MILLI, 3 * SECOND),
];
const NEVER: Option<u64> = None;
const LATE: Option<u64> = Some(1_300 * MILLI);
const VERY_LATE: Option<u64> = Some(3 * SECOND);

/// Attacks at these rates, whose names are answered never or so late.
fn check_all(seed: u64, servers: &[Manner], rates: &[u64], late_queries: &[Option<u64>]) {
    for rhythm in RHYTHMS {
        for rate in rates {
            for late in late_queries {
                check(seed, servers, Attack { rate: *rate, late: *late }, rhythm);
            }
        }
    }
}

#[test]
fn one_server_answers_others_while_a_client_asks_in_vain() {
    check_all(1, &[FAST], &[20, 400], &[NEVER, LATE, VERY_LATE]);
    check_all(2, &[SLOW], &[3, 400], &[NEVER]);
}

#[test]
fn two_servers_answer_others_while_a_client_asks_in_vain() {
    check_all(3, &[FAST, SLOW], &[20, 400], &[NEVER, LATE]);
}

#[test]
fn stream_servers_answer_others_while_a_client_asks_in_vain() {
    check_all(4, &[STREAM], &[20, 400], &[NEVER, LATE]);
    check_all(
        5,
        &[Manner { transport: UpstreamTransport::Streams, ..STREAM }, STREAM],
        &[400],
        &[NEVER],
    );
}

#[test]
fn far_servers_answer_others_while_a_client_asks_in_vain() {
    check_all(6, &[FAR], &[20, 400], &[NEVER, LATE]);
    check_all(7, &[FAR_STREAM], &[400], &[NEVER]);
}

#[test]
fn lossy_servers_answer_others_while_a_client_asks_in_vain() {
    let lossy = Manner { lost: 5, ..FAST };
    check_all(8, &[lossy, lossy], &[20, 400], &[NEVER]);
}

/// What others get in a time, and what is sent to servers meanwhile: failures of all, and queries.
fn spell(world: &mut World, from: u64, count: u64) -> (usize, usize, u64) {
    let (before, sent) = (world.outcomes.len(), world.sent.iter().sum::<u64>());
    world.load_every(10 * MILLI, from, count);
    let outcomes = &world.outcomes[before..];
    let failed = outcomes.iter().filter(|(it, _)| *it == Outcome::Failed).count();
    (failed, outcomes.len(), world.sent.iter().sum::<u64>() - sent)
}

const WORST: Attack = Attack { rate: 400, late: None };

#[test]
fn dead_server_is_found_and_left_alone_while_a_client_asks_in_vain() {
    let mut world = World::seeded(21, &[FAST]);
    world.load(0, 1_000);
    world.attack = Some(WORST);
    world.pass(world.now + 3 * SECOND);
    let probes = world.probes.len();
    assert!((4..=13).contains(&probes), "in three seconds: {probes}");
    world.servers[0] = DEAD;
    // As long as it may have become slow, it is asked.
    spell(&mut world, 1_000, 300);
    let probes = world.probes.len();
    let (failed, all, sent) = spell(&mut world, 2_000, 1_000);
    let told_late = world.outcomes[world.outcomes.len() - all..].iter().filter(|it| it.1 > 0);
    assert_eq!(failed, all);
    assert!(told_late.count() <= 20, "but those who were asked before");
    assert!(sent <= 6 && world.probes.len() - probes <= 5, "{sent}, {:?}", world.probes);
    world.servers[0] = FAST;
    // The rests of ten seconds grow to eight.
    spell(&mut world, 4_000, 800);
    let (failed, all, _) = spell(&mut world, 5_000, 500);
    assert_eq!((failed, all), (0, 500), "its return is seen");
}

#[test]
fn death_of_one_of_two_costs_little_while_a_client_asks_in_vain() {
    let mut world = World::seeded(22, &[FAST, SLOW]);
    world.load(0, 1_000);
    world.attack = Some(WORST);
    world.load(1_000, 3_000);
    world.pass(world.now + 50 * MILLI);
    world.outcomes.clear();
    world.servers[0] = DEAD;
    world.load(4_000, 9_000);
    let sum = world.end_of_attack();
    println!("{sum:?}");
    assert_eq!((sum.all, sum.failed), (9_000, 0));
    assert!(sum.late * 100 <= 9_000, "{sum:?}");
}

#[test]
fn late_reply_is_a_sign_of_life() {
    let far = Manner { round_trip: 2 * SECOND, ..FAST };
    let mut world = World::seeded(23, &[FAST]);
    world.load(0, 100);
    world.servers[0] = far;
    // No client waits any more when the first answers arrive; they are cached nevertheless.
    world.load_every(100 * MILLI, 100, 10);
    world.pass(world.now + 5 * SECOND);
    assert!(world.late_answer >= 5, "{}", world.late_answer);
    world.outcomes.clear();
    world.load_every(100 * MILLI, 1_000, 100);
    let sum = world.end();
    assert_eq!((sum.all, sum.failed), (100, 0), "it is known to be far");
}

#[test]
fn forged_late_reply_is_no_sign_of_life() {
    let mut world = World::seeded(24, &[Manner { lies: true, ..FAST }]);
    world.load(0, 10);
    let mismatched =
        |world: &mut World| world.call(|forwarder, _, _| forwarder.upstream(0).counts.mismatched);
    let before = mismatched(&mut world);
    world.attack = Some(Attack { rate: 100, late: Some(3 * SECOND) });
    world.pass(world.now + SECOND);
    world.attack = Some(Attack { rate: 0, late: Some(3 * SECOND) });
    world.pass(world.now + 6 * SECOND);
    let answers = world.late_answer;
    assert!(answers > 90, "{answers}");
    // Eight lies came before each reply, to a query that had been given up or to one waited for.
    assert!(mismatched(&mut world) - before >= 8 * 100);
}

/// Whatever is asked of it, or nothing at all.
#[test]
fn return_of_an_idle_server_is_detected_by_probes_alone() {
    let mut world = World::seeded(25, &[FAST]);
    world.call(|forwarder, now, _| forwarder.upstream(0).record_unreachable(now));
    world.servers[0] = DEAD;
    world.load(0, 10);
    world.pass(world.now + 10 * SECOND);
    assert!((3..=6).contains(&world.probes.len()), "{:?}", world.probes);
    world.servers[0] = FAST;
    world.pass(world.now + 30 * SECOND);
    world.outcomes.clear();
    world.load(100, 100);
    let sum = world.end();
    assert_eq!((sum.all, sum.failed, sum.late), (100, 0, 0));
    assert_eq!(world.sent, [100], "no client's query was an attempt");
}
