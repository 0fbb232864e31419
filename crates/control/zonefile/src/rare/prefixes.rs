//! APL (RFC 3123 §5): `{[!]FAMILY:ADDRESS/PREFIX}*`.
use std::fmt::Write;
use std::net::IpAddr;

use super::CustomField;
use crate::fields::Fields;
use crate::report::{EntryError, quote};

/// The family, the prefix, and the length with the negation.
const HEAD_LEN: usize = 4;
const NEGATION: u8 = 0x80;

/// The data of an APL record, which may be empty.
pub(crate) const PREFIXES: CustomField = CustomField { read, len, write };

fn read(fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    while fields.peek().is_some() {
        let token = fields.token("a prefix")?;
        let raw = fields.raw(token);
        let item = std::str::from_utf8(raw).ok().and_then(item).ok_or_else(|| {
            let what = format!("{} is not a prefix such as 1:192.0.2.0/24", quote(raw));
            EntryError::new(token.start as usize, what)
                .help("write 1: before an IPv4 network, 2: before an IPv6 one, and ! to exclude it")
        })?;
        out.extend(item);
    }
    Ok(())
}

/// The wire form of one prefix.
fn item(text: &str) -> Option<Vec<u8>> {
    let (negation, text) = text.strip_prefix('!').map_or((0, text), |rest| (NEGATION, rest));
    let (family, network) = text.split_once(':')?;
    let (address, prefix) = network.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let (number, mut bytes) = match address {
        IpAddr::V4(ip) => (1_u16, ip.octets().to_vec()),
        IpAddr::V6(ip) => (2, ip.octets().to_vec()),
    };
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let prefix: u8 = prefix.parse().ok().filter(|_| is_number(prefix))?;
    if !is_number(family) || family.parse() != Ok(number) || usize::from(prefix) > 8 * bytes.len() {
        return None;
    }
    // Zero bytes at the end are left out (§4.1).
    bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
    let head = [number.to_be_bytes()[0], number.to_be_bytes()[1], prefix];
    Some([&head[..], &[negation | bytes.len() as u8], &bytes].concat())
}

/// One prefix.
struct Item<'d> {
    family: u16,
    prefix: u8,
    is_negated: bool,
    bytes: &'d [u8],
}

/// Splits the first prefix off.
fn split(data: &[u8]) -> Option<(Item<'_>, &[u8])> {
    let ([high, low, prefix, len], rest) = data.split_first_chunk::<HEAD_LEN>()?;
    let (bytes, rest) = rest.split_at_checked(usize::from(len & !NEGATION))?;
    if bytes.last() == Some(&0) {
        return None;
    }
    let (family, is_negated) = (u16::from_be_bytes([*high, *low]), len & NEGATION != 0);
    Some((Item { family, prefix: *prefix, is_negated, bytes }, rest))
}

fn len(data: &[u8]) -> Option<usize> {
    let mut rest = data;
    while !rest.is_empty() {
        let (Item { family, prefix, bytes, .. }, behind) = split(rest)?;
        let max = match family {
            1 => 4,
            2 => 16,
            _ => usize::from(u8::MAX),
        };
        if bytes.len() > max || usize::from(prefix) > 8 * max {
            return None;
        }
        rest = behind;
    }
    Some(data.len())
}

fn write(data: &[u8], out: &mut String) -> Option<()> {
    let mut rest = data;
    while !rest.is_empty() {
        let (Item { family, prefix, is_negated, bytes }, behind) = split(rest)?;
        let address = match family {
            1 => IpAddr::from(padded::<4>(bytes)?),
            2 => IpAddr::from(padded::<16>(bytes)?),
            _ => return None,
        };
        let blank = if rest.len() == data.len() { "" } else { " " };
        let not = if is_negated { "!" } else { "" };
        write!(out, "{blank}{not}{family}:{address}/{prefix}").ok()?;
        rest = behind;
    }
    Some(())
}

fn padded<const LEN: usize>(bytes: &[u8]) -> Option<[u8; LEN]> {
    let mut all = [0; LEN];
    all.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(all)
}
