//! Fields that one type has alone.
pub(crate) mod a6;
mod atm;
mod hip;
mod position;
mod prefixes;
mod relay;
mod services;

pub(crate) use a6::A6;
pub(crate) use atm::{ATM, NSAP};
pub(crate) use hip::HOST_IDENTITY;
pub(crate) use position::POSITION;
pub(crate) use prefixes::PREFIXES;
pub(crate) use relay::RELAY;
pub(crate) use services::SERVICES;

use domain::utils::base64;
use std::fmt::Write;

use crate::fields::Fields;
use crate::report::EntryError;
use crate::{bitmap, form};

/// How to read, measure and write a field. Each is the last one of its type.
pub(crate) struct CustomField {
    /// Takes the field, and appends its data.
    pub read: fn(&mut Fields<'_>, &mut Vec<u8>) -> Result<(), EntryError>,
    /// Its length; `None` if the data is invalid.
    pub len: fn(&[u8]) -> Option<usize>,
    /// Writes it; `None` if it has no presentation form.
    pub write: fn(&[u8], &mut String) -> Option<()>,
}

/// The types of NXT (RFC 2535 §5.2).
pub(crate) const PLAIN_TYPES: CustomField =
    CustomField { read: bitmap::read_plain, len: bitmap::plain_len, write: bitmap::write_plain };

/// The object of DOA, which may be empty (draft-durand-doa-over-dns §3.3).
pub(crate) const OBJECT: CustomField = CustomField {
    read: |fields, out| match fields.peek() {
        Some(token) if fields.raw(token) == b"-" => fields.token("data").map(|_| ()),
        None => fields.token("base 64, or `-` for no data").map(|_| ()),
        Some(_) => form::base_64(fields, out),
    },
    len: |rest| Some(rest.len()),
    write: |field, out| match field {
        [] => out.write_str("-").ok(),
        _ => base64::display(field, out).ok(),
    },
};

/// Writes a name that is all that is left.
fn write_name(field: &[u8], out: &mut String) -> Option<()> {
    let name = wire::Name::parse(field).ok().filter(|name| name.len() == field.len())?;
    write!(out, "{name}").ok()
}

#[cfg(test)]
mod tests;
