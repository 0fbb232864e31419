//! `shared`, `shared_addresses` and `shared_selector`: a zone that several clusters share.
use crate::limits::{KUBERNETES_SELECTOR_MAX, TEXT_LEN_MAX};
use crate::section::Section;
use crate::values::{self, Wrong};
use toml::de::DeValue;
use wire::NameBuf;

/// Which addresses of a service are those of its part in the shared zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedAddresses {
    /// Those of its load balancer.
    LoadBalancer,
    /// Those of its ready endpoints.
    Endpoints,
    /// Those that only its own cluster knows.
    ClusterIp,
    /// `externalIPs`.
    ExternalIps,
}

const ADDRESSES: [(&str, SharedAddresses); 4] = [
    ("load_balancer", SharedAddresses::LoadBalancer),
    ("endpoints", SharedAddresses::Endpoints),
    ("cluster_ip", SharedAddresses::ClusterIp),
    ("external_ips", SharedAddresses::ExternalIps),
];

/// A condition on the labels of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelCondition {
    /// The label has this value.
    Is(String, String),
    /// It has another value, or is absent.
    IsNot(String, String),
    /// It exists.
    Exists(String),
    /// It does not exist.
    Absent(String),
}

/// A zone that several clusters share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedZone {
    /// The zone, in lower case; `None`: there is none.
    pub origin: Option<NameBuf>,
    /// The kinds of addresses: those of the first of them that a service has.
    pub addresses: Vec<SharedAddresses>,
    /// Which services are in it: those whose labels meet all conditions.
    pub selector: Vec<LabelCondition>,
}

impl SharedZone {
    pub(super) fn read(section: &mut Section<'_, '_>) -> Self {
        let origin = section.read("shared", None, |value| match value.as_str() {
            Some("") => Ok(None),
            _ => values::zone_name(value).map(Some),
        });
        let origin = origin.map(|mut origin| {
            origin.make_lowercase();
            origin
        });
        let default = vec![SharedAddresses::LoadBalancer, SharedAddresses::Endpoints];
        Self {
            origin,
            addresses: section.list(
                "shared_addresses",
                default,
                ADDRESSES.len(),
                values::word(ADDRESSES),
            ),
            selector: section.read("shared_selector", Vec::new(), selector),
        }
    }
}

/// Conditions on labels, such as `tier=front,!internal`.
fn selector(value: &DeValue<'_>) -> Result<Vec<LabelCondition>, Wrong> {
    let text = values::text(TEXT_LEN_MAX)(value)?;
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let terms: Vec<&str> = text.split(',').map(str::trim).collect();
    if terms.len() > KUBERNETES_SELECTOR_MAX {
        return Err(format!("has more than {KUBERNETES_SELECTOR_MAX} conditions").into());
    }
    terms.into_iter().map(condition).collect()
}

fn condition(term: &str) -> Result<LabelCondition, Wrong> {
    let wrong = || Wrong {
        message: format!("{:?} is not a condition on a label", values::shorten(term)),
        help: Some("write `a=b`, `a!=b`, `a` or `!a`, with commas between them".into()),
    };
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    let part = |text: &str, may_be_empty: bool| {
        let is_plain = text.bytes().all(is_part) && (may_be_empty || !text.is_empty());
        is_plain.then(|| text.to_owned()).ok_or_else(wrong)
    };
    if let Some((key, value)) = term.split_once("!=") {
        return Ok(LabelCondition::IsNot(part(key.trim(), false)?, part(value.trim(), true)?));
    }
    if let Some((key, value)) = term.split_once('=') {
        let value = value.strip_prefix('=').unwrap_or(value);
        return Ok(LabelCondition::Is(part(key.trim(), false)?, part(value.trim(), true)?));
    }
    match term.strip_prefix('!') {
        Some(key) => part(key.trim(), false).map(LabelCondition::Absent),
        None => part(term, false).map(LabelCondition::Exists),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use std::path::Path;

    fn parse(more: &str) -> Result<SharedZone, String> {
        let text = format!("[kubernetes]\nzones = [\"cluster.local\"]\n{more}\n");
        Config::parse(Path::new("f"), &text)
            .map(|config| config.kubernetes.shared)
            .map_err(|errors| errors.iter().map(|error| format!("{error}\n")).collect())
    }

    #[test]
    fn shared_zone_is_read() {
        assert_eq!(parse("").expect("the defaults hold").origin, None);
        let found = parse(
            "shared = \"SVC.example\"\nshared_addresses = [\"cluster_ip\"]\n\
             shared_selector = \"a=b, c!=d,e,!f, g==\"",
        );
        let found = found.expect("it is valid");
        assert_eq!(found.origin.expect("a zone").to_string(), "svc.example.");
        assert_eq!(found.addresses, [SharedAddresses::ClusterIp]);
        let text = |text: &str| text.to_owned();
        let expected = [
            LabelCondition::Is(text("a"), text("b")),
            LabelCondition::IsNot(text("c"), text("d")),
            LabelCondition::Exists(text("e")),
            LabelCondition::Absent(text("f")),
            LabelCondition::Is(text("g"), String::new()),
        ];
        assert_eq!(found.selector, expected);
    }

    #[test]
    fn what_cannot_be_shared_is_refused() {
        for (more, why) in [
            ("shared = \"cluster.local\"", "is in `zones`, too"),
            ("shared_addresses = [\"pods\"]", "\"load_balancer\""),
            ("shared_selector = \"a in (b, c)\"", "is not a condition on a label"),
            ("shared_selector = \"=b\"", "is not a condition on a label"),
        ] {
            let found = parse(more).expect_err("it is wrong");
            assert!(found.contains(why), "{more}: {found}");
        }
        let fleet = "[server]\ndata_dir = \"d\"\nname = \"a\"\n[store]\nkind = \"etcd\"\n[etcd]\n\
                     endpoints = [\"http://127.0.0.1:1\"]\n[kubernetes]\n\
                     zones = [\"cluster.local\"]\nshared = \"svc.example\"\n";
        let found = Config::parse(Path::new("f"), fleet).expect_err("it has no name");
        assert!(format!("{:?}", found).contains("needs the name of the cluster"), "{found:?}");
        assert!(Config::parse(Path::new("f"), &format!("{fleet}cluster = \"a\"")).is_ok());
        let alone = "[kubernetes]\nshared = \"svc.example\"";
        assert!(Config::parse(Path::new("f"), alone).is_err(), "it needs `zones`");
    }
}
