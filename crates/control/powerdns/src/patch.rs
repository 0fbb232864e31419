//! `PATCH`: changes of record sets.
use crate::content::{is_foreign, read_comment, read_records, read_type};
use crate::fields::{SetId, array, invalid, owner, set_id, text, ttl};
use model::{BrokenRule, InvalidField};
use serde_json::{Value, json};
use std::collections::HashMap;
use wire::{Name, NameBuf, Rtype};

/// A change of one record set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPatch {
    /// The owner, in lower case.
    pub name: NameBuf,
    /// The type.
    pub rtype: Rtype,
    /// What changes.
    pub kind: PatchKind,
}

/// What changes in a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// `REPLACE`.
    Replace {
        /// The TTL and the data; `None`: only the comment changes. Without data: deleted.
        records: Option<(u32, Vec<Box<[u8]>>)>,
        /// The comment; `None`: unchanged. Empty: removed.
        comment: Option<String>,
    },
    /// `DELETE`: no error if the set is absent.
    Delete,
    /// `EXTEND`: one record that the set has from now on, and the TTL.
    Extend(u32, Box<[u8]>),
    /// `PRUNE`: one record that the set does not have from now on.
    Prune(Box<[u8]>),
}

/// Parses the body of a `PATCH`. Of a `DELETE` and a `REPLACE` of one set, the later one counts.
///
/// # Errors
/// The first field that is invalid.
pub fn read_patch(body: &Value, zone: Name<'_>) -> Result<Vec<SetPatch>, InvalidField> {
    let sets = array(body, "rrsets", "")?.ok_or_else(|| {
        invalid("rrsets", BrokenRule::SYNTAX, "is missing: it is an array of record sets")
    })?;
    let mut patches: Vec<SetPatch> = Vec::with_capacity(sets.len());
    let mut seen: HashMap<SetId, usize> = HashMap::with_capacity(sets.len());
    for (number, set) in sets.iter().enumerate() {
        let place = format!("rrsets[{number}].");
        let Some(patch) = read_set(set, zone, &place)? else { continue };
        let key = set_id(patch.name.as_name(), patch.rtype);
        let Some(earlier) = seen.get(&key) else {
            seen.insert(key, patches.len());
            patches.push(patch);
            continue;
        };
        if !can_follow(&patches[*earlier].kind, &patch.kind) {
            let what = format!("changes {} {} a second time", patch.name, patch.rtype);
            return Err(invalid(place.trim_end_matches('.'), BrokenRule::TWICE, what));
        }
        patches[*earlier] = patch;
    }
    Ok(patches)
}

/// Whether a change of a set may follow another one, which it replaces.
fn can_follow(earlier: &PatchKind, later: &PatchKind) -> bool {
    use PatchKind::{Delete, Replace};
    matches!(
        (earlier, later),
        (Delete, Replace { records: Some(_), .. }) | (Replace { .. }, Delete)
    )
}

/// Parses a change; `None`: it removes what cannot be there.
fn read_set(set: &Value, zone: Name<'_>, place: &str) -> Result<Option<SetPatch>, InvalidField> {
    let name = owner(text(set, "name", place)?, zone, &format!("{place}name"))?;
    let rtype = text(set, "type", place)?;
    let change = text(set, "changetype", place)?.to_ascii_uppercase();
    let removes = || change == "DELETE" || (change == "REPLACE" && set["records"] == json!([]));
    if is_foreign(rtype) && removes() {
        return Ok(None);
    }
    let rtype = read_type(rtype, &format!("{place}type"))?;
    let kind = match &*change {
        "DELETE" => PatchKind::Delete,
        "REPLACE" => read_replace(set, rtype, place)?,
        "EXTEND" => PatchKind::Extend(ttl(set, place)?, one_record(set, rtype, place)?),
        "PRUNE" => PatchKind::Prune(one_record(set, rtype, place)?),
        _ => {
            let what = format!("{change:?} is none of REPLACE, DELETE, EXTEND and PRUNE");
            return Err(invalid(format!("{place}changetype"), BrokenRule::SYNTAX, what));
        }
    };
    Ok(Some(SetPatch { name, rtype, kind }))
}

fn read_replace(set: &Value, rtype: Rtype, place: &str) -> Result<PatchKind, InvalidField> {
    let comment = read_comment(set, place)?;
    let records = match read_records(set, rtype, place)? {
        Some(data) => Some((ttl(set, place)?, data)),
        None => None,
    };
    if records.is_none() && comment.is_none() {
        let what = "changes nothing: it has neither `records` nor `comments`";
        return Err(invalid(place.trim_end_matches('.'), BrokenRule::SYNTAX, what));
    }
    Ok(PatchKind::Replace { records, comment })
}

fn one_record(set: &Value, rtype: Rtype, place: &str) -> Result<Box<[u8]>, InvalidField> {
    let records = read_records(set, rtype, place)?.unwrap_or_default();
    let [record]: [Box<[u8]>; 1] = records.try_into().map_err(|_| {
        let what = "has exactly one record with EXTEND and PRUNE";
        invalid(format!("{place}records"), BrokenRule::LIMIT, what)
    })?;
    Ok(record)
}
