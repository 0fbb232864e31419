//! `[[network]]`: prefixes of clients, and the names that are denied to them.
mod pods;

use crate::diagnostic::Diagnostic;
use crate::geo::{self, GeoNetworks};
use crate::limits::{
    AS_NUMBERS_MAX, DENY_ADDRESSES_MAX, DENY_FILE_LEN_MAX, DENY_FILE_NAMES_MAX, DENY_NAMES_MAX,
    NETWORK_NAME_LEN_MAX, NETWORK_PREFIXES_MAX, NETWORKS_MAX, PREFIXES_MAX,
};
use crate::section::{Section, Value};
use crate::units;
use crate::values::{self, Wrong};
use crate::zone;
use image::{Location, NameVerdicts};
use limit::Prefix;
pub use pods::PodSelector;
use std::collections::HashMap;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toml::de::DeValue;

/// `[[network]]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its name in metrics.
    pub name: String,
    /// The prefixes of its clients.
    pub prefixes: Vec<Prefix>,
    /// Autonomous systems whose addresses are its clients.
    pub systems: Vec<u32>,
    /// Pods that are its clients.
    pub pods: PodSelector,
    /// The view of its clients; `None`: the default view.
    pub view: Option<String>,
    /// Where its clients are: a path that [`Location::parse`] takes; `None`: not known.
    pub location: Option<String>,
    /// Names that are denied to its clients or allowed, by `deny` and `allow`, then by `deny_file`.
    pub names: Vec<Arc<NetworkNames>>,
    /// The answer to queries for denied names.
    pub deny_answer: DenyAnswer,
}

/// `[ecs]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ecs {
    /// Resolvers whose client subnet option counts (RFC 7871).
    pub trust: Vec<Prefix>,
}

impl Ecs {
    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let trust = section.list("trust", Vec::new(), PREFIXES_MAX, units::prefix);
        section.close();
        Self { trust }
    }
}

/// Names with verdicts about them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NetworkNames {
    /// For each name the verdicts, its length, and its labels in lower case without the root.
    packed: Vec<u8>,
    /// The number of names.
    pub len: usize,
}

/// What a query for a denied name gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DenyAnswer {
    /// NXDOMAIN.
    NxDomain,
    /// REFUSED.
    Refused,
    /// These addresses.
    Addresses(Vec<IpAddr>),
}

/// What earlier networks have, with offsets, and the files that they read.
#[derive(Default)]
struct Earlier {
    names: HashMap<String, usize>,
    prefixes: HashMap<Prefix, usize>,
    /// The network that names a system, by its number among all.
    systems: HashMap<u32, usize>,
    networks: usize,
    files: HashMap<PathBuf, Option<Arc<NetworkNames>>>,
    /// Whether a cluster is watched.
    has_cluster: bool,
    /// The views that are used.
    views: Vec<(String, usize)>,
}

/// Names of networks that mean something else in metrics.
const RESERVED: [&str; 2] = ["default", "other"];

impl Network {
    /// Reads all networks, and `[networks]`. Returns also the views that they use, with offsets.
    pub(super) fn read_all(
        root: &mut Section<'_, '_>,
        config: &Path,
        has_cluster: bool,
    ) -> (Vec<Self>, GeoNetworks, Vec<(String, usize)>) {
        let mut networks = Vec::new();
        let mut earlier = Earlier { has_cluster, ..Earlier::default() };
        root.sections("network", "[[network]]", NETWORKS_MAX, |section| {
            networks.extend(Self::read(section, config, &mut earlier));
        });
        let systems = earlier.systems.keys().copied().collect();
        let geo = GeoNetworks::read(root.section("networks", "[networks]"), config, &systems);
        (networks, geo, earlier.views)
    }

    /// Reads one network.
    fn read(mut section: Section<'_, '_>, config: &Path, earlier: &mut Earlier) -> Option<Self> {
        let name = section.require("name", name);
        if let Some(name) = &name
            && let Some(first) = earlier.names.insert(name.get_ref().clone(), name.span().start)
        {
            section.twice("this network", first, name.span().start);
        }
        let prefixes = read_prefixes(&mut section, earlier);
        let systems = section.list("as", Vec::new(), AS_NUMBERS_MAX, geo::as_number);
        for system in &systems {
            let first = *earlier.systems.entry(*system).or_insert(earlier.networks);
            if first != earlier.networks {
                section.wrong("as", &format!("has {system}, as another network"), "name it once");
            }
        }
        earlier.networks += 1;
        let pods = PodSelector::read(&mut section, earlier.has_cluster);
        let view = read_view(&mut section, earlier);
        let location = section.read("location", None, location);
        let names = read_names(&mut section, config, earlier);
        let deny_answer = section.read("deny_answer", DenyAnswer::NxDomain, deny_answer);
        if ["deny", "allow", "deny_file"].iter().all(|key| !section.has(key)) {
            section.wrong("deny_answer", "answers nothing", "name what is denied: deny = [\"…\"]");
        }
        section.close();
        let name = name?.into_inner();
        Some(Self { name, prefixes, systems, pods, view, location, names, deny_answer })
    }
}

