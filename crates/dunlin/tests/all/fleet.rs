//! Servers that share their records through a real etcd, as their users see them.
use crate::fleet_node::{Node, answers};
use crate::served::{Served, binary};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use test_support::etcd::Etcd;
use test_support::operator::Operator;
use test_support::ports::free_address;
use test_support::wait::until_true;

#[test]
fn server_without_a_store_says_what_a_fleet_needs() {
    let socket = std::env::temp_dir().join(format!("dunlin-no-fleet-{}.sock", std::process::id()));
    let config = format!("drain = \"0s\"\n[admin]\nsocket = \"{}\"\n", socket.display());
    let _served = Served::start("fleet-none", &config, &[]);
    for args in [&["fleet"][..], &["fleet", "adopt", "--yes"]] {
        let output = binary().args(args).arg("--socket").arg(&socket).output().expect("it runs");
        let why = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{why}");
        assert!(why.contains("set [store] kind = \"etcd\""), "{why}");
    }
}

#[test]
fn record_written_on_one_server_is_answered_by_the_other_and_without_etcd() {
    let Some(mut etcd) = Etcd::start_or_skip(1) else { return };
    let first = Node::start("fleet-first", &etcd);
    let second = Node::start("fleet-second", &etcd);
    first.done(&["zones", "create", "fleet.example", "--nameserver", "ns.example.net."]);
    first.set("www", "192.0.2.7");
    until_true("the other answers", || answers(&second, "www.fleet.example", [192, 0, 2, 7]));
    second.set("www", "192.0.2.8");
    until_true("the first answers", || answers(&first, "www.fleet.example", [192, 0, 2, 8]));
    etcd.kill(0);
    let refusal = |node: &Node| {
        let why = ["records", "set", "fleet.example", "www", "A", "--ttl", "60", "192.0.2.9"];
        node.refused(&why)
    };
    let why = refusal(&first);
    assert!(why.contains("etcd at http://127.0.0.1:"), "{why}");
    assert!(answers(&first, "www.fleet.example", [192, 0, 2, 8]), "answers go on");
    let mut second = second;
    second.served.signal(Signal::KILL);
    second.served.status();
    let second = second.restarted();
    assert!(answers(&second, "www.fleet.example", [192, 0, 2, 8]), "a start needs no etcd");
    until_true("the status says so", || {
        let status = second.run(&["status"], true);
        String::from_utf8_lossy(&status.stdout).contains("etcd at http://127.0.0.1:")
    });
    etcd.start(0);
    until_true("writes are accepted again", || {
        let set = ["records", "set", "fleet.example", "www", "A", "--ttl", "60", "192.0.2.10"];
        second.run(&set, false).status.success()
    });
    until_true("the first answers", || answers(&first, "www.fleet.example", [192, 0, 2, 10]));
}

/// etcd was emptied, and another server writes to it.
#[test]
fn refused_history_is_in_status_and_metrics_until_it_is_adopted() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let ops = free_address(Ipv4Addr::LOCALHOST);
    let sections = format!("[ops]\nlisten = \"{ops}\"");
    let mut node = Node::start_with("fleet-history", &etcd, "", &sections);
    node.token = node.create_token("admin");
    node.done(&["zones", "create", "fleet.example", "--nameserver", "ns.example.net."]);
    node.set("www", "192.0.2.7");
    let says = |writable: u8, code: i32, words: &str| {
        let status = node.run(&["status"], true);
        let said = String::from_utf8_lossy(&status.stdout).into_owned();
        let metrics = get(ops, "/metrics");
        let fault = format!("dunlin_fault{{kind=\"store_writes_refused\"}} {}", 1 - writable);
        status.status.code() == Some(code)
            && said.contains(words)
            && metrics.contains(&format!("dunlin_store_writable {writable}\n"))
            && metrics.contains(&fault)
    };
    until_true("it is well", || says(1, 0, ""));
    Operator::of(&etcd).delete("/dunlin/");
    until_true("it says so", || says(0, 1, "etcd was set back"));
    assert!(answers(&node, "www.fleet.example", [192, 0, 2, 7]), "answers go on");
    assert!(node.run(&["fleet", "adopt", "--yes"], true).status.success());
    until_true("it is well again", || says(1, 0, ""));
}

fn get(from: SocketAddrV4, path: &str) -> String {
    let mut stream = TcpStream::connect(from).expect("a listener");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("a response");
    said
}

/// Kubernetes sends queries to a server that is ready.
#[test]
fn new_server_is_ready_once_it_has_the_records_and_a_restarted_one_without_etcd() {
    let Some(mut etcd) = Etcd::start_or_skip(1) else { return };
    let first = Node::start("fleet-before", &etcd);
    first.done(&["zones", "create", "fleet.example", "--nameserver", "ns.example.net."]);
    first.set("www", "192.0.2.7");
    etcd.kill(0);
    let ops = free_address(Ipv4Addr::LOCALHOST);
    let ready = || get(ops, "/readyz");
    let sections = format!("[ops]\nlisten = \"{ops}\"");
    let mut node = Node::start_with("fleet-unready", &etcd, "", &sections);
    let said = ready();
    assert!(said.starts_with("HTTP/1.1 503"), "{said}");
    assert!(said.contains("the records are not read from etcd yet"), "{said}");
    etcd.start(0);
    until_true("it is ready", || ready().starts_with("HTTP/1.1 200"));
    assert!(answers(&node, "www.fleet.example", [192, 0, 2, 7]), "ready means that it answers");
    etcd.kill(0);
    node.served.signal(Signal::TERM);
    node.served.status();
    let node = node.restarted();
    assert!(ready().starts_with("HTTP/1.1 200"), "{}", ready());
    assert!(answers(&node, "www.fleet.example", [192, 0, 2, 7]));
}

