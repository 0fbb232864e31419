//! Hexadecimal digits.
use std::fmt::Write;

use crate::fields::Fields;
use crate::lex::Token;
use crate::report::{EntryError, quote};

/// Takes hexadecimal digits to the end of the entry; blanks may be anywhere between them.
pub(crate) fn read_rest(
    fields: &mut Fields<'_>,
    what: &str,
    out: &mut Vec<u8>,
) -> Result<(), EntryError> {
    let at = fields.here();
    fields.rest_at = Some(fields.taken());
    let mut half = None;
    loop {
        let token = fields.token(what)?;
        half = digits(fields, token, half, out)?;
        if fields.peek().is_none() {
            return even(at, half);
        }
    }
}

/// Appends the bytes of one field.
pub(crate) fn append(
    fields: &Fields<'_>,
    token: Token,
    out: &mut Vec<u8>,
) -> Result<(), EntryError> {
    even(token.start as usize, digits(fields, token, None, out)?)
}

/// Appends the bytes of a field's digits. `half` is a digit before it without its second one; this
/// returns the one at its end.
pub(crate) fn digits(
    fields: &Fields<'_>,
    token: Token,
    mut half: Option<u8>,
    out: &mut Vec<u8>,
) -> Result<Option<u8>, EntryError> {
    for (i, &byte) in fields.raw(token).iter().enumerate() {
        let at = token.start as usize + i;
        let digit = char::from(byte).to_digit(16).ok_or_else(|| {
            EntryError::new(at, format!("{} is not a hexadecimal digit", quote(&[byte])))
        })? as u8;
        match half.take() {
            None => half = Some(digit),
            Some(high) => out.push(high << 4 | digit),
        }
    }
    Ok(half)
}

/// Checks that no digit is left.
pub(crate) fn even(at: usize, half: Option<u8>) -> Result<(), EntryError> {
    match half {
        None => Ok(()),
        Some(_) => Err(EntryError::new(at, "the number of hexadecimal digits is odd")),
    }
}

/// Writes bytes as digits in upper case.
pub(crate) fn write(bytes: &[u8], out: &mut String) -> Option<()> {
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02X}")).ok()
}
