//! The imported config and its TOML.
use import_report::{TomlText, array, quote, seconds};

/// A config. `None` or empty means Dunlin's default.
#[derive(Clone, Debug, Default)]
pub struct ImportedConfig {
    pub listen: Vec<String>,
    pub udp_size_max: Option<u32>,
    pub nsid: Option<String>,
    pub version: Option<String>,
    /// Whether names of RFC 6303 and RFC 6761 are answered, not forwarded.
    pub local_zones: Option<bool>,
    pub drain: Option<String>,
    /// Whether a changed config is loaded without a command.
    pub watch_config: bool,
    pub acl: Vec<String>,
    pub denied: Option<&'static str>,
    pub ops: Option<String>,
    pub log_level: Option<&'static str>,
    pub logs_queries: bool,
    pub dnstap: Option<String>,
    pub forwards: Vec<(String, ForwardRule)>,
    /// Names that are answered by built-in zones.
    pub local: Vec<String>,
    pub caches: bool,
    pub ttl_min: Option<u64>,
    pub ttl_max: Option<u64>,
    pub negative_ttl_max: Option<u64>,
    /// Seconds to serve stale answers.
    pub stale: Option<u64>,
    /// Seconds to cache failures.
    pub failure_ttl: Option<u64>,
    pub hosts: Vec<String>,
    pub hosts_ttl: Option<u64>,
    pub rewrites: Vec<RewriteRule>,
    pub zones: Vec<(String, String)>,
    /// The keys of `[kubernetes]`, each with its value as TOML.
    pub kubernetes: Vec<(&'static str, String)>,
    /// Files to write next to the config.
    pub files: Vec<(String, String)>,
}

/// A rule of `[forward]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardRule {
    /// Empty: no upstream, the names are local, or the file names them.
    pub servers: Vec<String>,
    /// The file that names the servers.
    pub file: Option<String>,
    /// Whether answers are cached.
    pub caches: bool,
}

/// A rule of `[[rewrite]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewriteRule {
    /// `exact` or `suffix`.
    pub kind: &'static str,
    pub from: String,
    pub to: String,
}

impl RewriteRule {
    /// Whether it matches all names that a later rule matches, so that CoreDNS never uses that one.
    pub fn decides(&self, later: &Self) -> bool {
        let is_below = later.from.strip_suffix(&self.from).is_some_and(|rest| rest.ends_with('.'));
        match (self.kind, later.kind) {
            ("suffix", _) => self.from == later.from || is_below,
            (_, kind) => kind == "exact" && self.from == later.from,
        }
    }
}

impl ImportedConfig {
    /// The config as TOML.
    pub fn write(&self) -> String {
        let mut page = TomlText::default();
        let texts = |texts: &[String]| (!texts.is_empty()).then(|| array(texts));
        let text = |text: &Option<String>| text.as_deref().map(quote);
        let server = [
            ("listen", texts(&self.listen)),
            ("udp_size_max", self.udp_size_max.map(|size| size.to_string())),
            ("nsid", text(&self.nsid)),
            ("version", text(&self.version)),
            ("local_zones", self.local_zones.map(|is_on| is_on.to_string())),
            ("drain", text(&self.drain)),
            ("watch_config", self.watch_config.then(|| "true".to_owned())),
        ];
        page.section("[server]", &server);
        let denied = self.denied.map(quote);
        page.section("[acl]", &[("query", texts(&self.acl)), ("denied", denied)]);
        page.section("[ops]", &[("listen", text(&self.ops))]);
        page.section("[log]", &[("level", self.log_level.map(quote))]);
        let sample = self.logs_queries.then(|| "1".to_owned());
        page.section("[log.queries]", &[("sample", sample)]);
        page.section("[dnstap]", &[("socket", text(&self.dnstap))]);
        let ttl = self.hosts_ttl.map(seconds);
        page.section("[hosts]", &[("files", texts(&self.hosts)), ("ttl", ttl)]);
        let local = self.local.iter().map(|name| (name, "{ mode = \"local\" }".to_owned()));
        let rules = self.forwards.iter().map(|(suffix, rule)| (suffix, rule.write()));
        let rules: Vec<(String, Option<String>)> =
            rules.chain(local).map(|(suffix, rule)| (quote(suffix), Some(rule))).collect();
        let rules: Vec<_> = rules.iter().map(|(key, rule)| (key.as_str(), rule.clone())).collect();
        page.section("[forward]", &rules);
        let cache = [
            ("ttl_min", self.ttl_min.map(seconds)),
            ("ttl_max", self.ttl_max.map(seconds)),
            ("negative_ttl_max", self.negative_ttl_max.map(seconds)),
            ("stale", self.stale.map(seconds)),
            ("failure_ttl", self.failure_ttl.map(seconds)),
        ];
        page.section("[cache]", &cache);
        let kubernetes: Vec<_> =
            self.kubernetes.iter().map(|(key, value)| (*key, Some(value.clone()))).collect();
        page.section("[kubernetes]", &kubernetes);
        for RewriteRule { kind, from, to } in &self.rewrites {
            page.section("[[rewrite]]", &[(kind, Some(quote(from))), ("to", Some(quote(to)))]);
        }
        for (name, file) in &self.zones {
            page.section("[[zone]]", &[("name", Some(quote(name))), ("file", Some(quote(file)))]);
        }
        page.finish()
    }
}

impl ForwardRule {
    /// Whether names are sent to any server.
    pub fn has_servers(&self) -> bool {
        self.file.is_some() || !self.servers.is_empty()
    }

    fn write(&self) -> String {
        let servers = match (&self.file, &self.servers[..]) {
            (Some(file), _) => quote(file),
            (None, []) => return "{ mode = \"off\" }".to_owned(),
            (None, servers) => array(servers),
        };
        match self.caches {
            true => servers,
            false => format!("{{ servers = {servers}, mode = \"direct\" }}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_without_settings_is_empty() {
        assert_eq!(ImportedConfig::default().write(), "");
    }
}
