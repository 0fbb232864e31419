//! Addresses of other networks: NSAP (RFC 1706 §5) and ATMA (the ATM Forum's "ATM Name System").
use std::fmt::Write;

use super::CustomField;
use crate::fields::Fields;
use crate::hex;
use crate::lex::Token;
use crate::report::{EntryError, quote};

/// Digits in upper case after `0x`, with dots anywhere.
pub(crate) const NSAP: CustomField = CustomField {
    read: read_nsap,
    len: |rest| (!rest.is_empty()).then_some(rest.len()),
    write: |field, out| {
        out.write_str("0x").ok()?;
        hex::write(field, out)
    },
};

fn read_nsap(fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    let what = "an NSAP address such as 0x47.0005.80";
    let token = fields.token(what)?;
    let raw = fields.raw(token);
    if !raw.get(..2).is_some_and(|start| start.eq_ignore_ascii_case(b"0x")) || raw.len() == 2 {
        return Err(EntryError::new(token.start as usize, format!("{} is not {what}", quote(raw))));
    }
    dotted(fields, Token { start: token.start + 2, ..token }, out)
}

/// Appends the bytes of hexadecimal digits with dots between them.
fn dotted(fields: &Fields<'_>, token: Token, out: &mut Vec<u8>) -> Result<(), EntryError> {
    let (mut start, mut half) = (token.start, None);
    for part in fields.raw(token).split(|byte| *byte == b'.') {
        let end = start + part.len() as u32;
        half = hex::digits(fields, Token { start, end, ..token }, half, out)?;
        start = end + 1;
    }
    hex::even(token.start as usize, half)
}

/// The format of an ATM address: an AESA, or an E.164 number.
const AESA: u8 = 0;
const NUMBER: u8 = 1;

/// Hexadecimal digits with dots, or `+` and decimal digits.
pub(crate) const ATM: CustomField = CustomField {
    read: |fields, out| {
        let token = fields.token("an ATM address")?;
        match fields.raw(token).strip_prefix(b"+") {
            Some(number) if !number.is_empty() && number.iter().all(u8::is_ascii_digit) => {
                out.push(NUMBER);
                out.extend_from_slice(number);
                Ok(())
            }
            Some(_) => {
                let what = format!("{} is not a telephone number", quote(fields.raw(token)));
                Err(EntryError::new(token.start as usize, what))
            }
            None => {
                out.push(AESA);
                dotted(fields, token, out)
            }
        }
    },
    len: |rest| match rest {
        [AESA, _, ..] => Some(rest.len()),
        [NUMBER, number @ ..] if !number.is_empty() => {
            number.iter().all(u8::is_ascii_digit).then_some(rest.len())
        }
        _ => None,
    },
    write: |field, out| match field.split_first()? {
        (&NUMBER, number) => {
            out.push('+');
            out.extend(number.iter().map(|digit| char::from(*digit)));
            Some(())
        }
        (_, address) => hex::write(address, out),
    },
};
