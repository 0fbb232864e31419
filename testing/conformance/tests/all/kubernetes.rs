//! Dunlin beside CoreDNS on the same API server: generated clusters, generated queries, and a
//! reason for every difference.
//!
//! `DUNLIN_SEED` and `DUNLIN_QUESTIONS` choose the queries, `COREDNS` the binary of CoreDNS.

use cluster::{Cluster, objects};
use conformance::Result;
use conformance::client::{ask_udp, is_authority};
use conformance::environment::{TestFolder, all_present, number};
use conformance::kubernetes::{Generated, zone_name};
use conformance::limits::PATIENCE_LONG;
use conformance::names::name;
use conformance::packet::QueryPacket;
use conformance::queries::{Edns, Query, RD};
use conformance::random::Random;
use conformance::reasons::{self, Reason};
use conformance::reply::Reply;
use conformance::run::{Arena, Findings, Transport};
use conformance::server::{Launch, Server, Software};
use conformance::world::World;
use domain::base::iana::Rtype;
use serde_json::{Value, json};
use std::time::Instant;
use test_support::wait;

/// Queries of all rounds. With seed 1 they need every reason.
const FULL: usize = 32_000;

/// Options of both servers, round by round.
const ROUNDS: [(&str, &str); 4] = [
    ("", ""),
    (
        "pods insecure\nendpoint_pod_names\nttl 30\nnamespaces r0-ns0 r0-ns1 r1-ns2 r1-ns5",
        "pods = \"insecure\"\nendpoint_pod_names = true\nttl = \"30s\"\nnegative_ttl = \"30s\"\n\
         namespaces = [\"r0-ns0\", \"r0-ns1\", \"r1-ns2\", \"r1-ns5\"]",
    ),
    (
        "pods verified\nignore empty_service\nzonal\nmulticluster clusterset.local",
        "pods = \"verified\"\nignore_empty_services = true\nzonal = true\n\
         multicluster_zones = [\"clusterset.local\"]",
    ),
    (
        "pods verified\nendpoint_pod_names\nzonal\nmulticluster clusterset.local",
        "compat = \"coredns\"\npods = \"verified\"\nendpoint_pod_names = true\nzonal = true\n\
         multicluster_zones = [\"clusterset.local\"]",
    ),
];

#[test]
#[ignore = "cluster: it starts an API server"]
fn every_difference_from_coredns_has_a_reason() {
    if !all_present(&[Software::CoreDns]) {
        return;
    }
    let Some(cluster) = Cluster::start_or_skip() else { return };
    let seed = number("DUNLIN_SEED", 1);
    let queries = number("DUNLIN_QUESTIONS", FULL as u64) as usize;
    println!("DUNLIN_SEED={seed} DUNLIN_QUESTIONS={queries}");
    let rules = reasons::read(include_str!("../../kubernetes-reasons.toml")).expect("the reasons");
    let findings = run(&cluster, seed, queries, &rules).expect("the servers run");
    println!("{}", findings.report());
    let needed = |rule: &&Reason| findings.reasons.contains_key(&rule.id);
    let idle: Vec<_> = rules.iter().filter(|rule| !needed(rule)).map(|rule| &rule.id).collect();
    println!("reasons this run did not need: {idle:?}");
    assert!(findings.unexplained.is_empty(), "there are differences without a reason");
    assert!(queries != FULL || seed != 1 || idle.is_empty(), "an unused reason is wrong");
}

