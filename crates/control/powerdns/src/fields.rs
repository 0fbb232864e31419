//! Fields of JSON objects, as `PowerDNS` reads them.
use model::{BrokenRule, InvalidField};
use serde_json::Value;
use wire::{Name, NameBuf, Rtype};

/// An invalid field.
pub fn invalid(
    field: impl Into<String>,
    rule: BrokenRule,
    what: impl Into<String>,
) -> InvalidField {
    InvalidField { field: field.into(), rule, what: what.into() }
}

/// A text that must be there.
pub fn text<'v>(body: &'v Value, key: &str, place: &str) -> Result<&'v str, InvalidField> {
    body.get(key).and_then(Value::as_str).ok_or_else(|| {
        invalid(format!("{place}{key}"), BrokenRule::SYNTAX, "is missing, or is not a string")
    })
}

/// An array; `None`: absent or null.
pub fn array<'v>(
    body: &'v Value,
    key: &str,
    place: &str,
) -> Result<Option<&'v [Value]>, InvalidField> {
    match body.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(_) => Err(invalid(format!("{place}{key}"), BrokenRule::SYNTAX, "is not an array")),
    }
}

/// The TTL of a set: a number, or its digits in a string.
pub fn ttl(body: &Value, place: &str) -> Result<u32, InvalidField> {
    let wrong = |what: &str| invalid(format!("{place}ttl"), BrokenRule::TTL, what);
    let number = match body.get("ttl") {
        Some(Value::Number(number)) => number.as_u64(),
        Some(Value::String(digits)) => digits.parse().ok(),
        _ => return Err(wrong("is missing, or is not an integer")),
    };
    let ttl = number.and_then(|number| u32::try_from(number).ok());
    ttl.filter(|ttl| *ttl <= model::TTL_MAX)
        .ok_or_else(|| wrong("is not a number of seconds from 0 to 2147483647"))
}

/// An absolute name with its final dot, in lower case.
pub fn name(text: &str, place: &str) -> Result<NameBuf, InvalidField> {
    let wrong = |what: String| invalid(place, BrokenRule::NAME, what);
    let mut name = zonefile::read_name(text).map_err(|fault| wrong(fault.to_string()))?;
    if !text.ends_with('.') {
        return Err(wrong(format!("{text:?} is not canonical: it lacks the final dot")));
    }
    name.make_lowercase();
    Ok(name)
}

/// The owner of a set of a zone.
pub fn owner(text: &str, zone: Name<'_>, place: &str) -> Result<NameBuf, InvalidField> {
    let owner = name(text, place)?;
    if owner.as_name().is_within(zone) {
        return Ok(owner);
    }
    let what = format!("{owner} is out of the zone {zone}");
    Err(invalid(place, BrokenRule::OUT_OF_ZONE, what))
}

/// A set of a request: the owner in lower case, and the type.
pub type SetId = (Box<[u8]>, Rtype);

/// Which set it is.
pub fn set_id(name: Name<'_>, rtype: Rtype) -> SetId {
    (name.as_bytes().into(), rtype)
}
