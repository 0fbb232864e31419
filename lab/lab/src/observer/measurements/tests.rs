use super::*;
use lab_host::counters::{Device, Reading, Udp};

/// Counters of a host: packets of its device both ways, datagrams of its sockets both ways.
fn counted(packets: u64, datagrams: u64) -> Change {
    Change {
        device: Some(Device { rx_packets: packets, tx_packets: packets, ..Device::default() }),
        udp: Udp { in_datagrams: datagrams, out_datagrams: datagrams, ..Udp::default() },
        ..Change::default()
    }
}

#[test]
fn answers_that_bypass_sockets_are_not_counted_there() {
    let counts =
        QueryCounts { planned: 1_000, sent: 1_000, answered: 1_000, ..QueryCounts::default() };
    let client = counted(1_000, 0);
    let all = Balance {
        sent: Some(1_000),
        left_generator: Some(1_000),
        arrived_server: Some(1_000),
        read_server: Some(1_000),
        answered_server: Some(1_000),
        left_server: Some(1_000),
        arrived_generator: Some(1_000),
        read_generator: Some(1_000),
    };
    assert_eq!(balance(false, &counts, Some(&counted(1_000, 1_000)), &client), all);
    // Some went by the sockets: still these do not count all.
    for datagrams in [0, 7, 900] {
        let past = Balance { read_server: None, answered_server: None, ..all.clone() };
        assert_eq!(balance(false, &counts, Some(&counted(1_000, datagrams)), &client), past);
    }
}

const SECOND: u64 = 1_000_000_000;

/// A look at which these processes had run so long: id, user time, system time. All of them have
/// one thread and run on CPU 0.
fn look(running: &[(u32, u64, u64)]) -> HostSample {
    let ran = |&(pid, user_ns, system_ns): &(u32, u64, u64)| {
        let name = format!("p{pid}");
        processes::ProcessTime { pid, tid: pid, name, cpu: 0, user_ns, system_ns, kernel: false }
    };
    let running = running.iter().map(ran).collect();
    HostSample { server: None, client: Reading::default(), running, stopped: false }
}

/// A second of CPU 0: so long of user time, of the kernel, of interrupts.
fn second(user_ns: u64, system_ns: u64, softirq_ns: u64) -> Change {
    let idle_ns = SECOND - user_ns - system_ns - softirq_ns;
    let time = CpuTime { user_ns, system_ns, softirq_ns, idle_ns, ..CpuTime::default() };
    Change { seconds: 1.0, cpus: vec![time], ..Change::default() }
}

/// Measurements of process 1, which used 0.3 s, beside other processes.
fn side_of_1(change: Change, after: &[(u32, u64, u64)]) -> SideUse {
    let host = Host { cpus: Some([0].into_iter().collect()), pids: vec![1], ..Host::default() };
    let (before, after) = (look(&[]), look(after));
    let other = ("the generator", &[2][..]);
    let looks = [&before, &after];
    let between = SampleDelta { host: &host, change, looks, other, is_whole: true };
    between.side(&[CpuUse { cpu_s: 0.3, waited_s: 0.2 }])
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn cpu_time_of_the_other_side_is_not_the_kernels() {
    let ran = [(1, SECOND / 10, SECOND / 5), (2, SECOND / 5, SECOND / 5)];
    let side = side_of_1(second(3 * SECOND / 10, SECOND / 2, SECOND / 10), &ran);
    let taker = side.competing.clone().unwrap();
    assert_eq!(taker.name, "the generator, p2 (2),");
    assert!(near(taker.cpu_s, 0.4) && near(taker.most_s, 0.4), "{side:?}");
    assert!(near(side.kernel_s, 0.2) && near(side.busy(1.0), 0.5), "{side:?}");
}

#[test]
fn unattributed_user_time_belongs_to_ended_processes() {
    let ran = [(1, SECOND / 10, SECOND / 5), (7, 0, SECOND / 50)];
    let side = side_of_1(second(SECOND / 2, SECOND / 5, SECOND / 10), &ran);
    let taker = side.competing.clone().unwrap();
    assert_eq!(taker.name, "processes that have ended");
    assert!(near(taker.cpu_s, 0.42) && near(side.kernel_s, 0.08), "{side:?}");
}

#[test]
fn user_time_is_never_the_kernels() {
    // An amount that rounding explains belongs to no process.
    let side = side_of_1(second(SECOND / 2, 0, 0), &[(1, 41 * SECOND / 100, 0)]);
    assert_eq!((side.competing, side.kernel_s), (None, 0.0));
}

#[test]
fn kernel_thread_time_ignores_tick_samples() {
    let mut change = second(SECOND / 2, 0, 0);
    let run_delay_ns = 9 * SECOND / 10;
    let polls = Thread { cpu_ns: SECOND / 5, run_delay_ns, ..Thread::default() };
    change.kernel_threads.push(polls);
    let side = side_of_1(change, &[(1, 3 * SECOND / 10, 0)]);
    assert_eq!((side.competing.clone(), side.waited_s), (None, 0.9));
    assert!(near(side.kernel_s, 0.2) && near(side.busy(1.0), 0.5), "{side:?}");
}

#[test]
fn one_busy_thread_makes_a_side_busy() {
    let mut change = second(0, 0, 2 * SECOND / 10);
    (1..16).for_each(|cpu| change.cpus.push(CpuTime { cpu, ..CpuTime::default() }));
    assert!(near(side_of_1(change.clone(), &[]).busy(1.0), 0.3));
    change.cpus[3].softirq_ns = 95 * SECOND / 100;
    assert!(near(side_of_1(change.clone(), &[]).busy(1.0), 0.95));
    let poll = Thread { cpu_ns: 98 * SECOND / 100, ..Thread::default() };
    change.kernel_threads.push(poll);
    assert!(near(side_of_1(change, &[]).busy(1.0), 0.98));
}
