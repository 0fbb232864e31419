//! Generated clusters: objects for an API server, the names that they lead to, and what holds of a
//! query about them.
use crate::names::{self, Name, name};
use crate::queries::{Edns, Query, RD};
use crate::random::Random;
use crate::reply::{Record, Reply, Section};
use crate::run::Dialect;
use domain::base::iana::Rtype;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The zone of the cluster.
pub const ZONE: &str = "cluster.local";
/// The zone of services imported from other clusters.
pub const SET_ZONE: &str = "clusterset.local";
/// The types that are asked for, the frequent ones more than once.
const TYPES: [Rtype; 16] = [
    Rtype::A,
    Rtype::A,
    Rtype::A,
    Rtype::A,
    Rtype::AAAA,
    Rtype::AAAA,
    Rtype::SRV,
    Rtype::SRV,
    Rtype::PTR,
    Rtype::TXT,
    Rtype::CNAME,
    Rtype::NS,
    Rtype::SOA,
    Rtype::MX,
    Rtype::HTTPS,
    Rtype::CAA,
];
/// Topology zones, one of them with a dot.
const TOPOLOGY: [&str; 3] = ["eu-1a", "eu-1b", "corp.example"];
/// What the names of services begin with.
const PORTS: [(&str, &str, u16); 3] =
    [("http", "TCP", 80), ("dns", "UDP", 53), ("metrics", "TCP", 9153)];

/// Words of `kubernetes-reasons.toml`, beside those of `compare`.
pub const TAGS: [(&str, &str); 16] = [
    ("compat", "the subject has `compat = \"coredns\"`"),
    ("reverse", "QNAME is a reverse name"),
    ("of-cluster-ip", "of an endpoint of a service that has an address"),
    ("of-import", "of an endpoint of an imported service"),
    ("cluster-ip", "QNAME is at or below a service that has an address"),
    ("headless", "QNAME is at or below a headless service"),
    ("external", "QNAME is at or below a service that is an alias"),
    ("imported", "QNAME is in the zone of imported services"),
    ("pod", "QNAME is below pod"),
    ("at", "QNAME is the name of a service"),
    ("one-below", "QNAME has one label more than a service"),
    ("two-below", "QNAME has two labels more than a service"),
    ("deep", "QNAME has three labels more than a service, or more"),
    ("underscore", "QNAME has a label below its service that begins with an underscore"),
    ("zonal", "QNAME has the label _zone"),
    ("schema", "QNAME is dns-version below a zone"),
];

/// The kind of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    ClusterIp,
    Headless,
    External,
}

/// The objects of a cluster so far, and its names.
#[derive(Debug, Default)]
pub struct Generated {
    /// What services are, by their names: `web.shop.svc.cluster.local`.
    services: BTreeMap<String, Shape>,
    namespaces: Vec<String>,
    /// Names to ask for, absolute.
    names: Vec<String>,
    addresses: u32,
    /// What the service of each endpoint is, by its reverse name.
    endpoints: BTreeMap<String, &'static str>,
    /// The subject has `compat = "coredns"`: what a service is decides less about its endpoints.
    pub is_compat: bool,
}

impl Generated {
    /// More objects, in the order in which they must be created. The names of a round begin with
    /// its number.
    pub fn grow(&mut self, round: usize, random: &mut Random) -> Vec<Value> {
        let mut objects = Vec::new();
        for number in 0..6 {
            let namespace = format!("r{round}-ns{number}");
            objects.push(json!({ "apiVersion": "v1", "kind": "Namespace",
                                 "metadata": { "name": namespace } }));
            // The last has no services.
            for service in 0..if number == 5 { 0 } else { 14 } {
                self.service(&namespace, &format!("svc-{service}"), random, &mut objects);
            }
            for pod in 0..3 {
                let address = self.address(random.chance(30));
                self.names.push(format!("{}.{namespace}.pod.{ZONE}", dashed(&address)));
                objects.push(json!({ "apiVersion": "v1", "kind": "Pod",
                    "metadata": { "name": format!("pod-{pod}"), "namespace": namespace },
                    "spec": { "containers": [{ "name": "only", "image": "none.invalid/none" }] },
                    "status": { "phase": "Running", "podIP": address,
                                "podIPs": [{ "ip": address }] } }));
            }
            self.namespaces.push(namespace);
        }
        objects
    }

