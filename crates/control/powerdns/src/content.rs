//! The content of records: presentation form, in which names have their final dot and texts their
//! quotes.
use crate::fields::{array, invalid, text};
use model::{BrokenRule, InvalidField, RECORDS_MAX};
use serde_json::Value;
use wire::Rtype;

/// Types of `PowerDNS` that are no records of DNS, and why they are refused.
const REFUSED_TYPES: [(&str, &str); 1] = [(
    "LUA",
    "LUA records run a program for each answer; Dunlin has policies and health checks instead: \
     docs/policies.md",
)];

/// Whether `PowerDNS` has this type and no set here can: to remove it changes nothing.
pub fn is_foreign(text: &str) -> bool {
    REFUSED_TYPES.iter().any(|(refused, _)| text.eq_ignore_ascii_case(refused))
}

/// Parses a type.
pub fn read_type(text: &str, place: &str) -> Result<Rtype, InvalidField> {
    let word = text.to_ascii_uppercase();
    if let Some((_, why)) = REFUSED_TYPES.into_iter().find(|(refused, _)| *refused == word) {
        return Err(invalid(place, BrokenRule::TYPE, why));
    }
    match word.parse::<Rtype>() {
        Ok(rtype) if rtype.is_meta() => {
            Err(invalid(place, BrokenRule::META_TYPE, "is a query type; no record has it"))
        }
        Ok(rtype) => Ok(rtype),
        Err(()) => Err(invalid(place, BrokenRule::TYPE, "is an unknown type")),
    }
}

/// The data of the records of a set, in wire form; `None`: the field is absent.
pub fn read_records(
    set: &Value,
    rtype: Rtype,
    place: &str,
) -> Result<Option<Vec<Box<[u8]>>>, InvalidField> {
    let Some(records) = array(set, "records", place)? else { return Ok(None) };
    if records.len() > RECORDS_MAX {
        let what = format!("has {}: a set has at most {RECORDS_MAX}", records.len());
        return Err(invalid(format!("{place}records"), BrokenRule::LIMIT, what));
    }
    let mut data = Vec::with_capacity(records.len());
    for (number, record) in records.iter().enumerate() {
        let place = format!("{place}records[{number}].");
        if record.get("disabled").is_some_and(|disabled| *disabled != Value::Bool(false)) {
            let what =
                "has no counterpart: a record that is not served is not stored; leave it out";
            return Err(invalid(format!("{place}disabled"), BrokenRule::SET_RULES, what));
        }
        let field = format!("{place}content");
        data.push(read_content(text(record, "content", &place)?, rtype, &field)?);
    }
    let mut sorted: Vec<_> = data.iter().collect();
    sorted.sort_unstable();
    if let Some([twice, _]) = sorted.array_windows().find(|[one, next]| one == next) {
        let what = format!("{} is there twice", zonefile::data_text(rtype, twice));
        return Err(invalid(format!("{place}records"), BrokenRule::TWICE, what));
    }
    Ok(Some(data))
}

/// The data of one record, in wire form.
fn read_content(content: &str, rtype: Rtype, field: &str) -> Result<Box<[u8]>, InvalidField> {
    let wrong = |what: String| invalid(field, BrokenRule::DATA, what);
    let data = zonefile::read_data(rtype, content)
        .map_err(|fault| invalid(field, fault.rule, format!("{content:?}: {fault}")))?;
    let canonical = || zonefile::data_text(rtype, &data);
    if content.trim() != content {
        return Err(wrong(format!("{content:?} has blanks around it: write {:?}", canonical())));
    }
    let is_text = matches!(rtype, Rtype::TXT | Rtype::SPF);
    if is_text && !content.starts_with(['"', '\\']) {
        return Err(wrong(format!("{content:?} lacks quotes: write {}", canonical())));
    }
    let canonical = canonical();
    let lacks_dot = |(wanted, found): (&str, &str)| {
        wanted.len() > 1 && wanted.ends_with('.') && !found.ends_with('.')
    };
    let pairs = canonical.split_ascii_whitespace().zip(content.split_ascii_whitespace());
    if !is_text && pairs.into_iter().any(lacks_dot) {
        let what = format!("{content:?}: a name lacks its final dot: write {canonical:?}");
        return Err(invalid(field, BrokenRule::NAME, what));
    }
    Ok(data.into())
}

/// The comment of a set; `None`: the field is absent. An empty array removes it. Its account and
/// its time are not stored.
pub fn read_comment(set: &Value, place: &str) -> Result<Option<String>, InvalidField> {
    let Some(comments) = array(set, "comments", place)? else { return Ok(None) };
    match comments {
        [] => Ok(Some(String::new())),
        [comment] => {
            let place = format!("{place}comments[0].");
            Ok(Some(text(comment, "content", &place)?.to_owned()))
        }
        more => {
            let what = format!("has {}: a set has one comment", more.len());
            Err(invalid(format!("{place}comments"), BrokenRule::LIMIT, what))
        }
    }
}
