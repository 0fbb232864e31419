//! What each event changes. A property compares every state with the records of all objects.
use super::*;
use crate::names::tests::naming;
use crate::names::{Compat, PodNames};
use crate::objects::{Endpoint, Hints, Port};
use crate::records::SetKey;
use crate::text;
use model::SetRules;
use std::collections::BTreeMap;
use wire::Rtype;

mod checks;
mod hints;

pub(crate) fn cluster(pods: PodNames) -> Cluster {
    cluster_with(Naming { pods, ..naming() })
}

/// A cluster with verified pods, whose services have the names of the specification or, in every
/// second round, those of CoreDNS.
pub(crate) fn cluster_of_round(round: usize) -> Cluster {
    let compat = [Compat::Specification, Compat::CoreDns][round % 2];
    cluster_with(Naming { pods: PodNames::Verified, compat, ..naming() })
}

fn cluster_with(naming: Naming) -> Cluster {
    let own = Some(ObjectName::new("kube-system", "kube-dns"));
    let exposed = Exposed { own, ..Exposed::default() };
    Cluster::new(Arc::new(naming), Arc::new(exposed), 1)
}

fn key(name: &str) -> ServiceKey {
    (false, ObjectName::new("shop", name))
}

fn headless() -> Service {
    Service { kind: ServiceKind::Headless, ports: Box::default() }
}

fn with_address(address: &str) -> Service {
    let address = address.parse().expect("an address");
    Service { kind: ServiceKind::ClusterIp([address].into()), ports: Box::default() }
}

fn slice(service: &str, addresses: &[&str]) -> Option<SliceOf> {
    let endpoint = |address: &&str| Endpoint {
        address: address.parse().expect("an address"),
        host: None,
        zone: None,
    };
    let endpoints = addresses.iter().map(endpoint).collect();
    let slice = Slice { ports: Box::default(), cluster: Box::default(), endpoints };
    let service = service.into();
    Some(SliceOf { service, is_import: false, slice, terminating: None, hints: None })
}

fn object(name: &str) -> ObjectName {
    ObjectName::new("shop", name)
}

/// A list of namespaces that lacks one must be judged by all names that go with it.
#[test]
fn a_namespace_that_goes_takes_the_names_in_it_from_the_count() {
    let mut cluster = cluster(PodNames::Disabled);
    cluster.put_namespace("shop", true);
    cluster.put_namespace("office", true);
    for last in 1..=40 {
        let service = with_address(&format!("10.3.0.{last}"));
        cluster.put_service(key(&format!("web-{last}")), Some(service));
    }
    cluster.put_service(key("pets"), Some(headless()));
    cluster.put_slice(object("pets-1"), slice("pets", &["10.4.0.1", "10.4.0.2"]));
    assert_eq!(cluster.names(), 2 + 40 + 1 + 2);
    cluster.put_namespace("shop", false);
    assert_eq!(cluster.names(), 1, "the other namespace");
}

#[test]
fn a_namespace_exists_without_records_and_brings_its_services() {
    let mut cluster = cluster(PodNames::Disabled);
    assert_eq!(
        text::changes(&cluster.put_service(key("web"), Some(with_address("10.3.0.1")))),
        [""; 0]
    );
    let come = text::changes(&cluster.put_namespace("shop", true));
    assert_eq!(
        come,
        [
            "+ shop.svc.cluster.local.",
            "= web.shop.svc.cluster.local. A 10.3.0.1",
            "+ 1.0.3.10.in-addr.arpa. PTR web.shop.svc.cluster.local.",
        ]
    );
    let gone = text::changes(&cluster.put_namespace("shop", false));
    assert_eq!(
        gone,
        [
            "- shop.svc.cluster.local.",
            "= web.shop.svc.cluster.local. A",
            "- 1.0.3.10.in-addr.arpa. PTR web.shop.svc.cluster.local.",
        ]
    );
}

