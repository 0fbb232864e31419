//! A case for each rule.
use super::*;

use Begin::{Calm, Closed, Nothing, Overrun};
use Cause::{Generator, Host, Network, Offered, Server, Undetermined};

/// A case, its cause, words that its sentence must have, with `; ` between, and what its
/// measurements begin with and differ in.
pub struct Case(
    pub &'static str,
    pub Cause,
    pub &'static str,
    pub Begin,
    pub fn(&mut Measurements),
);

/// What the measurements of a case begin with.
pub enum Begin {
    Nothing,
    Calm,
    /// [`overrun`].
    Overrun(u64),
    /// [`closed_with_other_packets`].
    Closed(u64),
}

impl Case {
    pub fn measurements(&self) -> Measurements {
        let mut measurements = match self.3 {
            Nothing => Measurements::default(),
            Calm => calm(),
            Overrun(lost) => overrun(lost),
            Closed(others) => closed_with_other_packets(others),
        };
        self.4(&mut measurements);
        measurements
    }
}

pub const CASES: [Case; 45] = [
    Case("a full ring", Host, "60,000 of 200,000; server's device", Calm, |e| {
        lose(e, 60_000, 1);
        e.drops.server_device = Some(60_000);
    }),
    Case("a CPU shared for a moment", Host, "21.9 ms late; 89.0 ms; cc (7)", Calm, |e| {
        (e.load.lateness_us, e.load.stalled_us) = (21_900.0, Some(50.0));
        generator(e).waited_s = 0.089;
        let name = "cc (7)".into();
        generator(e).competing = Some(CompetingProcess { name, cpu_s: 0.24, most_s: 0.24 });
    }),
    Case("one that waits for itself", Generator, "21.9 ms late", Calm, |e| {
        e.load.lateness_us = 21_900.0;
        generator(e).waited_s = 0.089;
        let name = "cron (7)".into();
        generator(e).competing = Some(CompetingProcess { name, cpu_s: 0.02, most_s: 0.02 });
    }),
    Case("a CPU that stood still", Host, "35.1 ms late; for 34.0 ms; timer", Calm, |e| {
        (e.load.lateness_us, e.load.stalled_us) = (35_100.0, Some(34_000.0));
    }),
    Case("the same for long", Host, "950.0 ms late; stood still", Calm, |e| {
        (e.load.lateness_us, e.load.stalled_us) = (950_000.0, Some(940_000.0));
    }),
    Case("a slow generator beside it", Generator, "120,000 of 200,000", Calm, |e| {
        (e.load.sent, e.load.unsent, e.load.lateness_us) = (120_000, 80_000, 900_000.0);
        e.load.stalled_us = Some(600_000.0);
        lose(e, 80_000, 0);
    }),
    Case("a late generator beside it", Generator, "35.1 ms late", Calm, |e| {
        (e.load.lateness_us, e.load.stalled_us) = (35_100.0, Some(4_000.0));
    }),
    Case("one thread on sixteen CPUs", Server, "server's CPU was 99 %", Closed(0), |e| {
        (server(e).cpus, server(e).busiest_s) = (16.0, 1.98);
    }),
    Case("a hog on one of sixteen CPUs", Host, "hog (77); 92 %; 1.80 s", Overrun(50_000), |e| {
        server(e).cpus = 16.0;
        hog(server(e));
    }),
    Case("many who use little of many CPUs", Server, "RcvbufErrors", Overrun(50_000), |e| {
        server(e).cpus = 16.0;
        hog(server(e));
        let name = "cron (8) and others".into();
        server(e).competing = Some(CompetingProcess { name, cpu_s: 1.85, most_s: 0.15 });
    }),
    Case("nothing was asked", Undetermined, "no question", Nothing, |_| ()),
    Case("a closed loop", Offered, "no more were asked at once; 35 %", Closed(0), |_| ()),
    Case("a closed loop beside others", Offered, "no more were asked", Closed(50), |_| ()),
    Case("a slow server in a closed loop", Server, "server's CPU was 98 %", Closed(50), |e| {
        server(e).process_s = 1.75;
    }),
    Case("a slow generator in a closed loop", Generator, "generator's 98 %", Closed(50), |e| {
        generator(e).process_s = 1.75;
    }),
    Case(
        "few losses beside as many packets of others",
        Undetermined,
        "400 of 200,000; 300 vanished; too few to tell",
        Calm,
        |e| {
            (e.load.answered, e.load.timeouts) = (199_600, 400);
            e.balance.arrived_generator = Some(199_900);
            e.balance.read_generator = Some(199_600);
        },
    ),
    Case("all answered", Offered, "200,000 of 200,000; 80 µs", Calm, |_| ()),
    Case("a slow server", Server, "50,000 of 200,000; RcvbufErrors; 98 %", Overrun(50_000), |e| {
        server(e).process_s = 1.75;
    }),
    Case("a slow generator", Generator, "120,000 of 200,000; 900.0 ms; 98 %", Calm, |e| {
        (e.load.sent, e.load.unsent, e.load.lateness_us) = (120_000, 80_000, 900_000.0);
        lose(e, 80_000, 0);
        generator(e).process_s = 1.75;
    }),
    Case("a narrow link", Network, "60,000 of 200,000; tc -s qdisc", Calm, |e| {
        lose(e, 60_000, 1);
        (e.drops.qdisc, e.drops.qdisc_overlimits) = (Some(60_000), Some(90_000));
    }),
    Case("a link that holds back", Network, "overlimits; 150,000 times", Calm, |e| {
        (e.load.sent, e.load.unsent, e.load.lateness_us) = (120_000, 80_000, 900_000.0);
        lose(e, 80_000, 0);
        e.drops.qdisc_overlimits = Some(150_000);
    }),
    Case("loss on the link", Network, "10,000 of 200,000; between the gen", Calm, |e| {
        lose(e, 10_000, 2);
    }),
    Case("a filter before the sockets", Network, "10,000; device and its sockets", Calm, |e| {
        lose(e, 10_000, 3);
    }),
    Case("answers lost on the link", Network, "10,000; server's host and the", Calm, |e| {
        lose(e, 10_000, 6);
    }),
    Case("a small buffer", Server, "4,000 of 200,000; 50 %; too small", Overrun(4_000), |_| ()),
    Case("a hog at the server", Host, "hog (77); 92 %; 1.80 s", Overrun(150_000), |e| {
        hog(server(e));
    }),
    Case("a hog at the generator", Host, "the generator kept no plan; hog", Calm, |e| {
        e.load.lateness_us = 950_000.0;
        hog(generator(e));
    }),
    Case("a busy process that delays no thread", Offered, "200,000", Calm, |e| {
        hog(generator(e));
    }),
    Case("a stolen CPU", Host, "hypervisor; 30 %", Overrun(50_000), |e| {
        server(e).steal_s = 0.6;
    }),
    Case("a throttled server", Host, "throttled 40 %; cpu.stat", Overrun(50_000), |e| {
        server(e).throttled_s = 0.8;
    }),
    Case("a stopped server", Server, "stopped; 199,900 of 200,000", Overrun(199_900), |e| {
        e.drops.server_socket = Some(199_000);
        server(e).stopped = true;
    }),
    Case(
        "one flow for two sockets",
        Generator,
        "2 sockets 1 overflowed; 1 source",
        Overrun(50_000),
        |e| {
            e.flows = Some(flows(1, vec![50_000, 0]));
        },
    ),
    Case("a flow that waits in one of two", Generator, "2 sockets 1 overflowed", Calm, |e| {
        (e.load.answered, e.load.timeouts, e.load.late) = (150_000, 50_000, 50_000);
        let waiting = vec![4 << 20, 0];
        e.flows = Some(SocketSpread { sources: 1, dropped: vec![0, 0], waiting });
    }),
    Case("loss where packets hold several", Network, "10,000 of 200,000", Calm, |e| {
        lose(e, 10_000, 3);
        (e.balance.left_generator, e.balance.arrived_server) = (None, None);
    }),
    Case("two sockets, both full", Server, "RcvbufErrors", Overrun(50_000), |e| {
        e.flows = Some(flows(1, vec![20_000, 30_000]));
    }),
    Case("a generator that hurries a little", Generator, "30.0 ms late", Calm, |e| {
        e.load.lateness_us = 30_000.0;
    }),
    Case("the same at a slow server", Server, "50,000 of 200,000", Overrun(50_000), |e| {
        e.load.lateness_us = 30_000.0;
    }),
    Case("a deaf generator", Generator, "generator's socket; 30,000", Calm, |e| {
        lose(e, 30_000, 7);
        e.drops.generator_socket = Some(30_000);
    }),
    Case("a silent server", Server, "did not answer; 20,000", Calm, |e| {
        lose(e, 20_000, 4);
    }),
    Case("a server that lies", Server, "wrongly; 20,000", Calm, |e| {
        (e.load.answered, e.load.wrong) = (180_000, 20_000);
    }),
    Case("a full backlog in an idle host", Host, "softnet_stat; 50 % busy", Calm, |e| {
        lose(e, 20_000, 3);
        e.drops.server_softnet = Some(20_000);
    }),
    Case("a machine that changed", Host, "200,000; 120,000; recvmmsg", Overrun(50_000), |e| {
        let model = "recvmmsg".into();
        e.ceiling = Some(Ceiling { model, before: 200_000.0, after: 120_000.0 });
    }),
    Case("counters of two runs", Undetermined, "300,000; of one run", Overrun(50_000), |e| {
        e.balance.read_server = Some(300_000);
    }),
    Case(
        "a resolver whose stack counted its own queries",
        Server,
        "server's CPU; 96 % busy",
        Calm,
        |e| {
            lose(e, 40_000, 4);
            let balance = &mut e.balance;
            (balance.left_generator, balance.arrived_server) = (None, None);
            (balance.read_server, balance.answered_server) = (Some(520_000), Some(516_000));
            server(e).process_s = 1.72;
        },
    ),
    Case("a server elsewhere", Undetermined, "60,000 of 200,000; read by the server", Calm, |e| {
        lose(e, 60_000, 2);
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
    }),
];
