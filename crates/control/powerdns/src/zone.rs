//! `POST` and `PUT` of zones, and their names in paths.
use crate::content::{read_comment, read_records, read_type};
use crate::fields::{SetId, array, invalid, name, owner, set_id, text, ttl};
use model::{BrokenRule, Edit, InvalidField, SetValue};
use serde_json::Value;
use std::collections::HashSet;
use wire::{Name, NameBuf, Rtype};

/// The TTL of the NS set that `nameservers` makes.
const NS_TTL: u32 = 3600;

/// A new zone.
#[derive(Clone, Debug)]
pub struct NewZone {
    /// Its name.
    pub origin: NameBuf,
    /// Its sets.
    pub edits: Vec<Edit>,
}

/// Parses the body of a `POST` of a zone.
///
/// # Errors
/// The first field that is invalid.
pub fn read_new_zone(body: &Value) -> Result<NewZone, InvalidField> {
    let origin = name(text(body, "name", "")?, "name")?;
    text(body, "kind", "")?;
    check_kind(body)?;
    if body.get("zone").and_then(Value::as_str).is_some_and(|zone| !zone.is_empty()) {
        let what = "is not read: send `rrsets`, or import the file with `dunlin records import`";
        return Err(invalid("zone", BrokenRule::NOT_YET, what));
    }
    let (mut edits, mut seen) = (Vec::<Edit>::new(), HashSet::<SetId>::new());
    for (number, set) in array(body, "rrsets", "")?.unwrap_or_default().iter().enumerate() {
        let place = format!("rrsets[{number}].");
        let edit = read_set(set, origin.as_name(), &place)?;
        if !seen.insert(set_id(edit.name.as_name(), edit.rtype)) {
            let what = format!("has {} {} a second time", edit.name, edit.rtype);
            return Err(invalid(place.trim_end_matches('.'), BrokenRule::TWICE, what));
        }
        edits.push(edit);
    }
    let servers = read_servers(body)?;
    if !servers.is_empty() && seen.contains(&set_id(origin.as_name(), Rtype::NS)) {
        let what = "stands beside NS records of the apex in `rrsets`: send one of them";
        return Err(invalid("nameservers", BrokenRule::TWICE, what));
    }
    if !servers.is_empty() {
        edits.push(Edit::put(origin.clone(), Rtype::NS, SetValue::new(NS_TTL, servers)));
    }
    Ok(NewZone { origin, edits })
}

fn read_set(set: &Value, origin: Name<'_>, place: &str) -> Result<Edit, InvalidField> {
    let name = owner(text(set, "name", place)?, origin, &format!("{place}name"))?;
    let rtype = read_type(text(set, "type", place)?, &format!("{place}type"))?;
    let Some(data) = read_records(set, rtype, place)?.filter(|data| !data.is_empty()) else {
        let what = "is missing: a set has at least one record";
        return Err(invalid(format!("{place}records"), BrokenRule::SYNTAX, what));
    };
    let mut value = SetValue::new(ttl(set, place)?, data);
    if let Some(comment) = read_comment(set, place)? {
        value.policy = value.policy.with_comment(&comment);
    }
    Ok(Edit::put(name, rtype, value))
}

fn read_servers(body: &Value) -> Result<Vec<Box<[u8]>>, InvalidField> {
    let mut servers = Vec::new();
    for (number, server) in array(body, "nameservers", "")?.unwrap_or_default().iter().enumerate() {
        let place = format!("nameservers[{number}]");
        let text = server
            .as_str()
            .ok_or_else(|| invalid(&*place, BrokenRule::SYNTAX, "is not a string"))?;
        servers.push(name(text, &place)?.as_name().as_bytes().into());
    }
    Ok(servers)
}

/// Refuses what a zone of the store cannot be: the copy of another server's, or signed.
///
/// # Errors
/// The field, and what to do.
pub fn check_kind(body: &Value) -> Result<(), InvalidField> {
    let kind = body.get("kind").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
    if !matches!(&*kind, "" | "native" | "master" | "primary") {
        let what = format!("{kind:?} is none of Native and Master: the zone is written here");
        return Err(invalid("kind", BrokenRule::NOT_YET, what));
    }
    if body.get("dnssec") == Some(&Value::Bool(true)) {
        let what = "is not yet there (21.5): Dunlin serves zones that are signed elsewhere";
        return Err(invalid("dnssec", BrokenRule::NOT_YET, what));
    }
    Ok(())
}

/// Parses the name of a zone in a path: with or without the final dot, with bytes as `=2F`.
///
/// # Errors
/// It is not a name.
pub fn read_zone_id(id: &str) -> Result<NameBuf, InvalidField> {
    let mut text = String::with_capacity(id.len());
    let mut rest = id;
    while let Some((before, after)) = rest.split_once('=') {
        text.push_str(before);
        let byte = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte.filter(u8::is_ascii) {
            Some(byte) => {
                text.push(byte.into());
                rest = &after[2..];
            }
            None => {
                text.push('=');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    let mut origin = zonefile::read_name(&text)
        .map_err(|fault| invalid("zone", BrokenRule::NAME, fault.to_string()))?;
    origin.make_lowercase();
    Ok(origin)
}

/// Parses the query parameter `zone` of the list of zones.
///
/// # Errors
/// It is not a name with its final dot.
pub fn read_zone_filter(text: &str) -> Result<NameBuf, InvalidField> {
    name(text, "zone")
}