#[test]
fn an_address_that_moves_between_slices_stays() {
    let mut cluster = cluster(PodNames::Disabled);
    cluster.put_namespace("shop", true);
    cluster.put_service(key("web"), Some(headless()));
    cluster.put_slice(object("one"), slice("web", &["10.3.0.1", "10.3.0.2"]));
    let moved = cluster.put_slice(object("two"), slice("web", &["10.3.0.2"]));
    assert_eq!(text::changes(&moved), [""; 0], "it is in both");
    let moved = cluster.put_slice(object("one"), slice("web", &["10.3.0.1"]));
    assert_eq!(text::changes(&moved), [""; 0], "it is in the second");
    let gone = cluster.put_slice(object("two"), None);
    assert_eq!(
        text::changes(&gone),
        [
            "= web.shop.svc.cluster.local. A 10.3.0.1",
            "= 10-3-0-2.web.shop.svc.cluster.local. A",
            "- 2.0.3.10.in-addr.arpa. PTR 10-3-0-2.web.shop.svc.cluster.local.",
        ]
    );
}

#[test]
fn an_address_of_two_services_leads_back_to_both() {
    let mut cluster = cluster(PodNames::Disabled);
    cluster.put_namespace("shop", true);
    for name in ["web", "all"] {
        cluster.put_service(key(name), Some(headless()));
        cluster.put_slice(object(name), slice(name, &["10.3.0.1"]));
    }
    let gone = text::changes(&cluster.put_service(key("all"), None));
    assert!(
        gone.contains(&"- 1.0.3.10.in-addr.arpa. PTR 10-3-0-1.all.shop.svc.cluster.local.".into())
    );
    assert!(!gone.iter().any(|line| line.contains("web")), "{gone:#?}");
}

#[test]
fn endpoints_of_a_service_with_an_address_are_only_counted() {
    let mut cluster = cluster(PodNames::Disabled);
    cluster.put_namespace("shop", true);
    cluster.put_slice(object("one"), slice("web", &["10.3.0.1", "10.3.0.2"]));
    cluster.put_service(key("web"), Some(with_address("10.96.0.1")));
    let entry = cluster.services.get((false, "shop", "web")).expect("the service");
    let kept = &entry.slices[0];
    assert_eq!((kept.ready, &kept.slice), (2, &None));
    assert!(!cluster.needs_slices);
    cluster.put_service(key("web"), Some(headless()));
    assert!(cluster.needs_slices, "a headless service of the same name needs them");
}

#[test]
fn endpoints_of_a_service_with_an_address_have_names_with_coredns() {
    let mut cluster = cluster_with(Naming { compat: Compat::CoreDns, ..naming() });
    cluster.put_namespace("shop", true);
    cluster.put_service(key("web"), Some(with_address("10.96.0.1")));
    let come = text::changes(&cluster.put_slice(object("one"), slice("web", &["10.3.0.1"])));
    let (a, ptr) = (
        "= 10-3-0-1.web.shop.svc.cluster.local. A",
        "1.0.3.10.in-addr.arpa. PTR 10-3-0-1.web.shop.svc.cluster.local.",
    );
    assert_eq!(come, [format!("{a} 10.3.0.1"), format!("+ {ptr}")]);
    let gone = text::changes(&cluster.put_slice(object("one"), slice("web", &[])));
    assert_eq!(gone, [a.to_owned(), format!("- {ptr}")]);

    // A state that was saved without them has their number only.
    let kept = KeptSlice { name: "two".into(), ready: 1, slice: None };
    let entry = Entry { service: None, slices: vec![kept] };
    cluster.put_entry((false, "shop", "api"), &entry);
    cluster.put_service(key("api"), Some(with_address("10.96.0.2")));
    assert!(cluster.needs_slices);
}

#[test]
fn the_name_server_has_the_addresses_of_its_service() {
    let mut cluster = cluster(PodNames::Disabled);
    let own = (false, ObjectName::new("kube-system", "kube-dns"));
    let come = text::changes(&cluster.put_service(own.clone(), Some(with_address("10.96.0.10"))));
    assert_eq!(come, ["= ns.dns.cluster.local. A 10.96.0.10"]);
    assert_eq!(text::changes(&cluster.put_service(own, None)), ["= ns.dns.cluster.local. A"]);
}

