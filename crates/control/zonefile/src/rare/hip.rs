//! HIP (RFC 8005 §5): `ALGORITHM HIT KEY [SERVER…]`.
use std::fmt::Write;

use domain::base::scan::Scanner;
use domain::utils::base64;
use domain::utils::base64::SymbolConverter;

use super::{CustomField, write_name};
use crate::fields::Fields;
use crate::hex;
use crate::report::EntryError;

/// The length of the HIT, the algorithm, the length of the key.
const HEAD_LEN: usize = 4;

/// The data of a HIP record.
pub(crate) const HOST_IDENTITY: CustomField = CustomField { read, len, write };

fn read(fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    let algorithm: u8 = fields.parse("a key algorithm (0 to 255)")?;
    let token = fields.token("a host identity tag")?;
    let mut tag = Vec::new();
    hex::append(fields, token, &mut tag)?;
    let tag_len = u8::try_from(tag.len()).map_err(|_| {
        EntryError::new(token.start as usize, "a host identity tag has at most 255 bytes")
    })?;
    let at = fields.here();
    if fields.peek().is_none() {
        return fields.token("a public key").map(|_| ());
    }
    let key = fields.convert_token(SymbolConverter::new());
    let key = key.map_err(|fault| fields.locate(fault))?;
    let key_len = u16::try_from(key.len())
        .map_err(|_| EntryError::new(at, "a public key has at most 65535 bytes"))?;
    out.extend([tag_len, algorithm]);
    out.extend(key_len.to_be_bytes());
    out.extend([tag, key].concat());
    while fields.peek().is_some() {
        out.extend_from_slice(fields.name("a rendezvous server")?.as_name().as_bytes());
    }
    Ok(())
}

/// The tag, the key and the names.
fn parts(data: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let ([tag_len, _, high, low], rest) = data.split_first_chunk::<HEAD_LEN>()?;
    let (tag, rest) = rest.split_at_checked(usize::from(*tag_len))?;
    let (key, names) = rest.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))?;
    (!tag.is_empty() && !key.is_empty()).then_some((tag, key, names))
}

/// Splits the first name off.
fn first_name(names: &[u8]) -> Option<(&[u8], &[u8])> {
    names.split_at_checked(wire::Name::parse(names).ok()?.len())
}

fn len(rest: &[u8]) -> Option<usize> {
    let (_, _, mut names) = parts(rest)?;
    while !names.is_empty() {
        (_, names) = first_name(names)?;
    }
    Some(rest.len())
}

fn write(field: &[u8], out: &mut String) -> Option<()> {
    let (tag, key, mut names) = parts(field)?;
    write!(out, "{} ", field[1]).ok()?;
    hex::write(tag, out)?;
    out.push(' ');
    base64::display(key, out).ok()?;
    while !names.is_empty() {
        let (name, behind) = first_name(names)?;
        out.push(' ');
        write_name(name, out)?;
        names = behind;
    }
    Some(())
}
