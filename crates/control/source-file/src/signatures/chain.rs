//! The chain of NSEC (RFC 4035 §2.3) or NSEC3 (RFC 5155 §7.1) records.
use super::{FindingKind, Findings};
use crate::limits::HASHES_MAX;
use compile::Zone;
use image::{Node, Nsec3Params, Tree, Zone as _};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use wire::{NameBuf, Rtype};

/// The opt-out flag (RFC 5155 §3.1.2.1).
const OPT_OUT: u8 = 1;

/// Checks the chain.
pub fn check(zone: &Zone, findings: &mut Findings) {
    match &zone.facts().nsec3 {
        Some(params) => check_hashed(zone, params, findings),
        None => check_plain(zone, findings),
    }
}

/// The names of the zone itself in canonical order: not those below delegations.
fn own_names(zone: &Zone) -> impl Iterator<Item = Node<'_>> {
    let names = zone.names();
    let all = (0..names.len()).filter_map(|rank| names.at(rank));
    all.filter(|node| zone.cut(node.name()).is_none_or(|cut| cut == node.name()))
}

/// The types that an NSEC or NSEC3 record of a name lists. Of a delegation, only some belong to
/// this zone (RFC 4035 §2.3).
fn types_of(zone: &Zone, node: Node<'_>) -> Vec<Rtype> {
    let is_cut = zone.cut(node.name()).is_some();
    let belongs = |rtype: &Rtype| {
        !is_cut || matches!(*rtype, Rtype::NS | Rtype::DS | Rtype::RRSIG | Rtype::NSEC)
    };
    node.sets().map(|set| set.rtype()).filter(belongs).collect()
}

fn has_types(bitmap: &[u8], types: &[Rtype]) -> bool {
    zonefile::bitmap_types(bitmap).eq(types.iter().copied())
}

fn check_plain(zone: &Zone, findings: &mut Findings) {
    let mut names = own_names(zone).filter(|node| !node.is_empty()).peekable();
    while let Some(node) = names.next() {
        let Some(data) = node.set(Rtype::NSEC).and_then(|set| set.records().next()) else {
            findings.add(FindingKind::NoDenial, node.name(), Rtype::ANY);
            continue;
        };
        let next = names.peek().map(Node::name).unwrap_or_default();
        let Ok(stated) = wire::Name::parse(data) else { continue };
        if zone.relative(stated).as_deref() != Some(next) {
            findings.add(FindingKind::Next, node.name(), Rtype::NSEC);
        }
        if !has_types(&data[stated.len()..], &types_of(zone, node)) {
            findings.add(FindingKind::Types, node.name(), Rtype::NSEC);
        }
    }
}

/// An NSEC3 record with the parameters of the zone.
struct Hashed<'z> {
    opts_out: bool,
    next: &'z [u8],
    bitmap: &'z [u8],
}

impl<'z> Hashed<'z> {
    fn of(node: Node<'z>, params: &Nsec3Params) -> Option<Self> {
        node.set(Rtype::NSEC3)?.records().find_map(|data| Self::parse(data, params))
    }

    fn parse(data: &'z [u8], params: &Nsec3Params) -> Option<Self> {
        let ([_, flags, high, low, salt_len], rest) = data.split_first_chunk()?;
        let (salt, rest) = rest.split_at_checked(usize::from(*salt_len))?;
        let (next_len, rest) = rest.split_first()?;
        let (next, bitmap) = rest.split_at_checked(usize::from(*next_len))?;
        let is_of_zone = u16::from_be_bytes([*high, *low]) == params.iterations
            && *salt == params.salt[..usize::from(params.salt_len)];
        is_of_zone.then_some(Self { opts_out: flags & OPT_OUT != 0, next, bitmap })
    }
}

fn check_hashed(zone: &Zone, params: &Nsec3Params, findings: &mut Findings) {
    let opts_out = check_order(zone, params, findings);
    let work = zone.names().len().saturating_mul(usize::from(params.iterations) + 1);
    // Of a zone with too many names, a part is checked.
    let step = work.div_ceil(HASHES_MAX).max(1);
    let (mut found, mut missing) = (0, false);
    for node in own_names(zone).step_by(step) {
        let types = types_of(zone, node);
        // Opt-out leaves delegations out that are not signed, and names that only lead to them.
        let may_lack = opts_out && (types.is_empty() || types == [Rtype::NS]);
        let owner = hashed_name(zone, params, node.name());
        let there = zone.hashed().rank(&owner);
        let there = zone.hashed().at(there).filter(|there| there.name() == &*owner);
        match there.and_then(|there| Hashed::of(there, params)) {
            Some(hashed) => {
                found += 1;
                if !has_types(hashed.bitmap, &types) {
                    findings.add(FindingKind::Types, node.name(), Rtype::ANY);
                }
            }
            None if may_lack => {}
            None => {
                missing = true;
                findings.add(FindingKind::NoDenial, node.name(), Rtype::ANY);
            }
        }
    }
    let hashed = zone.hashed();
    let of_zone = (0..hashed.len()).filter_map(|rank| hashed.at(rank));
    let of_zone = of_zone.filter(|node| Hashed::of(*node, params).is_some()).count();
    if step == 1 && !missing && found < of_zone {
        findings.add(FindingKind::NoName, &[], Rtype::NSEC3PARAM);
    }
}

/// Checks that each NSEC3 record leads to the next; returns whether one opts out.
fn check_order(zone: &Zone, params: &Nsec3Params, findings: &mut Findings) -> bool {
    let tree = zone.hashed();
    let all = || (0..tree.len()).filter_map(|rank| tree.at(rank));
    let of_zone = || all().filter_map(|node| Some((node, Hashed::of(node, params)?)));
    let mut nodes = of_zone().peekable();
    let mut opts_out = false;
    while let Some((node, hashed)) = nodes.next() {
        opts_out |= hashed.opts_out;
        let next = nodes.peek().map(|(next, _)| *next).or_else(|| Some(of_zone().next()?.0));
        let label = label(hashed.next);
        if next.is_none_or(|next| next.name() != &*label) {
            findings.add(FindingKind::Next, node.name(), Rtype::NSEC3);
        }
    }
    opts_out
}

/// The relative name of a hash (RFC 5155 §3).
fn label(hash: &[u8]) -> Vec<u8> {
    let text = zonefile::base32_text(hash).to_ascii_lowercase();
    let mut label = vec![text.len() as u8];
    label.extend_from_slice(text.as_bytes());
    label
}

/// The relative name of the NSEC3 record of a relative name (RFC 5155 §5).
fn hashed_name(zone: &Zone, params: &Nsec3Params, name: &[u8]) -> Vec<u8> {
    let salt = &params.salt[..usize::from(params.salt_len)];
    let mut text = match NameBuf::joined(name, zone.origin()) {
        Ok(name) => name.as_name().as_bytes().to_vec(),
        Err(_) => name.to_vec(),
    };
    for _ in 0..=params.iterations {
        text.extend_from_slice(salt);
        text = digest(&SHA1_FOR_LEGACY_USE_ONLY, &text).as_ref().to_vec();
    }
    label(&text)
}
