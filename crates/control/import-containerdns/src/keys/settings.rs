//! Keys that become settings.
use crate::config::ServerRole;
use crate::importer::Importer;
use crate::ini::{IniEntry, IniFile};
use crate::values;
use import_report::shown;

/// The zone that `ContainerDNS` serves if none is named.
const USUAL_ZONE: &str = "containerdns.local";
/// The address that it listens at if none is named.
const USUAL_LISTEN: &str = "127.0.0.1:53";
/// The longest interval of a check, in seconds.
const INTERVAL_MAX: u64 = 3600;
/// The interval of a check that names none, in seconds.
const INTERVAL_USUAL: u64 = 10;

pub fn domains(importer: &mut Importer, _: &IniFile, entry: &IniEntry) {
    importer.add_zones(entry, false);
}

pub fn listen(importer: &mut Importer, _: &IniFile, entry: &IniEntry) {
    if let Some(address) = importer.read(entry, values::address) {
        importer.keep(entry, address.to_string(), |draft| &mut draft.listen);
    }
}

/// Servers, separated by commas. What is no address is reported.
fn servers(importer: &mut Importer, entry: &IniEntry, list: &str) -> Vec<String> {
    let texts = list.split(',').map(str::trim);
    let servers = texts.filter_map(|text| importer.read(entry, |_| values::address(text)));
    servers.map(|server| server.to_string()).collect()
}

pub fn nameservers(importer: &mut Importer, _: &IniFile, entry: &IniEntry) {
    let servers = servers(importer, entry, entry.value.as_deref().unwrap_or_default());
    if !servers.is_empty() {
        report_forwarding(importer, entry);
        importer.forward(entry, ".", servers);
    }
}

fn report_forwarding(importer: &mut Importer, entry: &IniEntry) {
    importer.differs(
        &entry.value_place,
        "queries of clients in private networks are forwarded, to the fastest server first; [acl] \
         recursion sets the networks",
    );
}

/// `zone@server,server%zone@server`.
pub fn rules(importer: &mut Importer, _: &IniFile, entry: &IniEntry) {
    let list = entry.value.as_deref().unwrap_or_default();
    for rule in list.split('%') {
        let split = rule
            .split_once('@')
            .ok_or_else(|| format!("{:?} is not a rule, ZONE@IP:PORT,IP:PORT", shown(rule)));
        let read = |_: &str| split.and_then(|(zone, list)| Ok((values::zone(zone)?, list)));
        let Some((zone, list)) = importer.read(entry, read) else { continue };
        let servers = servers(importer, entry, list);
        if !servers.is_empty() {
            importer.forward(entry, &zone, servers);
        }
    }
}

/// Reports a switch that has no counterpart if it is on.
fn lost_if_on(importer: &mut Importer, entry: &IniEntry, text: &str) {
    if importer.read_switch(entry) == Some(true) {
        importer.lost(&entry.place, &format!("{}: {text}", entry.name));
    }
}

pub fn skip(importer: &mut Importer, _: &IniFile, entry: &IniEntry) {
    let text = "names keep all labels: give the short names records of their \
                own, or a [[rewrite]] rule";
    lost_if_on(importer, entry, text);
}

pub fn policy(importer: &mut Importer, _: &IniFile, entry: &IniEntry) {
    let text = match entry.key.as_str() {
        "random-one" => {
            "each record set has a policy: give those that need it \
                         \"one\" (docs/policies.md)"
        }
        _ => {
            "each record set has a policy: give those that need it \"hash\" \
              (docs/policies.md)"
        }
    };
    lost_if_on(importer, entry, text);
}

pub fn ops(importer: &mut Importer, _: &IniFile, entry: &IniEntry) {
    if let Some(address) = importer.read(entry, values::address) {
        let text = "it has /metrics for Prometheus; statistics as JSON are of \
                    `dunlin status` and /v1/status";
        importer.differs(&entry.place, &format!("{}: {text}", entry.name));
        importer.keep(entry, address.to_string(), |draft| &mut draft.ops);
    }
}

pub fn endpoints(importer: &mut Importer, file: &IniFile, entry: &IniEntry) {
    let is_named = |key: &&str| file.entry(&entry.section, key).is_some();
    let names_files = ["etcd-cafile", "etcd-certfile"].iter().any(is_named);
    let scheme = if names_files { "https" } else { "http" };
    let list = entry.value.as_deref().unwrap_or_default();
    let read =
        list.split(',').filter_map(|text| importer.read(entry, |_| values::endpoint(text, scheme)));
    let mut endpoints: Vec<String> = Vec::new();
    for endpoint in read.collect::<Vec<_>>() {
        let scheme = |url: &str| url.starts_with("https:");
        let is_other = endpoints.first().is_some_and(|first| scheme(first) != scheme(&endpoint));
        if is_other || endpoints.len() == crate::limits::ENDPOINTS_MAX {
            let text = format!(
                "{}: at most {} URLs, all with the scheme of the first: one is omitted",
                entry.name,
                crate::limits::ENDPOINTS_MAX
            );
            importer.lost(&entry.value_place, &text);
        } else if !endpoints.contains(&endpoint) {
            endpoints.push(endpoint);
        }
    }
    if !endpoints.is_empty() {
        importer.keep(entry, endpoints, |draft| &mut draft.endpoints);
    }
}