#[test]
fn fleet_is_listed_and_a_write_waits_for_all_of_it() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let first = Node::start("fleet-listed", &etcd);
    let second = Node::start_as("fleet-second-listed", &etcd, "location = \"rack 2\"");
    let members = |node: &Node| node.fleet()["members"].as_array().cloned().unwrap_or_default();
    until_true("both are members", || members(&first).len() == 2);
    first.done(&["zones", "create", "fleet.example", "--nameserver", "ns.example.net."]);
    for n in 0..20_u8 {
        let path = format!("/v1/zones/fleet.example/rrsets/n{n}.fleet.example/A?wait=fleet");
        let body = format!("{{\"ttl\":60,\"data\":[\"192.0.2.{n}\"]}}");
        let response = first.local("PUT", &path, &body);
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        assert!(response.contains("\"live\":true"), "{response}");
        assert!(answers(&second, &format!("n{n}.fleet.example"), [192, 0, 2, n]), "n{n}");
    }
    let text = String::from_utf8(second.run(&["fleet"], true).stdout).expect("UTF-8");
    let line = text.lines().find(|line| line.starts_with("fleet-second-listed")).expect(&text);
    for word in ["dns api kubernetes health", &second.served.address.to_string(), "rack 2"] {
        assert!(line.contains(word), "{text}");
    }
    // A killed server is a member for some seconds more.
    second.served.signal(Signal::KILL);
    until_true("it is not a member", || members(&first).len() == 1);
}

#[test]
fn each_role_opens_only_its_sockets_and_does_only_its_part() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let dns = Node::start_as("fleet-dns", &etcd, "roles = [\"dns\"]");
    let mut api = Node::start_as("fleet-api", &etcd, "roles = [\"api\"]");
    let health = Node::start_as("fleet-health", &etcd, "roles = [\"health\"]");
    api.token = api.create_token("root");
    let address = dns.served.address;
    assert_eq!(dns.listening(), [format!("tcp {address}"), format!("udp {address}")]);
    let [only] = &api.listening()[..] else { panic!("{:?}", api.listening()) };
    assert!(only.starts_with("tcp 127.0.0.1:"), "{only}");
    assert_eq!(health.listening(), [""; 0]);
    api.done(&["zones", "create", "fleet.example", "--nameserver", "ns.example.net."]);
    api.set("www", "192.0.2.7");
    until_true("the server of DNS answers", || answers(&dns, "www.fleet.example", [192, 0, 2, 7]));
    let path = "/v1/zones/fleet.example/rrsets/www.fleet.example/A";
    for node in [&dns, &health] {
        let refused = node.local("PUT", path, "{\"ttl\":60,\"data\":[\"192.0.2.8\"]}");
        assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
        assert!(refused.contains("[server] roles lacks `api`"), "{refused}");
        assert!(node.local("GET", path, "").contains("192.0.2.7"), "it reads");
        let refused = node.local("PUT", "/v1/endpoints/192.0.2.7", r#"{"state":"drain"}"#);
        assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
        let refused = node.run(&["token", "create", "me", "--grant", "read *"], true);
        let why = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && why.contains("lacks `api`"), "{why}");
    }
    let fleet = dns.fleet();
    let roles = |name: &str| {
        let members = fleet["members"].as_array().expect("members");
        let found = members.iter().find(|member| member["name"] == name);
        found.map(|member| member["roles"].to_string())
    };
    assert_eq!(roles("fleet-dns").as_deref(), Some("[\"dns\"]"));
    assert_eq!(roles("fleet-health").as_deref(), Some("[\"health\"]"));
}

#[test]
fn zone_of_the_cluster_is_refused_by_a_server_that_only_has_the_api() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let cluster = "[kubernetes]\nzones = [\"cluster.local\"]\n";
    let mut api = Node::start_with("fleet-owner", &etcd, "roles = [\"api\"]", cluster);
    api.token = api.create_token("root");
    let refused =
        api.refused(&["zones", "create", "cluster.local", "--nameserver", "ns.example.net."]);
    assert!(refused.contains("kubernetes"), "{refused}");
}

