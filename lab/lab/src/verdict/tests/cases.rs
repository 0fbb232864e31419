//! A case for each rule.
use super::*;

/// A case, its cause, and words that its sentence must have.
pub struct RuleCase(
    pub &'static str,
    pub Cause,
    pub &'static [&'static str],
    pub fn() -> Measurements,
);

pub const CASES: [RuleCase; 45] = [
    RuleCase("a full ring", Cause::Host, &["60,000 of 200,000", "server's device"], || {
        let mut e = calm();
        lose(&mut e, 60_000, 1);
        e.drops.server_device = Some(60_000);
        e
    }),
    RuleCase(
        "a CPU shared for a moment",
        Cause::Host,
        &["21.9 ms late", "89.0 ms", "cc (7)"],
        || {
            let mut e = calm();
            (e.load.lateness_us, e.load.stalled_us) = (21_900.0, Some(50.0));
            generator(&mut e).waited_s = 0.089;
            let name = "cc (7)".into();
            generator(&mut e).competing =
                Some(CompetingProcess { name, cpu_s: 0.24, most_s: 0.24 });
            e
        },
    ),
    RuleCase("one that waits for itself", Cause::Generator, &["21.9 ms late"], || {
        let mut e = calm();
        e.load.lateness_us = 21_900.0;
        generator(&mut e).waited_s = 0.089;
        let name = "cron (7)".into();
        generator(&mut e).competing = Some(CompetingProcess { name, cpu_s: 0.02, most_s: 0.02 });
        e
    }),
    RuleCase(
        "a CPU that stood still",
        Cause::Host,
        &["35.1 ms late", "for 34.0 ms", "timer"],
        || {
            let mut e = calm();
            (e.load.lateness_us, e.load.stalled_us) = (35_100.0, Some(34_000.0));
            e
        },
    ),
    RuleCase("the same for long", Cause::Host, &["950.0 ms late", "stood still"], || {
        let mut e = calm();
        (e.load.lateness_us, e.load.stalled_us) = (950_000.0, Some(940_000.0));
        e
    }),
    RuleCase("a slow generator beside it", Cause::Generator, &["120,000 of 200,000"], || {
        let mut e = calm();
        (e.load.sent, e.load.unsent, e.load.lateness_us) = (120_000, 80_000, 900_000.0);
        e.load.stalled_us = Some(600_000.0);
        lose(&mut e, 80_000, 0);
        e
    }),
    RuleCase("a late generator beside it", Cause::Generator, &["35.1 ms late"], || {
        let mut e = calm();
        (e.load.lateness_us, e.load.stalled_us) = (35_100.0, Some(4_000.0));
        e
    }),
    RuleCase("one thread on sixteen CPUs", Cause::Server, &["server's CPU was 99 %"], || {
        let mut e = closed_beside(0);
        (server(&mut e).cpus, server(&mut e).busiest_s) = (16.0, 1.98);
        e
    }),
    RuleCase("a hog on one of sixteen CPUs", Cause::Host, &["hog (77)", "92 %", "1.80 s"], || {
        let mut e = overrun(50_000);
        server(&mut e).cpus = 16.0;
        hog(server(&mut e));
        e
    }),
    RuleCase("many who use little of many CPUs", Cause::Server, &["RcvbufErrors"], || {
        let mut e = overrun(50_000);
        server(&mut e).cpus = 16.0;
        hog(server(&mut e));
        let name = "cron (8) and others".into();
        server(&mut e).competing = Some(CompetingProcess { name, cpu_s: 1.85, most_s: 0.15 });
        e
    }),
    RuleCase("nothing was asked", Cause::Undetermined, &["no question"], Measurements::default),
    RuleCase("a closed loop", Cause::Offered, &["no more were asked at once", "35 %"], || {
        closed_beside(0)
    }),
    RuleCase("a closed loop beside others", Cause::Offered, &["no more were asked"], || {
        closed_beside(50)
    }),
    RuleCase("a slow server in a closed loop", Cause::Server, &["server's CPU was 98 %"], || {
        let mut e = closed_beside(50);
        server(&mut e).process_s = 1.75;
        e
    }),
    RuleCase("a slow generator in a closed loop", Cause::Generator, &["generator's 98 %"], || {
        let mut e = closed_beside(50);
        generator(&mut e).process_s = 1.75;
        e
    }),
    RuleCase(
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
    RuleCase("all answered", Cause::Offered, &["200,000 of 200,000", "80 µs"], calm),
    RuleCase(
        "a slow server",
        Cause::Server,
        &["50,000 of 200,000", "RcvbufErrors", "98 %"],
        || {
            let mut e = overrun(50_000);
            server(&mut e).process_s = 1.75;
            e
        },
    ),
    RuleCase(
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
    RuleCase("a narrow link", Cause::Network, &["60,000 of 200,000", "tc -s qdisc"], || {
        let mut e = calm();
        lose(&mut e, 60_000, 1);
        (e.drops.qdisc, e.drops.qdisc_overlimits) = (Some(60_000), Some(90_000));
        e
    }),
    RuleCase("a link that holds back", Cause::Network, &["overlimits", "150,000 times"], || {
        let mut e = calm();
        (e.load.sent, e.load.unsent, e.load.lateness_us) = (120_000, 80_000, 900_000.0);
        lose(&mut e, 80_000, 0);
        e.drops.qdisc_overlimits = Some(150_000);
        e
    }),
    RuleCase("loss on the link", Cause::Network, &["10,000 of 200,000", "between the gen"], || {
        let mut e = calm();
        lose(&mut e, 10_000, 2);
        e
    }),
    RuleCase(
        "a filter before the sockets",
        Cause::Network,
        &["10,000", "device and its sockets"],
        || {
            let mut e = calm();
            lose(&mut e, 10_000, 3);
            e
        },
    ),
    RuleCase(
        "answers lost on the link",
        Cause::Network,
        &["10,000", "server's host and the"],
        || {
            let mut e = calm();
            lose(&mut e, 10_000, 6);
            e
        },
    ),
    RuleCase("a small buffer", Cause::Server, &["4,000 of 200,000", "50 %", "too small"], || {
        overrun(4_000)
    }),
    RuleCase("a hog at the server", Cause::Host, &["hog (77)", "92 %", "1.80 s"], || {
        let mut e = overrun(150_000);
        hog(server(&mut e));
        e
    }),
    RuleCase("a hog at the generator", Cause::Host, &["the generator kept no plan", "hog"], || {
        let mut e = calm();
        e.load.lateness_us = 950_000.0;
        hog(generator(&mut e));
        e
    }),
    RuleCase("a busy process that delays no thread", Cause::Offered, &["200,000"], || {
        let mut e = calm();
        hog(generator(&mut e));
        e
    }),
    RuleCase("a stolen CPU", Cause::Host, &["hypervisor", "30 %"], || {
        let mut e = overrun(50_000);
        server(&mut e).steal_s = 0.6;
        e
    }),
    RuleCase("a throttled server", Cause::Host, &["throttled 40 %", "cpu.stat"], || {
        let mut e = overrun(50_000);
        server(&mut e).throttled_s = 0.8;
        e
    }),
    RuleCase("a stopped server", Cause::Server, &["stopped", "199,900 of 200,000"], || {
        let mut e = overrun(199_900);
        e.drops.server_socket = Some(199_000);
        server(&mut e).stopped = true;
        e
    }),
    RuleCase(
        "one flow for two sockets",
        Cause::Generator,
        &["2 sockets 1 overflowed", "1 source"],
        || {
            let mut e = overrun(50_000);
            e.flows = Some(flows(1, vec![50_000, 0]));
            e
        },
    ),
    RuleCase(
        "a flow that waits in one of two",
        Cause::Generator,
        &["2 sockets 1 overflowed"],
        || {
            let mut e = calm();
            (e.load.answered, e.load.timeouts, e.load.late) = (150_000, 50_000, 50_000);
            let waiting = vec![4 << 20, 0];
            e.flows = Some(SocketSpread { sources: 1, dropped: vec![0, 0], waiting });
            e
        },
    ),
    RuleCase("loss where packets hold several", Cause::Network, &["10,000 of 200,000"], || {
        let mut e = calm();
        lose(&mut e, 10_000, 3);
        (e.balance.left_generator, e.balance.arrived_server) = (None, None);
        e
    }),
    RuleCase("two sockets, both full", Cause::Server, &["RcvbufErrors"], || {
        let mut e = overrun(50_000);
        e.flows = Some(flows(1, vec![20_000, 30_000]));
        e
    }),
    RuleCase("a generator that hurries a little", Cause::Generator, &["30.0 ms late"], || {
        let mut e = calm();
        e.load.lateness_us = 30_000.0;
        e
    }),
    RuleCase("the same at a slow server", Cause::Server, &["50,000 of 200,000"], || {
        let mut e = overrun(50_000);
        e.load.lateness_us = 30_000.0;
        e
    }),
    RuleCase("a deaf generator", Cause::Generator, &["generator's socket", "30,000"], || {
        let mut e = calm();
        lose(&mut e, 30_000, 7);
        e.drops.generator_socket = Some(30_000);
        e
    }),
    RuleCase("a silent server", Cause::Server, &["did not answer", "20,000"], || {
        let mut e = calm();
        lose(&mut e, 20_000, 4);
        e
    }),
    RuleCase("a server that lies", Cause::Server, &["wrongly", "20,000"], || {
        let mut e = calm();
        (e.load.answered, e.load.wrong) = (180_000, 20_000);
        e
    }),
    RuleCase("a full backlog in an idle host", Cause::Host, &["softnet_stat", "50 % busy"], || {
        let mut e = calm();
        lose(&mut e, 20_000, 3);
        e.drops.server_softnet = Some(20_000);
        e
    }),
    RuleCase("a machine that changed", Cause::Host, &["200,000", "120,000", "recvmmsg"], || {
        let mut e = overrun(50_000);
        let model = "recvmmsg".into();
        e.ceiling = Some(Ceiling { model, before: 200_000.0, after: 120_000.0 });
        e
    }),
    RuleCase("counters of two runs", Cause::Undetermined, &["300,000", "of one run"], || {
        let mut e = overrun(50_000);
        e.balance.read_server = Some(300_000);
        e
    }),
    RuleCase(
        "a resolver whose stack counted its own queries",
        Cause::Server,
        &["server's CPU", "96 % busy"],
        || {
            let mut e = calm();
            lose(&mut e, 40_000, 4);
            let balance = &mut e.balance;
            (balance.left_generator, balance.arrived_server) = (None, None);
            (balance.read_server, balance.answered_server) = (Some(520_000), Some(516_000));
            server(&mut e).process_s = 1.72;
            e
        },
    ),
    RuleCase(
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
