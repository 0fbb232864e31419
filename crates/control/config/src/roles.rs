//! `[server] roles`: the parts of a server that run.
use super::section::Section;
use super::values::{self, Wrong};
use crate::limits::MEMBER_NAME_LEN_MAX;
use toml::de::DeValue;

/// The parts of a server that run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Answers DNS queries.
    pub dns: bool,
    /// Serves the REST API over the network, and writes records.
    pub api: bool,
    /// Watches a Kubernetes cluster.
    pub kubernetes: bool,
    /// Probes the addresses of record sets.
    pub health: bool,
}

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Dns,
    Api,
    Kubernetes,
    Health,
}

const WORDS: [(&str, Role); 4] = [
    ("dns", Role::Dns),
    ("api", Role::Api),
    ("kubernetes", Role::Kubernetes),
    ("health", Role::Health),
];

impl Roles {
    pub(super) fn read(section: &mut Section<'_, '_>) -> Self {
        let all = WORDS.map(|(_, role)| role).to_vec();
        let named = section.list("roles", all, WORDS.len(), values::word(WORDS));
        let has = |role| named.contains(&role);
        Self {
            dns: has(Role::Dns),
            api: has(Role::Api),
            kubernetes: has(Role::Kubernetes),
            health: has(Role::Health),
        }
    }

    /// The words of the parts that run.
    pub fn words(self) -> Vec<&'static str> {
        let has = |role| match role {
            Role::Dns => self.dns,
            Role::Api => self.api,
            Role::Kubernetes => self.kubernetes,
            Role::Health => self.health,
        };
        WORDS.iter().filter(|(_, role)| has(*role)).map(|(word, _)| *word).collect()
    }
}

/// The name of a server, which is a part of a key in etcd.
pub fn member_name(value: &DeValue<'_>) -> Result<String, Wrong> {
    let text = values::text(MEMBER_NAME_LEN_MAX)(value)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.bytes().all(is_plain) {
        return Ok(text);
    }
    values::expected("a name of letters, digits, `-`, `_` and `.`", value)
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use std::path::Path;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(Path::new("f"), text)
            .map_err(|errors| errors.iter().map(|error| format!("{error}\n")).collect())
    }

    #[test]
    fn all_parts_run_by_default() {
        let roles = parse("").unwrap().server.roles;
        assert_eq!(roles.words(), ["dns", "api", "kubernetes", "health"]);
    }

    #[test]
    fn part_that_does_not_run_opens_no_socket() {
        let text = "[server]\ndata_dir = \"d\"\nroles = [\"health\"]\n\
                    [store]\nkind = \"redb\"\n[api]\nlisten = \"127.0.0.1:1\"\n\
                    [kubernetes]\nzones = [\"cluster.local\"]";
        let config = parse(text).unwrap();
        assert_eq!(config.server.roles.words(), ["health"]);
        assert!(config.server.listen.is_empty() && config.api.listen.is_none());
        assert!(!config.kubernetes.is_wanted());
    }

    #[test]
    fn server_of_a_fleet_knows_the_zones_of_the_cluster_in_each_role() {
        for role in ["dns", "api", "kubernetes", "health"] {
            let text = format!(
                "[server]\ndata_dir = \"d\"\nname = \"a\"\nroles = [{role:?}]\n\
                 [store]\nkind = \"etcd\"\n[etcd]\nendpoints = [\"http://127.0.0.1:1\"]\n\
                 [kubernetes]\nzones = [\"cluster.local\"]"
            );
            assert!(parse(&text).unwrap().kubernetes.is_wanted(), "{role}");
        }
    }

    #[test]
    fn bad_roles_and_names_are_refused() {
        for (text, wanted) in [
            ("roles = []", "needs one at least"),
            ("roles = [\"dsn\"]", "\"dns\", \"api\", \"kubernetes\" or \"health\""),
            ("name = \"a/b\"", "a name of letters"),
        ] {
            let found = parse(&format!("[server]\n{text}")).unwrap_err();
            assert!(found.contains(wanted), "{text}: {found}");
        }
    }
}