#[test]
fn token_of_one_server_works_on_all_until_it_is_revoked_on_any() {
    let Some(mut etcd) = Etcd::start_or_skip(1) else { return };
    let first = Node::start("fleet-token-a", &etcd);
    let second = Node::start("fleet-token-b", &etcd);
    let kept = first.create_token("kept");
    let mut slowest = Duration::ZERO;
    for round in 0..5 {
        let name = format!("ci-{round}");
        let token = first.create_token(&name);
        until_true("the other admits it", || second.status_of(&token) == "200");
        let again = second.run(&["token", "create", &name, "--grant", "read *"], true);
        let why = String::from_utf8_lossy(&again.stderr).into_owned();
        assert!(why.contains(&format!("there is a principal {name} already")), "{why}");
        let revoked = second.run(&["token", "revoke", &name], true);
        let began = Instant::now();
        assert!(revoked.status.success(), "{revoked:?}");
        assert_eq!(second.status_of(&token), "401");
        until_true("the first refuses it", || first.status_of(&token) == "401");
        slowest = slowest.max(began.elapsed());
    }
    println!("a revoked token was refused by the other server at most {slowest:.1?} later");
    let listed = |node: &Node| node.run(&["token", "list", "-o", "json"], true).stdout;
    assert_eq!(listed(&first), listed(&second));

    etcd.kill(0);
    let refused = |node: &Node| {
        let output = node.run(&["token", "create", "new", "--grant", "read *"], true);
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        why.contains("etcd at http://127.0.0.1:")
    };
    until_true("it says that etcd is away", || refused(&first));
    assert_eq!(first.status_of(&kept), "200");
    let mut second = second;
    second.served.signal(Signal::KILL);
    second.served.status();
    let second = second.restarted();
    assert_eq!(second.status_of(&kept), "200", "its copy holds");
    assert_eq!(second.status_of("dunlin_0"), "401");
    until_true("the status says so", || {
        let status = second.run(&["status"], true);
        let status = String::from_utf8_lossy(&status.stdout).into_owned();
        status.contains("tokens may be outdated, and cannot be changed: etcd at http://127.0.0.1:")
    });
    etcd.start(0);
    until_true("tokens can be revoked again", || {
        second.run(&["token", "revoke", "kept"], true).status.success()
    });
    until_true("the first refuses it", || first.status_of(&kept) == "401");
}

/// A port with listeners on two addresses.
fn two_listeners() -> [TcpListener; 2] {
    loop {
        let one = TcpListener::bind("127.0.11.1:0").expect("a port");
        let port = one.local_addr().expect("bound").port();
        if let Ok(other) = TcpListener::bind(("127.0.11.2", port)) {
            return [one, other];
        }
    }
}

#[test]
fn check_and_drain_of_one_server_hold_on_the_other() {
    let Some(mut etcd) = Etcd::start_or_skip(1) else { return };
    let first = Node::start("fleet-check-a", &etcd);
    let second = Node::start("fleet-check-b", &etcd);
    let listeners = two_listeners();
    let port = format!("port={}", listeners[0].local_addr().expect("bound").port());
    let local = |node: &Node, args: &[&str]| {
        let output = node.run(args, true);
        (output.status.success(), format!("{output:?}"))
    };
    let keys = ["kind=tcp", &port, "interval=200ms", "timeout=150ms"];
    let (is_set, why) = local(&first, &[&["checks", "set", "web"], &keys[..]].concat());
    assert!(is_set, "{why}");
    first.done(&["zones", "create", "fleet.example", "--nameserver", "ns.example.net."]);
    let addresses = ["127.0.11.1", "127.0.11.2", "127.0.11.3"];
    let set = ["records", "set", "fleet.example", "www", "A", "--check", "web"];
    until_true("the other knows the check, and the zone", || {
        second.run(&[&set[..], &addresses].concat(), false).status.success()
    });
    let has = |node: &Node, last: u8| answers(node, "www.fleet.example", [127, 0, 11, last]);
    for node in [&first, &second] {
        until_true("it probes", || has(node, 1) && has(node, 2) && !has(node, 3));
    }
    let (is_drained, why) = local(&first, &["drain", "127.0.11.1", "--reason", "rack 7"]);
    assert!(is_drained, "{why}");
    until_true("the other leaves it out", || !has(&second, 1) && has(&second, 2));
    let (_, shown) = local(&second, &["health"]);
    assert!(shown.contains("rack 7"), "{shown}");

    etcd.kill(0);
    until_true("it says that etcd is away", || {
        let (is_restored, why) = local(&second, &["restore", "127.0.11.1"]);
        assert!(!is_restored, "nothing can be written");
        why.contains("etcd at http://127.0.0.1:")
    });
    let mut second = second;
    second.served.signal(Signal::KILL);
    second.served.status();
    let second = second.restarted();
    assert!(!has(&second, 1) && has(&second, 2), "its copies hold");
    let (_, shown) = local(&second, &["checks", "list"]);
    assert!(shown.contains("web"), "{shown}");
    etcd.start(0);
    until_true("it is restored", || local(&second, &["restore", "127.0.11.1"]).0);
    until_true("the first answers it again", || has(&first, 1));
    second.done(&["zones", "delete", "fleet.example", "--yes"]);
    until_true("no set names the check", || local(&first, &["checks", "delete", "web"]).0);
    until_true("the other has none", || !local(&second, &["checks", "list"]).1.contains("web"));
}
