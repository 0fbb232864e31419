//! The names of a Kubernetes cluster in a fleet: one server writes them, and servers without access
//! to the API server answer them.
use crate::clustered::{answer, expect, section};
use crate::fleet_node::Node;
use cluster::{Cluster, objects};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::env;
use std::thread;
use std::time::{Duration, Instant};
use test_support::etcd::Etcd;
use test_support::operator::Operator;
use test_support::wait::{self, until_true};
use wire::Rtype;

/// How long a fleet may take to agree with the API server after a writer is well again, on a busy
/// machine. The limit of the campaign, which prints what it took, is 5 s.
const AGREED_MAX: Duration = Duration::from_secs(20);

fn create(cluster: &Cluster, name: &str, last: u16) -> String {
    let ip = json!({ "clusterIP": address(last) });
    cluster.create(&objects::service("shop", name, &[("http", "TCP", 80)], ip));
    format!("{name}.shop.svc.cluster.local")
}

fn delete(cluster: &Cluster, name: &str) {
    cluster.delete(&objects::service("shop", name, &[], json!({})));
}

/// An address of the range of the cluster.
fn address(number: u16) -> String {
    format!("10.96.{}.{}", 100 + number / 250, number % 250 + 1)
}

/// A server that watches the cluster.
fn writer(test: &str, etcd: &Etcd, cluster: &Cluster) -> Node {
    let kubernetes = section(&cluster.kubeconfig(), "");
    Node::start_with(test, etcd, "roles = [\"kubernetes\"]", &kubernetes)
}

/// A server that answers, and has no access to the API server.
fn answering(test: &str, etcd: &Etcd) -> Node {
    let kubernetes = "[kubernetes]\nzones = [\"cluster.local\"]\n";
    Node::start_with(test, etcd, "roles = [\"dns\"]", kubernetes)
}

fn status(node: &Node) -> Value {
    let output = node.run(&["status", "-o", "json"], true);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    status["kubernetes"].clone()
}

