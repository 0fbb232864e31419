//! Probes of DNS, ICMP, gRPC and scripts against real servers and programs.
use super::{TIMEOUT, check, fails, find_user, probe, probe_at};
use health::{CheckKind, DnsCheck, Failure, GrpcCheck, Passed, Probes, ScriptCheck};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use test_support::etcd::Etcd;
use test_support::skip::skip;
use test_support::spaces::{Spaces, within};
use test_support::wait;
use wire::{Name, NameBuf, Rcode, Rtype};

fn passes(port: u16, kind: CheckKind) {
    assert_eq!(probe(port, kind), Ok(Passed::default()));
}

fn dns(rcode: Rcode) -> CheckKind {
    let name = NameBuf::from_text(b"www.example.org", Name::ROOT).expect("a name");
    CheckKind::Dns(DnsCheck { name, rtype: Rtype::A, rcode })
}

/// A server that sends what this makes of each query.
fn serve_udp(reply: impl Fn(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((len, client)) = socket.recv_from(&mut buffer) {
            for reply in reply(&buffer[..len]) {
                socket.send_to(&reply, client).unwrap();
            }
        }
    });
    port
}

/// The response to a query with this code and this number of addresses.
fn response(query: &[u8], rcode: u8, addresses: u8) -> Vec<u8> {
    let mut response = query.to_vec();
    (response[2], response[3], response[7]) = (0x85, rcode, addresses);
    for last in 0..addresses {
        response.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, last]);
    }
    response
}

#[test]
fn dns_response_decides() {
    let port = serve_udp(|query| vec![response(query, 0, 2)]);
    passes(port, dns(Rcode::NoError));
    fails(port, dns(Rcode::Refused), "response code NoError");
    let port = serve_udp(|query| vec![response(query, 0, 0)]);
    fails(port, dns(Rcode::NoError), "no record of type A");
    let port = serve_udp(|query| vec![response(query, 5, 0)]);
    passes(port, dns(Rcode::Refused));
    fails(port, dns(Rcode::NoError), "response code Refused");
}

#[test]
fn foreign_and_broken_dns_responses_count_for_nothing() {
    let port = serve_udp(|query| {
        let good = response(query, 0, 1);
        let (mut id, mut name, mut is_query) = (good.clone(), good.clone(), good.clone());
        id[1] ^= 1;
        name[13] ^= 1;
        is_query[2] &= 0x7f;
        let cut = good[..20].to_vec();
        vec![id, name, is_query, cut, Vec::new(), vec![0xff; 500]]
    });
    fails(port, dns(Rcode::NoError), "no result within 600 ms");
    // A record that is cut off is none.
    let port = serve_udp(|query| {
        let good = response(query, 0, 1);
        vec![good[..good.len() - 1].to_vec()]
    });
    fails(port, dns(Rcode::NoError), "no record of type A");
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    fails(closed, dns(Rcode::NoError), "refused");
}

/// Sets the groups of this network namespace that may open ICMP sockets.
fn set_ping_groups(range: &str) {
    std::fs::write("/proc/sys/net/ipv4/ping_group_range", range).expect("it can be set");
}

#[test]
fn icmp_reply_passes_and_a_refusal_names_the_setting() {
    if !rustix::process::geteuid().is_root() {
        return skip("network namespaces: run it as root");
    }
    let spaces = Spaces::wired("dunlin-icmp", ["", ""]);
    let echo = |address: &str| probe_at(address.parse().unwrap(), 0, CheckKind::Icmp);
    within(&spaces.client, || {
        set_ping_groups("1 0");
        let refused = echo("192.0.2.1");
        let Err(Failure::NotMade(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains("net.ipv4.ping_group_range=\"0 0\""), "{why}");
        set_ping_groups("0 2147483647");
        for address in ["192.0.2.1", "2001:db8::1", "127.0.0.1", "::1"] {
            assert_eq!(echo(address), Ok(Passed::default()), "{address}");
        }
    });
    // The other end drops all packets, or the kernel has no way to it.
    spaces.run("ip -n {s} addr flush dev s0");
    within(&spaces.client, || {
        let silent = echo("192.0.2.1");
        assert!(matches!(silent, Err(Failure::Failed(_))), "{silent:?}");
        let far = echo("198.51.100.1");
        let Err(Failure::Failed(why)) = far else { panic!("{far:?}") };
        assert!(why.contains("unreachable"), "{why}");
    });
}

#[test]
fn grpc_health_of_a_real_server_decides() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let endpoint = etcd.endpoints().remove(0);
    let port = endpoint.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let of = |service: &str| {
        CheckKind::Grpc(GrpcCheck { service: service.into(), ..GrpcCheck::default() })
    };
    wait::until_ok("etcd serves", || probe(port, of("")));
    fails(port, of("no.such.Service"), "the service is unknown");
}

