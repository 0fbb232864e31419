//! GPOS (RFC 1712 §3): longitude, latitude and altitude as decimal numbers in strings.
use super::CustomField;
use crate::fields::Fields;
use crate::form;
use crate::report::{EntryError, quote};

/// What each string is, and the limit of its value.
const PARTS: [(&str, f64); 3] = [
    ("a longitude in degrees", 180.0),
    ("a latitude in degrees", 180.0),
    ("an altitude in metres", f64::MAX),
];

/// The data of a GPOS record. RFC 1712's own example has the latitude first, so the first two have
/// the wider limit.
pub(crate) const POSITION: CustomField = CustomField { read, len, write: form::write_strings };

fn read(fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    for (what, max) in PARTS {
        let at = fields.here();
        let raw = fields.peek().map(|token| fields.raw(token)).unwrap_or_default();
        let start = out.len() + 1;
        fields.charstr(what, out)?;
        if !is_number(&out[start..], max) {
            return Err(EntryError::new(at, format!("{} is not {what}", quote(raw))));
        }
    }
    Ok(())
}

fn is_number(text: &[u8], max: f64) -> bool {
    let is_decimal = text.iter().all(|byte| byte.is_ascii_digit() || b"+-.".contains(byte));
    let number = std::str::from_utf8(text).ok().filter(|_| is_decimal);
    number.and_then(|text| text.parse::<f64>().ok()).is_some_and(|number| number.abs() <= max)
}

fn len(rest: &[u8]) -> Option<usize> {
    let mut at = 0;
    for (_, max) in PARTS {
        let end = at + 1 + usize::from(*rest.get(at)?);
        let text = rest.get(at + 1..end)?;
        if !is_number(text, max) {
            return None;
        }
        at = end;
    }
    Some(at)
}