    fn service(
        &mut self,
        namespace: &str,
        service: &str,
        random: &mut Random,
        objects: &mut Vec<Value>,
    ) {
        let base = format!("{service}.{namespace}.svc.{ZONE}");
        self.names.push(base.clone());
        let mut ports: Vec<Value> = PORTS
            .iter()
            .filter(|_| random.chance(60))
            .map(|(name, protocol, port)| {
                json!({ "name": name, "protocol": protocol, "port": port })
            })
            .collect();
        let roll = random.below(100);
        let shape = match roll {
            0..45 => Shape::ClusterIp,
            45..90 => Shape::Headless,
            _ => Shape::External,
        };
        self.services.insert(base.clone(), shape);
        let mut spec = match shape {
            Shape::External => {
                let targets =
                    ["www.example.com", "svc-0.r0-ns0.svc.cluster.local", "192.0.2.1", "a.b.c."];
                json!({ "type": "ExternalName", "externalName": random.pick(&targets) })
            }
            Shape::Headless => json!({ "clusterIP": "None" }),
            Shape::ClusterIp if random.chance(30) => {
                json!({ "ipFamilyPolicy": "RequireDualStack" })
            }
            Shape::ClusterIp => json!({}),
        };
        if shape != Shape::External {
            if shape == Shape::ClusterIp && ports.is_empty() {
                ports.push(json!({ "port": 8080 }));
            }
            spec["ports"] = json!(ports);
        }
        for (port, protocol, _) in PORTS {
            let protocol = protocol.to_lowercase();
            self.names.push(format!("_{port}._{protocol}.{base}"));
        }
        objects.push(json!({ "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": service, "namespace": namespace }, "spec": spec }));
        if shape != Shape::External {
            let owner = if shape == Shape::ClusterIp { "of-cluster-ip" } else { "" };
            for part in 0..random.below(4) {
                let labels = json!({ "kubernetes.io/service-name": service });
                let name = format!("{service}-{part}");
                objects.push(self.slice((namespace, &name, owner), &labels, &base, &ports, random));
            }
        }
    }

    /// A slice with up to five endpoints, some of which are not ready.
    fn slice(
        &mut self,
        (namespace, name, owner): (&str, &str, &'static str),
        labels: &Value,
        base: &str,
        ports: &[Value],
        random: &mut Random,
    ) -> Value {
        let is_v6 = random.chance(25);
        let endpoints: Vec<Value> = (0..random.below(6))
            .map(|at| {
                let address = self.address(is_v6);
                let mut endpoint = json!({ "addresses": [address] });
                if random.chance(80) {
                    endpoint["conditions"] = json!({ "ready": random.chance(75) });
                }
                let mut host = dashed(&address);
                if random.chance(40) {
                    host = format!("pet-{}", random.below(4));
                    endpoint["hostname"] = json!(host);
                }
                if random.chance(50) {
                    let pod = format!("{name}-{at}");
                    self.names.push(format!("{pod}.{base}"));
                    endpoint["targetRef"] =
                        json!({ "kind": "Pod", "name": pod, "namespace": namespace });
                }
                if random.chance(60) {
                    endpoint["zone"] = json!(random.pick(&TOPOLOGY));
                }
                self.names.push(format!("{host}.{base}"));
                self.names.push(reverse(&address));
                self.endpoints.insert(reverse(&address) + ".", owner);
                endpoint
            })
            .collect();
        for zone in TOPOLOGY.iter().chain(&["absent"]) {
            let directive = random.pick(&["pin", "prefer"]);
            self.names.push(format!("{zone}.{directive}._zone.{base}"));
        }
        json!({ "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": { "name": name, "namespace": namespace, "labels": labels },
            "addressType": if is_v6 { "IPv6" } else { "IPv4" },
            "ports": ports, "endpoints": endpoints })
    }

    /// Services imported from other clusters, into namespaces that exist.
    pub fn imports(&mut self, random: &mut Random) -> Vec<Value> {
        let mut objects = Vec::new();
        for (number, namespace) in self.namespaces.clone().iter().enumerate() {
            let service = format!("imp-{number}");
            let shape = *random.pick(&[Shape::Headless, Shape::ClusterIp]);
            let base = format!("{service}.{namespace}.svc.{SET_ZONE}");
            self.services.insert(base.clone(), shape);
            self.names.extend([base.clone(), format!("_http._tcp.{base}")]);
            let ports = [json!({ "name": "http", "protocol": "TCP", "port": 80 })];
            let mut spec = json!({ "ports": ports, "type": "Headless" });
            if shape == Shape::ClusterIp {
                spec = json!({ "ports": ports, "type": "ClusterSetIP",
                               "ips": [self.address(false)] });
            }
            objects.push(json!({ "apiVersion": "multicluster.x-k8s.io/v1alpha1",
                "kind": "ServiceImport",
                "metadata": { "name": service, "namespace": namespace }, "spec": spec }));
            for cluster in ["east", "west"] {
                let labels = json!({ "multicluster.kubernetes.io/service-name": service,
                                     "multicluster.kubernetes.io/source-cluster": cluster });
                let below = format!("{cluster}.{base}");
                let name = format!("{service}-{cluster}");
                objects.push(self.slice(
                    (namespace, &name, "of-import"),
                    &labels,
                    &below,
                    &ports,
                    random,
                ));
            }
        }
        objects
    }

    /// Notes the addresses that the API server gave a service.
    pub fn created(&mut self, object: &Value) {
        let ips = object["spec"]["clusterIPs"].as_array().into_iter().flatten();
        let ips = ips.filter_map(Value::as_str).filter(|ip| *ip != "None");
        self.names.extend(ips.map(reverse));
    }

    fn address(&mut self, is_v6: bool) -> String {
        self.addresses += 1;
        let number = self.addresses;
        match is_v6 {
            true => format!("fd01::{number:x}"),
            false => format!("10.1.{}.{}", number / 250, 1 + number % 250),
        }
    }

    /// A query about one of the names, or one near it.
    pub fn query(&self, random: &mut Random) -> Query {
        let fixed = [
            ZONE.to_owned(),
            format!("dns-version.{ZONE}"),
            format!("svc.{ZONE}"),
            format!("pod.{ZONE}"),
            format!("absent.svc.{ZONE}"),
            format!("{}.svc.{ZONE}", random.pick(&self.namespaces)),
            format!("{}.pod.{ZONE}", random.pick(&self.namespaces)),
            format!("10-9-9-9.{}.pod.{ZONE}", random.pick(&self.namespaces)),
            format!("fd00--9.{}.pod.{ZONE}", random.pick(&self.namespaces)),
            format!("no-address.{}.pod.{ZONE}", random.pick(&self.namespaces)),
            format!("absent.{}.svc.{ZONE}", random.pick(&self.namespaces)),
        ];
        let text = if random.chance(8) { random.pick(&fixed) } else { random.pick(&self.names) };
        let mut asked = name(text);
        match random.below(20) {
            0 => {
                let labels = ["a", "_http", "_tcp", "pet-1", "*"];
                asked = names::child(random.pick(&labels).as_bytes(), &asked).unwrap_or(asked);
            }
            1 => {
                let above = names::parent(&asked).filter(|above| above.label_count() > 2);
                asked = above.unwrap_or(asked);
            }
            2..4 => asked = names::shuffle_case(&asked, random),
            _ => {}
        }
        let is_reverse = text.ends_with("arpa");
        let qtype = if is_reverse && random.chance(70) { Rtype::PTR } else { *random.pick(&TYPES) };
        let mut query = Query::new(asked, qtype);
        query.flags = if random.chance(80) { RD } else { 0 };
        query.edns = random.chance(60).then(|| Edns::new(1232));
        query
    }

    /// The service that an absolute name is at or below, and the labels below that.
    fn place<'n>(&self, name: &'n str) -> Option<(Shape, Vec<&'n str>)> {
        let labels: Vec<&str> = name.trim_end_matches('.').split('.').collect();
        let starts = 0..labels.len();
        let found = starts.filter_map(|at| {
            let shape = self.services.get(&labels[at..].join("."))?;
            Some((*shape, labels[..at].to_vec()))
        });
        { found }.next()
    }
}

