//! Writes that hide a wildcard from names that their principal may not write.
//!
//! A name that begins to exist is no longer answered by the wildcard beside it, and neither are all
//! names below it (RFC 4592 §2.2.1): `_acme-challenge.shop` takes the answers of `*` from `shop`
//! and from all names below `shop`.
use crate::limits::WARNINGS_MAX;
use crate::{Batch, Refused, SetKey, SetWarning};
use compile::Zone;
use model::BrokenRule;
use std::fmt;
use wire::{Name, NameBuf, Rtype};
use zone_manager::validate::relative;

/// What a principal may write, for what its writes hide.
pub trait WriteRights: fmt::Debug + Send + Sync {
    /// Whether it may write a set.
    fn may_write(&self, set: &SetKey) -> bool;

    /// Whether it may write sets of a type and a view at a name of a zone and all names below it.
    fn covers(&self, set: &SetKey) -> bool;

    /// What becomes of its write of a set that hides more than it covers.
    fn hiding(&self, set: &SetKey) -> Hiding;
}

/// Whether a write may hide a wildcard from names that its principal may not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hiding {
    /// It may.
    Allowed,
    /// It may, with a warning: its credential is older than the rule.
    Warned,
    /// It is refused.
    Refused,
}

/// Refuses, or warns of, edits of these numbers that hide a wildcard. `zone`: without the batch.
/// Returns the warnings.
///
/// # Errors
/// The first edit that hides what its principal may not write.
pub fn check(
    zone: &Zone,
    batch: &Batch,
    numbers: impl Iterator<Item = usize>,
) -> Result<Vec<SetWarning>, Refused> {
    let mut warnings = Vec::new();
    let Some(rights) = &batch.context.rights else { return Ok(warnings) };
    if zone.facts().wildcards == image::DepthMask::default() {
        return Ok(warnings);
    }
    for number in numbers {
        let edit = &batch.edits[number];
        let Some(hidden) = edit.put.as_ref().and_then(|_| hidden(zone, edit.name.as_name())) else {
            continue;
        };
        let covers = |rtype: Rtype| {
            let (zone, name) = (batch.zone.clone(), hidden.name.clone());
            rights.covers(&SetKey { zone, name, rtype, view: edit.view })
        };
        let is_deleted = |rtype: Rtype| {
            let mut edits = batch.edits.iter().filter(|edit| edit.put.is_none());
            edits.any(|edit| edit.rtype == rtype && edit.name == hidden.wildcard)
        };
        let mut types = hidden.types.iter().copied().filter(|rtype| !is_deleted(*rtype));
        let Some(rtype) = types.find(|rtype| !covers(*rtype)) else {
            continue;
        };
        let (name, view) = (edit.name.clone(), edit.view);
        let set = SetKey { zone: batch.zone.clone(), name, rtype: edit.rtype, view };
        let Hidden { name, wildcard, .. } = hidden;
        match rights.hiding(&set) {
            Hiding::Allowed => {}
            Hiding::Warned => warnings.push(SetWarning {
                name: set.name,
                rtype: set.rtype,
                rule: BrokenRule::HIDES_WILDCARD,
                what: format!(
                    "hides the wildcard {wildcard} from {name} and the names below it, which no \
                     grant of {} covers",
                    batch.context.by
                ),
                help: "the next release refuses this, unless the grant has the verb \
                       `hide-wildcard`: `dunlin token create` makes a token with it"
                    .into(),
            }),
            Hiding::Refused => {
                let (name, wildcard) = (Box::new(name), Box::new(wildcard));
                return Err(Refused::HidesWildcard { edit: number, name, rtype, wildcard });
            }
        }
    }
    if let Some(SetWarning { name, rtype, what, help, .. }) = warnings.first() {
        tracing::warn!(sets = warnings.len(), "{name} {rtype} {what}: {help}");
    }
    warnings.truncate(WARNINGS_MAX);
    Ok(warnings)
}

/// What a new name hides.
struct Hidden {
    /// The highest name that begins to exist.
    name: NameBuf,
    wildcard: NameBuf,
    /// The types that the wildcard has.
    types: Vec<Rtype>,
}

/// The wildcard that a new name hides; `None`: it hides none. Names with a label that begins with
/// `_` are those of no host (RFC 8552): nothing is hidden from them.
fn hidden(zone: &Zone, name: Name<'_>) -> Option<Hidden> {
    let lower = {
        let mut lower = NameBuf::from(name);
        lower.make_lowercase();
        lower
    };
    let names = zone.names();
    let mut rest = relative(lower.as_name(), zone.origin());
    let mut top = None;
    // Up to the closest name that exists; the apex always does.
    while names.get(rest).is_none() {
        let len = usize::from(*rest.first()?);
        top = Some(rest);
        rest = rest.get(1 + len..)?;
    }
    let top = top.filter(|top| top.get(1) != Some(&b'_'))?;
    let wildcard = [b"\x01*", rest].concat();
    let types: Vec<_> = names.get(&wildcard)?.sets().map(|set| set.rtype()).collect();
    let joined = |relative: &[u8]| NameBuf::joined(relative, zone.origin()).ok();
    Some(Hidden { name: joined(top)?, wildcard: joined(&wildcard)?, types })
}
