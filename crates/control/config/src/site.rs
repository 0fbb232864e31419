//! `[[site]]`: other data centers, whose zones this one serves, too.
use crate::Kubernetes;
use crate::limits::{SITE_QUOTA, SITE_QUOTA_DEFAULT, SITE_ZONES_MAX, SITES_MAX};
use crate::network;
use crate::roles;
use crate::section::{Section, Value};
use crate::store::Etcd;
use crate::units;
use crate::values::{self, Wrong};
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use toml::de::DeValue;
use wire::NameBuf;

/// `[[site]]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its name.
    pub name: String,
    /// Where it is, for members of its sets that name no location; `None`: not known.
    pub location: Option<String>,
    /// Its zones that are served here, in lower case.
    pub zones: Vec<NameBuf>,
    /// Whether its clusters have parts of the zone `[kubernetes] shared`, or of one in
    /// `record_zones`.
    pub shares: bool,
    /// Its etcd.
    pub etcd: Etcd,
    /// Bytes that its etcd may use, if that does not say so itself.
    pub quota: u64,
}

/// What has a zone already.
enum Home {
    /// A section above, at this offset.
    Site(usize),
    File,
    Cluster,
    /// The zone that clusters share, also those of several sites.
    Shared,
}

/// What earlier sections have.
#[derive(Default)]
struct Earlier {
    names: HashMap<String, usize>,
    homes: HashMap<Vec<u8>, Home>,
}

/// Reads all sections. A zone with another home is an error.
pub(super) fn read_all<'z>(
    root: &mut Section<'_, '_>,
    config: &Path,
    has_data_dir: bool,
    (zones, cluster): (impl Iterator<Item = &'z NameBuf>, &Kubernetes),
) -> Vec<Site> {
    let (mut earlier, mut sites) = (Earlier::default(), Vec::new());
    let of_files = zones.map(|zone| (key(zone), Home::File));
    let of_cluster = cluster.zones.iter().chain(&cluster.multicluster_zones);
    let of_objects = cluster.records.zones.iter().map(|zone| &zone.origin);
    let shared = cluster.shared.origin.iter().chain(of_objects);
    earlier.homes.extend(shared.map(|zone| (key(zone), Home::Shared)));
    earlier.homes.extend(of_cluster.map(|zone| (key(zone), Home::Cluster)));
    earlier.homes.extend(of_files);
    root.sections("site", "[[site]]", SITES_MAX, |mut section| {
        if !has_data_dir {
            let what = "needs a folder for the copy of its records";
            section.wrong("name", what, "name one as [server] data_dir");
        }
        sites.extend(Site::read(section, config, &mut earlier));
    });
    sites
}

impl Site {
    fn read(mut section: Section<'_, '_>, config: &Path, earlier: &mut Earlier) -> Option<Self> {
        let name = section.require("name", name);
        if let Some(name) = &name
            && let Some(first) = earlier.names.insert(name.get_ref().clone(), name.span().start)
        {
            section.twice("this site", first, name.span().start);
        }
        let location = section.read("location", None, network::location);
        let mut zones = read_zones(&mut section, earlier);
        let is_shared =
            |zone: &mut NameBuf| matches!(earlier.homes.get(&key(zone)), Some(Home::Shared));
        let shares = zones.extract_if(.., is_shared).count() > 0;
        let etcd = Etcd::read_keys(&mut section, config);
        if etcd.endpoints.is_empty() {
            section.missing("endpoints");
        }
        etcd.check(&mut section);
        if !etcd.endpoints.iter().all(|url| url.starts_with("https://") || is_loopback(url)) {
            let what = "need TLS: records and passwords would cross the network in clear";
            section.wrong("endpoints", what, "write https:// and name the CA as `ca`");
        }
        let quota = section.read("quota", SITE_QUOTA_DEFAULT, units::bytes(SITE_QUOTA));
        section.close();
        Some(Self { name: name?.into_inner(), location, zones, shares, etcd, quota })
    }
}

/// The zones of a site. None has another home.
fn read_zones(section: &mut Section<'_, '_>, earlier: &mut Earlier) -> Vec<NameBuf> {
    let Some(value) = section.take("zones") else {
        section.missing("zones");
        return Vec::new();
    };
    let DeValue::Array(array) = value.get_ref() else {
        if let Err(wrong) = values::expected::<()>("an array of zones", value.get_ref()) {
            section.add(value, wrong);
        }
        return Vec::new();
    };
    if array.is_empty() || array.len() > SITE_ZONES_MAX {
        section.add(value, format!("expected 1 to {SITE_ZONES_MAX} zones"));
    }
    array.iter().filter_map(|element| read_zone(section, element, earlier)).collect()
}