fn leads(node: &Node) -> bool {
    status(node)["is_leader"] == true
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn server_without_access_to_the_api_server_answers_what_another_one_writes() {
    let Some(cluster) = Cluster::start_or_skip() else { return };
    let Some(mut etcd) = Etcd::start_or_skip(1) else { return };
    cluster.create(&objects::namespace("shop"));
    let web = create(&cluster, "web", 1);
    cluster.create(&objects::headless("shop", "pets", &[("http", "TCP", 80)]));
    let endpoints = ["10.7.0.1", "10.7.0.2"].map(objects::endpoint);
    let http = [("http", "TCP", 80)];
    cluster.create(&objects::slice("shop", "pets-1", "pets", &http, &endpoints));
    // It starts before there is anything.
    let mut dns = answering("fk-dns", &etcd);
    let server = dns.served.address;
    let writer = writer("fk-writer", &etcd, &cluster);
    let known = format!("NOERROR; A {}", address(1));
    expect(server, &web, Rtype::A, &known);
    expect(server, "pets.shop.svc.cluster.local", Rtype::A, "NOERROR; A 10.7.0.1; A 10.7.0.2");
    expect(
        server,
        "1.0.7.10.in-addr.arpa",
        Rtype::PTR,
        "NOERROR; PTR 10-7-0-1.pets.shop.svc.cluster.local.",
    );
    expect(server, "other.shop.svc.cluster.local", Rtype::A, "NXDOMAIN");
    assert_eq!(status(&writer)["leader"], "fk-writer");
    let text = String::from_utf8(writer.run(&["status"], true).stdout).expect("UTF-8");
    assert!(text.contains("this server writes them for the fleet"), "{text}");

    delete(&cluster, "web");
    expect(server, &web, Rtype::A, "NXDOMAIN");
    let late = create(&cluster, "late", 2);
    expect(server, &late, Rtype::A, &format!("NOERROR; A {}", address(2)));

    // Without etcd and with a restart, it answers what it had saved.
    dns.served.signal(Signal::TERM);
    dns.served.status();
    etcd.kill(0);
    let dns = dns.restarted();
    expect(dns.served.address, &late, Rtype::A, &format!("NOERROR; A {}", address(2)));
    let later = create(&cluster, "later", 3);
    etcd.start(0);
    expect(dns.served.address, &later, Rtype::A, &format!("NOERROR; A {}", address(3)));
}

/// Two clusters with the same names in one etcd: each is answered by its own servers.
/// As the server that writes a cluster has left it.
#[test]
fn retired_cluster_is_not_answered_after_a_restart_either() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let client = Operator::of(&etcd);
    let put = |key: &str, value: Value| {
        client.put(&format!("/dunlin/clusters/gone/objects/{key}"), value.to_string());
    };
    put("namespaces/shop", json!({ "format": 1 }));
    for n in 1..=30 {
        let service = json!({ "format": 1, "kind": { "ClusterIp": [address(n)] }, "ports": [] });
        put(&format!("services/shop/web-{n}"), service);
    }
    client.put("/dunlin/clusters/gone/objects/complete", "");
    let kubernetes = "[kubernetes]\nzones = [\"cluster.local\"]\ncluster = \"gone\"\n";
    let mut node = Node::start_with("fk-retire", &etcd, "roles = [\"dns\", \"api\"]", kubernetes);
    node.token = node.create_token("fk-retire");
    let name = "web-7.shop.svc.cluster.local";
    let known = format!("NOERROR; A {}", address(7));
    expect(node.served.address, name, Rtype::A, &known);

    // One that is away meanwhile, with what it has saved.
    let mut away = Node::start_with("fk-away", &etcd, "roles = [\"dns\"]", kubernetes);
    expect(away.served.address, name, Rtype::A, &known);
    away.served.signal(Signal::TERM);
    away.served.status();
    let asked = node.run(&["fleet", "retire", "gone"], true);
    let text = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert!(!asked.status.success() && text.contains("30 services (31 objects in all)"), "{text}");
    let told = node.run(&["fleet", "retire", "gone", "--yes"], true);
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(text.contains("the cluster gone is retired: 30 services"), "{told:?}");
    expect(node.served.address, name, Rtype::A, "NXDOMAIN");
    let away = away.restarted();
    expect(away.served.address, name, Rtype::A, "NXDOMAIN");
    let again = node.run(&["fleet", "retire", "gone", "--yes"], true);
    let text = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && text.contains("is retired already"), "{text}");
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn two_clusters_in_one_etcd_are_answered_apart() {
    let Some(one) = Cluster::start_or_skip() else { return };
    let Some(two) = Cluster::start_or_skip() else { return };
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let clusters = [(&one, "fra1-a", 1), (&two, "fra1-b", 2)];
    let nodes = clusters.map(|(cluster, name, last)| {
        cluster.create(&objects::namespace("shop"));
        let web = create(cluster, "web", last);
        let named = format!("cluster = \"{name}\"");
        let watching = section(&cluster.kubeconfig(), &named);
        let roles = "roles = [\"kubernetes\"]";
        let writer = Node::start_with(&format!("fk-w-{name}"), &etcd, roles, &watching);
        let follows = format!("[kubernetes]\nzones = [\"cluster.local\"]\n{named}\n");
        let roles = "roles = [\"dns\"]";
        let dns = Node::start_with(&format!("fk-d-{name}"), &etcd, roles, &follows);
        (writer, dns, web, format!("NOERROR; A {}", address(last)))
    });
    for (writer, dns, web, known) in &nodes {
        expect(dns.served.address, web, Rtype::A, known);
        until_true("it leads its cluster", || leads(writer));
    }
    // What happens in one cluster does not touch the other.
    delete(&one, "web");
    let new = create(&two, "new", 3);
    let [(_, first, web, _), (_, second, _, known)] = &nodes;
    expect(first.served.address, web, Rtype::A, "NXDOMAIN");
    expect(second.served.address, &new, Rtype::A, &format!("NOERROR; A {}", address(3)));
    assert_eq!(answer(second.served.address, web, Rtype::A).as_ref(), Some(known));
    assert_eq!(answer(first.served.address, &new, Rtype::A).as_deref(), Some("NXDOMAIN"));
}

