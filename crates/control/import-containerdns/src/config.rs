//! The imported config and its TOML.
use import_report::{FilePosition, TomlText, array, quote};
use std::collections::BTreeSet;

/// The name of the check that probes as `ContainerDNS` does.
const CHECK: &str = "containerdns";

/// A part of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerRole {
    Dns,
    Api,
    Kubernetes,
    Health,
}

impl ServerRole {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Dns, "dns"),
        (Self::Api, "api"),
        (Self::Kubernetes, "kubernetes"),
        (Self::Health, "health"),
    ];
}

/// A value that a config has once, and where it comes from.
pub type Single<T> = Option<(T, FilePosition)>;

/// A config. `None` or empty means Dunlin's default.
#[derive(Debug, Default)]
pub struct ImportedConfig {
    pub roles: BTreeSet<ServerRole>,
    pub name: Single<String>,
    pub listen: Single<String>,
    pub ops: Single<String>,
    pub api: Single<String>,
    pub endpoints: Single<Vec<String>>,
    pub ca: Single<String>,
    pub cert: Single<String>,
    pub key: Single<String>,
    /// Suffixes and their servers; no server: those of `/etc/resolv.conf`.
    pub forwards: Vec<(String, Vec<String>)>,
    /// Zones of the store.
    pub zones: Vec<String>,
    pub kubernetes_zone: Single<String>,
    pub kubeconfig: Single<String>,
    pub cluster: Single<String>,
    pub interval: Single<u64>,
    pub timeout: Single<u64>,
    pub fall: Single<u64>,
    /// The port that is probed; `None`: there is no check.
    pub port: Single<u64>,
}

impl ImportedConfig {
    /// The config as TOML.
    pub fn write(&self) -> String {
        let mut page = TomlText::default();
        let text = |value: &Single<String>| value.as_ref().map(|(text, _)| quote(text));
        let listen = self.listen.as_ref().map(|(text, _)| array(std::slice::from_ref(text)));
        let server = [("roles", self.roles()), ("name", text(&self.name)), ("listen", listen)];
        page.section("[server]", &server);
        page.section("[ops]", &[("listen", text(&self.ops))]);
        page.section("[api]", &[("listen", text(&self.api))]);
        let endpoints = self.endpoints.as_ref().map(|(all, _)| array(all));
        page.section("[store]", &[("kind", endpoints.as_ref().map(|_| quote("etcd")))]);
        let etcd = [
            ("endpoints", endpoints),
            ("ca", text(&self.ca)),
            ("cert", text(&self.cert)),
            ("key", text(&self.key)),
        ];
        page.section("[etcd]", &etcd);
        let rules = self.forwards.iter().map(|(suffix, servers)| {
            let servers = if servers.is_empty() { quote("resolv.conf") } else { array(servers) };
            (quote(suffix), servers)
        });
        let rules: Vec<(String, String)> = rules.collect();
        let rules: Vec<_> =
            rules.iter().map(|(key, rule)| (key.as_str(), Some(rule.clone()))).collect();
        page.section("[forward]", &rules);
        let zones = self.kubernetes_zone.as_ref();
        let kubernetes = [
            ("zones", zones.map(|(zone, _)| array(std::slice::from_ref(zone)))),
            ("kubeconfig", text(&self.kubeconfig)),
            ("cluster", text(&self.cluster)),
        ];
        page.section("[kubernetes]", &kubernetes);
        if let Some((port, _)) = self.port {
            self.write_check(&mut page, port);
        }
        page.finish()
    }

    /// The parts that run, if not all do.
    fn roles(&self) -> Option<String> {
        let words = ServerRole::ALL.iter().filter(|(role, _)| self.roles.contains(role));
        let words: Vec<String> = words.map(|(_, word)| (*word).to_owned()).collect();
        (!words.is_empty() && words.len() < ServerRole::ALL.len()).then(|| array(&words))
    }

    /// The check, and the zones whose addresses it probes.
    fn write_check(&self, page: &mut TomlText, port: u64) {
        let seconds = |value: &Single<u64>| {
            value.as_ref().map(|(seconds, _)| import_report::seconds(*seconds))
        };
        let check = [
            ("kind", Some(quote("tcp"))),
            ("port", Some(port.to_string())),
            ("interval", seconds(&self.interval)),
            ("timeout", seconds(&self.timeout)),
            ("rise", Some("1".to_owned())),
            ("fall", self.fall.as_ref().map(|(fall, _)| fall.to_string())),
        ];
        page.section(&format!("[check.{CHECK}]"), &check);
        for zone in &self.zones {
            let keys = [("name", Some(quote(zone))), ("check", Some(quote(CHECK)))];
            page.section("[[zone]]", &keys);
        }
    }
}