fn read_zone(
    section: &mut Section<'_, '_>,
    element: &Value<'_>,
    earlier: &mut Earlier,
) -> Option<NameBuf> {
    let mut zone = match values::zone_name(element.get_ref()) {
        Ok(zone) => zone,
        Err(wrong) => {
            section.add(element, wrong);
            return None;
        }
    };
    zone.make_lowercase();
    let offset = element.span().start;
    let other = match earlier.homes.get(&key(&zone)) {
        Some(Home::Site(first)) => {
            section.twice(&format!("the zone {zone}"), *first, offset);
            return None;
        }
        Some(Home::File) => "[[zone]]",
        Some(Home::Cluster) => "[kubernetes]",
        Some(Home::Shared) => return Some(zone),
        None => {
            earlier.homes.insert(key(&zone), Home::Site(offset));
            return Some(zone);
        }
    };
    let message = format!("the zone {zone} is of {other} already, and a zone has one home");
    let help = Some("remove it here or there".to_owned());
    section.add(element, Wrong { message, help });
    None
}

fn key(zone: &NameBuf) -> Vec<u8> {
    zone.as_name().as_bytes().to_ascii_lowercase()
}

/// A name that is a folder, too.
fn name(value: &DeValue<'_>) -> Result<String, Wrong> {
    let name = roles::member_name(value)?;
    match name.is_empty() || name.starts_with('.') {
        true => values::expected("a name that begins with a letter or a digit", value),
        false => Ok(name),
    }
}

/// Whether a URL is of this host.
fn is_loopback(url: &str) -> bool {
    let host = url.strip_prefix("http://").and_then(|rest| rest.rsplit_once(':'));
    let host = host.map(|(host, _)| host.trim_matches(['[', ']']));
    let is_address = |host: &str| host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    host.is_some_and(|host| host == "localhost" || is_address(host))
}

#[cfg(test)]
mod tests {
    use crate::Config;

    fn errors(text: &str) -> String {
        let text = format!("server.data_dir = \"d\"\n{text}");
        match Config::parse(std::path::Path::new("f"), &text) {
            Ok(_) => String::new(),
            Err(found) => found.iter().map(|found| format!("{found}\n")).collect(),
        }
    }

    #[test]
    fn zone_that_clusters_share_may_be_of_several_sites() {
        let shared = "[kubernetes]\nzones = [\"cluster.local\"]\nlocation = \"eu/a\"\n\
            cluster = \"a\"\nshared = \"svc.example\"\n\
            record_zones = { \"apps.example\" = [\"*\"] }\n[server]\ndata_dir = \"d\"\n";
        let site = |name: &str, zones: &str| {
            let local = "endpoints = [\"http://127.0.0.1:2379\"]";
            format!("[[site]]\nname = \"{name}\"\nzones = [{zones}]\n{local}\n")
        };
        let sites = [
            site("b", "\"Svc.Example\""),
            site("c", "\"svc.example\", \"c.example\""),
            site("d", "\"apps.example\""),
        ];
        let text = format!("{shared}{}", sites.concat());
        let config = Config::parse(std::path::Path::new("f"), &text);
        let config = config.unwrap_or_else(|errors| panic!("{}", errors[0]));
        let found: Vec<_> =
            config.sites.iter().map(|site| (site.shares, site.zones.len())).collect();
        assert_eq!(found, [(true, 0), (true, 1), (true, 0)]);
    }

    #[test]
    fn site_needs_tls_and_zones_with_one_home() {
        let local = "endpoints = [\"http://127.0.0.1:2379\"]";
        let site = |name: &str, zones: &str, keys: &str| {
            format!("[[site]]\nname = \"{name}\"\nzones = [{zones}]\n{keys}\n")
        };
        let one = site("b", "\"b.example\"", local);
        assert_eq!(errors(&one), "");
        let tls = "endpoints = [\"https://etcd.b.example:2379\"]\nca = \"ca.pem\"\n";
        let tls = format!("{tls}location = \"eu/b\"\nquota = \"8GiB\"\nprefix = \"/b/\"");
        assert_eq!(errors(&site("b", "\"b.example\"", &tls)), "");
        let open = "endpoints = [\"http://192.0.2.1:2379\"]";
        for (text, wanted) in [
            (site("b", "\"b.example\"", open), "5:13: `endpoints` need TLS"),
            (site("b", "", local), "4:9: expected 1 to 10000 zones"),
            (site("../b", "\"b.example\"", local), "3:8: expected a name"),
            (site("", "\"b.example\"", local), "3:8: expected a name"),
            (site("b", "\"b.example\"", ""), "needs the key `endpoints`"),
            (format!("{one}{}", site("b", "\"c.example\"", local)), "this site is already named"),
            (
                format!("{one}{}", site("c", "\"B.Example.\"", local)),
                "8:10: the zone b.example. is already named in line 4",
            ),
            (
                format!("{one}[[zone]]\nname = \"b.example\"\nfile = \"f\""),
                "4:10: the zone b.example. is of [[zone]] already",
            ),
            (
                format!("kubernetes.zones = [\"b.example\"]\n{one}"),
                "5:10: the zone b.example. is of [kubernetes] already",
            ),
        ] {
            let found = errors(&text);
            assert!(found.contains(wanted), "{text}: {found}");
        }
        let bare =
            Config::parse(std::path::Path::new("f"), &format!("server.data_dir = \"\"\n{one}"))
                .expect_err("no data_dir");
        assert!(bare[0].to_string().contains("[server] data_dir"), "{}", bare[0]);
    }
}
