//! WKS (RFC 1035 §3.4.2): `ADDRESS PROTOCOL [PORT…]`.
use std::fmt::Write;
use std::net::Ipv4Addr;

use super::CustomField;
use crate::fields::Fields;
use crate::form;
use crate::mnemonics::{PROTOCOLS, SERVICES as NAMES};
use crate::report::EntryError;

/// The address and the protocol.
const HEAD_LEN: usize = 5;
/// Bytes of the bits of all ports.
const BITS_LEN_MAX: usize = 1 << 13;

/// The data of a WKS record.
pub(crate) const SERVICES: CustomField = CustomField { read, len, write };

fn read(fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    out.extend(form::ipv4(fields)?.octets());
    out.push(PROTOCOLS.read(fields)? as u8);
    let mut bits = Vec::new();
    while fields.peek().is_some() {
        let port = usize::from(NAMES.read(fields)?);
        if bits.len() <= port / 8 {
            bits.resize(port / 8 + 1, 0);
        }
        bits[port / 8] |= 0x80_u8 >> (port % 8);
    }
    out.extend(bits);
    Ok(())
}

fn len(rest: &[u8]) -> Option<usize> {
    let bits = rest.get(HEAD_LEN..)?;
    let is_valid = bits.len() <= BITS_LEN_MAX && bits.last() != Some(&0);
    is_valid.then_some(rest.len())
}

fn write(field: &[u8], out: &mut String) -> Option<()> {
    let ([a, b, c, d, protocol], bits) = field.split_first_chunk::<HEAD_LEN>()?;
    write!(out, "{} {protocol}", Ipv4Addr::new(*a, *b, *c, *d)).ok()?;
    for port in (0..8 * bits.len()).filter(|port| bits[port / 8] & (0x80 >> (port % 8)) != 0) {
        write!(out, " {port}").ok()?;
    }
    Some(())
}
