use super::*;
use cases::{CASES, Case};
use proptest::prelude::*;

mod cases;

/// Two seconds of 100,000 queries a second, a CPU for each side, all answered.
fn calm() -> Measurements {
    let n = 200_000;
    let side =
        SideUse { cpus: 1.0, process_s: 0.8, kernel_s: 0.2, waited_s: 0.01, ..SideUse::default() };
    Measurements {
        load: LoadResult {
            open: true,
            seconds: 2.0,
            planned: n,
            sent: n,
            answered: n,
            lateness_us: 80.0,
            ..LoadResult::default()
        },
        balance: Balance {
            sent: Some(n),
            left_generator: Some(n),
            arrived_server: Some(n),
            read_server: Some(n),
            answered_server: Some(n),
            left_server: Some(n),
            arrived_generator: Some(n),
            read_generator: Some(n),
        },
        drops: Drops {
            server_socket: Some(0),
            server_softnet: Some(0),
            server_device: Some(0),
            generator_socket: Some(0),
            generator_softnet: Some(0),
            generator_device: Some(0),
            qdisc: Some(0),
            qdisc_overlimits: Some(0),
        },
        server: Some(side.clone()),
        generator: Some(side),
        flows: Some(flows(64, vec![0])),
        ceiling: None,
    }
}

/// The same, of which `lost` died in the server's socket.
fn overrun(lost: u64) -> Measurements {
    let mut e = calm();
    lose(&mut e, lost, 3);
    e.drops.server_socket = Some(lost);
    e.flows = Some(flows(64, vec![lost]));
    e
}

/// `lost` packets do not come to the balance's place number `from`, nor to any behind it.
fn lose(e: &mut Measurements, lost: u64, from: usize) {
    e.load.answered -= lost;
    e.load.timeouts += lost;
    let b = &mut e.balance;
    let places = [
        &mut b.sent,
        &mut b.left_generator,
        &mut b.arrived_server,
        &mut b.read_server,
        &mut b.answered_server,
        &mut b.left_server,
        &mut b.arrived_generator,
        &mut b.read_generator,
    ];
    for place in places.into_iter().skip(from) {
        *place = place.map(|count| count - lost);
    }
}

fn flows(sources: u64, dropped: Vec<u64>) -> SocketSpread {
    SocketSpread { sources, waiting: vec![0; dropped.len()], dropped }
}

fn server(e: &mut Measurements) -> &mut SideUse {
    e.server.as_mut().unwrap()
}

fn generator(e: &mut Measurements) -> &mut SideUse {
    e.generator.as_mut().unwrap()
}

/// A closed loop in which all was answered, and some more packets than answers came to the
/// generator's device: a user is logged in over it.
fn closed_with_other_packets(others: u64) -> Measurements {
    let mut e = calm();
    e.load.open = false;
    (server(&mut e).process_s, generator(&mut e).process_s) = (0.5, 0.5);
    e.balance.arrived_generator = e.balance.arrived_generator.map(|count| count + others);
    e
}

fn hog(side: &mut SideUse) {
    side.process_s = 0.1;
    side.waited_s = 1.8;
    side.competing = Some(CompetingProcess { name: "hog (77)".into(), cpu_s: 1.85, most_s: 1.85 });
}

#[test]
fn every_case_has_its_cause_and_counts() {
    for case in &CASES {
        let Case(name, cause, words, ..) = case;
        let verdict = judge(&case.measurements());
        assert_eq!(verdict.cause, *cause, "{name}: {verdict}");
        for word in words.split("; ") {
            assert!(verdict.because.contains(word), "{name}: {verdict} lacks {word:?}");
        }
    }
}

#[test]
fn every_rule_has_a_case() {
    let spoke = |rule: &Rule| CASES.iter().any(|case| rule(&case.measurements()).is_some());
    for (name, rule) in RULES {
        assert!(spoke(&rule), "no case of: {name}");
    }
    assert_eq!(order().count(), RULES.len());
}

