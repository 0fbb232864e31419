//! Record types in record data: one (RRSIG, DSYNC), or a bitmap (RFC 4034 §4.1.2, RFC 2535 §5.2).
use std::fmt::Write;

use wire::Rtype;

use crate::fields::Fields;
use crate::report::{EntryError, quote};

/// Bytes of a window's bits.
const WINDOW_LEN_MAX: usize = 32;
/// Bytes of the bitmap of NXT, which has no windows.
const PLAIN_LEN_MAX: usize = 16;

/// Takes one type, a mnemonic or `TYPEnnn`.
pub(crate) fn read_type(fields: &mut Fields<'_>) -> Result<Rtype, EntryError> {
    let token = fields.token("a record type")?;
    let raw = fields.raw(token);
    let read = std::str::from_utf8(raw).ok().and_then(|text| text.parse().ok());
    read.ok_or_else(|| {
        let what = format!("{} is not a record type", quote(raw));
        EntryError::new(token.start as usize, what).help("write an unknown type as TYPEnnn")
    })
}

/// Takes types to the end of the entry, in any order; appends their windows.
pub(crate) fn read(fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    let mut types = Vec::new();
    while fields.peek().is_some() {
        types.push(read_type(fields)?.0);
    }
    types.sort_unstable();
    types.dedup();
    for window in types.chunk_by(|a, b| a >> 8 == b >> 8) {
        let mut bits = [0_u8; WINDOW_LEN_MAX];
        let mut len = 0;
        for rtype in window {
            let low = usize::from(*rtype as u8);
            bits[low / 8] |= 0x80 >> (low % 8);
            len = low / 8 + 1;
        }
        out.extend([(window[0] >> 8) as u8, len as u8]);
        out.extend_from_slice(&bits[..len]);
    }
    Ok(())
}

/// Whether the bytes are windows in ascending order, without a final zero byte in one.
pub(crate) fn is_valid(mut rest: &[u8]) -> bool {
    let mut last = None;
    while let [window, len, behind @ ..] = rest {
        let len = usize::from(*len);
        if last.is_some_and(|last| last >= *window) || !(1..=WINDOW_LEN_MAX).contains(&len) {
            return false;
        }
        match behind.split_at_checked(len) {
            Some((bits, behind)) if bits[len - 1] != 0 => rest = behind,
            _ => return false,
        }
        last = Some(*window);
    }
    rest.is_empty()
}

/// The types of valid windows, in ascending order.
pub fn types(mut rest: &[u8]) -> impl Iterator<Item = Rtype> {
    let mut found: Vec<Rtype> = Vec::new();
    while let [window, len, behind @ ..] = rest {
        let Some((bits, behind)) = behind.split_at_checked(usize::from(*len)) else { break };
        let high = u16::from(*window) << 8;
        found.extend(set_bits(bits).map(|low| Rtype(high | low)));
        rest = behind;
    }
    found.into_iter()
}

fn set_bits(bits: &[u8]) -> impl Iterator<Item = u16> {
    let all = 0..8 * bits.len() as u16;
    all.filter(|bit| bits[usize::from(bit / 8)] & (0x80 >> (bit % 8)) != 0)
}

/// Writes the types with blanks between them.
pub(crate) fn write(data: &[u8], out: &mut String) -> Option<()> {
    write_types(types(data), out)
}

fn write_types(types: impl Iterator<Item = Rtype>, out: &mut String) -> Option<()> {
    for (number, rtype) in types.enumerate() {
        let blank = if number == 0 { "" } else { " " };
        write!(out, "{blank}{rtype}").ok()?;
    }
    Some(())
}

/// Takes the types of an NXT record, all below 128.
pub(crate) fn read_plain(fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    let mut bits = [0_u8; PLAIN_LEN_MAX];
    let mut len = 0;
    while fields.peek().is_some() {
        let at = fields.here();
        let number = usize::from(read_type(fields)?.0);
        let Some(byte) = bits.get_mut(number / 8) else {
            return Err(EntryError::new(at, "an NXT record lists types below 128 only"));
        };
        *byte |= 0x80 >> (number % 8);
        len = len.max(number / 8 + 1);
    }
    out.extend_from_slice(&bits[..len]);
    Ok(())
}

/// The length of such types; `None` if invalid.
pub(crate) fn plain_len(rest: &[u8]) -> Option<usize> {
    let is_valid = rest.len() <= PLAIN_LEN_MAX && rest.last() != Some(&0);
    is_valid.then_some(rest.len())
}

/// Writes such types.
pub(crate) fn write_plain(data: &[u8], out: &mut String) -> Option<()> {
    write_types(set_bits(data).map(Rtype), out)
}
