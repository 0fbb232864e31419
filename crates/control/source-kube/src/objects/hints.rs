//! Hints of a slice: which clients its controller wants at each endpoint.
use super::{Endpoint, EndpointNaming, RawEndpoint};
use serde::Deserialize;
use std::net::IpAddr;

/// Endpoints in ascending order, and the location of the clients that each is for, below that of
/// the cluster: a topology zone, or a zone and a node.
pub type Hints = Box<[(IpAddr, Box<str>)]>;

/// `hints` of an endpoint.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RawHints {
    for_zones: Option<Vec<Named>>,
    for_nodes: Option<Vec<Named>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    name: Box<str>,
}

impl RawHints {
    /// The location that the endpoint is for; `zone` is its own. `None`: there is none, or more
    /// than one.
    fn location(&self, zone: Option<&str>) -> Option<Box<str>> {
        let one = |all: &Option<Vec<Named>>| match all.as_deref() {
            Some([one]) if !one.name.is_empty() => Some(one.name.to_ascii_lowercase()),
            _ => None,
        };
        let has = |all: &Option<Vec<Named>>| all.as_ref().is_some_and(|all| !all.is_empty());
        let zone = match has(&self.for_zones) {
            true => one(&self.for_zones)?,
            false => zone.filter(|zone| !zone.is_empty())?.to_ascii_lowercase(),
        };
        match has(&self.for_nodes) {
            true => Some(format!("{zone}/{}", one(&self.for_nodes)?).into()),
            false => has(&self.for_zones).then(|| zone.into()),
        }
    }
}

/// The hints of endpoints. As in kube-proxy, they count only if each endpoint has one.
pub(super) fn of<'r>(endpoints: impl Iterator<Item = &'r RawEndpoint>) -> Option<Hints> {
    let mut hints = Vec::new();
    for endpoint in endpoints {
        let location = endpoint.hints.as_ref()?.location(endpoint.zone.as_deref())?;
        let addresses = endpoint.each(EndpointNaming::default());
        hints.extend(addresses.map(|Endpoint { address, .. }| (address, location.clone())));
    }
    hints.sort_unstable();
    hints.dedup_by_key(|(address, _)| *address);
    (!hints.is_empty()).then(|| hints.into())
}
