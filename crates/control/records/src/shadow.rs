//! Record sets that are in a zone but not served: at or below a delegation, below a DNAME, or in a
//! deeper zone of the same server.
use crate::{RecordService, SetKey, View};
use compile::{Image, Zone};
use image::{DepthMask, Node};
use std::fmt;
use wire::{Name, NameBuf, Rtype};

/// The record or zone that hides a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShadowKind {
    /// Another zone of this server, with a longer origin (RFC 1034 §4.3.2, step 2).
    Zone,
    /// NS records at or above the name, below the apex (RFC 1034 §4.3.2, step 3b).
    Delegation,
    /// A DNAME above the name (RFC 6672 §2.4).
    Dname,
}

impl ShadowKind {
    /// Its name in JSON and texts.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Zone => "zone",
            Self::Delegation => "delegation",
            Self::Dname => "dname",
        }
    }
}

/// The record or zone that hides a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadow {
    /// Its kind.
    pub kind: ShadowKind,
    /// The origin of the zone, or the owner of the NS or DNAME records.
    pub name: NameBuf,
}

/// `the delegation sub.example.org.`
impl fmt::Display for Shadow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ShadowKind::Dname => "DNAME",
            kind => kind.word(),
        };
        write!(f, "the {kind} {}", self.name)
    }
}

impl RecordService {
    /// The record or zone that hides each of these sets now; `None` for served ones. Addresses of a
    /// delegation's own servers are served as additional data (RFC 9471).
    pub fn shadows(&self, sets: &[SetKey]) -> Vec<Option<Shadow>> {
        let image = self.0.publisher.image();
        // What hides a set of a view is not looked for.
        let is_of_all = |set: &SetKey| set.view == View::DEFAULT;
        let find = |set: &SetKey| find(&image, set.zone.as_name(), set.name.as_name(), set.rtype);
        sets.iter().map(|set| Some(set).filter(|set| is_of_all(set)).and_then(find)).collect()
    }

    /// The number of hidden sets of a zone. Walks all its names if any may be hidden.
    pub fn count_shadowed(&self, origin: Name<'_>) -> u64 {
        let image = self.0.publisher.image();
        let Some(zone) = image.zone(origin) else { return 0 };
        let is_deeper = |other: &Zone| other.origin() != origin && other.origin().is_within(origin);
        let has_cuts = zone.facts().cuts != DepthMask::default();
        if !has_cuts && !image.zones().any(|other| is_deeper(other)) {
            return 0;
        }
        let hidden = |node: Node<'_>| {
            let Ok(name) = NameBuf::joined(node.name(), origin) else { return 0 };
            let is_hidden = |rtype: Rtype| find(&image, origin, name.as_name(), rtype).is_some();
            node.sets().filter(|set| is_hidden(set.rtype())).count() as u64
        };
        zone.nodes().map(hidden).sum()
    }
}

fn find(image: &Image, origin: Name<'_>, name: Name<'_>, rtype: Rtype) -> Option<Shadow> {
    let shadow = |kind, name: Name<'_>| Some(Shadow { kind, name: name.into() });
    let mut at = name;
    while at.len() > origin.len() {
        // RFC 4035 §3.1.4.1: the DS of a zone is its parent's.
        let is_parents = rtype == Rtype::DS && at.len() == name.len();
        if !is_parents && image.zone(at).is_some() {
            return shadow(ShadowKind::Zone, at);
        }
        at = at.parent()?;
    }
    let zone = image.zone(origin)?;
    if zone.facts().cuts == DepthMask::default() {
        return None;
    }
    let relative = zone.relative(name)?;
    for start in starts(&relative).into_iter().rev() {
        let node = zone.names().get(&relative[start..])?;
        let owner = || NameBuf::joined(&relative[start..], origin).ok();
        let (at_apex, at_name) = (start == relative.len(), start == 0);
        let is_ours = at_apex || at_name && matches!(rtype, Rtype::NS | Rtype::DS);
        if !is_ours && node.set(Rtype::NS).is_some() {
            let is_served = is_glue(node, name, rtype);
            return (!is_served).then(|| shadow(ShadowKind::Delegation, owner()?.as_name()))?;
        }
        if !at_name && node.set(Rtype::DNAME).is_some() {
            return shadow(ShadowKind::Dname, owner()?.as_name());
        }
    }
    None
}

/// Offsets of the name and each of its ancestors, up to the apex.
fn starts(relative: &[u8]) -> Vec<usize> {
    let mut starts = vec![0];
    let mut at = 0;
    while let Some(len) = relative.get(at) {
        at += 1 + usize::from(*len);
        starts.push(at);
    }
    starts
}

/// Whether a set is an address of a delegation's server.
fn is_glue(cut: Node<'_>, name: Name<'_>, rtype: Rtype) -> bool {
    let servers = cut.set(Rtype::NS);
    let mut servers = servers.iter().flat_map(|set| set.records());
    matches!(rtype, Rtype::A | Rtype::AAAA)
        && servers.any(|data| Name::parse(data).is_ok_and(|server| server == name))
}
