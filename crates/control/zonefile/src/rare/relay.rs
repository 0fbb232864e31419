//! The relay of AMTRELAY (RFC 8777 §4): `DISCOVERY TYPE RELAY`.
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::{CustomField, write_name};
use crate::fields::Fields;
use crate::form;
use crate::report::{EntryError, quote};

/// The D-bit; the other bits are the type of the relay.
const DISCOVERY: u8 = 0x80;

/// The discovery flag, the type and the relay.
pub(crate) const RELAY: CustomField = CustomField { read, len, write };

fn read(fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    let at = fields.here();
    let discovery = match fields.parse::<u8>("the discovery flag (0 or 1)")? {
        0 => 0,
        1 => DISCOVERY,
        _ => return Err(EntryError::new(at, "the discovery flag is 0 or 1")),
    };
    let at = fields.here();
    let kind = fields.parse::<u8>("a relay type (0 to 3)")?;
    out.push(discovery | kind);
    match kind {
        0 => {
            let token = fields.token("a relay: `.` for none")?;
            if fields.raw(token) != b"." {
                let what = format!("{}: a relay of type 0 is `.`", quote(fields.raw(token)));
                return Err(EntryError::new(token.start as usize, what));
            }
        }
        1 => out.extend(form::ipv4(fields)?.octets()),
        2 => out.extend(form::ipv6(fields)?.octets()),
        3 => out.extend_from_slice(fields.name("the name of a relay")?.as_name().as_bytes()),
        _ => {
            return Err(EntryError::new(at, format!("{kind} is not a relay type"))
                .help("the types are 0 to 3; write another one as `\\# LENGTH HEX`"));
        }
    }
    Ok(())
}

fn len(rest: &[u8]) -> Option<usize> {
    let (kind, relay) = rest.split_first()?;
    match kind & !DISCOVERY {
        0 => Some(1),
        1 => Some(5),
        2 => Some(17),
        3 => Some(1 + wire::Name::parse(relay).ok()?.len()),
        _ => Some(rest.len()),
    }
}

fn write(field: &[u8], out: &mut String) -> Option<()> {
    let (kind, relay) = field.split_first()?;
    let kind = kind & !DISCOVERY;
    write!(out, "{} {kind} ", u8::from(field[0] & DISCOVERY != 0)).ok()?;
    match kind {
        0 => out.write_str(".").ok(),
        1 => write!(out, "{}", Ipv4Addr::from(<[u8; 4]>::try_from(relay).ok()?)).ok(),
        2 => write!(out, "{}", Ipv6Addr::from(<[u8; 16]>::try_from(relay).ok()?)).ok(),
        3 => write_name(relay, out),
        _ => None,
    }
}