/// The path of a location, such as `eu/fra1/a`.
pub(super) fn location(value: &DeValue<'_>) -> Result<Option<String>, Wrong> {
    let path = values::text(Location::LEN_MAX)(value)?;
    Location::parse(&path).map_err(|why| why.to_string())?;
    Ok(Some(path))
}

/// The name of a network.
fn name(value: &DeValue<'_>) -> Result<String, Wrong> {
    let name = values::text(NETWORK_NAME_LEN_MAX)(value)?;
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_allowed) {
        return values::expected("a name of letters, digits, `-`, `_`, `.` and `/`", value);
    }
    match RESERVED.contains(&name.as_str()) {
        true => Err(format!("the name {name:?} has a meaning of its own in metrics").into()),
        false => Ok(name),
    }
}

/// The view of a network; `None`: the default view.
fn read_view(section: &mut Section<'_, '_>, earlier: &mut Earlier) -> Option<String> {
    let value = section.take("view")?;
    match zone::view(value.get_ref()) {
        Ok(view) => {
            earlier.views.extend(view.clone().map(|view| (view, value.span().start)));
            view
        }
        Err(wrong) => {
            section.add(value, wrong);
            None
        }
    }
}

/// The prefixes of a network; no two networks have the same.
fn read_prefixes(section: &mut Section<'_, '_>, earlier: &mut Earlier) -> Vec<Prefix> {
    let Some(value) = section.take("prefixes") else {
        if ["as", "namespaces", "pod_labels"].iter().all(|key| !section.has(key)) {
            section.missing("prefixes");
        }
        return Vec::new();
    };
    let DeValue::Array(array) = value.get_ref() else {
        let message = "expected an array of prefixes".to_owned();
        let help = Some("put it in brackets: prefixes = [\"10.0.0.0/8\"]".to_owned());
        section.add(value, Wrong { message, help });
        return Vec::new();
    };
    if array.is_empty() {
        section.add(value, "`prefixes` needs one at least".to_owned());
    }
    let mut prefixes = Vec::new();
    for element in array.iter() {
        match units::prefix(element.get_ref()) {
            Ok(prefix) => {
                check_prefix(section, element, prefix, earlier);
                prefixes.push(prefix);
            }
            Err(wrong) => section.add(element, wrong),
        }
    }
    prefixes
}

/// Reports a prefix that a network has already, or that is one too many.
fn check_prefix(
    section: &mut Section<'_, '_>,
    element: &Value<'_>,
    prefix: Prefix,
    earlier: &mut Earlier,
) {
    let offset = element.span().start;
    if let Some(first) = earlier.prefixes.insert(prefix, offset) {
        section.twice("this prefix", first, offset);
    }
    if earlier.prefixes.len() == NETWORK_PREFIXES_MAX + 1 {
        section.add(element, format!("at most {NETWORK_PREFIXES_MAX} prefixes of all networks"));
    }
}

/// The lists of names of a network.
fn read_names(
    section: &mut Section<'_, '_>,
    config: &Path,
    earlier: &mut Earlier,
) -> Vec<Arc<NetworkNames>> {
    let mut own = NetworkNames::default();
    for (key, verdict) in [("deny", NameVerdicts::DENY), ("allow", NameVerdicts::ALLOW)] {
        let texts = section.list(key, Vec::new(), DENY_NAMES_MAX, |value| match value.as_str() {
            Some(text) => pattern(text, verdict),
            None => values::expected("a name, or `*.` and a name", value),
        });
        for (verdicts, name) in texts {
            own.add(verdicts, &name);
        }
    }
    let mut lists = Vec::new();
    if let Some(value) = section.take("deny_file") {
        match values::file(value.get_ref()) {
            Ok(file) => {
                let file = config.parent().unwrap_or(Path::new("")).join(file);
                let known = earlier.files.entry(file.clone());
                let names = known.or_insert_with(|| match read_file(&file) {
                    Ok(names) => Some(Arc::new(names)),
                    Err(wrong) => {
                        section.add_all(wrong);
                        None
                    }
                });
                lists.extend(names.clone());
            }
            Err(wrong) => section.add(value, wrong),
        }
    }
    let denies = own.denies() || !lists.is_empty();
    if !denies && section.has("allow") {
        section.wrong("allow", "allows what is not denied", "name what is denied: deny = [\"*\"]");
    }
    if own.len > 0 {
        lists.insert(0, Arc::new(own));
    }
    lists
}

