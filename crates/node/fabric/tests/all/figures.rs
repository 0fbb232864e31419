//! What watching costs, and what the switch saves: `make campaign-cpus-fabric`. Each figure is the
//! median of ratios of pairs that were measured one after the other, in turn; "same" is that of two
//! equals.
use crate::is_root;
use crate::switch::{containers, run, switching_after};
use crate::watch::group;
use bpf::Order;
use fabric::Watcher;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};
use test_support::spaces::{Lan, within};

const PAIRS: usize = 30;
const ROUND_TRIPS: usize = 2_000;
const BYTES: usize = 64 << 20;
const DATAGRAMS: usize = 20_000;
const RULES: usize = 1_000;
const PORT: u16 = 7_009;

/// What is measured of a path.
#[derive(Clone, Copy)]
enum Figure {
    /// Half of the TCP round trips take less, in nanoseconds.
    RoundTrip,
    /// Nanoseconds of both CPUs for a byte of a TCP stream, in millionths.
    CpuPerByte,
    /// Bytes of a TCP stream in a second.
    Throughput,
    /// Datagrams received in a second.
    Datagrams,
}

/// Busy time of all CPUs, in ticks of 10 ms.
fn busy() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let all: Vec<u64> = stat
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .skip(1)
        .map(|n| n.parse().unwrap())
        .collect();
    all[..3].iter().sum::<u64>() + all[5] + all[6]
}

