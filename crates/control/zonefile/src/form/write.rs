//! Writes fields as text.
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::string::String as Text;

use domain::utils::{base32, base64};
use wire::Rtype;

use super::FieldPattern::{self, *};
use crate::{bitmap, hex, time};

impl FieldPattern {
    /// Writes the field, which has exactly these bytes; `None` if it has no presentation form here.
    pub(super) fn write(self, field: &[u8], out: &mut Text) -> Option<()> {
        match self {
            Ipv4 => write!(out, "{}", Ipv4Addr::from(<[u8; 4]>::try_from(field).ok()?)).ok(),
            Ipv6 => write!(out, "{}", Ipv6Addr::from(<[u8; 16]>::try_from(field).ok()?)).ok(),
            Name(_) => write!(out, "{}", wire::Name::parse(field).ok()?).ok(),
            // Every reader knows an algorithm by its number.
            Number8(_) | Number16(_) | Number32(_) | Number64(_) | Seconds(_) | Mnemonic8(_)
            | Mnemonic16(_) => write!(out, "{}", number(field)).ok(),
            Time(_) => time::write(number(field), out),
            String(_) | MaybeString(_) | Strings => strings(field, out),
            Bytes(_) => quoted(field, out),
            Base64(_) => base64::display(field, out).ok(),
            Hex(_) => hex::write(field, out),
            Salt if field == [0] => out.write_str("-").ok(),
            Salt => hex::write(field.get(1..)?, out),
            Base32(_) => base32::display_hex(field.get(1..)?, out).ok(),
            Pairs(_) => groups(field, 1, '-', out),
            Groups => groups(field, 2, ':', out),
            Type => write!(out, "{}", Rtype(u16::try_from(number(field)).ok()?)).ok(),
            Types => bitmap::write(field, out),
            Location => None,
            Custom(custom) => (custom.write)(field, out),
        }
    }
}

/// A number of up to eight bytes.
fn number(field: &[u8]) -> u64 {
    field.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Writes character-strings in quotes.
pub(crate) fn strings(mut rest: &[u8], out: &mut Text) -> Option<()> {
    let mut blank = "";
    while let [len, behind @ ..] = rest {
        let (string, behind) = behind.split_at_checked(usize::from(*len))?;
        out.push_str(blank);
        quoted(string, out)?;
        (rest, blank) = (behind, " ");
    }
    Some(())
}

/// Writes bytes in quotes, with escapes (RFC 1035 §5.1).
fn quoted(bytes: &[u8], out: &mut Text) -> Option<()> {
    out.push('"');
    for byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => out.push(char::from(*byte)),
            _ => write!(out, "\\{byte:03}").ok()?,
        }
    }
    out.push('"');
    Some(())
}

/// Writes groups of bytes in hexadecimal digits.
fn groups(field: &[u8], len: usize, between: char, out: &mut Text) -> Option<()> {
    for (number, group) in field.chunks(len).enumerate() {
        out.extend((number > 0).then_some(between));
        group.iter().try_for_each(|byte| write!(out, "{byte:02x}")).ok()?;
    }
    Some(())
}