/// The path of a file, unless it is empty.
fn file(importer: &mut Importer, entry: &IniEntry) -> Option<String> {
    let path = importer.read(entry, values::path).filter(|path| !path.is_empty())?;
    if !path.starts_with('/') {
        let text = format!(
            "{}: this path is relative to the config file, not to the working directory",
            entry.name
        );
        importer.differs(&entry.value_place, &text);
    }
    Some(path)
}

pub fn ca(importer: &mut Importer, _: &IniFile, entry: &IniEntry) {
    if let Some(path) = file(importer, entry) {
        importer.keep(entry, path, |draft| &mut draft.ca);
    }
}

pub fn cert(importer: &mut Importer, _: &IniFile, entry: &IniEntry) {
    if let Some(path) = file(importer, entry) {
        importer.keep(entry, path, |draft| &mut draft.cert);
    }
}

pub fn key(importer: &mut Importer, _: &IniFile, entry: &IniEntry) {
    if let Some(path) = file(importer, entry) {
        importer.keep(entry, path, |draft| &mut draft.key);
    }
}

pub fn name(importer: &mut Importer, _: &IniFile, entry: &IniEntry) {
    if let Some(name) = importer.read(entry, values::server_name) {
        importer.keep(entry, name, |draft| &mut draft.name);
    }
}

/// Whether a part is switched on in this file. What belongs to one that is off is reported.
fn is_on(importer: &mut Importer, file: &IniFile, entry: &IniEntry, key: (&str, &str)) -> bool {
    let switch = file.entry(key.0, key.1);
    let is_on = switch.is_some_and(|entry| values::switch(entry.value.as_deref()) == Ok(true));
    if !is_on {
        let text = format!("{}: it is not used, as {} is not on", entry.name, key.1);
        importer.differs(&entry.place, &text);
    }
    is_on
}

const KUBE: (&str, &str) = ("kube2dns", "kube-enable");
const API: (&str, &str) = ("dnsapi", "api-enable");
const CHECK: (&str, &str) = ("general", "enable-check");

pub fn cluster(importer: &mut Importer, file: &IniFile, entry: &IniEntry) {
    if is_on(importer, file, entry, KUBE)
        && let Some(name) = importer.read(entry, values::cluster)
    {
        importer.keep(entry, name, |draft| &mut draft.cluster);
    }
}

pub fn kube(importer: &mut Importer, file: &IniFile, entry: &IniEntry) {
    if importer.read_switch(entry) != Some(true) {
        return;
    }
    importer.draft.roles.insert(ServerRole::Kubernetes);
    if file.entry("kube2dns", "svc-ip-source").is_none() {
        importer.lost(&entry.place, &format!("svc-ip-source is not set: {EXTERNAL}"));
    }
    if file.entry("kube2dns", "kube-domain").is_none() {
        let text = format!("kube-domain is not set: the zone is {USUAL_ZONE}");
        importer.differs(&entry.place, &text);
        importer.keep(entry, USUAL_ZONE.to_owned(), |draft| &mut draft.kubernetes_zone);
    }
}

const EXTERNAL: &str = "ContainerDNS answers the externalIPs of services; Dunlin answers their \
                        cluster IPs, and in a zone of its own those: [kubernetes] shared = \
                        \"svc.example\", shared_addresses = [\"external_ips\"]";

pub fn kube_domain(importer: &mut Importer, file: &IniFile, entry: &IniEntry) {
    if is_on(importer, file, entry, KUBE)
        && let Some(zone) = importer.read(entry, values::zone)
    {
        importer.keep(entry, zone, |draft| &mut draft.kubernetes_zone);
    }
}

pub fn kubeconfig(importer: &mut Importer, file: &IniFile, entry: &IniEntry) {
    if is_on(importer, file, entry, KUBE)
        && let Some(path) = self::file(importer, entry)
    {
        importer.keep(entry, path, |draft| &mut draft.kubeconfig);
    }
}

pub fn pods(importer: &mut Importer, _: &IniFile, entry: &IniEntry) {
    let text = "pods have no names POD.NAMESPACE.svc: [kubernetes] pods = \
                \"verified\" gives them names by address, endpoint_pod_names those of headless \
                services by pod";
    lost_if_on(importer, entry, text);
}

pub fn source(importer: &mut Importer, file: &IniFile, entry: &IniEntry) {
    if is_on(importer, file, entry, KUBE) && entry.value.as_deref() != Some("clusterIP") {
        importer.lost(&entry.value_place, &format!("{}: {EXTERNAL}", entry.name));
    }
}

pub fn api(importer: &mut Importer, file: &IniFile, entry: &IniEntry) {
    if importer.read_switch(entry) == Some(true) {
        importer.draft.roles.insert(ServerRole::Api);
        if file.entry("dnsapi", "api-address").is_none() {
            let text = "api-address is not set: set [api] listen";
            importer.lost(&entry.place, text);
        }
    }
}