#[test]
fn grpc_check_of_other_servers_fails() {
    let grpc = || CheckKind::Grpc(GrpcCheck::default());
    let port = super::serve(|stream| {
        drop(super::answer(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    });
    fails(port, grpc(), "HTTP");
    let port = super::serve(drop);
    fails(port, grpc(), "HTTP");
    // It accepts and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    fails(listener.local_addr().unwrap().port(), grpc(), "no result within 600 ms");
}

/// A program in a folder that its user can reach.
fn program(name: &str, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let folder = std::env::temp_dir().join(format!("dunlin-health-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (file, written) = (folder.join(name), folder.join(format!("{name}.written")));
    std::fs::write(&written, format!("#!/bin/sh\n{text}\n")).unwrap();
    // A file that this process had open for writing is busy while a child of another test has it.
    let copied = Command::new("install").args(["-m", "755"]).args([&written, &file]).status();
    assert!(copied.unwrap().success());
    file
}

/// The user that scripts run as here: not root, or the own one.
fn user() -> String {
    let own = rustix::process::geteuid().as_raw();
    if own == 0 { "65534".into() } else { own.to_string() }
}

fn script(program: &Path, arguments: &[&str]) -> CheckKind {
    CheckKind::Script(ScriptCheck {
        program: program.into(),
        arguments: arguments.iter().map(|&text| text.into()).collect(),
        user: user(),
    })
}

#[test]
fn status_of_a_script_decides_and_its_first_line_is_the_reason() {
    let same = program("same", "[ \"$1 $2 $3\" = '127.0.0.1 x8080 $(id)' ]");
    passes(8080, script(&same, &["{address}", "x{port}", "$(id)"]));
    let told = program("told", "echo; echo \"disk of $1 is full\" >&2; exit 3");
    fails(80, script(&told, &["{address}"]), "exit status: 3: disk of 127.0.0.1 is full");
    let identity = program("identity", "echo \"$(id -u) $(id -G) $HOME$USER.\"; exit 1");
    let user = user();
    fails(80, script(&identity, &[]), &format!("{user} {user} ."));
    let missing = script(Path::new("/no/such/program"), &[]);
    fails(80, missing, "not made: /no/such/program cannot be run");
}

#[test]
fn output_of_a_script_is_bounded_and_does_not_stop_it() {
    let loud = program("loud", "head -c 3000000 /dev/zero | tr '\\0' x; exit 1");
    fails(80, script(&loud, &[]), "xxxx");
}

/// Processes whose command line has this word.
fn processes(word: &str) -> usize {
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(word)).count()
}

#[test]
fn process_group_of_a_script_is_killed_at_the_timeout_and_at_its_end() {
    let seconds = format!("{}.25", 100_000 + std::process::id());
    let late = program("late", &format!("sleep {seconds} & sleep {seconds}"));
    fails(80, script(&late, &[]), "no result within 600 ms");
    // The first one ends, and its child would stay.
    let left = program("left", &format!("sleep {seconds} &\nexit 0"));
    passes(80, script(&left, &[]));
    wait::until_eq("processes that are left", || processes(&format!("sleep\0{seconds}")), 0);
}

#[test]
fn scripts_at_the_same_time_are_bounded() {
    let late = program("many", "exec sleep 30");
    let check = check(80, script(&late, &[]));
    let probes = Probes::new([&check], find_user).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let start = Instant::now();
    let not_made = runtime.block_on(async {
        let mut all = tokio::task::JoinSet::new();
        for _ in 0..health::limits::SCRIPTS_MAX + 9 {
            let (probes, check) = (probes.clone(), check.clone());
            all.spawn(async move { probes.probe(&check, Ipv4Addr::LOCALHOST.into()).await });
        }
        let results = all.join_all().await;
        results.iter().filter(|one| matches!(one, Err(Failure::NotMade(_)))).count()
    });
    assert_eq!(not_made, 9);
    assert!(start.elapsed() < TIMEOUT + Duration::from_secs(20), "killed at the timeout");
}
