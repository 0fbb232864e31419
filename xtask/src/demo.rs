//! The demo fleet: a cluster as the Kubernetes DNS specification (version 1.1.0) names it.
//!
//! Eighty namespaces of twenty-five services each: plain services with a cluster address, some of
//! them dual-stack, headless sets with and without host names, external names, SRV of every named
//! port, and the reverse zones. All of it follows from numbers; the same source, the same zones.
use std::fmt::Write;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

const TEAMS: [&str; 16] = [
    "billing",
    "cart",
    "catalog",
    "checkout",
    "identity",
    "inventory",
    "media",
    "notify",
    "orders",
    "payments",
    "pricing",
    "recommend",
    "reviews",
    "search",
    "shipping",
    "support",
];
const STAGES: [&str; 5] = ["dev", "perf", "prod", "staging", "test"];

/// What a namespace holds, and how each of it is named in DNS.
const SERVICES: [(&str, Kind); 25] = [
    ("admin", Kind::Plain),
    ("api", Kind::Dual),
    ("audit", Kind::Plain),
    ("auth", Kind::Plain),
    ("cache", Kind::Stateful(3)),
    ("db", Kind::Stateful(3)),
    ("events", Kind::Plain),
    ("export", Kind::Plain),
    ("gateway", Kind::Dual),
    ("jobs", Kind::Plain),
    ("mail", Kind::External("smtp.mail.example.net.")),
    ("metrics", Kind::Plain),
    ("policy", Kind::Plain),
    ("proxy", Kind::Plain),
    ("queue", Kind::Stateful(5)),
    ("render", Kind::Plain),
    ("scheduler", Kind::Plain),
    ("session", Kind::Plain),
    ("static", Kind::External("static.cdn.example.net.")),
    ("sync", Kind::Plain),
    ("uploads", Kind::Plain),
    ("web", Kind::Dual),
    ("webhook", Kind::Plain),
    ("worker", Kind::Headless(12)),
    ("workflow", Kind::Plain),
];

#[derive(Clone, Copy)]
enum Kind {
    /// One cluster address.
    Plain,
    /// One of each family.
    Dual,
    /// A headless set whose members have host names: `db-0.db`.
    Stateful(u32),
    /// A headless set whose members are named after their addresses: `10-244-0-1.worker`.
    Headless(u32),
    /// An alias that leaves the cluster.
    External(&'static str),
}

/// The three zones while they grow, and the next free addresses.
struct Fleet {
    forward: String,
    reverse_v4: String,
    reverse_v6: String,
    services: u32,
    pods: u32,
}

/// Writes `cluster.local.zone` and the two reverse zones.
///
/// # Errors
/// What writing files fails with.
pub fn write(directory: &Path) -> io::Result<()> {
    let fleet = fleet();
    fs::create_dir_all(directory)?;
    fs::write(directory.join("cluster.local.zone"), fleet.forward)?;
    fs::write(directory.join("10.in-addr.arpa.zone"), fleet.reverse_v4)?;
    fs::write(directory.join("fd00-10-96.ip6.arpa.zone"), fleet.reverse_v6)
}

fn fleet() -> Fleet {
    let head = |origin: &str| {
        format!(
            "; Written by `cargo xtask demo`. Do not edit.\n$ORIGIN {origin}\n$TTL 30\n\
             @ SOA ns.dns.cluster.local. hostmaster.cluster.local. 1 7200 1800 86400 5\n\
             @ NS ns.dns.cluster.local.\n"
        )
    };
    let mut fleet = Fleet {
        forward: head("cluster.local."),
        reverse_v4: head("10.in-addr.arpa."),
        reverse_v6: head("6.9.0.0.0.1.0.0.0.0.d.f.ip6.arpa."),
        services: 256, // below it are the addresses that are given by hand
        pods: 0,
    };
    fleet.forward.push_str("ns.dns A 127.0.0.1\ndns-version TXT \"1.1.0\"\n");
    fleet.forward.push_str("$ORIGIN default.svc.cluster.local.\n");
    fleet.address("kubernetes", "default", Ipv4Addr::new(10, 96, 0, 1));
    fleet.port("https", "tcp", 443, "kubernetes");
    fleet.forward.push_str("$ORIGIN kube-system.svc.cluster.local.\n");
    fleet.address("kube-dns", "kube-system", Ipv4Addr::new(10, 96, 0, 10));
    fleet.port("dns", "udp", 53, "kube-dns");
    fleet.port("dns-tcp", "tcp", 53, "kube-dns");
    fleet.port("metrics", "tcp", 9153, "kube-dns");
    for team in TEAMS {
        for stage in STAGES {
            fleet.namespace(&format!("{team}-{stage}"));
        }
    }
    fleet
}

impl Fleet {
    fn namespace(&mut self, namespace: &str) {
        line(&mut self.forward, format_args!("$ORIGIN {namespace}.svc.cluster.local."));
        for (service, kind) in SERVICES {
            match kind {
                Kind::Plain | Kind::Dual => self.cluster_service(service, namespace, kind),
                Kind::Stateful(members) => {
                    for member in 0..members {
                        let host = format!("{service}-{member}");
                        self.member(&host, service, namespace);
                    }
                }
                Kind::Headless(members) => {
                    for _ in 0..members {
                        let host = self.pod().to_string().replace('.', "-");
                        self.member(&host, service, namespace);
                    }
                }
                Kind::External(target) => {
                    line(&mut self.forward, format_args!("{service} CNAME {target}"));
                }
            }
        }
    }

