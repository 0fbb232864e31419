//! The zone that clusters share, and those of exported services: the parts that a service has.
use crate::names::is_label;
use crate::objects::{Labels, PartRules, Port, Service, ServiceKind, SharedService, Slice};
use model::{Choice, TIER_MAX, TTL_MAX, is_check_name};
use source_parts::{Part, PartSet};
use std::net::IpAddr;
use wire::{Name, NameBuf, Rtype};

/// The label of the name server of the zone, which no service may take.
const SERVER: &str = "ns";
/// Priority and weight of SRV records.
const PRIORITY_AND_WEIGHT: [u8; 4] = [0, 0, 0, 100];

/// Which addresses of a service are those of its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// Those of its load balancer.
    LoadBalancer,
    /// Those of its ready endpoints.
    Endpoints,
    /// Those that only its own cluster knows.
    ClusterIp,
    /// `externalIPs`.
    ExternalIps,
}

/// A condition on the labels of an object.
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

impl LabelCondition {
    fn holds(&self, labels: &Labels) -> bool {
        let value = |key: &str| labels.get(key).map(|value| &**value);
        match self {
            Self::Is(key, wanted) => value(key) == Some(wanted),
            Self::IsNot(key, other) => value(key) != Some(other),
            Self::Exists(key) => value(key).is_some(),
            Self::Absent(key) => value(key).is_none(),
        }
    }
}

/// The zones in which services have parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedZone {
    /// The one that clusters share, in lower case; `None`: there is none.
    pub origin: Option<NameBuf>,
    /// The zones of exported services (KEP-1645).
    pub exports: Vec<NameBuf>,
    /// The kinds of addresses: those of the first of them that a service has.
    pub addresses: Vec<AddressKind>,
    /// Which services are in it: those whose labels meet all conditions.
    pub selector: Vec<LabelCondition>,
    /// Seconds that records may be cached.
    pub ttl: u32,
    /// Where the cluster is; empty: not known.
    pub location: Box<str>,
}

/// The members of a part.
enum Members {
    Addresses(Vec<IpAddr>),
    Alias(Box<str>),
}

impl SharedZone {
    /// Whether a service with these labels is in the zone that clusters share.
    pub(crate) fn selects(&self, labels: &Labels) -> bool {
        self.origin.is_some() && self.selector.iter().all(|condition| condition.holds(labels))
    }

    /// Whether the part of a service has the addresses of its endpoints.
    pub(crate) fn needs_endpoints(&self, of: &SharedService) -> bool {
        let kinds = self.addresses.iter().take_while(|kind| match kind {
            AddressKind::LoadBalancer => {
                of.load_balancer.addresses.is_empty() && of.load_balancer.name.is_empty()
            }
            AddressKind::ExternalIps => of.external_ips.is_empty(),
            AddressKind::ClusterIp => false,
            AddressKind::Endpoints => true,
        });
        kinds.into_iter().any(|kind| *kind == AddressKind::Endpoints)
    }

    /// The part of a service, by its namespace and name; `None`: it has none.
    pub(crate) fn part(
        &self,
        object: (&str, &str),
        service: &Service,
        of: &SharedService,
        slices: &[Slice],
    ) -> Option<Part> {
        let (mut part, ttl) = self.start(&of.rules);
        let members = self.members(service, of, slices);
        match self.name(self.origin.as_ref()?, object, &of.name) {
            Ok(name) => add(&mut part, name, members.as_ref(), service, slices, ttl),
            Err(why) => part.faults.push(why),
        }
        (!part.sets.is_empty() || !part.faults.is_empty()).then_some(part)
    }

    /// The part of the export of a service, by its namespace and name; `None`: it has none. All
    /// names are as those of a headless service without hostnames.
    pub(crate) fn export(
        &self,
        (namespace, name): (&str, &str),
        rules: &PartRules,
        service: &Service,
        of: &SharedService,
        slices: &[Slice],
    ) -> Option<Part> {
        let (mut part, ttl) = self.start(rules);
        if let ServiceKind::External(_) = service.kind {
            part.faults.push("a Service of type ExternalName cannot be exported".into());
            return Some(part);
        }
        let members = self.members(service, of, slices);
        for origin in self.exports.iter().filter(|_| is_label(name) && is_label(namespace)) {
            let relative = format!("{name}.{namespace}.svc");
            match NameBuf::from_text(relative.as_bytes(), origin.as_name()) {
                Ok(mut name) => {
                    name.make_lowercase();
                    add(&mut part, name, members.as_ref(), service, slices, ttl);
                }
                Err(why) => {
                    part.faults.push(format!("{relative} is too long below {origin}: {why}"));
                }
            }
        }
        (!part.sets.is_empty() || !part.faults.is_empty()).then_some(part)
    }

