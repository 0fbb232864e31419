//! A6 (RFC 2874 §3.1): `PREFIX-LENGTH [SUFFIX] [PREFIX-NAME]`.
use std::fmt::Write;
use std::net::Ipv6Addr;

use super::{CustomField, write_name};
use crate::fields::Fields;
use crate::form;
use crate::report::EntryError;

const BITS: usize = 128;

/// The data of an A6 record.
pub(crate) const A6: CustomField = CustomField { read, len, write };

/// Where the name of the prefix begins, at the end if there is none.
pub(crate) fn name_at(data: &[u8]) -> usize {
    let prefix = data.first().map_or(BITS, |len| usize::from(*len).min(BITS));
    (1 + suffix_len(prefix)).min(data.len())
}

fn suffix_len(prefix: usize) -> usize {
    16 - prefix / 8
}

/// Clears the bits of the prefix.
fn suffix(address: [u8; 16], prefix: usize) -> [u8; 16] {
    let mask = u128::MAX.checked_shr(prefix as u32).unwrap_or(0);
    (u128::from_be_bytes(address) & mask).to_be_bytes()
}

fn read(fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    let at = fields.here();
    let prefix = usize::from(fields.parse::<u8>("a prefix length (0 to 128)")?);
    if prefix > BITS {
        return Err(EntryError::new(at, "a prefix length is at most 128"));
    }
    out.push(prefix as u8);
    if prefix < BITS {
        let address = suffix(form::ipv6(fields)?.octets(), prefix);
        out.extend_from_slice(&address[prefix / 8..]);
    }
    if prefix > 0 {
        out.extend_from_slice(fields.name("the name of the prefix")?.as_name().as_bytes());
    }
    Ok(())
}

fn len(rest: &[u8]) -> Option<usize> {
    let prefix = usize::from(*rest.first()?);
    let end = 1 + suffix_len(Some(prefix).filter(|prefix| *prefix <= BITS)?);
    let address = rest.get(1..end)?;
    // The bits of the prefix in the first byte are zero.
    let is_clear = address.first().is_none_or(|byte| byte.leading_zeros() as usize >= prefix % 8);
    if !is_clear {
        return None;
    }
    match prefix {
        0 => Some(end),
        _ => Some(end + wire::Name::parse(&rest[end..]).ok()?.len()),
    }
}

fn write(field: &[u8], out: &mut String) -> Option<()> {
    let (prefix, name) = (usize::from(*field.first()?), name_at(field));
    write!(out, "{prefix}").ok()?;
    if prefix < BITS {
        let mut address = [0; 16];
        let bytes = field.get(1..name)?;
        address[16 - bytes.len()..].copy_from_slice(bytes);
        write!(out, " {}", Ipv6Addr::from(address)).ok()?;
    }
    if prefix > 0 {
        out.push(' ');
        write_name(&field[name..], out)?;
    }
    Some(())
}