#[test]
fn a_closed_loop_is_limited_by_the_busy_side() {
    for (server_s, generator_s, cause) in [
        (1.9, 0.5, Cause::Server),
        (0.5, 1.9, Cause::Generator),
        (0.5, 0.5, Cause::Offered),
        (1.9, 1.9, Cause::Undetermined),
    ] {
        let mut e = calm();
        e.load.open = false;
        server(&mut e).process_s = server_s;
        generator(&mut e).process_s = generator_s;
        assert_eq!(judge(&e).cause, cause, "{server_s} {generator_s}: {}", judge(&e));
    }
}

#[test]
fn an_echo_decides_when_both_sides_are_busy() {
    let mut e = calm();
    e.load.open = false;
    server(&mut e).process_s = 1.9;
    generator(&mut e).process_s = 1.9;
    assert!(judge(&e).because.contains("--against-echo"), "{}", judge(&e));
    // It has 100,000 answers a second.
    for (echo, cause, word) in [
        (180_000.0, Cause::Server, "56 % of an echo's"),
        (103_000.0, Cause::Generator, "no more from an echo"),
    ] {
        e.ceiling = Some(Ceiling { model: "epoll".into(), before: echo, after: echo });
        let verdict = judge(&e);
        assert_eq!(verdict.cause, cause, "{verdict}");
        assert!(verdict.because.contains(word), "{verdict}");
    }
}

#[test]
fn a_rate_at_the_ceiling_is_reported_as_such() {
    let mut e = overrun(50_000);
    let model = "recvmmsg".into();
    e.ceiling = Some(Ceiling { model, before: 80_000.0, after: 82_000.0 });
    let verdict = judge(&e);
    assert_eq!(verdict.cause, Cause::Server);
    assert!(verdict.because.contains("75,000 answers a second are 93 % of an echo's"), "{verdict}");
}

fn any_measurements() -> impl Strategy<Value = Measurements> {
    let counts = || prop::collection::vec(prop::option::of(0u64..1_000), 16);
    let numbers = prop::collection::vec(0.0f64..5.0, 12);
    (counts(), prop::collection::vec(0u64..1_000, 8), numbers, any::<[bool; 4]>()).prop_map(
        |(c, n, f, flags)| {
            let side = |at: usize| SideUse {
                cpus: f[at],
                process_s: f[at + 1],
                kernel_s: f[at + 2],
                busiest_s: f[at + 2],
                waited_s: f[at + 3],
                competing: flags[0].then(|| CompetingProcess {
                    name: "x (1)".into(),
                    cpu_s: f[at + 4],
                    most_s: f[at + 4],
                }),
                steal_s: f[at + 4] / 9.0,
                throttled_s: 0.0,
                stopped: flags[1],
            };
            let mut e = calm();
            e.load.open = flags[2];
            (e.load.planned, e.load.sent, e.load.answered) = (n[0], n[1], n[2]);
            (e.load.wrong, e.load.seconds) = (n[3], f[10]);
            e.balance.left_generator = c[0];
            e.balance.arrived_server = c[1];
            e.balance.read_server = c[2];
            e.balance.answered_server = c[3];
            e.drops.server_socket = c[4];
            e.drops.qdisc = c[5];
            e.drops.server_softnet = c[6];
            e.drops.generator_socket = c[7];
            e.server = flags[3].then(|| side(0));
            e.generator = Some(side(5));
            let (model, before, after) = ("spin".into(), f[11] - 1.0, f[9]);
            e.ceiling = flags[2].then_some(Ceiling { model, before, after });
            e
        },
    )
}

proptest! {
    #[test]
    fn all_measurements_give_a_verdict_with_a_number(e in any_measurements()) {
        let verdict = judge(&e);
        let figures = verdict.because.chars().any(|c| c.is_ascii_digit());
        prop_assert!(figures || e.load.planned == 0, "{}", verdict);
        prop_assert_eq!(&verdict, &judge(&e));
        if verdict.cause == Cause::Offered && e.load.open {
            prop_assert!(e.load.answered as f64 >= e.load.planned as f64 * 0.999);
        }
    }
}