    /// A part without sets, and the TTL of those that it gets.
    fn start(&self, rules: &PartRules) -> (Part, u32) {
        let (created, location) = (rules.created, self.location.clone());
        let mut part = Part { created, location, ..Part::default() };
        let ttl = annotations(rules, self.ttl, &mut part);
        (part, ttl)
    }

    fn members(&self, service: &Service, of: &SharedService, slices: &[Slice]) -> Option<Members> {
        if let ServiceKind::External(target) = &service.kind {
            return Some(Members::Alias(target.clone()));
        }
        let endpoints = || slices.iter().flat_map(|slice| slice.endpoints.iter());
        for kind in &self.addresses {
            let found: Vec<IpAddr> = match (kind, &service.kind) {
                (AddressKind::LoadBalancer, _) => of.load_balancer.addresses.to_vec(),
                (AddressKind::ExternalIps, _) => of.external_ips.to_vec(),
                (AddressKind::ClusterIp, ServiceKind::ClusterIp(ips)) => ips.to_vec(),
                (AddressKind::ClusterIp, _) => Vec::new(),
                (AddressKind::Endpoints, _) => endpoints().map(|one| one.address).collect(),
            };
            if !found.is_empty() {
                return Some(Members::Addresses(found));
            }
            if *kind == AddressKind::LoadBalancer && !of.load_balancer.name.is_empty() {
                return Some(Members::Alias(of.load_balancer.name.clone()));
            }
        }
        None
    }

    /// The name of a service: SERVICE.NAMESPACE, or what its annotation says. That is one label, or
    /// ends with the namespace of the service, so that no namespace takes a name of another one.
    fn name(
        &self,
        origin: &NameBuf,
        (namespace, name): (&str, &str),
        annotated: &str,
    ) -> Result<NameBuf, String> {
        let own;
        let relative = match annotated {
            "" => {
                own = format!("{name}.{namespace}");
                &own
            }
            text => relative(origin, text)?,
        };
        let labels: Vec<&str> = relative.split('.').collect();
        if !labels.iter().all(|label| is_label(label)) {
            return Err(format!(
                "dunlin.io/name {annotated:?} is not a name of letters, digits and hyphens"
            ));
        }
        if *relative == *SERVER {
            return Err(format!("dunlin.io/name {annotated:?} is that of the name server"));
        }
        if labels.len() > 1 && labels.last() != Some(&namespace) {
            return Err(format!(
                "dunlin.io/name {annotated:?} has to be one label, or end with the namespace \
                 {namespace}"
            ));
        }
        let mut full = NameBuf::from_text(relative.as_bytes(), origin.as_name())
            .map_err(|why| format!("{relative} is too long below {origin}: {why}"))?;
        full.make_lowercase();
        Ok(full)
    }
}

/// The name of an annotation without the origin, which it has if it ends with a dot.
fn relative<'t>(origin: &NameBuf, text: &'t str) -> Result<&'t str, String> {
    let Some(absolute) = text.strip_suffix('.') else { return Ok(text) };
    let origin = origin.to_string();
    let below = absolute.strip_suffix(origin.trim_end_matches('.'));
    below
        .and_then(|below| below.strip_suffix('.'))
        .ok_or_else(|| format!("dunlin.io/name {text:?} is not below {origin}"))
}

/// Adds the sets of a name to a part.
fn add(
    part: &mut Part,
    name: NameBuf,
    members: Option<&Members>,
    service: &Service,
    slices: &[Slice],
    ttl: u32,
) {
    match members {
        None => {}
        Some(Members::Alias(target)) => match alias(target) {
            Some(data) => part.sets.push(set(name, Rtype::CNAME, ttl, vec![data])),
            None => part.faults.push(format!("{target:?} is not the target of an alias")),
        },
        Some(Members::Addresses(all)) => {
            part.sets.extend(address_sets(&name, ttl, all));
            ports(&name, service, slices, ttl, part);
        }
    }
}