fn run(cluster: &Cluster, seed: u64, queries: usize, rules: &[Reason]) -> Result<Findings> {
    let folder = TestFolder::new("kubernetes")?;
    let world = World { name: "kubernetes", zones: Vec::new() };
    let (mut random, mut generated) = (Random::new(seed), Generated::default());
    let mut findings = Findings::default();
    for (round, (theirs, ours)) in ROUNDS.into_iter().enumerate() {
        let begun = Instant::now();
        for object in generated.grow(round, &mut random) {
            create(cluster, &object, &mut generated);
        }
        let is_first = !ROUNDS[..round].iter().any(|(_, ours)| ours.contains("multicluster"));
        if ours.contains("multicluster") && is_first {
            let group = "multicluster.x-k8s.io";
            cluster.define(group, "ServiceImport", "serviceimports", &["v1alpha1"]);
            for object in generated.imports(&mut random) {
                create(cluster, &object, &mut generated);
            }
        }
        generated.is_compat = ours.contains("compat");
        let folder = folder.path.join(format!("round-{round}"));
        let kubeconfig = cluster.kubeconfig();
        let zones = if ours.contains("multicluster") { "clusterset.local" } else { "" };
        let corefile = format!(
            "kubernetes cluster.local {zones} in-addr.arpa ip6.arpa {{\n kubeconfig {}\n \
             startup_timeout 60s\n {theirs}\n}}\n",
            kubeconfig.display()
        );
        let section = format!(
            "[kubernetes]\nzones = [\"cluster.local\"]\nkubeconfig = {kubeconfig:?}\n{ours}\n"
        );
        let start = |software, sections: &str| -> Result<Server> {
            let server = Launch { sections, ..Launch::new(software, &[]) }.start(&folder)?;
            wait_for(&server)?;
            Ok(server)
        };
        let subject = start(Software::Dunlin, &section)?;
        let peers = vec![start(Software::CoreDns, &corefile)?];
        let arena = Arena { world: &world, subject, peers, dialect: Some(&generated) };
        let prepared = begun.elapsed();
        // The API server chooses addresses: what one query draws changes no other.
        let ask = |random: &mut Random| generated.query(&mut Random::new(random.bits())).into();
        let packets: Vec<QueryPacket> =
            (0..queries / ROUNDS.len()).map(|_| ask(&mut random)).collect();
        arena.ask(&packets, Transport::Udp, PATIENCE_LONG, rules, &mut findings)?;
        println!("round {round}: prepared in {prepared:.1?}, all in {:.1?}", begun.elapsed());
    }
    Ok(findings)
}

/// Waits until a server answers for the cluster, and has its last objects.
fn wait_for(server: &Server) -> Result<()> {
    wait::try_until_ok(&format!("{} serves", server.software.name()), || {
        is_authority(server.address, &zone_name()).then_some(()).ok_or_else(|| server.log_end())
    })
}

fn create(cluster: &Cluster, object: &Value, generated: &mut Generated) {
    generated.created(&cluster.create(object));
    if let (Some("Pod"), Some(status)) = (object["kind"].as_str(), object.get("status")) {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/status");
        cluster.patch(&path, &json!({ "status": status }));
    }
}

const NXDOMAIN: u16 = 3;
/// What external names lead to: an address of each family, an alias, a name without addresses, one
/// that does not exist, a name of the cluster, one that the cluster does not have.
const TARGETS: [&str; 7] = [
    "www.example.com",
    "alias.example.com",
    "text.example.com",
    "absent.example.com",
    "web.shop.svc.cluster.local",
    "absent.shop.svc.cluster.local",
    "www.example.com.",
];
const ZONE_FILE: &str = "$TTL 300\n@ SOA ns.example.com. a.example.com. 1 300 300 300 300\n@ NS \
    ns\nns A 192.0.2.1\nwww A 192.0.2.53\nwww AAAA 2001:db8::53\nalias CNAME www\ntext TXT \
    \"no address\"\n";

/// Specification 2.5: the answer has the alias, and the records of the external name.
#[test]
#[ignore = "cluster: it starts an API server"]
fn external_names_lead_to_the_same_records_as_with_coredns() {
    if !all_present(&[Software::CoreDns]) {
        return;
    }
    let Some(cluster) = Cluster::start_or_skip() else { return };
    cluster.create(&objects::namespace("shop"));
    let ip = json!({ "clusterIP": "10.96.7.7" });
    cluster.create(&objects::service("shop", "web", &[("http", "TCP", 80)], ip));
    for (number, target) in TARGETS.iter().enumerate() {
        let spec = json!({ "type": "ExternalName", "externalName": target });
        cluster.create(&objects::service("shop", &format!("out-{number}"), &[], spec));
    }
    external(&cluster).expect("the servers run");
}

