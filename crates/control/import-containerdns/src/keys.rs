//! The keys of all files, and what becomes of each.
mod settings;

pub use settings::fit_timeout;

use crate::importer::Importer;
use crate::ini::{IniEntry, IniFile};
use std::fmt::Write;

/// A key, or several with the same meaning.
struct KeyRule {
    section: &'static str,
    keys: &'static [&'static str],
    action: KeyAction,
}

/// What becomes of a key.
enum KeyAction {
    /// A setting, which is described here.
    Set(fn(&mut Importer, &IniFile, &IniEntry), &'static str),
    /// Nothing, as Dunlin does not need it.
    Unneeded(&'static str),
    /// It is lost; what to do.
    Lost(&'static str),
}

use KeyAction::{Lost, Set, Unneeded};

const fn rule(section: &'static str, keys: &'static [&'static str], action: KeyAction) -> KeyRule {
    KeyRule { section, keys, action }
}

const CHECKS: &str = "each server computes what it probes, and the results are in the store";
const LOGS: &str = "the log goes to standard error: systemd's journal, or redirect it";
const LEVEL: &str = "[log] level is \"info\"; \"debug\" says more, also for single parts";
const MAIL: &str = "use the alert rules for Prometheus, or [health] webhook";
const POLICY: &str = "if on: lost: give the sets that need it a policy, \"one\" or \"hash\"";
const SCHEDULE: &str = "there is no scheduler";
const STORE: &str = "[store] kind = \"etcd\", [etcd] endpoints; records are below /dunlin/";

const RULES: &[KeyRule] = &[
    rule("Dns", &["dns-domains"], Set(settings::domains, "zones of the store")),
    rule("Dns", &["dns-addr"], Set(settings::listen, "[server] listen")),
    rule("Dns", &["ex-nameservers"], Set(settings::nameservers, "[forward] \".\"")),
    rule("Dns", &["inDomainServers"], Set(settings::rules, "[forward], a rule for each zone")),
    rule("Dns", &["cacheSize"], Unneeded("[cache] memory is in bytes, 64 MiB if not set")),
    rule("Dns", &["ip-monitor-path"], Unneeded(CHECKS)),
    rule("Dns", &["skipDomain"], Set(settings::skip, "if on: lost: give the short names records")),
    rule("Fun", &["random-one", "hone-one"], Set(settings::policy, POLICY)),
    rule("Stats", &["statsServer"], Set(settings::ops, "[ops] listen, with /metrics")),
    rule(
        "Stats",
        &["statsServerAuthToken"],
        Lost("/metrics needs no token: restrict its clients by [acl] metrics"),
    ),
    rule("Log", &["log-dir"], Unneeded(LOGS)),
    rule("Log", &["log-level"], Unneeded(LEVEL)),
    rule("Log", &["log-to-stdio"], Unneeded(LOGS)),
    rule("Etcd", &["etcd-servers"], Set(settings::endpoints, STORE)),
    rule("Etcd", &["etcd-cafile"], Set(settings::ca, "[etcd] ca")),
    rule("Etcd", &["etcd-certfile"], Set(settings::cert, "[etcd] cert")),
    rule("Etcd", &["etcd-keyfile"], Set(settings::key, "[etcd] key")),
    rule("Etcd", &["status-path", "job-path", "agent-path", "domain-path"], Unneeded(CHECKS)),
    rule("General", &["host", "hostname"], Set(settings::name, "[server] name")),
    rule("General", &["etcd-server"], Set(settings::endpoints, STORE)),
    rule("General", &["etcd-cafile"], Set(settings::ca, "[etcd] ca")),
    rule("General", &["etcd-certfile"], Set(settings::cert, "[etcd] cert")),
    rule("General", &["etcd-keyfile"], Set(settings::key, "[etcd] key")),
    rule("General", &["sync-time"], Unneeded("changes are followed, and nothing is read anew")),
    rule("General", &["ip-monitor-path"], Unneeded(CHECKS)),
    rule("General", &["log-dir"], Unneeded(LOGS)),
    rule("General", &["log-level"], Unneeded(LEVEL)),
    rule("General", &["log-to-stdio"], Unneeded(LOGS)),
    rule("General", &["cluster-name"], Set(settings::cluster, "[kubernetes] cluster")),
    rule("General", &["enable-check"], Set(settings::check, "whether there is a check")),
    rule("General", &["core"], Unneeded("probes need no cores of their own")),
    rule("General", &["heartbeat-interval"], Unneeded("servers know each other by etcd's leases")),
    rule("General", &["delay"], Unneeded("[check] interval is the time between probes")),
    rule(
        "General",
        &["agent-downtime", "schedule-interval", "force-lock-time", "resources"],
        Unneeded(SCHEDULE),
    ),
    rule("Kube2DNS", &["kube-domain"], Set(settings::kube_domain, "[kubernetes] zones")),
    rule("Kube2DNS", &["kube-enable"], Set(settings::kube, "whether there is [kubernetes]")),
    rule("Kube2DNS", &["kube-config-file"], Set(settings::kubeconfig, "[kubernetes] kubeconfig")),
    rule(
        "Kube2DNS",
        &["pod-enable"],
        Set(settings::pods, "if on: lost: [kubernetes] pods has names by address"),
    ),
    rule(
        "Kube2DNS",
        &["svc-ip-source"],
        Set(
            settings::source,
            "clusterIP is Dunlin's way; externalIPs is lost: [kubernetes] shared",
        ),
    ),
    rule("DNSApi", &["api-enable"], Set(settings::api, "whether there is [api]")),
    rule("DNSApi", &["api-domains"], Set(settings::api_domains, "zones of the store")),
    rule(
        "DNSApi",
        &["api-address"],
        Set(settings::api_address, "[api] listen; without TLS on 127.0.0.1"),
    ),
    rule(
        "DNSApi",
        &["containerdns-auth"],
        Lost("clients have tokens of their own, of `dunlin token create`"),
    ),
    rule("Check", &["check-interval"], Set(settings::interval, "interval of the check")),
    rule("Check", &["check-timeout"], Set(settings::timeout, "timeout of the check")),
    rule("Check", &["check-retry-count"], Set(settings::fall, "fall of the check; rise is 1")),
    rule(
        "Check",
        &["default-scann-ports"],
        Set(settings::port, "port of the check of kind \"tcp\": the first one, others are lost"),
    ),
    rule(
        "Check",
        &["ping-timeout", "ping-count"],
        Lost("names are not pinged: a set of addresses can name a check of kind \"icmp\""),
    ),
    rule("Check", &["max-thread"], Unneeded("probes wait without threads")),
    rule("Mail", &["alert-to", "sys-idx", "silent-time", "service-room"], Lost(MAIL)),
];

/// Applies all keys of a file, and what it means that others are not there.
pub fn apply(importer: &mut Importer, file: &IniFile) {
    for (at, entry) in file.entries.iter().enumerate() {
        let is_same =
            |other: &&IniEntry| (&other.section, &other.key) == (&entry.section, &entry.key);
        if let Some(later) = file.entries[at + 1..].iter().find(is_same) {
            let text = format!("{}: {} has it again, and counts", entry.name, later.place);
            importer.lost(&entry.place, &text);
            continue;
        }
        let found = RULES.iter().find(|rule| {
            let is_key = |key: &&str| key.eq_ignore_ascii_case(&entry.key);
            rule.section.eq_ignore_ascii_case(&entry.section) && rule.keys.iter().any(is_key)
        });
        let name = &entry.name;
        match found.map(|rule| &rule.action) {
            None => importer.lost(
                &entry.place,
                &format!(
                    "{name}: no file of ContainerDNS has this key: take it out, or correct it"
                ),
            ),
            Some(_) if entry.is_empty() => (),
            Some(Lost(text)) => {
                importer.lost(&entry.place, &format!("{name}: {text}"));
            }
            Some(Unneeded(text)) => {
                importer.differs(&entry.place, &format!("{name}: {text}"));
            }
            Some(Set(set, _)) => set(importer, file, entry),
        }
    }
    settings::apply_defaults(importer, file);
    if let Some(end) = &file.open_end {
        let text = "the file does not end with the end of a line: compare it, it may be cut off";
        importer.differs(end, text);
    }
}

/// The table of keys for the documentation.
#[must_use]
pub fn table() -> String {
    let mut table = "| key | becomes | test |\n| --- | --- | --- |\n".to_owned();
    for KeyRule { section, keys, action } in RULES {
        let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
        let keys = keys.join(", ");
        let text = match action {
            Set(_, text) => (*text).to_owned(),
            Unneeded(text) => format!("note: {text}"),
            Lost(text) => format!("lost: {text}"),
        };
        let test = "`import-containerdns::every_key_becomes_a_setting_or_is_reported`";
        // Writing to a String cannot fail.
        let _ = writeln!(table, "| `[{section}]` {keys} | {text} | {test} |");
    }
    table
}