impl Dialect for Generated {
    fn tags(&self, query: &Query) -> Vec<&'static str> {
        let mut tags = self.tags_of_name(query);
        if self.is_compat {
            tags.retain(|tag| *tag != "of-cluster-ip");
            tags.push("compat");
        }
        tags
    }

    /// Weights of SRV records and serials are each server's choice.
    fn adapt(&self, reply: &mut Reply) {
        for section in [&mut reply.answer, &mut reply.authority, &mut reply.additional] {
            let adapted: Section = std::mem::take(section).into_iter().map(adapted).collect();
            *section = adapted;
        }
    }
}

impl Generated {
    fn tags_of_name(&self, query: &Query) -> Vec<&'static str> {
        let text = names::lower(&query.name).fmt_with_dot().to_string();
        if text.ends_with("arpa.") {
            let ends = text.match_indices('.').map(|(at, _)| &text[at + 1..]);
            let owner = [text.as_str()].into_iter().chain(ends);
            let owner = { owner }.find_map(|name| self.endpoints.get(name));
            let owner = owner.filter(|owner| !owner.is_empty());
            return ["reverse"].into_iter().chain(owner.copied()).collect();
        }
        let mut tags = Vec::new();
        if text.ends_with(&format!("{SET_ZONE}.")) {
            tags.push("imported");
        }
        if text.starts_with("dns-version.") {
            tags.push("schema");
        }
        if text.ends_with(&format!(".pod.{ZONE}.")) {
            tags.push("pod");
        }
        let Some((shape, labels)) = self.place(&text) else { return tags };
        tags.push(match shape {
            Shape::ClusterIp => "cluster-ip",
            Shape::Headless => "headless",
            Shape::External => "external",
        });
        tags.push(["at", "one-below", "two-below", "deep"][labels.len().min(3)]);
        if labels.iter().any(|label| label.starts_with('_')) {
            tags.push("underscore");
        }
        if labels.contains(&"_zone") {
            tags.push("zonal");
        }
        tags
    }
}

