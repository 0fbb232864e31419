//! Compares two configs: the keys that changed, and those that need a restart.
use crate::{Config, PortKind};
use std::collections::{BTreeSet, HashSet};

impl Config {
    /// The keys whose new values a running server applies, without the zones.
    pub fn changed(&self, new: &Self) -> Vec<String> {
        let (old_server, server) = (&self.server, &new.server);
        told([
            ("server.port", old_server.port != server.port && !self.restarts_port(new)),
            ("xdp", self.xdp != new.xdp),
            ("server.udp_size_max", old_server.udp_size_max != server.udp_size_max),
            ("server.nsid", old_server.nsid != server.nsid),
            ("server.version", old_server.version != server.version),
            ("server.id", old_server.id != server.id),
            ("server.local_zones", old_server.local_zones != server.local_zones),
            ("server.watch_config", old_server.watch_config != server.watch_config),
            ("server.drain", old_server.drain != server.drain),
            ("server.saved_for", old_server.saved_for != server.saved_for),
            ("server.cookies", old_server.cookies != server.cookies),
            ("acl.query", self.acl.query != new.acl.query),
            ("acl.recursion", self.acl.recursion != new.acl.recursion),
            ("acl.notify_from", self.acl.notify_from != new.acl.notify_from),
            ("acl.metrics", self.acl.metrics != new.acl.metrics),
            ("acl.denied", self.acl.denied != new.acl.denied),
            ("transfer.allow", self.transfer.allow != new.transfer.allow),
            ("transfer.notify", self.transfer.notify != new.transfer.notify),
            ("ecs", self.ecs != new.ecs),
            ("network", self.networks != new.networks),
            ("networks", self.geo != new.geo),
            ("store.views", self.store.views != new.store.views),
            ("limits.exempt", self.limits.exempt != new.limits.exempt),
            ("limits.rate", self.limits.rate != new.limits.rate),
            ("limits.responses", self.limits.responses != new.limits.responses),
            ("forward", self.forwards != new.forwards && (self.asks() || !new.asks())),
            ("hosts", self.hosts != new.hosts),
            ("check", self.health.checks != new.health.checks),
            ("zone.check", self.zone_checks != new.zone_checks),
            ("rewrite", self.rewrites != new.rewrites),
            ("proxy.from", self.proxy != new.proxy),
            ("log.level", self.log.level != new.log.level),
            ("log.levels", self.log.levels != new.log.levels),
            ("log.queries", self.log.queries != new.log.queries),
            ("dnstap", self.dnstap != new.dnstap),
            ("zone", self.secondaries != new.secondaries),
        ])
    }

    /// The keys whose new values need a restart or a hot restart: they concern what a server opens,
    /// starts or drops only once.
    pub fn restart_needed(&self, new: &Self) -> Vec<String> {
        let (old_server, server) = (&self.server, &new.server);
        // Parts that do not run any more have no settings.
        let are_same = old_server.roles == server.roles;
        told([
            ("server.roles", !are_same),
            ("server.name", old_server.name != server.name),
            ("server.location", old_server.location != server.location),
            ("server.listen", are_same && old_server.listen != server.listen),
            ("server.port", old_server.port != server.port && self.restarts_port(new)),
            ("dpdk", self.dpdk != new.dpdk),
            ("server.workers", old_server.workers != server.workers),
            ("server.pin", old_server.pin != server.pin),
            ("server.steering", old_server.steering != server.steering),
            ("server.data_dir", old_server.data_dir != server.data_dir),
            ("server.user", old_server.user != server.user),
            ("server.group", old_server.group != server.group),
            ("server.hold_sockets", old_server.hold_sockets != server.hold_sockets),
            ("limits.memory", self.limits.memory != new.limits.memory),
            ("forward", are_same && !self.asks() && new.asks()),
            ("upstream", self.upstream != new.upstream),
            ("cache", self.cache != new.cache),
            ("streams", self.streams != new.streams),
            ("anycast", self.anycast != new.anycast),
            ("ops", self.ops != new.ops),
            ("api", are_same && self.api != new.api),
            ("transfer", are_same && !self.transfer.has_same_settings(&new.transfer)),
            ("admin.socket", self.admin != new.admin),
            ("store.kind", self.store.kind != new.store.kind),
            ("etcd", self.etcd != new.etcd),
            ("kubernetes", are_same && self.kubernetes != new.kubernetes),
            (
                "network",
                !new.pod_labels().is_subset(&self.pod_labels())
                    || (new.has_pods() && !self.has_pods()),
            ),
            ("health", !self.health.has_same_settings(&new.health)),
            ("site", self.sites != new.sites),
            ("log.format", self.log.format != new.log.format),
        ])
    }

    /// Whether a change of the port begins or ends with DPDK, which starts once in a process.
    fn restarts_port(&self, new: &Self) -> bool {
        [self, new].iter().any(|config| config.server.port == PortKind::Dpdk)
    }

