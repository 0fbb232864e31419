//! The parts of the program that a build may leave out, and the keys that need them.
use crate::section::{Problems, Value};
use crate::values::Wrong;
use model::BrokenRule;
use toml::de::{DeTable, DeValue};

/// A part of the program that a build may leave out: a Cargo feature of the crate `dunlin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// The names of a Kubernetes cluster, and the autoscaler.
    Kubernetes,
    /// The store of a fleet.
    Etcd,
    /// AF_XDP.
    Xdp,
    /// Which CPUs workers and containers get.
    Cpus,
    /// Health checks.
    Health,
}

/// A section, or a value of one of its keys, and the feature that it needs.
type Need = (&'static str, Option<(&'static str, &'static str)>, Feature);

/// The keys that need a feature.
const NEEDS: [Need; 11] = [
    ("kubernetes", None, Feature::Kubernetes),
    ("server", Some(("roles", "kubernetes")), Feature::Kubernetes),
    ("etcd", None, Feature::Etcd),
    ("site", None, Feature::Etcd),
    ("store", Some(("kind", "etcd")), Feature::Etcd),
    ("xdp", None, Feature::Xdp),
    ("server", Some(("port", "xdp")), Feature::Xdp),
    ("server", Some(("workers", "cores")), Feature::Cpus),
    ("health", None, Feature::Health),
    ("check", None, Feature::Health),
    ("server", Some(("roles", "health")), Feature::Health),
];

impl Feature {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Kubernetes, Self::Etcd, Self::Xdp, Self::Cpus, Self::Health];

    /// Its name in Cargo.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Etcd => "etcd",
            Self::Xdp => "xdp",
            Self::Cpus => "cpus",
            Self::Health => "health",
        }
    }

    /// Whether this build has it.
    pub fn is_built(self) -> bool {
        match self {
            Self::Kubernetes => cfg!(feature = "kubernetes"),
            Self::Etcd => cfg!(feature = "etcd"),
            Self::Xdp => cfg!(feature = "xdp"),
            Self::Cpus => cfg!(feature = "cpus"),
            Self::Health => cfg!(feature = "health"),
        }
    }

    /// Why something of this name cannot be used in a build without the feature.
    pub fn absence(self, what: &str) -> String {
        format!("{what} needs the feature `{}`, which this build leaves out", self.name())
    }
}

/// The remedy for a feature that a build leaves out.
pub const FEATURE_HELP: &str =
    "a release has all features, and so has `cargo build --release --package dunlin`";

/// Reports each key of a feature that is not there, at its place.
pub fn report_absent<'t>(
    table: &'t DeTable<'t>,
    is_there: impl Fn(Feature) -> bool,
    problems: &mut Problems<'t>,
) {
    for (section, key, feature) in NEEDS.into_iter().filter(|(.., feature)| !is_there(*feature)) {
        let Some((name, found)) = table.get_key_value(section) else { continue };
        let place = match key {
            None => Some((name.span().start, format!("[{section}]"))),
            Some((key, word)) => found
                .get_ref()
                .as_table()
                .and_then(|keys| position(keys.get(key)?, word))
                .map(|offset| (offset, format!("[{section}] {key} = {word:?}"))),
        };
        if let Some((offset, what)) = place {
            let (message, help) = (feature.absence(&what), Some(FEATURE_HELP.to_owned()));
            problems.add_by(BrokenRule::CONFIG_FEATURE, offset, Wrong { message, help });
        }
    }
}

/// The offset of a word that is a value, or an element of it.
fn position(value: &Value<'_>, word: &str) -> Option<usize> {
    match value.get_ref() {
        DeValue::Array(array) => array.iter().find_map(|element| position(element, word)),
        found => (found.as_str() == Some(word)).then(|| value.span().start),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use std::path::Path;

    /// What a build with these features says of a config.
    fn errors(text: &str, built: &[Feature]) -> Vec<String> {
        let found = Config::parse_with(Path::new("f"), text, |feature| built.contains(&feature));
        found.err().into_iter().flatten().map(|found| found.to_string()).collect()
    }

    #[test]
    fn key_of_an_absent_feature_is_an_error_with_its_name_and_place() {
        use Feature::{Cpus, Etcd, Health, Kubernetes, Xdp};
        let zones = "\n[kubernetes]\nzones = [\"cluster.local\"]";
        let check = "[check.web]\nkind = \"tcp\"\nport = 80";
        let etcd = "[server]\ndata_dir = \"d\"\n[etcd]\nendpoints = [\"http://a:1\"]\n\
                    [store]\nkind = \"etcd\"";
        for (text, feature, expected) in [
            (zones, Kubernetes, &["f:2:2: [kubernetes] needs"][..]),
            (etcd, Etcd, &["f:3:2: [etcd] needs", "f:6:8: [store] kind = \"etcd\" needs"]),
            ("[xdp]\nnice = 0", Xdp, &["f:1:2: [xdp] needs"]),
            (
                "[server]\nport = \"xdp\"\n[xdp]\ninterface = \"e\"",
                Xdp,
                &["f:2:8: [server] port = \"xdp\" needs", "f:3:2: [xdp] needs"],
            ),
            ("server.workers = \"cores\"", Cpus, &["f:1:18: [server] workers = \"cores\" needs"]),
            (check, Health, &["f:1:2: [check] needs"]),
            ("[health]\nttl_max = \"5s\"", Health, &["f:1:2: [health] needs"]),
            (
                "server.roles = [\"dns\", \"kubernetes\"]",
                Kubernetes,
                &["f:1:24: [server] roles = \"kubernetes\" needs"],
            ),
            ("server.roles = [\"health\"]", Health, &["f:1:17: [server] roles = \"health\" needs"]),
        ] {
            let others: Vec<_> = Feature::ALL.into_iter().filter(|one| *one != feature).collect();
            let found = errors(text, &others);
            assert_eq!(found.len(), expected.len(), "{text}: {found:#?}");
            for (found, expected) in found.iter().zip(expected) {
                let named = format!("{expected} the feature `{}`,", feature.name());
                assert!(found.starts_with(&named), "{found} does not begin with {named}");
                assert!(found.contains("cargo build --release"), "{found}");
            }
            assert_eq!(errors(text, &Feature::ALL), [""; 0], "{text}");
        }
    }

    #[test]
    fn key_that_needs_no_feature_is_accepted_without_any() {
        let text = "[server]\ndata_dir = \"d\"\nport = \"socket\"\nworkers = \"auto\"\n\
                    roles = [\"dns\", \"api\"]\n[store]\nkind = \"redb\"\n\
                    [api]\nlisten = \"[::1]:1\"";
        assert_eq!(errors(text, &[]), [""; 0]);
    }

    /// The demo is built without any.
    #[test]
    fn config_of_the_demo_needs_no_feature() {
        assert_eq!(errors(include_str!("../../../../examples/fleet/dunlin.toml"), &[]), [""; 0]);
    }
}