/// `"name"`, `"*.name"` for the names below it, or `"*"` for all names.
fn pattern(text: &str, verdict: NameVerdicts) -> Result<(NameVerdicts, Vec<u8>), Wrong> {
    if text == "*" {
        return Ok((NameVerdicts(verdict.0 | verdict.below().0), Vec::new()));
    }
    let (verdict, text) = match text.strip_prefix("*.") {
        Some(above) => (verdict.below(), above),
        None => (verdict, text),
    };
    let name = values::name(text)?;
    let bytes = name.as_name().as_bytes();
    Ok((verdict, bytes[..bytes.len() - 1].to_vec()))
}

/// The names of a file, one a line. A text behind `#` is a comment.
fn read_file(file: &Path) -> Result<NetworkNames, Vec<Diagnostic>> {
    let of_file = |message: String, help: &str| {
        vec![Diagnostic { help: Some(help.to_owned()), ..Diagnostic::of_file(file, message) }]
    };
    let mut bytes = Vec::new();
    zonefile::open(file)
        .and_then(|opened| opened.take(DENY_FILE_LEN_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| of_file(format!("cannot be read: {error}"), "is its path right?"))?;
    if bytes.len() as u64 > DENY_FILE_LEN_MAX {
        let message = format!("is longer than {DENY_FILE_LEN_MAX} bytes");
        return Err(of_file(message, "is it a list of names?"));
    }
    if bytes.last() != Some(&b'\n') {
        let message = "does not end with a newline, so it may be cut off".to_owned();
        return Err(of_file(message, "write it whole, then rename it into place"));
    }
    let (mut names, mut wrong, mut at) = (NetworkNames::default(), Vec::new(), 0);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let text = line.split(|byte| *byte == b'#').next().unwrap_or_default().trim_ascii();
        let read = std::str::from_utf8(text).map_err(|_| Wrong::from("is not UTF-8".to_owned()));
        match read.and_then(|text| pattern(text, NameVerdicts::DENY)) {
            _ if text.is_empty() => {}
            Ok((verdicts, name)) => names.add(verdicts, &name),
            Err(Wrong { message, help }) if wrong.len() < crate::limits::DIAGNOSTICS_MAX => {
                let found = Diagnostic::at(file, &bytes, at, message);
                wrong.push(Diagnostic { help, ..found.by(model::BrokenRule::CONFIG_VALUE) });
            }
            Err(_) => {}
        }
        at += line.len();
    }
    if names.len > DENY_FILE_NAMES_MAX {
        let message = format!("has {} names, more than {DENY_FILE_NAMES_MAX}", names.len);
        return Err(of_file(message, "deny whole domains: `*.name`"));
    }
    if wrong.is_empty() { Ok(names) } else { Err(wrong) }
}

/// `"nxdomain"`, `"refused"`, an address, or an array of addresses.
fn deny_answer(value: &DeValue<'_>) -> Result<DenyAnswer, Wrong> {
    let expected = || {
        let what = "\"nxdomain\", \"refused\", or an address such as \"192.0.2.1\"";
        values::expected(what, value)
    };
    let address = |text: &str| text.parse::<IpAddr>().ok();
    if let DeValue::Array(array) = value {
        let addresses = array.iter().map(|element| element.get_ref().as_str().and_then(address));
        let addresses: Option<Vec<IpAddr>> = addresses.collect();
        let is_some = |all: &Vec<IpAddr>| (1..=DENY_ADDRESSES_MAX).contains(&all.len());
        return match addresses.filter(is_some) {
            Some(addresses) => Ok(DenyAnswer::Addresses(addresses)),
            None => values::expected(format!("1 to {DENY_ADDRESSES_MAX} addresses"), value),
        };
    }
    match value.as_str() {
        Some(text) if text.eq_ignore_ascii_case("nxdomain") => Ok(DenyAnswer::NxDomain),
        Some(text) if text.eq_ignore_ascii_case("refused") => Ok(DenyAnswer::Refused),
        Some(text) if let Some(address) = address(text) => Ok(DenyAnswer::Addresses(vec![address])),
        _ => expected(),
    }
}

impl NetworkNames {
    fn add(&mut self, verdicts: NameVerdicts, name: &[u8]) {
        self.packed.extend([verdicts.0, name.len() as u8]);
        self.packed.extend(name);
        self.len += 1;
    }

    /// Each name without its root label, with the verdicts about it. A name may occur twice.
    pub fn iter(&self) -> impl Iterator<Item = (NameVerdicts, &[u8])> {
        let mut rest = &self.packed[..];
        std::iter::from_fn(move || {
            let [verdicts, len, behind @ ..] = rest else { return None };
            let (name, behind) = behind.split_at_checked(usize::from(*len))?;
            rest = behind;
            Some((NameVerdicts(*verdicts), name))
        })
    }

    /// Whether any name is denied.
    fn denies(&self) -> bool {
        let deny = NameVerdicts::DENY.0 | NameVerdicts::DENY.below().0;
        self.iter().any(|(verdicts, _)| verdicts.0 & deny != 0)
    }
}

#[cfg(test)]
mod tests;