    /// A service behind a cluster address, with two named ports.
    fn cluster_service(&mut self, service: &str, namespace: &str, kind: Kind) {
        let [.., c, d] = self.services.to_be_bytes();
        self.services += 1;
        self.address(service, namespace, Ipv4Addr::new(10, 96, c, d));
        if matches!(kind, Kind::Dual) {
            let low = u16::from_be_bytes([c, d]);
            let address = Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 0, low);
            line(&mut self.forward, format_args!("{service} AAAA {address}"));
            let name = ip6_arpa(address);
            line(
                &mut self.reverse_v6,
                format_args!("{name} PTR {service}.{namespace}.svc.cluster.local."),
            );
        }
        self.port("http", "tcp", 80, service);
        self.port("metrics", "tcp", 9090, service);
    }

    /// One endpoint of a headless set: the set's address, its own, its port, its reverse.
    fn member(&mut self, host: &str, service: &str, namespace: &str) {
        let address = self.pod();
        self.pods += 1;
        line(&mut self.forward, format_args!("{service} A {address}"));
        self.address(&format!("{host}.{service}"), namespace, address);
        line(
            &mut self.forward,
            format_args!("_peer._tcp.{service} SRV 0 100 7000 {host}.{service}"),
        );
    }

    /// The address the next endpoint gets: pods are spread over nodes of 200 each.
    fn pod(&self) -> Ipv4Addr {
        let (node, pod) = (self.pods / 200, self.pods % 200 + 1);
        Ipv4Addr::new(10, 244, node as u8, pod as u8)
    }

    /// An address, both ways.
    fn address(&mut self, host: &str, namespace: &str, address: Ipv4Addr) {
        line(&mut self.forward, format_args!("{host} A {address}"));
        let [_, b, c, d] = address.octets();
        line(
            &mut self.reverse_v4,
            format_args!("{d}.{c}.{b} PTR {host}.{namespace}.svc.cluster.local."),
        );
    }

    fn port(&mut self, port: &str, protocol: &str, number: u16, service: &str) {
        line(
            &mut self.forward,
            format_args!("_{port}._{protocol}.{service} SRV 0 100 {number} {service}"),
        );
    }
}

fn line(zone: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(zone, "{text}").expect("a String takes all");
}

/// The nibbles below fd00:10:96::/48, last first (RFC 3596 §2.5).
fn ip6_arpa(address: Ipv6Addr) -> String {
    let mut labels = Vec::new();
    for byte in address.octets()[6..].iter().rev() {
        labels.push(format!("{:x}.{:x}", byte & 15, byte >> 4));
    }
    labels.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_zones_are_what_is_generated() {
        let directory = crate::root().join("examples/fleet");
        let fleet = fleet();
        for (file, text) in [
            ("cluster.local.zone", fleet.forward),
            ("10.in-addr.arpa.zone", fleet.reverse_v4),
            ("fd00-10-96.ip6.arpa.zone", fleet.reverse_v6),
        ] {
            let committed = fs::read_to_string(directory.join(file)).expect(file);
            assert!(committed == text, "{file} is stale: run `make fleet`");
        }
    }

    #[test]
    fn a_service_has_all_its_records() {
        let fleet = fleet();
        for expected in [
            "\n$ORIGIN billing-dev.svc.cluster.local.\nadmin A 10.96.1.0\n",
            "\n_http._tcp.admin SRV 0 100 80 admin\n",
            "\ndb-0.db A 10.244.0.",
            "\nmail CNAME smtp.mail.example.net.\n",
        ] {
            assert!(fleet.forward.contains(expected), "{expected}");
        }
        assert!(
            fleet.reverse_v4.contains("\n0.1.96 PTR admin.billing-dev.svc.cluster.local.\n"),
            "the reverse of 10.96.1.0"
        );
        assert!(fleet.pods / 200 < 256, "every endpoint has an address of its own");
    }

    #[test]
    fn nibbles_run_backwards() {
        let address = "fd00:10:96::1a2b".parse().expect("an address");
        assert_eq!(ip6_arpa(address), "b.2.a.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0");
    }
}