#[test]
fn a_pod_has_a_name_while_some_pod_has_the_address() {
    let mut cluster = cluster(PodNames::Verified);
    cluster.put_namespace("shop", true);
    let ips = || Some(Box::from(["10.3.0.1".parse::<IpAddr>().expect("an address")]));
    let come = cluster.put_pod(object("a"), ips());
    assert_eq!(text::changes(&come), ["= 10-3-0-1.shop.pod.cluster.local. A 10.3.0.1"]);
    assert_eq!(cluster.put_pod(object("b"), ips()), []);
    assert_eq!(cluster.put_pod(object("a"), None), []);
    let gone = cluster.put_pod(object("b"), None);
    assert_eq!(text::changes(&gone), ["= 10-3-0-1.shop.pod.cluster.local. A"]);
}

/// A server that applies changes as the zone manager does.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Served {
    rules: BTreeMap<SetKey, SetRules>,
    sets: BTreeMap<SetKey, Vec<Box<[u8]>>>,
    names: std::collections::BTreeSet<(u8, Box<[u8]>)>,
}

impl Served {
    pub(crate) fn apply(&mut self, changes: Vec<RecordChange>) {
        for change in changes {
            match change {
                RecordChange::Set(key, set) => {
                    self.rules.remove(&key);
                    match set {
                        Some((_, set)) => drop(self.sets.insert(key, set)),
                        None => drop(self.sets.remove(&key)),
                    }
                }
                RecordChange::Ruled(key, (_, set), rules) => {
                    self.rules.insert(key.clone(), *rules);
                    self.sets.insert(key, set);
                }
                RecordChange::Add(key, (_, set)) => {
                    let all = self.sets.entry(key).or_default();
                    all.extend(set);
                    all.sort_unstable();
                    all.dedup();
                }
                RecordChange::Take(key, (_, gone)) => {
                    let all = self.sets.get_mut(&key).expect("a set to take from");
                    all.retain(|one| !gone.contains(one));
                    if all.is_empty() {
                        self.sets.remove(&key);
                    }
                }
                RecordChange::AddName(zone, name) | RecordChange::AddAddresses(zone, name) => {
                    self.names.insert((zone, name));
                }
                RecordChange::RemoveName(zone, name) => drop(self.names.remove(&(zone, name))),
            }
        }
    }
}

#[test]
fn events_lead_to_what_a_list_of_all_objects_says() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..30 {
        let mut cluster = cluster_of_round(round);
        let mut served = Served::default();
        cluster.all(None).for_each(|records| served.apply(records.all()));
        for step in 0..120 {
            let changed = event(&mut cluster, &mut random);
            served.apply(changed);
            let mut expected = Served::default();
            cluster.all(None).for_each(|records| expected.apply(records.all()));
            assert_eq!(served, expected, "seed {seed}, round {round}, step {step}");
        }
    }
}

