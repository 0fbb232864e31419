use super::*;
use proptest::prelude::*;

/// Two seconds of 100,000 questions a second, a CPU for each side, all answered.
fn calm() -> Evidence {
    let n = 200_000;
    let side = Side { cpus: 1.0, process_s: 0.8, kernel_s: 0.2, waited_s: 0.01, ..Side::default() };
    Evidence {
        load: Load {
            open: true,
            seconds: 2.0,
            planned: n,
            sent: n,
            answered: n,
            lateness_us: 80.0,
            ..Load::default()
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
fn overrun(lost: u64) -> Evidence {
    let mut e = calm();
    lose(&mut e, lost, 3);
    e.drops.server_socket = Some(lost);
    e.flows = Some(flows(64, vec![lost]));
    e
}

/// `lost` packets do not come to the balance's place number `from`, nor to any behind it.
fn lose(e: &mut Evidence, lost: u64, from: usize) {
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

fn flows(sources: u64, dropped: Vec<u64>) -> Flows {
    Flows { sources, waiting: vec![0; dropped.len()], dropped }
}

fn server(e: &mut Evidence) -> &mut Side {
    e.server.as_mut().unwrap()
}

fn generator(e: &mut Evidence) -> &mut Side {
    e.generator.as_mut().unwrap()
}

/// A closed loop in which all was answered, and some more packets than answers came to the
/// generator's device: somebody is logged in over it.
fn closed_beside(others: u64) -> Evidence {
    let mut e = calm();
    e.load.open = false;
    (server(&mut e).process_s, generator(&mut e).process_s) = (0.5, 0.5);
    e.balance.arrived_generator = e.balance.arrived_generator.map(|count| count + others);
    e
}

fn hog(side: &mut Side) {
    side.process_s = 0.1;
    side.waited_s = 1.8;
    side.taken_by = Some(Taker { name: "hog (77)".into(), cpu_s: 1.85, most_s: 1.85 });
}

/// A story, its cause, and words that its sentence must have.
struct Story(&'static str, Cause, &'static [&'static str], fn() -> Evidence);

const STORIES: [Story; 44] = [
    Story("a full ring", Cause::Host, &["60,000 of 200,000", "server's device"], || {
        let mut e = calm();
        lose(&mut e, 60_000, 1);
        e.drops.server_device = Some(60_000);
        e
    }),
    Story("a CPU shared for a moment", Cause::Host, &["21.9 ms late", "89.0 ms", "cc (7)"], || {
        let mut e = calm();
        (e.load.lateness_us, e.load.stalled_us) = (21_900.0, Some(50.0));
        generator(&mut e).waited_s = 0.089;
        let name = "cc (7)".into();
        generator(&mut e).taken_by = Some(Taker { name, cpu_s: 0.24, most_s: 0.24 });
        e
    }),
    Story("one that waits for itself", Cause::Generator, &["21.9 ms late"], || {
        let mut e = calm();
        e.load.lateness_us = 21_900.0;
        generator(&mut e).waited_s = 0.089;
        let name = "cron (7)".into();
        generator(&mut e).taken_by = Some(Taker { name, cpu_s: 0.02, most_s: 0.02 });
        e
    }),
    Story("a CPU that stood still", Cause::Host, &["35.1 ms late", "for 34.0 ms", "timer"], || {
        let mut e = calm();
        (e.load.lateness_us, e.load.stalled_us) = (35_100.0, Some(34_000.0));
        e
    }),
    Story("the same for long", Cause::Host, &["950.0 ms late", "stood still"], || {
        let mut e = calm();
        (e.load.lateness_us, e.load.stalled_us) = (950_000.0, Some(940_000.0));
        e
    }),
    Story("a slow generator beside it", Cause::Generator, &["120,000 of 200,000"], || {
        let mut e = calm();
        (e.load.sent, e.load.unsent, e.load.lateness_us) = (120_000, 80_000, 900_000.0);
        e.load.stalled_us = Some(600_000.0);
        lose(&mut e, 80_000, 0);
        e
    }),
    Story("a late generator beside it", Cause::Generator, &["35.1 ms late"], || {
        let mut e = calm();
        (e.load.lateness_us, e.load.stalled_us) = (35_100.0, Some(4_000.0));
        e
    }),
    Story("one thread on sixteen CPUs", Cause::Server, &["server's CPU was 99 %"], || {
        let mut e = closed_beside(0);
        (server(&mut e).cpus, server(&mut e).busiest_s) = (16.0, 1.98);
        e
    }),
    Story("a hog on one of sixteen CPUs", Cause::Host, &["hog (77)", "92 %", "1.80 s"], || {
        let mut e = overrun(50_000);
        server(&mut e).cpus = 16.0;
        hog(server(&mut e));
        e
    }),
    Story("many who use little of many CPUs", Cause::Server, &["RcvbufErrors"], || {
        let mut e = overrun(50_000);
        server(&mut e).cpus = 16.0;
        hog(server(&mut e));
        let name = "cron (8) and others".into();
        server(&mut e).taken_by = Some(Taker { name, cpu_s: 1.85, most_s: 0.15 });
        e
    }),
    Story("nothing was asked", Cause::Undetermined, &["no question"], Evidence::default),
    Story("a closed loop", Cause::Offered, &["no more were asked at once", "35 %"], || {
        closed_beside(0)
    }),
    Story("a closed loop beside others", Cause::Offered, &["no more were asked"], || {
        closed_beside(50)
    }),
    Story("a slow server in a closed loop", Cause::Server, &["server's CPU was 98 %"], || {
        let mut e = closed_beside(50);
        server(&mut e).process_s = 1.75;
        e
    }),
    Story("a slow generator in a closed loop", Cause::Generator, &["generator's 98 %"], || {
        let mut e = closed_beside(50);
        generator(&mut e).process_s = 1.75;
        e
    }),
    Story(
        "few losses beside as many packets of others",
        Cause::Undetermined,
        &["400 of 200,000", "300 vanished", "too few to tell"],
        || {
            let mut e = calm();
            (e.load.answered, e.load.timeouts) = (199_600, 400);
            e.balance.arrived_generator = Some(199_900);
            e.balance.read_generator = Some(199_600);
            e
        },
    ),
    Story("all answered", Cause::Offered, &["200,000 of 200,000", "80 µs"], calm),
    Story("a slow server", Cause::Server, &["50,000 of 200,000", "RcvbufErrors", "98 %"], || {
        let mut e = overrun(50_000);
        server(&mut e).process_s = 1.75;
        e
    }),
    Story(
        "a slow generator",
        Cause::Generator,
        &["120,000 of 200,000", "900.0 ms", "98 %"],
        || {
            let mut e = calm();
            (e.load.sent, e.load.unsent, e.load.lateness_us) = (120_000, 80_000, 900_000.0);
            lose(&mut e, 80_000, 0);
            generator(&mut e).process_s = 1.75;
            e
        },
    ),
    Story("a narrow link", Cause::Network, &["60,000 of 200,000", "tc -s qdisc"], || {
        let mut e = calm();
        lose(&mut e, 60_000, 1);
        (e.drops.qdisc, e.drops.qdisc_overlimits) = (Some(60_000), Some(90_000));
        e
    }),
    Story("a link that holds back", Cause::Network, &["overlimits", "150,000 times"], || {
        let mut e = calm();
        (e.load.sent, e.load.unsent, e.load.lateness_us) = (120_000, 80_000, 900_000.0);
        lose(&mut e, 80_000, 0);
        e.drops.qdisc_overlimits = Some(150_000);
        e
    }),
    Story("loss on the link", Cause::Network, &["10,000 of 200,000", "between the gen"], || {
        let mut e = calm();
        lose(&mut e, 10_000, 2);
        e
    }),
    Story(
        "a filter before the sockets",
        Cause::Network,
        &["10,000", "device and its sockets"],
        || {
            let mut e = calm();
            lose(&mut e, 10_000, 3);
            e
        },
    ),
    Story("answers lost on the link", Cause::Network, &["10,000", "server's host and the"], || {
        let mut e = calm();
        lose(&mut e, 10_000, 6);
        e
    }),
    Story("a small buffer", Cause::Server, &["4,000 of 200,000", "50 %", "too small"], || {
        overrun(4_000)
    }),
    Story("a hog at the server", Cause::Host, &["hog (77)", "92 %", "1.80 s"], || {
        let mut e = overrun(150_000);
        hog(server(&mut e));
        e
    }),
    Story("a hog at the generator", Cause::Host, &["the generator kept no plan", "hog"], || {
        let mut e = calm();
        e.load.lateness_us = 950_000.0;
        hog(generator(&mut e));
        e
    }),
    Story("a hog that hinders nobody", Cause::Offered, &["200,000"], || {
        let mut e = calm();
        hog(generator(&mut e));
        e
    }),
    Story("a stolen CPU", Cause::Host, &["hypervisor", "30 %"], || {
        let mut e = overrun(50_000);
        server(&mut e).steal_s = 0.6;
        e
    }),
    Story("a throttled server", Cause::Host, &["throttled 40 %", "cpu.stat"], || {
        let mut e = overrun(50_000);
        server(&mut e).throttled_s = 0.8;
        e
    }),
    Story("a stopped server", Cause::Server, &["stopped", "199,900 of 200,000"], || {
        let mut e = overrun(199_900);
        e.drops.server_socket = Some(199_000);
        server(&mut e).stopped = true;
        e
    }),
    Story(
        "one flow for two sockets",
        Cause::Generator,
        &["2 sockets 1 overflowed", "1 source"],
        || {
            let mut e = overrun(50_000);
            e.flows = Some(flows(1, vec![50_000, 0]));
            e
        },
    ),
    Story("a flow that waits in one of two", Cause::Generator, &["2 sockets 1 overflowed"], || {
        let mut e = calm();
        (e.load.answered, e.load.timeouts, e.load.late) = (150_000, 50_000, 50_000);
        let waiting = vec![4 << 20, 0];
        e.flows = Some(Flows { sources: 1, dropped: vec![0, 0], waiting });
        e
    }),
    Story("loss where packets hold several", Cause::Network, &["10,000 of 200,000"], || {
        let mut e = calm();
        lose(&mut e, 10_000, 3);
        (e.balance.left_generator, e.balance.arrived_server) = (None, None);
        e
    }),
    Story("two sockets, both full", Cause::Server, &["RcvbufErrors"], || {
        let mut e = overrun(50_000);
        e.flows = Some(flows(1, vec![20_000, 30_000]));
        e
    }),
    Story("a generator that hurries a little", Cause::Generator, &["30.0 ms late"], || {
        let mut e = calm();
        e.load.lateness_us = 30_000.0;
        e
    }),
    Story("the same at a slow server", Cause::Server, &["50,000 of 200,000"], || {
        let mut e = overrun(50_000);
        e.load.lateness_us = 30_000.0;
        e
    }),
    Story("a deaf generator", Cause::Generator, &["generator's socket", "30,000"], || {
        let mut e = calm();
        lose(&mut e, 30_000, 7);
        e.drops.generator_socket = Some(30_000);
        e
    }),
    Story("a silent server", Cause::Server, &["did not answer", "20,000"], || {
        let mut e = calm();
        lose(&mut e, 20_000, 4);
        e
    }),
    Story("a server that lies", Cause::Server, &["wrongly", "20,000"], || {
        let mut e = calm();
        (e.load.answered, e.load.wrong) = (180_000, 20_000);
        e
    }),
    Story("a full backlog in an idle host", Cause::Host, &["softnet_stat", "50 % busy"], || {
        let mut e = calm();
        lose(&mut e, 20_000, 3);
        e.drops.server_softnet = Some(20_000);
        e
    }),
    Story("a machine that changed", Cause::Host, &["200,000", "120,000", "recvmmsg"], || {
        let mut e = overrun(50_000);
        let model = "recvmmsg".into();
        e.ceiling = Some(Ceiling { model, before: 200_000.0, after: 120_000.0 });
        e
    }),
    Story("counters of two runs", Cause::Undetermined, &["300,000", "of one run"], || {
        let mut e = overrun(50_000);
        e.balance.read_server = Some(300_000);
        e
    }),
    Story(
        "a server elsewhere",
        Cause::Undetermined,
        &["60,000 of 200,000", "read by the server"],
        || {
            let mut e = calm();
            lose(&mut e, 60_000, 2);
            e.server = None;
            e.flows = None;
            let sent = (e.balance.sent, e.balance.left_generator);
            let read = (e.balance.arrived_generator, e.balance.read_generator);
            e.balance = Balance {
                sent: sent.0,
                left_generator: sent.1,
                arrived_generator: read.0,
                read_generator: read.1,
                ..Balance::default()
            };
            e.drops.server_socket = None;
            e
        },
    ),
];

#[test]
fn every_story_has_its_cause_and_its_figures() {
    for Story(name, cause, words, evidence) in &STORIES {
        let verdict = judge(&evidence());
        assert_eq!(verdict.cause, *cause, "{name}: {verdict}");
        for word in *words {
            assert!(verdict.because.contains(word), "{name}: {verdict} lacks {word:?}");
        }
    }
}

#[test]
fn every_rule_is_asked_for_by_a_story() {
    let spoke = |rule: &Rule| STORIES.iter().any(|Story(.., evidence)| rule(&evidence()).is_some());
    for (name, rule) in RULES {
        assert!(spoke(&rule), "no story of: {name}");
    }
    assert_eq!(order().count(), RULES.len());
}

#[test]
fn a_closed_loop_is_bounded_by_who_is_busy() {
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
fn who_is_at_his_end_where_both_are_busy_shows_beside_an_echo() {
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
fn a_figure_at_the_ceiling_says_so() {
    let mut e = overrun(50_000);
    let model = "recvmmsg".into();
    e.ceiling = Some(Ceiling { model, before: 80_000.0, after: 82_000.0 });
    let verdict = judge(&e);
    assert_eq!(verdict.cause, Cause::Server);
    assert!(verdict.because.contains("75,000 answers a second are 93 % of an echo's"), "{verdict}");
}

fn any_evidence() -> impl Strategy<Value = Evidence> {
    let counts = || prop::collection::vec(prop::option::of(0u64..1_000), 16);
    let numbers = prop::collection::vec(0.0f64..5.0, 12);
    (counts(), prop::collection::vec(0u64..1_000, 8), numbers, any::<[bool; 4]>()).prop_map(
        |(c, n, f, flags)| {
            let side = |at: usize| Side {
                cpus: f[at],
                process_s: f[at + 1],
                kernel_s: f[at + 2],
                busiest_s: f[at + 2],
                waited_s: f[at + 3],
                taken_by: flags[0].then(|| Taker {
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
    fn whatever_the_evidence_there_is_a_verdict_with_a_figure(e in any_evidence()) {
        let verdict = judge(&e);
        let figures = verdict.because.chars().any(|c| c.is_ascii_digit());
        prop_assert!(figures || e.load.planned == 0, "{}", verdict);
        prop_assert_eq!(&verdict, &judge(&e));
        if verdict.cause == Cause::Offered && e.load.open {
            prop_assert!(e.load.answered as f64 >= e.load.planned as f64 * 0.999);
        }
    }
}
