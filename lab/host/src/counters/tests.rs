use super::*;
use std::net::UdpSocket;
use std::time::Duration;

const DEV: &str = "\
Inter-|   Receive                    |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo: 100 2 0 0 0 0 0 0 100 2 0 0 0 0 0 0
  eth0:7000 70 1 5 0 0 0 0 6000 60 3 4 0 0 0 0
  torn: 12 x
";

#[test]
fn devices() {
    let device = net::parse_device(DEV, "eth0").unwrap();
    let wanted = Device {
        rx_packets: 70,
        rx_bytes: 7_000,
        rx_drops: 5,
        rx_errors: 1,
        tx_packets: 60,
        tx_bytes: 6_000,
        tx_drops: 4,
        tx_errors: 3,
    };
    assert_eq!(device, wanted);
    assert_eq!(net::parse_device(DEV, "lo").unwrap().rx_packets, 2);
    assert_eq!(net::parse_device(DEV, "torn").unwrap().rx_bytes, 12);
    assert_eq!(net::parse_device(DEV, "eth"), None);
}

#[test]
fn datagrams() {
    let snmp = "Ip: Forwarding DefaultTTL\nIp: 1 64\n\
        Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors MemErrors New\n\
        Udp: 10 1 3 20 2 4 6 99\nUdpLite: InDatagrams\nUdpLite: 1000\n";
    let udp = net::parse_snmp(snmp);
    let snmp6 =
        "Ip6InReceives  5\nUdp6InDatagrams \t 7\nUdp6SndbufErrors 8\nUdp6Torn\nUdp6NoPorts x\n";
    let udp6 = net::parse_snmp6(snmp6);
    assert_eq!((udp.in_datagrams, udp.no_ports, udp.in_errors), (10, 1, 3));
    assert_eq!((udp.out_datagrams, udp.receive_buffer_errors, udp.send_buffer_errors), (20, 2, 4));
    assert_eq!((udp.memory_errors, udp.checksum_errors), (6, 0));
    assert_eq!((udp6.in_datagrams, udp6.send_buffer_errors, udp6.no_ports), (7, 8, 0));
    assert_eq!(net::parse_snmp("Udp: InDatagrams\n"), Udp::default());
    assert_eq!(net::parse_snmp("Udp: InDatagrams\nUdp: -1 what\n"), Udp::default());
}

#[test]
fn sockets() {
    let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n\
        1: 0100007F:0035 00000000:0000 07 00000000:00000200 00:00000000 00000000 0 0 77 2 000 9\n\
        2: 00000000000000000000000000000000:14E9 0:0 07 0:0 0:0 0 0 0 78 2 000 0\n\
        3: torn\n\
        4: 0100007F:FFFFF 0:0 07 0:0 0:0 0 0 0 79 2 000 0\n\
        5: 0100007F:0035 0:0 07 0:0 0:0 0 0 0 -3 2 000 0\n\
        6: 0100007F:0035 0:0 07 0:0 0:0 0 0 0 77 2 000 9\n";
    let found = net::parse_sockets(text, false);
    let wanted = Socket { port: 53, is_ipv6: false, inode: 77, drops: 9, waiting_bytes: 512 };
    assert_eq!(found.len(), 2);
    assert_eq!(found[0], wanted);
    assert_eq!((found[1].port, found[1].inode), (5_353, 78));
}

#[test]
fn softnet() {
    // CPU 1 is offline.
    let text = "0000000a 00000001 00000002 0 0 0 0 0 0 00000003 0 0 00000000 0 0\n\
        000000ff 0 0 0 0 0 0 0 0 0 0 0 00000002 0 0\nzz\n00000001\n";
    let lines = net::parse_softnet(text);
    let first = Softnet { cpu: 0, processed: 10, dropped: 1, squeezed: 2, steered: 3 };
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0], first);
    assert_eq!((lines[1].cpu, lines[1].processed), (2, 255));
    // An older kernel's line is that of the CPU in its place.
    assert_eq!(net::parse_softnet("1 0 0 0 0 0 0 0 0 0\n2 0 0\n")[1].cpu, 1);
}

#[test]
fn queueing_disciplines() {
    let json = r#"[{"kind":"mq","root":true,"drops":5,"requeues":2,"overlimits":1},
        {"kind":"pfifo_fast","parent":":1","drops":5,"requeues":2,"overlimits":1}]"#;
    assert_eq!(net::parse_qdisc(json), Qdisc { drops: 5, requeues: 2, overlimits: 1 });
    for wrong in ["", "{}", "[{\"root\":7}]", "[{}", "[{\"drops\":-1,\"root\":true}]"] {
        assert_eq!(net::parse_qdisc(wrong), Qdisc::default(), "{wrong}");
    }
}