/// SRV records of the ports with names.
fn ports(name: &NameBuf, service: &Service, slices: &[Slice], ttl: u32, part: &mut Part) {
    // The ports of a headless service are those of its endpoints.
    let headless = service.kind == ServiceKind::Headless;
    let of_slices = slices.iter().filter(|_| headless).flat_map(|slice| slice.ports.iter());
    let of_service = service.ports.iter().filter(|_| !headless);
    let ports = of_slices.chain(of_service);
    for Port { name: port, protocol, number } in ports.filter(|port| !port.name.is_empty()) {
        if !is_label(port) || !is_label(protocol) {
            continue;
        }
        let owner = format!("_{port}._{protocol}");
        let Ok(owner) = NameBuf::from_text(owner.as_bytes(), name.as_name()) else {
            part.faults.push(format!("the name of the port {port} is too long"));
            continue;
        };
        let mut data = PRIORITY_AND_WEIGHT.to_vec();
        data.extend_from_slice(&number.to_be_bytes());
        data.extend_from_slice(name.as_name().as_bytes());
        let data: Box<[u8]> = data.into();
        match part.sets.iter_mut().find(|set| set.name == owner) {
            Some(set) if set.data.contains(&data) => {}
            Some(set) => set.data.push(data),
            None => part.sets.push(set(owner, Rtype::SRV, ttl, vec![data])),
        }
    }
}

fn set(name: NameBuf, rtype: Rtype, ttl: u32, data: Vec<Box<[u8]>>) -> PartSet {
    PartSet { name, rtype, ttl, data }
}

/// The data of an alias; `None`: the target is an address, or no name.
pub(crate) fn alias(target: &str) -> Option<Box<[u8]>> {
    let is_address = target.parse::<IpAddr>().is_ok();
    let name = NameBuf::from_text(target.as_bytes(), Name::ROOT).ok().filter(|_| !is_address)?;
    Some(name.as_name().as_bytes().into())
}

/// The sets of addresses at a name.
pub(crate) fn address_sets(name: &NameBuf, ttl: u32, all: &[IpAddr]) -> Vec<PartSet> {
    let mut four: Vec<Box<[u8]>> = Vec::new();
    let mut six: Vec<Box<[u8]>> = Vec::new();
    for address in all {
        match address {
            IpAddr::V4(ip) => four.push(ip.octets().into()),
            IpAddr::V6(ip) => six.push(ip.octets().into()),
        }
    }
    let mut sets = Vec::new();
    for (rtype, mut data) in [(Rtype::A, four), (Rtype::AAAA, six)] {
        data.sort_unstable();
        data.dedup();
        if !data.is_empty() {
            sets.push(set(name.clone(), rtype, ttl, data));
        }
    }
    sets
}

/// Reads the annotations of an object, but for its name. Those that are wrong are faults, and are
/// as if they were not there. Returns the TTL.
pub(crate) fn annotations(of: &PartRules, ttl: u32, part: &mut Part) -> u32 {
    let mut wrong = |key: &str, text: &str, what: &str| {
        part.faults.push(format!("dunlin.io/{key} {text:?}: {what}"));
    };
    let number = |text: &str, max: u32| {
        let number = text.parse::<u32>().ok().filter(|number| *number <= max);
        if text.is_empty() { Ok(None) } else { number.map(Some).ok_or(()) }
    };
    let seconds = number(&of.ttl, TTL_MAX).unwrap_or_else(|()| {
        wrong("ttl", &of.ttl, "it is a number of seconds");
        None
    });
    let weight = number(&of.weight, u16::MAX.into()).unwrap_or_else(|()| {
        wrong("weight", &of.weight, "it is a number from 0 to 65535");
        None
    });
    let tier = number(&of.tier, TIER_MAX.into()).unwrap_or_else(|()| {
        wrong("tier", &of.tier, "it is a number from 0 to 99");
        None
    });
    let policy = Choice::from_word(&of.policy);
    if policy.is_none() && !of.policy.is_empty() {
        wrong("policy", &of.policy, "it is all, failover, one, weighted, hash or nearest");
    }
    let is_check = of.check.is_empty() || is_check_name(&of.check);
    if !is_check {
        wrong("check", &of.check, "it is not the name of a check");
    }
    if let Some(weight) = weight {
        part.weight = weight as u16;
    }
    part.tier = tier.unwrap_or_default() as u8;
    part.policy = policy;
    if is_check {
        part.check = of.check.clone();
    }
    seconds.unwrap_or(ttl)
}

#[cfg(test)]
mod tests;
