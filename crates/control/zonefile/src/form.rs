//! Types whose data is a sequence of simple fields: how to parse each field, and how long it is on
//! the wire.
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use domain::base::scan::Scanner;
use domain::rdata::dnssec::RtypeBitmap;
use domain::utils::base64::SymbolConverter;
use wire::Rtype;

use crate::base64;
use crate::fields::Fields;
use crate::location;
use crate::report::{EntryError, quote};

/// A field of record data. The text names it in errors.
#[derive(Clone, Copy)]
pub(crate) enum FieldPattern {
    Ipv4,
    Ipv6,
    Name(&'static str),
    Number8(&'static str),
    Number16(&'static str),
    Number32(&'static str),
    /// Seconds with or without units, 32 bits.
    Seconds(&'static str),
    /// A character-string (RFC 1035 §3.3).
    String(&'static str),
    /// One or more character-strings to the end.
    Strings,
    /// The bytes of one field, to the end.
    Bytes(&'static str),
    /// Base 64 to the end.
    Base64(&'static str),
    /// This many bytes as pairs of hexadecimal digits separated by `-` (RFC 7043).
    Pairs(usize),
    /// 64 bits as four groups of hexadecimal digits separated by `:` (RFC 6742 §2.1.1).
    Groups,
    /// A certificate's type, a number or a mnemonic (RFC 4398 §2.1).
    CertificateType,
    /// Record types to the end (RFC 4034 §4.1.2).
    Types,
    /// A geographic location (RFC 1876).
    Location,
}

use FieldPattern::*;

/// The fields of a type's data; empty for types with another form.
pub(crate) const fn form(rtype: Rtype) -> &'static [FieldPattern] {
    match rtype {
        Rtype::A => &[Ipv4],
        Rtype::AAAA => &[Ipv6],
        Rtype::NS | Rtype::CNAME | Rtype::PTR | Rtype::DNAME => &[Name("a name")],
        Rtype::MD | Rtype::MF | Rtype::MB | Rtype::MG | Rtype::MR => &[Name("a name")],
        Rtype::MX | Rtype::AFSDB | Rtype::RT | Rtype::KX | Rtype::LP => {
            &[Number16("a number up to 65535"), Name("a name")]
        }
        Rtype::PX => &[Number16("a preference (0 to 65535)"), Name("a name"), Name("a name")],
        Rtype::SRV => &[
            Number16("a priority (0 to 65535)"),
            Number16("a weight (0 to 65535)"),
            Number16("a port (0 to 65535)"),
            Name("the name of a host"),
        ],
        Rtype::SOA => &[
            Name("the name of the primary server"),
            Name("the mail address of the person responsible"),
            Number32("a serial (0 to 4294967295)"),
            Seconds("a refresh time"),
            Seconds("a retry time"),
            Seconds("an expire time"),
            Seconds("a minimum TTL"),
        ],
        Rtype::TXT | Rtype::SPF => &[Strings],
        Rtype::HINFO => &[String("the kind of processor"), String("the operating system")],
        Rtype::RP | Rtype::MINFO => &[Name("a mail address"), Name("a name")],
        Rtype::NAPTR => &[
            Number16("an order (0 to 65535)"),
            Number16("a preference (0 to 65535)"),
            String("the flags"),
            String("the services"),
            String("a regular expression"),
            Name("a name"),
        ],
        Rtype::URI => &[
            Number16("a priority (0 to 65535)"),
            Number16("a weight (0 to 65535)"),
            Bytes("a URI"),
        ],
        Rtype::CERT => &[
            CertificateType,
            Number16("a key tag (0 to 65535)"),
            Number8("an algorithm (0 to 255)"),
            Base64("a certificate"),
        ],
        Rtype::LOC => &[Location],
        Rtype::EUI48 => &[Pairs(6)],
        Rtype::EUI64 => &[Pairs(8)],
        Rtype::NID | Rtype::L64 => &[Number16("a preference (0 to 65535)"), Groups],
        Rtype::L32 => &[Number16("a preference (0 to 65535)"), Ipv4],
        Rtype::CSYNC => {
            &[Number32("a serial (0 to 4294967295)"), Number16("flags (0 to 65535)"), Types]
        }
        _ => &[],
    }
}

/// Whether `rdata` has exactly these fields.
pub(crate) fn fits(form: &[FieldPattern], rdata: &[u8]) -> bool {
    let mut rest = rdata;
    for part in form {
        match part.len(rest).and_then(|len| rest.get(len..)) {
            Some(behind) => rest = behind,
            None => return false,
        }
    }
    rest.is_empty()
}

impl FieldPattern {
    /// Parses the field from text.
    pub(crate) fn read(self, fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
        match self {
            Ipv4 => {
                let help = |raw: &str| match raw.parse::<Ipv6Addr>() {
                    Ok(_) => "an IPv6 address belongs in an AAAA record",
                    Err(_) => "write four numbers from 0 to 255, as in 192.0.2.1",
                };
                out.extend(address::<Ipv4Addr>(fields, "an IPv4 address", help)?.octets());
            }
            Ipv6 => {
                let help = |raw: &str| match raw.parse::<Ipv4Addr>() {
                    Ok(_) => "an IPv4 address belongs in an A record",
                    Err(_) => "write groups of hexadecimal digits, as in 2001:db8::1",
                };
                out.extend(address::<Ipv6Addr>(fields, "an IPv6 address", help)?.octets());
            }
            Name(what) => out.extend_from_slice(fields.name(what)?.as_name().as_bytes()),
            Number8(what) => out.extend(fields.parse::<u8>(what)?.to_be_bytes()),
            Number16(what) => out.extend(fields.parse::<u16>(what)?.to_be_bytes()),
            Number32(what) => out.extend(fields.parse::<u32>(what)?.to_be_bytes()),
            Seconds(what) => out.extend(fields.seconds(what)?.to_be_bytes()),
            String(what) => fields.charstr(what, out)?,
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
            Base64(_) => {
                let bytes = fields.convert_entry(SymbolConverter::new());
                out.extend(bytes.map_err(|fault| fields.locate(fault))?);
                base64::check_rest(fields)?;
            }
            Pairs(count) => hexadecimal(fields, b'-', count, 2, out)?,
            Groups => hexadecimal(fields, b':', 4, 4, out)?,
            CertificateType => certificate_type(fields, out)?,
            Types => {
                let types = RtypeBitmap::scan(fields).map_err(|fault| fields.locate(fault))?;
                out.extend_from_slice(types.as_slice());
            }
            Location => location::read(fields, out)?,
        }
        Ok(())
    }

    /// The length in bytes of this field at the start of `rest`; `None` if invalid.
    fn len(self, rest: &[u8]) -> Option<usize> {
        let string = |at: usize| Some(at + 1 + usize::from(*rest.get(at)?));
        match self {
            Number8(_) => Some(1),
            Number16(_) | CertificateType => Some(2),
            Ipv4 | Number32(_) | Seconds(_) => Some(4),
            Groups => Some(8),
            Ipv6 | Location => Some(16),
            Pairs(count) => Some(count),
            Name(_) => wire::Name::parse(rest).ok().map(|name| name.len()),
            String(_) => string(0),
            Strings => {
                let mut at = string(0)?;
                while at < rest.len() {
                    at = string(at)?;
                }
                Some(at)
            }
            Bytes(_) | Base64(_) => (!rest.is_empty()).then_some(rest.len()),
            Types => RtypeBitmap::from_octets(rest).ok().map(|types| types.as_slice().len()),
        }
    }
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

/// Takes `count` groups of `digits` hexadecimal digits, separated by `between`.
fn hexadecimal(
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

/// RFC 4398 §2.1.
const CERTIFICATE_TYPES: [(&str, u16); 10] = [
    ("PKIX", 1),
    ("SPKI", 2),
    ("PGP", 3),
    ("IPKIX", 4),
    ("ISPKI", 5),
    ("IPGP", 6),
    ("ACPKIX", 7),
    ("IACPKIX", 8),
    ("URI", 253),
    ("OID", 254),
];

fn certificate_type(fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    let raw = fields.peek().map(|token| fields.raw(token)).unwrap_or_default();
    let known =
        CERTIFICATE_TYPES.iter().find(|(name, _)| raw.eq_ignore_ascii_case(name.as_bytes()));
    let number = match known {
        Some((_, number)) => {
            fields.token("a certificate type")?;
            *number
        }
        None => fields.parse("a certificate type")?,
    };
    out.extend(number.to_be_bytes());
    Ok(())
}
