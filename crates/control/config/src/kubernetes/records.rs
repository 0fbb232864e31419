//! `records_from`, `record_zones` and `exports`: objects with records beside Services.
use super::Kubernetes;
use crate::limits::{
    KUBERNETES_MAX_AGE, KUBERNETES_NAMESPACES_MAX, KUBERNETES_RECORD_ZONES_MAX, TEXT_LEN_MAX,
};
use crate::section::Section;
use crate::units;
use crate::values::{self, Wrong};
use std::time::Duration;
use toml::de::DeValue;
use wire::NameBuf;

/// Objects with records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// DNSEndpoints.
    DnsEndpoints,
    /// Ingresses.
    Ingresses,
    /// Gateways and HTTPRoutes.
    Gateways,
}

const KINDS: [(&str, RecordKind); 3] = [
    ("dns_endpoints", RecordKind::DnsEndpoints),
    ("ingresses", RecordKind::Ingresses),
    ("gateways", RecordKind::Gateways),
];

/// A zone in which objects have records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordZone {
    /// The zone, in lower case.
    pub origin: NameBuf,
    /// The namespaces whose objects may have records in it; empty: all.
    pub namespaces: Vec<String>,
}

/// Objects with records beside Services, and their zones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectRecords {
    /// The kinds that are watched.
    pub kinds: Vec<RecordKind>,
    /// The zones, in the order of their names.
    pub zones: Vec<RecordZone>,
    /// Whether exported services have names in the multicluster zones.
    pub exports: bool,
    /// How long parts of a cluster are answered whose writer is away; zero: always.
    pub max_age: Duration,
}

impl ObjectRecords {
    pub(super) fn read(section: &mut Section<'_, '_>) -> Self {
        let kinds = section.list("records_from", Vec::new(), KINDS.len(), values::word(KINDS));
        let exports = section.read("exports", false, values::boolean);
        let max_age = section.read("max_age", Duration::ZERO, |value| {
            let age = units::duration(Duration::ZERO..=KUBERNETES_MAX_AGE.1)(value)?;
            match age.is_zero() || age >= KUBERNETES_MAX_AGE.0 {
                true => Ok(age),
                false => {
                    Err("is shorter than 15 minutes, and not 0s, which is always".to_owned().into())
                }
            }
        });
        let mut zones: Vec<RecordZone> = Vec::new();
        let table = &mut section.section("record_zones", "[kubernetes.record_zones]");
        table.each(KUBERNETES_RECORD_ZONES_MAX, "a zone", |key, value, mut inner| {
            let origin = values::name(key)?;
            if zones.iter().any(|zone| zone.origin == origin) {
                return Err(format!("the zone {origin} is already named").into());
            }
            let DeValue::Array(array) = value.get_ref() else {
                return values::expected("an array of namespaces, or [\"*\"]", value.get_ref());
            };
            if array.is_empty() || array.len() > KUBERNETES_NAMESPACES_MAX {
                let message = format!("name 1 to {KUBERNETES_NAMESPACES_MAX} namespaces");
                return Err(Wrong { message, help: Some("all of them are [\"*\"]".into()) });
            }
            let mut namespaces = inner.elements(array, values::text(TEXT_LEN_MAX));
            if namespaces.iter().any(|namespace| namespace == "*") {
                namespaces.clear();
            }
            zones.push(RecordZone { origin, namespaces });
            Ok(())
        });
        zones.sort_by(|one, other| {
            one.origin.as_name().as_bytes().cmp(other.origin.as_name().as_bytes())
        });
        Self { kinds, zones, exports, max_age }
    }
}