#[test]
fn times_of_cpus() {
    let text = "cpu  1 1 1 1 1 1 1 1 0 0\ncpu0 10 1 20 100 5 2 3 4 9 9\ncpu9\ncpux 1\nintr 5\n";
    let cpus = time::parse_cpus(text);
    assert_eq!(cpus.len(), 1);
    let ms = |ns: u64| ns / 1_000_000;
    assert_eq!((ms(cpus[0].user_ns), ms(cpus[0].system_ns)), (110, 200));
    assert_eq!((ms(cpus[0].idle_ns), ms(cpus[0].steal_ns)), (1_050, 40));
    assert_eq!((ms(cpus[0].irq_ns), ms(cpus[0].softirq_ns)), (20, 30));
    assert!((cpus[0].busy() - 400.0 / 1_450.0).abs() < 1e-9);
    assert_eq!(CpuTime::default().busy(), 0.0);
}

#[test]
fn tick_samples_divide_the_busy_time() {
    let ms = |ms: u64| ms * 1_000_000;
    let since = |user, softirq, idle, steal| {
        let [user_ns, softirq_ns, idle_ns, steal_ns] = [user, softirq, idle, steal].map(ms);
        let now = CpuTime { user_ns, softirq_ns, idle_ns, steal_ns, ..CpuTime::default() };
        now.since(&CpuTime::default(), ms(1_000))
    };
    // In step with the ticks: each has found it.
    let found = since(200, 600, 960, 0);
    assert_eq!((found.user_ns, found.softirq_ns, found.total_ns()), (ms(10), ms(30), ms(1_000)));
    assert!((found.busy() - 0.04).abs() < 1e-9);
    // None has.
    let missed = since(0, 0, 600, 100);
    assert_eq!(
        (missed.system_ns, missed.steal_ns, missed.total_ns()),
        (ms(300), ms(100), ms(1_000))
    );
    // The idle time is what is right, even where rounding makes it longer than there was.
    assert_eq!(since(10, 10, 1_010, 0).busy(), 0.0);
}

#[test]
fn times_of_threads() {
    let stat = "77 (a) b) S 1 77 77 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 1 0 9 10\n";
    assert_eq!(processes::parse_stat(stat), Some(("a) b".into(), 300)));
    for wrong in ["", "77", "77 (a) S", "77 a S 1 77 77 0 -1 4194560 100 0 0 0 250 50"] {
        assert_eq!(processes::parse_stat(wrong), None, "{wrong}");
    }
    assert_eq!(processes::parse_schedstat("123 45 6\n"), Some((123, 45)));
    assert_eq!(processes::parse_schedstat("123"), None);
    assert_eq!(processes::parse_schedstat("x 1 2"), None);
}

#[test]
fn control_groups() {
    let file = |text| processes::stat_file(text);
    assert_eq!(file("0::/pod/a\n").as_deref(), Some("pod/a/cpu.stat"));
    assert_eq!(file("0::/\n").as_deref(), Some("cpu.stat"));
    let both = "4:memory:/x\n2:cpu,cpuacct:/box\n0::/y\n";
    assert_eq!(file(both).as_deref(), Some("cpu,cpuacct/box/cpu.stat"));
    assert_eq!(file("4:memory:/x\n"), None);
    assert_eq!(file("torn"), None);
    let v2 = "usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec 7\n";
    assert_eq!(processes::parse_throttle(v2), Throttle { periods: 3, time_ns: 7_000 });
    let v1 = "nr_throttled 3\nthrottled_time 7\ntorn\n";
    assert_eq!(processes::parse_throttle(v1), Throttle { periods: 3, time_ns: 7 });
}

