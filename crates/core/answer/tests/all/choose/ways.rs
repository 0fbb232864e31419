//! All ways to choose are one.
use super::*;

/// The fast path, the full path, and TCP's truncation write the same choice.
#[test]
fn all_ways_to_answer_choose_alike() {
    let mut state = 3;
    for case in 0..120 {
        let order = [Order::Random, Order::Weighted, Order::Hash][case % 3];
        let others = [1, 1, 2, u16::MAX][case / 6 % 4];
        let mut rules = near(order, others);
        if case % 2 == 0 {
            rules.locations.clear();
        }
        if case % 5 != 0 {
            rules.weights = (0..6).map(|_| (random(&mut state) % 4) as u16 * 20).collect();
        }
        let mut server = Server::new(zone("cluster.local.", 6, &rules));
        for _ in 0..50 {
            let (bits, seed) = (random(&mut state), random(&mut state));
            let (client, place) = (client(bits as u32 & 0xffff), (bits >> 40) as u16 % 6);
            for rtype in [Rtype::A, Rtype::AAAA] {
                let question = ("s.cluster.local.", rtype);
                let fast = server.ask(question, (client, place), (seed, ROOM));
                let full = server.ask(question, (client, place), (seed, LITTLE_ROOM));
                assert_eq!(fast, full, "{rules:?} for {client} at {place}, seed {seed}");
                assert!(fast[3] & 15 == 0 && (1..=others.min(6)).contains(&fast[7].into()));
            }
        }
    }
}

/// One record by hash is the first of several, whatever the weights and the locations.
#[test]
fn one_record_by_hash_is_the_first_of_several() {
    let mut state = 11;
    for members in [1, 2, 7, 8, 60, 256] {
        for case in 0..6 {
            let mut rules = one(Order::Hash);
            if case % 3 > 0 {
                let (bits, least) = ([0, 2, 16][case % 3], [0, 0, 1][case % 3]);
                let weight = |_| (random(&mut state) >> (64 - bits)) as u16 | least;
                rules.weights = (0..members).map(weight).collect();
            }
            if case > 2 {
                rules.locations = (0..members).map(|n| location(PATHS[n * 5 / members])).collect();
                rules.locations.sort_unstable();
            }
            let several = AnswerRules { others: 3, ..rules.clone() };
            let [one, several] =
                [&rules, &several].map(|rules| zone("cluster.local.", members, rules));
            let [one, several] = [&one, &several].map(|zone| set_of(zone, Rtype::A));
            for n in 0..2_000 {
                let location = location(PATHS[n as usize % 5]);
                let chooser = Chooser { client: client(n), location, draw: random(&mut state) };
                assert_eq!(chosen(&one, chooser), chosen(&several, chooser)[..1], "{rules:?}");
            }
        }
    }
}