    /// Whether Pods are clients of any network: they are watched from the start.
    pub fn has_pods(&self) -> bool {
        self.networks.iter().any(|network| !network.pods.is_empty())
    }

    /// The autonomous systems that networks name.
    pub fn systems(&self) -> HashSet<u32> {
        self.networks.iter().flat_map(|network| &network.systems).copied().collect()
    }

    /// The labels of Pods that networks ask for.
    pub fn pod_labels(&self) -> BTreeSet<&str> {
        let labels = self.networks.iter().flat_map(|network| &network.pods.labels);
        labels.map(|(name, _)| name.as_str()).collect()
    }

    /// Whether any rule queries upstreams: the threads get what they need for that at the start.
    fn asks(&self) -> bool {
        self.forwards.iter().any(|rule| rule.mode.asks())
    }
}

fn told<const N: usize>(keys: [(&'static str, bool); N]) -> Vec<String> {
    keys.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn config(text: &str) -> Config {
        Config::parse(Path::new("f"), text).expect("a config")
    }

    #[test]
    fn key_of_something_opened_once_needs_a_restart() {
        let old = config("");
        let new = config("server.workers = 3\nstreams.idle = \"3s\"\nlog.level = \"debug\"");
        assert_eq!(old.restart_needed(&new), ["server.workers", "streams"]);
        assert_eq!(old.changed(&new), ["log.level"]);
        let forwards =
            [("corp = [\"192.0.2.1\"]", "corp = [\"192.0.2.2\"]"), ("a = [\"192.0.2.1\"]", "")];
        for (old, new) in forwards.map(|(a, b)| (config(&of(a)), config(&of(b)))) {
            assert_eq!(old.changed(&new), ["forward"]);
            assert!(old.restart_needed(&new).is_empty());
        }
        assert!(new.changed(&new).is_empty() && new.restart_needed(&new).is_empty());
        let other_roles = config("server.roles = [\"health\"]");
        assert_eq!(old.restart_needed(&other_roles), ["server.roles"]);
    }

    fn of(rule: &str) -> String {
        format!("[forward]\n{rule}")
    }

    /// A config that differs in every key.
    const OTHERS: &str = r#"
        server.listen = ["127.0.0.1:1"]
        server.roles = ["dns"]
        server.name = "a"
        server.location = "a"
        server.workers = 3
        server.port =
        dpdk.devices = ["net_null0"]
        dpdk.interfaces = ["dns0"]
        dpdk.huge_pages = false
        dpdk.memory = "32MiB"
        dpdk.library = "/a"
        dpdk.sleep = "never"
        xdp.interface = "eth0"
        xdp.queues = "0"
        xdp.route_check = false
        xdp.priority = 40
        xdp.nice = 0
        server.pin = true
        server.steering = "hash"
        server.udp_size_max = 600
        server.nsid = "a"
        server.version = "a"
        server.id = "a"
        server.local_zones = false
        server.data_dir = "a"
        server.user = "a"
        server.group = "a"
        server.drain = "1s"
        server.saved_for = "1s"
        server.watch_config = true
        server.hold_sockets = true
        server.cookies.enabled = false
        server.cookies.secrets = ["000102030405060708090a0b0c0d0e0f"]
        acl.query = ["10.0.0.0/8"]
        acl.recursion = ["10.0.0.0/8"]
        acl.notify_from = ["10.0.0.0/8"]
        acl.metrics = ["10.0.0.0/8"]
        acl.denied = "drop"
        ecs.trust = ["10.0.0.0/8"]
        network = [{ name = "a", prefixes = ["10.0.0.0/8"] }]
        limits.exempt = ["10.0.0.0/8"]
        limits.memory = "32MiB"
        limits.rate.per_second = 5
        limits.rate.burst = 5
        limits.rate.slip = 1
        limits.rate.ipv4_prefix = 31
        limits.rate.ipv6_prefix = 48
        limits.responses.per_second = 5
        limits.responses.burst = 5
        limits.responses.slip = 1
        limits.responses.ipv4_prefix = 31
        limits.responses.ipv6_prefix = 48
        forward."." = ["192.0.2.1"]
        upstream.ca = "ca.pem"
        cache.memory = "2MiB"
        cache.ttl_min = "1s"
        cache.ttl_max = "1h"
        cache.negative_ttl_max = "1m"
        cache.stale = "1h"
        cache.failure_ttl = "1m"
        rewrite = [{ exact = "a", to = "b" }]
        hosts.files = ["a"]
        hosts.ttl = "1h"
        streams.threads = 2
        streams.connections = 5
        streams.per_client = 5
        streams.idle = "3s"
        streams.memory = "2MiB"
        proxy.from = ["10.0.0.1"]
        anycast.addresses = ["192.0.2.53"]
        anycast.table = 154
        anycast.interface = "eth0"
        anycast.add_addresses = true
        anycast.settle = "1s"
        anycast.hold_down = "1s"
        anycast.fail_zones = 50
        ops.listen = "127.0.0.1:2"
        ops.hosts = ["a.example"]
        api.listen = "127.0.0.1:3"
        api.requests_per_second = 5
        api.powerdns = true
        api.update = "live"
        api.tls = { cert = "a", key = "b", client_ca = "c" }
        transfer.enabled = true
        transfer.allow = ["10.0.0.1"]
        transfer.max_streams = 5
        transfer.tls = { cert = "a", key = "b", client_ca = "c" }
        transfer.tls_listen =
        transfer.notify = ["10.0.0.1"]
        admin.socket = "a"
        store.kind = "redb"
        store.views = ["a"]
        kubernetes.zones = ["a"]
        kubernetes.multicluster_zones = ["a"]
        kubernetes.kubeconfig = "a"
        kubernetes.context = "a"
        kubernetes.cluster = "a"
        kubernetes.location = "a"
        kubernetes.node_locations = true
        kubernetes.service = "a/b"
        kubernetes.ttl = "6s"
        kubernetes.negative_ttl = "6s"
        kubernetes.compat = "coredns"
        kubernetes.pods = "verified"
        kubernetes.endpoints = false
        kubernetes.endpoint_pod_names = true
        kubernetes.ignore_empty_services = true
        kubernetes.zonal = true
        kubernetes.namespaces = ["a"]
        kubernetes.namespace_labels = "a"
        kubernetes.labels = "a"
        kubernetes.fallthrough = ["cluster.local"]
        kubernetes.hold_time = "1m"
        kubernetes.check = "tcp"
        kubernetes.check_cluster_ips = true
        kubernetes.shared = "a"
        kubernetes.shared_addresses = ["cluster_ip"]
        kubernetes.shared_selector = "a"
        kubernetes.records_from = ["ingresses"]
        kubernetes.record_zones = { "a.example" = ["shop"] }
        kubernetes.exports = true
        kubernetes.max_age = "1h"
        health.allow = ["10.0.0.0/8"]
        health.ttl_max = "5s"
        health.vantage = 3
        health.webhook =
        health.webhook_secret =
        check.web = { kind = "tcp", port = 80 }
        etcd = { endpoints = ["https://a:1"], ca = "a", cert = "a", key = "a", prefix = "/a/" }
        site = [{ name = "b", zones = ["b.example"], endpoints = ["http://127.0.0.1:1"] }]
        zone = [{ name = "c", primaries = ["192.0.2.1"] }]
        log.level = "debug"
        log.format = "json"
        log.levels.records = "debug"
        log.queries.sample = 5
        log.queries.file = "a"
        dnstap.socket = "a"
        dnstap.sample = 5
    "#;

    /// Each key is either applied or reported as needing a restart.
    #[test]
    fn every_changed_key_is_reported() {
        let mut seen = BTreeSet::new();
        for line in OTHERS.trim().lines() {
            let (key, value) = line.trim().split_once(" =").expect("a key");
            seen.insert(key);
            if value.is_empty() {
                // It needs a second key.
                continue;
            }
            // The API needs a store; without zones no cluster is watched.
            let base = match key.split('.').next() {
                Some("site" | "zone") => "server.data_dir = \"d\"\n",
                Some("transfer") if key != "transfer.enabled" => "transfer.enabled = true\n",
                _ if key == "dpdk.interfaces" => "dpdk.devices = [\"0000:01:00.0\"]\n",
                Some("api") => "store.kind = \"redb\"\n",
                _ if key == "store.views" => "store.kind = \"redb\"\n",
                _ if key == "kubernetes.records_from" => {
                    "kubernetes.zones = [\"cluster.local\"]\n\
                     kubernetes.record_zones = { \"b.example\" = [\"*\"] }\n"
                }
                _ if key == "kubernetes.exports" => {
                    "kubernetes.zones = [\"cluster.local\"]\n\
                     kubernetes.multicluster_zones = [\"clusterset.local\"]\n"
                }
                Some("kubernetes") if key != "kubernetes.zones" => {
                    "kubernetes.zones = [\"cluster.local\"]\n\
                     check.tcp = { kind = \"tcp\", port = 80 }\n"
                }
                _ => "",
            };
            let (old, new) = (config(base), config(&format!("{base}{line}")));
            let told = [old.changed(&new), old.restart_needed(&new)].concat();
            let [told] = &told[..] else { panic!("{key} gives {told:?}") };
            assert!(key.starts_with(told), "{key} gives {told}");
        }
        let example = include_str!("../../../../examples/dunlin.toml");
        let mut section = "";
        for line in example.lines().take_while(|line| !line.starts_with("#[[")) {
            if let Some(name) = line.strip_prefix('[') {
                section = name.trim_end_matches(']');
            } else if let Some((key, _)) = line.trim_start_matches('#').split_once(" = ")
                && !key.starts_with(' ')
            {
                // Keys that need each other are listed as one.
                let is_there = |key: &str| seen.contains(key) || seen.contains(section);
                assert!(is_there(&format!("{section}.{key}")), "{section}.{key} is not here");
            }
        }
    }
}