/// No text makes a parser panic, and the parsed counters add up.
#[test]
fn arbitrary_text_is_parsed_without_panic() {
    let texts = [
        DEV,
        "Udp: InDatagrams NoPorts\nUdp: 10 1\nUdp6InDatagrams 7\n",
        "sl\n 1: 0100007F:0035 0:0 07 0:00000200 0:0 0 0 0 77 2 0 9\n",
        "0000000a 00000001 00000002 0 0 0 0 0 0 00000003 0 0 00000000\n",
        "cpu0 10 1 20 100 5 2 3 4 9 9\ncpu1 1 1 1 1\n",
        "cpu0 18446744073709551615 1 18446744073709551615 0 0 18446744073709551615 3 0 9 9\n",
        "77 (a) b) S 1 77 77 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 1\n",
        "4:memory:/x\n2:cpu,cpuacct:/box\n0::/y\n",
        "nr_throttled 3\nthrottled_usec 7\nthrottled_time 7\n",
        r#"[{"kind":"mq","root":true,"drops":5,"requeues":2,"overlimits":1}]"#,
    ];
    let strange =
        ["", ":", " ", "\n", "-", "(", ")", "é", "\0", "18446744073709551615", "1e9", "x"];
    let read = |text: &str| {
        let _ = net::parse_device(text, "eth0");
        let _ = (net::parse_snmp(text), net::parse_snmp6(text), net::parse_qdisc(text));
        let _ = (processes::parse_stat(text), processes::parse_schedstat(text));
        let _ = (stat_file(text), throttle_of(text));
        let (cpus, softnet) = (time::parse_cpus(text), net::parse_softnet(text));
        let sockets = net::parse_sockets(text, false);
        let at_ns = 1_000_000_000;
        let reading = Reading { at_ns, cpus, softnet, sockets, ..Reading::default() };
        let change = reading.since(&Reading::default());
        let _ = (time::stolen(&change.cpus), change.cpus.iter().map(CpuTime::busy).sum::<f64>());
    };
    for text in texts {
        for at in 0..=text.len() {
            read(&text[..at]);
            for word in strange {
                read(&format!("{}{word}{}", &text[..at], &text[at..]));
                let behind = text[at..].find(' ').map_or(text.len(), |blank| at + blank);
                read(&format!("{}{word}{}", &text[..at], &text[behind..]));
            }
        }
    }
}

#[test]
fn a_change_is_the_difference_of_two_readings() {
    let thread =
        |tid, cpu_ns, run_delay_ns| Thread { pid: 9, tid, name: "w".into(), cpu_ns, run_delay_ns };
    let socket = |inode, port, drops| Socket { inode, port, drops, ..Socket::default() };
    let cpu = |steal_ns, idle_ns| CpuTime { cpu: 1, steal_ns, idle_ns, ..CpuTime::default() };
    let old = Reading {
        at_ns: 1_000_000_000,
        threads: vec![thread(1, 100, 0), thread(2, 7, 7)],
        sockets: vec![socket(5, 53, 10), socket(6, 53, 1)],
        udp4: Udp { in_datagrams: 5, ..Udp::default() },
        cpus: vec![cpu(0, 0)],
        ..Reading::default()
    };
    let new = Reading {
        at_ns: 3_000_000_000,
        // A thread that began between, and one that is gone.
        threads: vec![thread(1, 1_000_000_100, 500_000_000), thread(3, 50, 0)],
        sockets: vec![socket(5, 53, 15), socket(7, 54, 2)],
        udp4: Udp { in_datagrams: 25, ..Udp::default() },
        kernel_threads: vec![thread(4, 3_000_000_000, 0)],
        udp6: Udp { in_datagrams: 1, ..Udp::default() },
        cpus: vec![cpu(10, 30)],
        ..Reading::default()
    };
    let change = new.since(&old);
    assert_eq!(change.seconds, 2.0);
    assert_eq!(change.udp.in_datagrams, 21);
    let drops: Vec<u64> = change.sockets.iter().map(|socket| socket.drops).collect();
    assert_eq!(drops, [5, 2]);
    assert_eq!(change.cpu_seconds(), (1.00000005, 3.0));
    assert_eq!(change.threads[1].cpu_ns, 50);
    assert_eq!((change.threads[0].run_delay_ns, change.cpus[0].steal_ns), (500_000_000, 10));
    // A counter that began again is not below 0.
    assert_eq!(old.since(&new).udp.in_datagrams, 0);
    let json = serde_json::to_string(&change).unwrap();
    assert_eq!(serde_json::from_str::<Change>(&json).unwrap(), change);
}

#[test]
fn this_machine_is_read() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let host =
        Host { device: Some("lo".into()), pids: vec![std::process::id()], ..Host::default() };
    let before = Reading::take(&host).unwrap();
    for _ in 0..10 {
        socket.send_to(b"x", ("127.0.0.1", port)).unwrap();
        socket.recv(&mut [0; 8]).unwrap();
    }
    let since = std::time::Instant::now();
    while since.elapsed() < Duration::from_millis(50) {
        std::hint::spin_loop();
    }
    let change = Reading::take(&host).unwrap().since(&before);
    assert!(change.udp.in_datagrams >= 10 && change.udp.out_datagrams >= 10, "{change:?}");
    assert!(change.device.unwrap().rx_packets >= 10, "{change:?}");
    assert!(change.cpu_seconds().0 > 0.001, "{change:?}");
    assert!(change.sockets.iter().any(|found| found.port == port), "{change:?}");
    assert!(!change.cpus.is_empty() && !change.softnet.is_empty(), "{change:?}");

    let no_device = Host { device: Some("no-such".into()), ..Host::default() };
    assert!(Reading::take(&no_device).unwrap_err().contains("no device no-such"));
}