pub(crate) fn event(cluster: &mut Cluster, random: &mut fastrand::Rng) -> Vec<RecordChange> {
    let namespaces = ["shop", "bank"];
    let namespace = namespaces[random.usize(..2)];
    let service = ["a", "b", "c"][random.usize(..3)];
    let object = ObjectName::new(namespace, ["1", "2", "3", "4"][random.usize(..4)]);
    let address = |random: &mut fastrand::Rng| IpAddr::from([10, 3, 0, random.u8(1..6)]);
    match random.u8(..12) {
        10 => {
            let known = ["tcp", "web", "own"].into_iter().filter(|_| random.bool());
            cluster.set_checks(Arc::new(known.map(str::to_owned).collect()))
        }
        11 => {
            let check = [None, Some("tcp"), Some("web")][random.usize(..3)];
            let key = (false, ObjectName::new(namespace, "b"));
            cluster.put_checked_service(key, Some(headless()), check)
        }
        0 => cluster.put_namespace(namespace, random.u8(..3) > 0),
        1 | 2 => {
            let port = Port { name: "http".into(), protocol: "tcp".into(), number: 80 };
            // An address of a service is its own; a service does not change its kind.
            let number = u8::from(namespace == "bank") * 3 + service.as_bytes()[0];
            let kind = match service {
                "a" => ServiceKind::ClusterIp([IpAddr::from([10, 96, 0, number])].into()),
                "b" => ServiceKind::Headless,
                _ => ServiceKind::External("www.example.com".into()),
            };
            let service = (random.u8(..4) > 0).then(|| Service { kind, ports: [port].into() });
            cluster.put_service(
                (
                    false,
                    ObjectName::new(
                        namespace,
                        ["a", "b", "c"][match service.as_ref().map(|s| &s.kind) {
                            Some(ServiceKind::ClusterIp(_)) => 0,
                            Some(ServiceKind::Headless) => 1,
                            Some(_) => 2,
                            None => random.usize(..3),
                        }],
                    ),
                ),
                service,
            )
        }
        3 => {
            let ips = (0..random.usize(..3))
                .map(|_| address(random))
                .collect::<std::collections::HashSet<_>>();
            let ips: Box<[IpAddr]> = ips.into_iter().collect();
            cluster.put_pod(object, (!ips.is_empty()).then_some(ips))
        }
        4 => cluster.put_slice(object, None),
        _ => cluster.put_slice(object, Some(any_slice(service, random))),
    }
}

/// A slice of a service with some endpoints, hints, and endpoints that end.
fn any_slice(service: &str, random: &mut fastrand::Rng) -> SliceOf {
    let address = |random: &mut fastrand::Rng| IpAddr::from([10, 3, 0, random.u8(1..6)]);
    let mut endpoints = || {
        let endpoints = (0..random.usize(..4)).map(|_| Endpoint {
            address: address(random),
            host: random.bool().then(|| ["x", "y"][random.usize(..2)].into()),
            zone: None,
        });
        endpoints.collect()
    };
    let (endpoints, ending) = (endpoints(), endpoints());
    let port = Port { name: "http".into(), protocol: "tcp".into(), number: random.u16(80..82) };
    let ports: Box<[Port]> = if random.bool() { [port].into() } else { Box::default() };
    let slice = Slice { ports, cluster: Box::default(), endpoints };
    let ending = Slice { endpoints: ending, ..slice.clone() };
    let terminating = random.bool().then(|| Box::new(ending));
    let service = service.into();
    let hint = |one: &Endpoint| (one.address, ["a", "b/n"][random.usize(..2)].into());
    let hints: Hints = slice.endpoints.iter().map(hint).collect();
    let hints = Some(hints).filter(|hints| !hints.is_empty() && random.u8(..4) > 0);
    SliceOf { service, is_import: false, slice, terminating, hints }
}

/// The clock is the serial, and may be stepped: serials go on nevertheless (RFC 1982), and no
/// other record changes.
#[test]
fn serials_go_on_while_the_clock_is_stepped() {
    let mut cluster = cluster(PodNames::Disabled);
    let serial = |changes: &[RecordChange]| match changes {
        [RecordChange::Set((_, _, rtype), Some((_, data)))] if *rtype == Rtype::SOA => {
            let numbers = data[0].last_chunk::<20>().expect("five numbers");
            u32::from_be_bytes([numbers[0], numbers[1], numbers[2], numbers[3]])
        }
        other => panic!("more than the SOA: {other:?}"),
    };
    let mut last = serial(&cluster.renew_serial(1_000_000));
    let clocks = [1_000_001, 5, 6, 0, 1_000_002, u32::MAX, 3_000_000_000, 1_000_003, 3_000_000_000];
    for clock in clocks {
        let next = serial(&cluster.renew_serial(clock));
        assert!(next.wrapping_sub(last) as i32 > 0, "{last} is followed by {next} at {clock}");
        last = next;
    }
}