impl Kubernetes {
    /// Reports keys of this module that lack others, or do not go with them.
    pub(super) fn check_records(&self, section: &mut Section<'_, '_>, is_fleet: bool) {
        let ObjectRecords { kinds, zones, exports, .. } = &self.records;
        if !kinds.is_empty() && zones.is_empty() {
            section.missing("record_zones");
        }
        if !zones.is_empty() && self.zones.is_empty() {
            section.missing("zones");
        }
        let of_cluster = || self.zones.iter().chain(&self.multicluster_zones);
        let is_of_cluster = |zone: &RecordZone| of_cluster().any(|other| *other == zone.origin);
        if zones.iter().any(is_of_cluster) {
            section.wrong("record_zones", "names a zone of the cluster", "name other zones");
        }
        if *exports && self.multicluster_zones.is_empty() {
            section.missing("multicluster_zones");
        }
        let falls_through = |zone: &NameBuf| self.fallthrough.contains(zone);
        if *exports && self.multicluster_zones.iter().any(falls_through) {
            let help = "take the multicluster zone out of `fallthrough`";
            section.wrong("exports", "needs zones of its own", help);
        }
        if is_fleet && self.cluster.is_empty() {
            let help = "set `cluster`: the keys in etcd begin with it";
            for key in ["record_zones", "exports"] {
                if key == "record_zones" || *exports {
                    section.wrong(key, "needs the name of the cluster", help);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use std::path::Path;

    fn parse(more: &str) -> Result<ObjectRecords, String> {
        let text = format!("[kubernetes]\nzones = [\"cluster.local\"]\n{more}\n");
        Config::parse(Path::new("f"), &text)
            .map(|config| config.kubernetes.records)
            .map_err(|errors| errors.iter().map(|error| format!("{error}\n")).collect())
    }

    #[test]
    fn zones_of_objects_name_their_namespaces() {
        assert_eq!(parse("").expect("the defaults hold"), ObjectRecords::default());
        let found = parse(
            "records_from = [\"gateways\", \"dns_endpoints\"]\nexports = true\n\
             multicluster_zones = [\"clusterset.local\"]\n[kubernetes.record_zones]\n\
             \"Shop.example\" = [\"shop\", \"web\"]\n\"apps.example\" = [\"*\"]",
        );
        let found = found.expect("it is valid");
        assert_eq!(found.kinds, [RecordKind::Gateways, RecordKind::DnsEndpoints]);
        let zones = found.zones.iter().map(|zone| (zone.origin.to_string(), &zone.namespaces[..]));
        let expected = [
            ("apps.example.".to_owned(), &[][..]),
            ("shop.example.".to_owned(), &["shop".to_owned(), "web".to_owned()][..]),
        ];
        assert_eq!(zones.collect::<Vec<_>>(), expected);
        assert!(found.exports);
    }

    #[test]
    fn what_objects_cannot_have_is_refused() {
        for (more, why) in [
            ("records_from = [\"pods\"]", "\"dns_endpoints\""),
            ("records_from = [\"ingresses\"]", "needs the key `record_zones`"),
            ("record_zones = { \"cluster.local\" = [\"*\"] }", "names a zone of the cluster"),
            ("record_zones = { \"a.example\" = [] }", "name 1 to"),
            ("record_zones = { \"a.example\" = \"shop\" }", "an array of namespaces"),
            ("record_zones = { \"a\" = [\"*\"], \"A\" = [\"b\"] }", "is already named"),
            ("max_age = \"1m\"", "is shorter than 15 minutes"),
            ("exports = true", "needs the key `multicluster_zones`"),
            (
                "exports = true\nmulticluster_zones = [\"c.local\"]\nfallthrough = [\"c.local\"]",
                "needs zones of its own",
            ),
        ] {
            let found = parse(more).expect_err("it is wrong");
            assert!(found.contains(why), "{more}: {found}");
        }
        let fleet = "[server]\ndata_dir = \"d\"\nname = \"a\"\n[store]\nkind = \"etcd\"\n[etcd]\n\
                     endpoints = [\"http://127.0.0.1:1\"]\n[kubernetes]\n\
                     zones = [\"cluster.local\"]\nrecord_zones = { \"a.example\" = [\"*\"] }\n";
        let found = Config::parse(Path::new("f"), fleet).expect_err("it has no name");
        assert!(format!("{found:?}").contains("needs the name of the cluster"), "{found:?}");
        assert!(Config::parse(Path::new("f"), &format!("{fleet}cluster = \"a\"")).is_ok());
    }
}