fn adapted(mut record: Record) -> Record {
    let len = record.data.len();
    match record.rtype {
        Rtype::SRV => record.data[2..4].fill(0),
        Rtype::SOA => record.data[len - 20..len - 16].fill(0),
        _ => {}
    }
    record
}

fn dashed(address: &str) -> String {
    address.replace(['.', ':'], "-")
}

/// The reverse name of an address, as text.
fn reverse(address: &str) -> String {
    match address.parse().expect("an address") {
        std::net::IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        std::net::IpAddr::V6(ip) => {
            let nibbles = ip.octets().into_iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
            nibbles.map(|nibble| format!("{nibble:x}.")).collect::<String>() + "ip6.arpa"
        }
    }
}

/// The name of a zone, for a wait until it is served.
pub fn zone_name() -> Name {
    name(ZONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_cluster() {
        let make = || {
            let (mut random, mut cluster) = (Random::new(3), Generated::default());
            let objects = cluster.grow(0, &mut random);
            let queries: Vec<_> = (0..50).map(|_| cluster.query(&mut random)).collect();
            (objects, queries)
        };
        assert_eq!(make(), make());
    }

    #[test]
    fn tags_describe_the_query() {
        let mut cluster = Generated::default();
        cluster.services.insert("web.shop.svc.cluster.local".into(), Shape::ClusterIp);
        let tags = |text| cluster.tags(&Query::new(name(text), Rtype::A));
        assert_eq!(tags("Web.shop.svc.cluster.local"), ["cluster-ip", "at"]);
        assert_eq!(
            tags("_http._tcp.web.shop.svc.cluster.local"),
            ["cluster-ip", "two-below", "underscore"]
        );
        assert_eq!(tags("none.shop.svc.cluster.local"), [""; 0]);
        assert_eq!(tags("1-2-3-4.shop.pod.cluster.local"), ["pod"]);
        assert_eq!(tags("1.0.0.10.in-addr.arpa"), ["reverse"]);
        cluster.is_compat = true;
        cluster.endpoints.insert("1.0.0.10.in-addr.arpa.".into(), "of-cluster-ip");
        let query = Query::new(name("1.0.0.10.in-addr.arpa"), Rtype::PTR);
        assert_eq!(cluster.tags(&query), ["reverse", "compat"]);
    }
}
