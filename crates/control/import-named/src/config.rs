//! The imported config and its TOML.
use import_report::{TomlText, array, quote};

/// A config. `None` or empty means Dunlin's default.
#[derive(Debug, Default)]
pub struct ImportedConfig {
    pub listen: Option<Vec<String>>,
    pub version: Option<String>,
    pub query: Option<Vec<String>>,
    pub recursion: Option<Vec<String>>,
    pub allows_transfers: bool,
    pub transfer: Option<Vec<String>>,
    pub notify: Vec<String>,
    /// Suffixes and their servers; without servers, names are not forwarded.
    pub forwards: Vec<(String, Vec<String>)>,
    pub zones: Vec<ZoneSection>,
    pub networks: Vec<NetworkSection>,
    /// Files with keys to write next to the config.
    pub key_files: Vec<(String, String)>,
}

/// `[[zone]]`
#[derive(Debug)]
pub struct ZoneSection {
    pub name: String,
    pub view: Option<String>,
    pub origin: ZoneOrigin,
}

/// Where the records of a zone come from.
#[derive(Debug)]
pub enum ZoneOrigin {
    File(String),
    Primaries { servers: Vec<String>, key_file: Option<String> },
}

/// `[[network]]`
#[derive(Debug)]
pub struct NetworkSection {
    pub name: String,
    pub prefixes: Vec<String>,
    pub view: String,
}

impl ImportedConfig {
    /// The config as TOML.
    pub fn write(&self) -> String {
        let mut page = TomlText::default();
        let listed = |texts: &Option<Vec<String>>| texts.as_deref().map(array);
        let server =
            [("listen", listed(&self.listen)), ("version", self.version.as_deref().map(quote))];
        page.section("[server]", &server);
        let acl = [("query", listed(&self.query)), ("recursion", listed(&self.recursion))];
        page.section("[acl]", &acl);
        let notify = (!self.notify.is_empty()).then(|| array(&self.notify));
        let enabled = (self.allows_transfers || notify.is_some()).then(|| "true".to_owned());
        let allow = listed(&self.transfer);
        page.section("[transfer]", &[("enabled", enabled), ("allow", allow), ("notify", notify)]);
        let rules: Vec<(String, Option<String>)> = self
            .forwards
            .iter()
            .map(|(suffix, servers)| {
                let off = || "{ mode = \"off\" }".to_owned();
                (quote(suffix), Some(if servers.is_empty() { off() } else { array(servers) }))
            })
            .collect();
        let rules: Vec<_> = rules.iter().map(|(key, rule)| (key.as_str(), rule.clone())).collect();
        page.section("[forward]", &rules);
        for zone in &self.zones {
            zone.write(&mut page);
        }
        for NetworkSection { name, prefixes, view } in &self.networks {
            let keys = [
                ("name", Some(quote(name))),
                ("prefixes", Some(array(prefixes))),
                ("view", Some(quote(view))),
            ];
            page.section("[[network]]", &keys);
        }
        page.finish()
    }
}

impl ZoneSection {
    fn write(&self, page: &mut TomlText) {
        let (name, view) = (Some(quote(&self.name)), self.view.as_deref().map(quote));
        match &self.origin {
            ZoneOrigin::File(file) => {
                let keys = [("name", name), ("view", view), ("file", Some(quote(file)))];
                page.section("[[zone]]", &keys);
            }
            ZoneOrigin::Primaries { servers, key_file } => {
                let (servers, key) = (Some(array(servers)), key_file.as_deref().map(quote));
                let keys = [("name", name), ("primaries", servers), ("key_file", key)];
                page.section("[[zone]]", &keys);
            }
        }
    }
}