fn external(cluster: &Cluster) -> Result<()> {
    let folder = TestFolder::new("kubernetes-external")?;
    let file = folder.path.join("example.com.zone");
    std::fs::write(&file, ZONE_FILE).map_err(|error| error.to_string())?;
    let sections = format!("file {} example.com", file.display());
    let upstream_folder = folder.path.join("upstream");
    let upstream = Launch { sections: &sections, ..Launch::new(Software::CoreDns, &[]) };
    let upstream = upstream.start(&upstream_folder)?;
    // An upstream that does not answer yet is a failure, which is cached for a while.
    let address_of = Query::new(name("www.example.com"), Rtype::A);
    let answer = || answer_of(&upstream, &address_of);
    wait::until_value("an answer of the upstream", answer, |answer| {
        answer.as_ref().is_some_and(|(_, records)| !records.is_empty())
    });
    let (kubeconfig, address) = (cluster.kubeconfig(), upstream.address);
    let ours = format!(
        "[kubernetes]\nzones = [\"cluster.local\"]\nkubeconfig = {kubeconfig:?}\n[forward]\n\
         \".\" = [\"{address}\"]\n"
    );
    let theirs = format!(
        "kubernetes cluster.local in-addr.arpa ip6.arpa {{\n kubeconfig {}\n \
         startup_timeout 60s\n}}\nforward . {address}\n",
        kubeconfig.display()
    );
    let start = |software, sections: &str| -> Result<Server> {
        let server = Launch { sections, ..Launch::new(software, &[]) }.start(&folder.path)?;
        wait_for(&server)?;
        Ok(server)
    };
    let servers = [start(Software::Dunlin, &ours)?, start(Software::CoreDns, &theirs)?];
    for (number, target) in TARGETS.iter().enumerate() {
        let mut alias = Vec::new();
        for rtype in [Rtype::CNAME, Rtype::A, Rtype::AAAA] {
            let mut query =
                Query::new(name(&format!("out-{number}.shop.svc.cluster.local")), rtype);
            (query.flags, query.edns) = (RD, Some(Edns::new(1232)));
            let [ours, theirs] =
                servers.each_ref().map(|server| answer_of(server, &query).expect("a reply"));
            println!("{target} {rtype}: {ours:?}");
            if rtype == Rtype::CNAME {
                alias.clone_from(&ours.1);
                assert_eq!(alias.len(), 1, "{target}: {alias:?}");
            }
            let mut expected = theirs;
            // RFC 6604: the code is that of the last name of the chain. CoreDNS says NOERROR.
            if target.starts_with("absent") && rtype != Rtype::CNAME {
                expected.0 = NXDOMAIN;
            }
            // CoreDNS leaves out an alias of a name of the cluster without records of the type.
            if target.ends_with("cluster.local") && expected.1.is_empty() {
                expected.1 = alias.clone();
            }
            assert_eq!(ours, expected, "{target} {rtype}, ours and that of CoreDNS");
        }
    }
    Ok(())
}

/// The response code, and the records of the answer without TTLs, in order.
fn answer_of(server: &Server, query: &Query) -> Option<(u16, Vec<String>)> {
    let replies = ask_udp(server.address, &[query.to_wire()], PATIENCE_LONG);
    let reply = replies.ok()?.pop().flatten()?;
    let reply = Reply::read(&reply);
    Some((reply.rcode, records_of(&reply)))
}

fn records_of(reply: &Reply) -> Vec<String> {
    let text = |owner: &conformance::names::Name| owner.to_string().to_ascii_lowercase();
    let mut records: Vec<String> = reply
        .answer
        .iter()
        .map(|one| {
            format!("{} {} {:?}", text(&one.owner), one.rtype, one.data.to_ascii_lowercase())
        })
        .collect();
    records.sort_unstable();
    records
}