pub fn api_domains(importer: &mut Importer, file: &IniFile, entry: &IniEntry) {
    if is_on(importer, file, entry, API) {
        importer.add_zones(entry, true);
    }
}

pub fn api_address(importer: &mut Importer, file: &IniFile, entry: &IniEntry) {
    if !is_on(importer, file, entry, API) {
        return;
    }
    let Some(mut address) = importer.read(entry, values::address) else { return };
    if !address.ip().is_loopback() {
        let text = format!(
            "{}: an address other than loopback needs TLS: name a certificate \
             in [api.tls], then set [api] listen = \"{address}\"",
            entry.name
        );
        importer.lost(&entry.value_place, &text);
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    importer.keep(entry, address.to_string(), |draft| &mut draft.api);
}

pub fn check(importer: &mut Importer, file: &IniFile, entry: &IniEntry) {
    if importer.read_switch(entry) != Some(true) {
        return;
    }
    importer.draft.roles.insert(ServerRole::Health);
    if file.entry("check", "default-scann-ports").is_none() {
        let text = "default-scann-ports is not set: there is no port to probe; define a [check]";
        importer.lost(&entry.place, text);
    }
}

pub fn interval(importer: &mut Importer, file: &IniFile, entry: &IniEntry) {
    if is_on(importer, file, entry, CHECK)
        && let Some(number) = importer.read(entry, |text| values::number(text, 1..=INTERVAL_MAX))
    {
        importer.keep(entry, number, |draft| &mut draft.interval);
    }
}

pub fn timeout(importer: &mut Importer, file: &IniFile, entry: &IniEntry) {
    if is_on(importer, file, entry, CHECK)
        && let Some(number) = importer.read(entry, |text| values::number(text, 1..=INTERVAL_MAX))
    {
        importer.keep(entry, number, |draft| &mut draft.timeout);
    }
}

pub fn fall(importer: &mut Importer, file: &IniFile, entry: &IniEntry) {
    if is_on(importer, file, entry, CHECK)
        && let Some(number) = importer.read(entry, |text| values::number(text, 1..=100))
    {
        importer.keep(entry, number, |draft| &mut draft.fall);
    }
}

pub fn port(importer: &mut Importer, file: &IniFile, entry: &IniEntry) {
    if !is_on(importer, file, entry, CHECK) {
        return;
    }
    let texts = entry.value.as_deref().unwrap_or_default().split(',').map(str::trim);
    let read = |text| importer.read(entry, |_| values::number(text, 1..=65_535));
    let ports: Vec<u64> = texts.filter_map(read).collect();
    let Some(port) = ports.first() else { return };
    let text = "each zone has this check, with this port, whatever ports its \
                records name; annotate services by dunlin.io/check";
    importer.differs(&entry.place, &format!("{}: {text}", entry.name));
    for other in &ports[1..] {
        let text = format!(
            "{}: a check has one port, {port}; define one for {other}, and name \
             it in the sets that need it",
            entry.name
        );
        importer.lost(&entry.value_place, &text);
    }
    importer.keep(entry, *port, |draft| &mut draft.port);
}

/// What it means that keys are not there.
pub fn apply_defaults(importer: &mut Importer, file: &IniFile) {
    let Some(place) = file.section("dns") else { return };
    importer.draft.roles.insert(ServerRole::Dns);
    let missing = |key: &str| {
        let section = IniEntry {
            section: "dns".to_owned(),
            key: key.to_owned(),
            name: format!("[Dns] {key}"),
            place: place.clone(),
            value: None,
            value_place: place.clone(),
        };
        file.entry("dns", key).is_none().then_some(section)
    };
    if let Some(entry) = missing("dns-addr") {
        importer.differs(place, &format!("dns-addr is not set: it is {USUAL_LISTEN}"));
        importer.keep(&entry, USUAL_LISTEN.to_owned(), |draft| &mut draft.listen);
    }
    if let Some(entry) = missing("dns-domains") {
        importer.differs(place, &format!("dns-domains is not set: it is {USUAL_ZONE}"));
        let entry = IniEntry { value: Some(USUAL_ZONE.to_owned()), ..entry };
        importer.add_zones(&entry, false);
    }
    if let Some(entry) = missing("ex-nameservers") {
        importer
            .differs(place, "ex-nameservers is not set: names are forwarded as in resolv.conf(5)");
        report_forwarding(importer, &entry);
        importer.forward(&entry, ".", Vec::new());
    }
}

/// Shortens a timeout that is longer than its interval, which the config does not take.
pub fn fit_timeout(importer: &mut Importer) {
    let interval = importer.draft.interval.as_ref().map_or(INTERVAL_USUAL, |(seconds, _)| *seconds);
    let Some((timeout, place)) = &mut importer.draft.timeout else { return };
    if *timeout > interval {
        *timeout = interval;
        let place = place.clone();
        let text = format!(
            "check-timeout: it is {interval} s, as a probe ends before the next one begins: \
             check-interval"
        );
        importer.differs(&place, &text);
    }
}