fn connected(lan: &Lan) -> (TcpStream, TcpStream) {
    let address = SocketAddr::from((lan.hosts[1].address, PORT));
    let listener = within(&lan.hosts[1].space, || TcpListener::bind(address).unwrap());
    let client = within(&lan.hosts[0].space, || TcpStream::connect(address).unwrap());
    let (server, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    (client, server)
}

fn round_trip(lan: &Lan) -> f64 {
    let (mut client, mut server) = connected(lan);
    let echo = thread::spawn(move || {
        let mut bytes = [0; 64];
        while server.read_exact(&mut bytes).is_ok() {
            server.write_all(&bytes).unwrap();
        }
    });
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    let mut bytes = [7; 64];
    for _ in 0..ROUND_TRIPS {
        let begin = Instant::now();
        client.write_all(&bytes).unwrap();
        client.read_exact(&mut bytes).unwrap();
        times.push(begin.elapsed().as_nanos() as u64);
    }
    drop(client);
    echo.join().unwrap();
    times.sort_unstable();
    times[ROUND_TRIPS / 2] as f64
}

/// Bytes in a second, and the CPU time of a byte.
fn stream(lan: &Lan) -> (f64, f64) {
    let (mut client, mut server) = connected(lan);
    let (begin, before) = (Instant::now(), busy());
    let sender = thread::spawn(move || {
        let bytes = vec![1; 256 << 10];
        for _ in 0..BYTES / bytes.len() {
            client.write_all(&bytes).unwrap();
        }
    });
    let mut bytes = vec![0; 256 << 10];
    let mut left = BYTES;
    while left > 0 {
        left -= server.read(&mut bytes).unwrap();
    }
    sender.join().unwrap();
    let seconds = begin.elapsed().as_secs_f64();
    (BYTES as f64 / seconds, (busy() - before).max(1) as f64 * 1e13 / BYTES as f64)
}

fn datagrams(lan: &Lan) -> f64 {
    let address = SocketAddr::from((lan.hosts[1].address, PORT));
    let receiver = within(&lan.hosts[1].space, || UdpSocket::bind(address).unwrap());
    let sender = within(&lan.hosts[0].space, || UdpSocket::bind("0.0.0.0:0").unwrap());
    sender.connect(address).unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let begin = Instant::now();
    let sending = thread::spawn(move || {
        for _ in 0..DATAGRAMS {
            let _ = sender.send(&[3; 64]);
        }
    });
    let (mut received, mut last) = (0, begin);
    while receiver.recv(&mut [0; 100]).is_ok() {
        received += 1;
        last = Instant::now();
    }
    sending.join().unwrap();
    f64::from(received) / (last - begin).as_secs_f64().max(1e-3)
}

fn measure(lan: &Lan, figure: Figure) -> f64 {
    match figure {
        Figure::RoundTrip => round_trip(lan),
        Figure::CpuPerByte => stream(lan).1,
        Figure::Throughput => stream(lan).0,
        Figure::Datagrams => datagrams(lan),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The median of `PAIRS` ratios of the second state to the first one, and of two equals.
fn compare(name: &str, lan: &Lan, figure: Figure, mut set: impl FnMut(bool)) {
    let (mut ratios, mut same, mut values) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
    for pair in 0..PAIRS {
        let is_first_on = pair % 2 == 1;
        set(is_first_on);
        let one = measure(lan, figure);
        set(!is_first_on);
        let other = measure(lan, figure);
        let again = measure(lan, figure);
        let (off, on) = if is_first_on { (other, one) } else { (one, other) };
        ratios.push(on / off);
        same.push(again / other);
        values[0].push(off);
        values[1].push(on);
    }
    let [off, on] = values.map(median);
    println!(
        "{name}: off {off:.0}, on {on:.0}, ratio {:.3}, same {:.3}",
        median(ratios),
        median(same)
    );
}

#[test]
#[ignore = "campaign: make campaign-cpus-fabric"]
fn watching_costs_and_switching_saves() {
    assert!(is_root());
    println!("load: {}", fs::read_to_string("/proc/loadavg").unwrap().trim());
    let lan = Lan::new("fabric-b", 2);
    watching(&lan);
    let rules: String = (0..RULES)
        .map(|n| format!("-A FORWARD -s 203.0.113.{} -p tcp --dport {} -j DROP\n", n % 250, n + 1))
        .collect();
    let invalid = "-A FORWARD -m conntrack --ctstate INVALID -j DROP";
    let rules = format!("*filter\n:FORWARD ACCEPT\n{rules}{invalid}\nCOMMIT\n");
    let file = std::env::temp_dir().join(format!("fabric-rules-{}", std::process::id()));
    fs::write(&file, rules).unwrap();
    run(&lan, "sysctl -qw net.bridge.bridge-nf-call-iptables=1");
    run(&lan, &format!("iptables-restore {}", file.display()));
    fs::remove_file(&file).unwrap();
    let mut watcher = switching_after(&lan, &[], Duration::from_nanos(1));
    let [none, both] = [&[][..], &[0, 1]].map(|members| containers(&lan, members));
    let mut set = |is_on| {
        let members = if is_on { &both } else { &none };
        within(&lan.switch, || watcher.follow(members).unwrap());
    };
    compare("switch, TCP round trip in ns", &lan, Figure::RoundTrip, &mut set);
    compare("switch, CPU a byte in 1e-6 ns", &lan, Figure::CpuPerByte, &mut set);
    compare("switch, TCP bytes/s", &lan, Figure::Throughput, &mut set);
    compare("switch, datagrams/s", &lan, Figure::Datagrams, &mut set);
    println!("load: {}", fs::read_to_string("/proc/loadavg").unwrap().trim());
}

fn watching(lan: &Lan) {
    let found = containers(lan, &[]);
    let mut watcher = None;
    let mut set = |is_on: bool| {
        watcher = is_on.then(|| {
            within(&lan.switch, || {
                let mut watcher = Watcher::new(Some(group()), Order::First).unwrap();
                watcher.follow(&found).unwrap();
                watcher
            })
        });
    };
    compare("watch, TCP round trip in ns", lan, Figure::RoundTrip, &mut set);
    set(true);
    fs::write("/proc/sys/kernel/bpf_stats_enabled", "1").unwrap();
    datagrams(lan);
    for name in ["from_container", "to_container"] {
        let (number, time) = bpf::run_times(name).unwrap();
        println!(
            "watch, {name}: {:.0} ns a packet of {number}",
            time.as_nanos() as f64 / number as f64
        );
    }
    fs::write("/proc/sys/kernel/bpf_stats_enabled", "0").unwrap();
}
