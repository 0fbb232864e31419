//! Reads fields from text.
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use domain::base::scan::Scanner;
use domain::utils::{base32, base64::SymbolConverter};

use super::FieldPattern::{self, *};
use crate::fields::Fields;
use crate::report::{EntryError, quote};
use crate::{base64, bitmap, hex, location, time};

impl FieldPattern {
    /// Reads the field from text.
    pub(crate) fn read(self, fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
        match self {
            Ipv4 => out.extend(ipv4(fields)?.octets()),
            Ipv6 => out.extend(ipv6(fields)?.octets()),
            Name(what) => out.extend_from_slice(fields.name(what)?.as_name().as_bytes()),
            Number8(what) => out.extend(fields.parse::<u8>(what)?.to_be_bytes()),
            Number16(what) => out.extend(fields.parse::<u16>(what)?.to_be_bytes()),
            Number32(what) => out.extend(fields.parse::<u32>(what)?.to_be_bytes()),
            Number64(what) => out.extend(fields.parse::<u64>(what)?.to_be_bytes()),
            // The mnemonics have this maximum.
            Mnemonic8(names) => out.push(names.read(fields)? as u8),
            Mnemonic16(names) => out.extend(names.read(fields)?.to_be_bytes()),
            Seconds(what) => out.extend(fields.seconds(what)?.to_be_bytes()),
            Time(what) => out.extend(time::read(fields, what)?.to_be_bytes()),
            String(what) => fields.charstr(what, out)?,
            MaybeString(_) if fields.peek().is_none() => {}
            MaybeString(what) => fields.charstr(what, out)?,
            Strings => {
                fields.charstr("a string", out)?;
                while fields.peek().is_some() {
                    fields.charstr("a string", out)?;
                }
            }
            Bytes(what) => {
                let token = fields.token(what)?;
                fields.unescape(token, out)?;
            }
            Base64(what) if fields.peek().is_none() => fields.token(what).map(|_| ())?,
            Base64(_) => base_64(fields, out)?,
            Hex(what) => hex::read_rest(fields, what, out)?,
            Salt => salt(fields, out)?,
            Base32(what) => base_32(fields, what, out)?,
            Pairs(count) => groups(fields, b'-', count, 2, out)?,
            Groups => groups(fields, b':', 4, 4, out)?,
            Type => out.extend(bitmap::read_type(fields)?.0.to_be_bytes()),
            Types => bitmap::read(fields, out)?,
            Location => location::read(fields, out)?,
            Custom(field) => (field.read)(fields, out)?,
        }
        Ok(())
    }
}

pub(crate) fn ipv4(fields: &mut Fields<'_>) -> Result<Ipv4Addr, EntryError> {
    address(fields, "an IPv4 address", |raw| match raw.parse::<Ipv6Addr>() {
        Ok(_) => "an IPv6 address belongs in an AAAA record",
        Err(_) => "write four numbers from 0 to 255, as in 192.0.2.1",
    })
}

pub(crate) fn ipv6(fields: &mut Fields<'_>) -> Result<Ipv6Addr, EntryError> {
    address(fields, "an IPv6 address", |raw| match raw.parse::<Ipv4Addr>() {
        Ok(_) => "an IPv4 address belongs in an A record",
        Err(_) => "write groups of hexadecimal digits, as in 2001:db8::1",
    })
}

/// Takes an address; `help` explains a text that is not one.
fn address<T: FromStr>(
    fields: &mut Fields<'_>,
    what: &str,
    help: impl Fn(&str) -> &'static str,
) -> Result<T, EntryError> {
    let raw = fields.peek().map(|token| fields.raw(token)).unwrap_or_default();
    fields
        .parse(what)
        .map_err(|fault| fault.help(help(std::str::from_utf8(raw).unwrap_or_default())))
}

/// Takes base 64 to the end of the entry.
pub(crate) fn base_64(fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    let bytes = fields.convert_entry(SymbolConverter::new());
    out.extend(bytes.map_err(|fault| fields.locate(fault))?);
    base64::check_rest(fields)
}

/// Takes a salt.
fn salt(fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    let token = fields.token("a salt, or `-` for none")?;
    let mut salt = Vec::new();
    if fields.raw(token) != b"-" {
        hex::append(fields, token, &mut salt)?;
    }
    counted(token.start as usize, "a salt", &salt, out)
}

/// Takes a field of base 32.
fn base_32(fields: &mut Fields<'_>, what: &str, out: &mut Vec<u8>) -> Result<(), EntryError> {
    if fields.peek().is_none() {
        return fields.token(what).map(|_| ());
    }
    let at = fields.here();
    let bytes = fields.convert_token(base32::SymbolConverter::new());
    let bytes = bytes.map_err(|fault| fields.locate(fault))?;
    counted(at, what, &bytes, out)
}

/// Appends bytes with their number before them.
fn counted(at: usize, what: &str, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), EntryError> {
    let len = u8::try_from(bytes.len()).map_err(|_| {
        EntryError::new(at, format!("{what} has at most 255 bytes, this has {}", bytes.len()))
    })?;
    out.push(len);
    out.extend_from_slice(bytes);
    Ok(())
}

/// Takes `count` groups of `digits` hexadecimal digits, separated by `between`.
fn groups(
    fields: &mut Fields<'_>,
    between: u8,
    count: usize,
    digits: usize,
    out: &mut Vec<u8>,
) -> Result<(), EntryError> {
    let token = fields.token("hexadecimal digits")?;
    let raw = fields.raw(token);
    let start = out.len();
    for group in raw.split(|&byte| byte == between) {
        let value = std::str::from_utf8(group).ok().filter(|text| {
            text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        let Some(value) = value.and_then(|text| u16::from_str_radix(text, 16).ok()) else {
            break;
        };
        out.extend_from_slice(&value.to_be_bytes()[2 - digits / 2..]);
    }
    let groups = raw.split(|&byte| byte == between).count();
    if groups != count || out.len() - start != count * digits / 2 {
        let between = char::from(between);
        let what =
            format!("{} is not {count} times {digits} digits separated by `{between}`", quote(raw));
        return Err(EntryError::new(token.start as usize, what));
    }
    Ok(())
}