/// Two writers, one of which is killed or stopped at a time, while services come and go.
#[test]
#[ignore = "cluster: it starts an API server"]
fn fleet_agrees_with_the_api_server_whichever_writer_dies() {
    let rounds = env::var("DUNLIN_WRITER_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let is_campaign = rounds.is_some();
    let rounds: u16 = rounds.unwrap_or(6);
    let Some(cluster) = Cluster::start_or_skip() else { return };
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    cluster.create(&objects::namespace("shop"));
    let dns = answering("fw-dns", &etcd);
    let server = dns.served.address;
    let mut writers: Vec<Node> =
        ["fw-one", "fw-two"].iter().map(|name| writer(name, &etcd, &cluster)).collect();
    let mut expected = BTreeMap::new();
    let mut random = fastrand::Rng::with_seed(7);
    let mut slowest = Duration::ZERO;
    until_true("one leads", || writers.iter().any(leads));
    for round in 0..rounds {
        let leader = writers.iter().position(leads).unwrap_or(0);
        let is_killed = round % 2 == 0;
        let change = |expected: &mut BTreeMap<String, Option<u16>>, number: u16| {
            let name = format!("s{number}");
            let full = create(&cluster, &name, number);
            expected.insert(full.clone(), Some(number));
            if number % 3 == 2 {
                let gone = format!("s{}", number - 1);
                delete(&cluster, &gone);
                expected.insert(format!("{gone}.shop.svc.cluster.local"), None);
            }
        };
        change(&mut expected, 4 * round);
        thread::sleep(Duration::from_millis(random.u64(..60)));
        let signal = if is_killed { Signal::KILL } else { Signal::STOP };
        writers[leader].served.signal(signal);
        (1..4).for_each(|more| change(&mut expected, 4 * round + more));
        // The other one is elected once the lease of the first has ended.
        let other = 1 - leader;
        until_true("the other one leads", || leads(&writers[other]));
        match is_killed {
            true => {
                writers[leader].served.status();
                let dead = writers.remove(leader);
                writers.insert(leader, dead.restarted());
            }
            false => writers[leader].served.signal(Signal::CONT),
        }
        let healed = Instant::now();
        let agrees = |name: &str, number: &Option<u16>| {
            let found = answer(server, name, Rtype::A);
            let wanted = match number {
                Some(number) => format!("NOERROR; A {}", address(*number)),
                None => "NXDOMAIN".to_owned(),
            };
            found.as_deref() == Some(&*wanted)
        };
        until_true("the fleet agrees", || expected.iter().all(|(name, is)| agrees(name, is)));
        let took = healed.elapsed();
        slowest = slowest.max(took);
        assert!(!is_campaign || took < AGREED_MAX, "round {round}: {took:?}");
        // What the stopped one had in mind changes nothing later.
        until_true("it follows", || !leads(&writers[leader]));
        assert!(expected.iter().all(|(name, is)| agrees(name, is)), "round {round}");
    }
    println!("{rounds} writers died or were stopped; the fleet agreed at most {slowest:.1?} after");
}

#[test]
#[ignore = "cluster: it starts an API server"]
fn new_writer_whose_list_lost_most_writes_nothing_until_it_is_accepted() {
    const SERVICES: u16 = 40;
    let Some(cluster) = Cluster::start_or_skip() else { return };
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    cluster.create(&objects::namespace("shop"));
    let names: Vec<String> =
        (0..SERVICES).map(|number| create(&cluster, &format!("s{number}"), number)).collect();
    let dns = answering("fl-dns", &etcd);
    let server = dns.served.address;
    let mut first = writer("fl-first", &etcd, &cluster);
    let known = |number: u16| format!("NOERROR; A {}", address(number));
    let expect_all = || {
        for (name, number) in names.iter().zip(0..) {
            expect(server, name, Rtype::A, &known(number));
        }
    };
    expect_all();
    // It knows nothing from before, and its selector chooses no service.
    let wrong = section(&cluster.kubeconfig(), "labels = \"no=service\"");
    let second = Node::start_with("fl-second", &etcd, "roles = [\"kubernetes\"]", &wrong);
    first.served.signal(Signal::TERM);
    first.served.status();
    until_true("the second one leads", || leads(&second));
    let status = || String::from_utf8(second.run(&["status"], true).stdout).expect("UTF-8");
    wait::until_value("it is held", status, |text| text.contains("cluster.local"));
    expect_all();

    let accepted = second.run(&["zones", "accept", "cluster.local"], true);
    assert!(accepted.status.success(), "{accepted:?}");
    names.iter().for_each(|name| expect(server, name, Rtype::A, "NXDOMAIN"));
}

/// From a write of the API server to the answer of a server without access to it.
#[test]
#[ignore = "cluster: it starts an API server"]
fn change_of_a_service_is_answered_soon_by_a_server_without_access() {
    const CHANGES: u16 = 600;
    let Some(cluster) = Cluster::start_or_skip() else { return };
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    cluster.create(&objects::namespace("shop"));
    let dns = answering("fs-dns", &etcd);
    let server = dns.served.address;
    let _writer = writer("fs-writer", &etcd, &cluster);
    expect(server, &create(&cluster, "first", 0), Rtype::A, &format!("NOERROR; A {}", address(0)));
    let mut took: Vec<Duration> = Vec::new();
    let begin = Instant::now();
    thread::scope(|scope| {
        let mut asking = Vec::new();
        for number in 1..=CHANGES {
            // 100 changes a second.
            let at = begin + Duration::from_millis(10) * number.into();
            thread::sleep(at.saturating_duration_since(Instant::now()));
            let name = create(&cluster, &format!("s{number}"), number);
            let written = Instant::now();
            asking.push(scope.spawn(move || {
                let wanted = format!("NOERROR; A {}", address(number));
                expect(server, &name, Rtype::A, &wanted);
                written.elapsed()
            }));
        }
        took.extend(asking.into_iter().map(|one| one.join().expect("it is answered")));
    });
    let rate = f64::from(CHANGES) / begin.elapsed().as_secs_f64();
    took.sort_unstable();
    let (p50, p99) = (took[took.len() / 2], took[took.len() * 99 / 100]);
    println!("{rate:.0} changes a second: answered after {p50:.1?} (p50), {p99:.1?} (p99)");
    // How soon depends on what else the machine does; each change was answered.
    assert_eq!(took.len(), usize::from(CHANGES));
}
