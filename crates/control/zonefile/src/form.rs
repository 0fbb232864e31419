//! Types whose data is a sequence of fields: how to read each field, how long it is on the wire,
//! and how to write it.
mod read;
mod write;

pub(crate) use read::{base_64, ipv4, ipv6};
pub(crate) use write::strings as write_strings;

use wire::Rtype;

use crate::mnemonics::{ALGORITHMS, CERTIFICATES, Mnemonics, SCHEMES};
use crate::rare::{self, CustomField};
use crate::{bitmap, digest};

/// A field of record data. The text names it in errors.
#[derive(Clone, Copy)]
pub(crate) enum FieldPattern {
    Ipv4,
    Ipv6,
    Name(&'static str),
    Number8(&'static str),
    Number16(&'static str),
    Number32(&'static str),
    Number64(&'static str),
    /// A number of one byte, or its mnemonic.
    Mnemonic8(&'static Mnemonics),
    /// A number of two bytes, or its mnemonic.
    Mnemonic16(&'static Mnemonics),
    /// Seconds with or without units, 32 bits.
    Seconds(&'static str),
    /// A time of a signature, 32 bits (RFC 4034 §3.2).
    Time(&'static str),
    /// A character-string (RFC 1035 §3.3).
    String(&'static str),
    /// A character-string that may be missing at the end.
    MaybeString(&'static str),
    /// One or more character-strings to the end.
    Strings,
    /// The bytes of one field, to the end.
    Bytes(&'static str),
    /// Base 64 to the end.
    Base64(&'static str),
    /// Hexadecimal digits to the end.
    Hex(&'static str),
    /// Up to 255 bytes in one field of hexadecimal digits, or `-` for none (RFC 5155 §3.3).
    Salt,
    /// Up to 255 bytes in one field of base 32 with the extended alphabet (RFC 5155 §3.3).
    Base32(&'static str),
    /// This many bytes as pairs of hexadecimal digits separated by `-` (RFC 7043).
    Pairs(usize),
    /// 64 bits as four groups of hexadecimal digits separated by `:` (RFC 6742 §2.1.1).
    Groups,
    /// One record type.
    Type,
    /// Record types to the end (RFC 4034 §4.1.2).
    Types,
    /// A geographic location (RFC 1876).
    Location,
    /// A field of one type only.
    Custom(&'static CustomField),
}

use FieldPattern::*;

const PREFERENCE: FieldPattern = Number16("a preference (0 to 65535)");
const ALGORITHM: FieldPattern = Mnemonic8(&ALGORITHMS);
const KEY: &[FieldPattern] = &[
    Number16("flags (0 to 65535)"),
    Number8("a protocol (0 to 255)"),
    ALGORITHM,
    Base64("a public key"),
];
const KEY_DIGEST: &[FieldPattern] = &[
    Number16("a key tag (0 to 65535)"),
    ALGORITHM,
    Number8("a digest type (0 to 255)"),
    Hex("a digest"),
];

/// The fields of a type's data; empty for types with another form.
pub(crate) const fn form(rtype: Rtype) -> &'static [FieldPattern] {
    match rtype {
        Rtype::A => &[Ipv4],
        Rtype::AAAA => &[Ipv6],
        Rtype::NS | Rtype::CNAME | Rtype::PTR | Rtype::DNAME | Rtype::ALIAS => &[Name("a name")],
        Rtype::MD | Rtype::MF | Rtype::MB | Rtype::MG | Rtype::MR => &[Name("a name")],
        Rtype::MX | Rtype::AFSDB | Rtype::RT | Rtype::KX | Rtype::LP => {
            &[Number16("a number up to 65535"), Name("a name")]
        }
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
        Rtype::RP | Rtype::MINFO => &[Name("a mail address"), Name("a name")],
        Rtype::NAPTR => &[
            Number16("an order (0 to 65535)"),
            PREFERENCE,
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
        Rtype::LOC => &[Location],
        Rtype::EUI48 => &[Pairs(6)],
        Rtype::EUI64 => &[Pairs(8)],
        Rtype::NID | Rtype::L64 => &[PREFERENCE, Groups],
        Rtype::L32 => &[PREFERENCE, Ipv4],
        _ => match of_keys(rtype) {
            [] => of_rare(rtype),
            fields => fields,
        },
    }
}

/// Types of keys, digests and signatures.
const fn of_keys(rtype: Rtype) -> &'static [FieldPattern] {
    match rtype {
        Rtype::DNSKEY | Rtype::CDNSKEY | Rtype::KEY | Rtype::RKEY => KEY,
        Rtype::DS | Rtype::CDS | Rtype::DLV | Rtype::TA => KEY_DIGEST,
        Rtype::RRSIG | Rtype::SIG => &[
            Type,
            ALGORITHM,
            Number8("a number of labels (0 to 255)"),
            Number32("the original TTL"),
            Time("a time of expiration"),
            Time("a time of inception"),
            Number16("a key tag (0 to 65535)"),
            Name("the name of the signer"),
            Base64("a signature"),
        ],
        Rtype::NSEC => &[Name("the next name"), Types],
        Rtype::NSEC3 => &[
            Number8("a hash algorithm (0 to 255)"),
            Number8("flags (0 to 255)"),
            Number16("a number of iterations (0 to 65535)"),
            Salt,
            Base32("the next hash"),
            Types,
        ],
        Rtype::NSEC3PARAM => &[
            Number8("a hash algorithm (0 to 255)"),
            Number8("flags (0 to 255)"),
            Number16("a number of iterations (0 to 65535)"),
            Salt,
        ],
        Rtype::CSYNC => {
            &[Number32("a serial (0 to 4294967295)"), Number16("flags (0 to 65535)"), Types]
        }
        Rtype::CERT => &[
            Mnemonic16(&CERTIFICATES),
            Number16("a key tag (0 to 65535)"),
            ALGORITHM,
            Base64("a certificate"),
        ],
        Rtype::SSHFP => &[
            Number8("an algorithm (0 to 255)"),
            Number8("a fingerprint type (0 to 255)"),
            Hex("a fingerprint"),
        ],
        Rtype::TLSA | Rtype::SMIMEA => &[
            Number8("a certificate usage (0 to 255)"),
            Number8("a selector (0 to 255)"),
            Number8("a matching type (0 to 255)"),
            Hex("the data of a certificate"),
        ],
        Rtype::ZONEMD => &[
            Number32("a serial (0 to 4294967295)"),
            Number8("a scheme (0 to 255)"),
            Number8("a hash algorithm (0 to 255)"),
            Hex("a digest"),
        ],
        Rtype::OPENPGPKEY => &[Base64("a public key")],
        Rtype::DHCID => &[Base64("a digest")],
        _ => &[],
    }
}

/// Whether the type is one that few zones have. Copies of zones that were saved before its form was
/// known may have any data of it.
pub(crate) const fn has_rare_form(rtype: Rtype) -> bool {
    !of_rare(rtype).is_empty()
}

/// Types that few zones have.
const fn of_rare(rtype: Rtype) -> &'static [FieldPattern] {
    match rtype {
        Rtype::HINFO => &[String("the kind of processor"), String("the operating system")],
        Rtype::PX => &[PREFERENCE, Name("a name"), Name("a name")],
        Rtype::NINFO | Rtype::AVC | Rtype::RESINFO | Rtype::WALLET | Rtype::CLA => &[Strings],
        Rtype::WKS => &[Custom(&rare::SERVICES)],
        Rtype::X25 => &[String("an X.121 address")],
        Rtype::ISDN => &[String("an ISDN address"), MaybeString("a subaddress")],
        Rtype::NSAP => &[Custom(&rare::NSAP)],
        Rtype::NSAP_PTR => &[Name("a name")],
        Rtype::GPOS => &[Custom(&rare::POSITION)],
        Rtype::NXT => &[Name("the next name"), Custom(&rare::PLAIN_TYPES)],
        Rtype::EID | Rtype::NIMLOC => &[Hex("hexadecimal digits")],
        Rtype::ATMA => &[Custom(&rare::ATM)],
        Rtype::A6 => &[Custom(&rare::A6)],
        Rtype::SINK => &[
            Number8("a meaning (0 to 255)"),
            Number8("a coding (0 to 255)"),
            Number8("a subcoding (0 to 255)"),
            Base64("data"),
        ],
        Rtype::APL => &[Custom(&rare::PREFIXES)],
        Rtype::HIP => &[Custom(&rare::HOST_IDENTITY)],
        Rtype::TALINK => &[Name("the previous name"), Name("the next name")],
        Rtype::DSYNC => &[
            Type,
            Mnemonic8(&SCHEMES),
            Number16("a port (0 to 65535)"),
            Name("the name of a host"),
        ],
        Rtype::HHIT | Rtype::BRID => &[Base64("data")],
        Rtype::DOA => &[
            Number32("an enterprise (0 to 4294967295)"),
            Number32("a type (0 to 4294967295)"),
            Number8("a location (0 to 255)"),
            String("a media type"),
            Custom(&rare::OBJECT),
        ],
        Rtype::AMTRELAY => &[Number8("a precedence (0 to 255)"), Custom(&rare::RELAY)],
        Rtype::IPN => &[Number64("a node number")],
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

/// Writes data in presentation form, with absolute names; `None` if it has none.
pub(crate) fn write(rtype: Rtype, rdata: &[u8], out: &mut std::string::String) -> Option<()> {
    let form = form(rtype);
    let mut rest =
        (!form.is_empty() && digest::problem(rtype, rdata).is_none()).then_some(rdata)?;
    let start = out.len();
    for part in form {
        let (field, behind) = rest.split_at_checked(part.len(rest)?)?;
        let before = out.len();
        part.write(field, out)?;
        if out.len() > before && before > start {
            out.insert(before, ' ');
        }
        rest = behind;
    }
    rest.is_empty().then_some(())
}

/// Whether names in data of this type are in lower case in its canonical form (RFC 4034 §6.2, RFC
/// 6840 §5.1).
pub const fn has_canonical_names(rtype: Rtype) -> bool {
    matches!(rtype, Rtype::NS | Rtype::MD | Rtype::MF | Rtype::CNAME | Rtype::SOA | Rtype::MB)
        || matches!(rtype, Rtype::MG | Rtype::MR | Rtype::PTR | Rtype::MINFO | Rtype::MX)
        || matches!(rtype, Rtype::RP | Rtype::AFSDB | Rtype::RT | Rtype::SIG | Rtype::PX)
        || matches!(rtype, Rtype::NXT | Rtype::NAPTR | Rtype::KX | Rtype::SRV | Rtype::DNAME)
        || matches!(rtype, Rtype::A6 | Rtype::RRSIG)
}

/// Converts data of such a type to its canonical form.
pub fn make_canonical(rtype: Rtype, rdata: &mut [u8]) {
    if !has_canonical_names(rtype) {
        return;
    }
    let mut at = 0;
    for part in form(rtype) {
        let Some(len) = part.len(&rdata[at..]).filter(|len| at + len <= rdata.len()) else {
            return;
        };
        let field = &mut rdata[at..at + len];
        match part {
            Name(_) => field.make_ascii_lowercase(),
            Custom(_) if rtype == Rtype::A6 => {
                let name = rare::a6::name_at(field);
                field[name..].make_ascii_lowercase();
            }
            _ => {}
        }
        at += len;
    }
}

impl FieldPattern {
    /// The length in bytes of this field at the start of `rest`; `None` if invalid. It may be
    /// above that of `rest`.
    fn len(self, rest: &[u8]) -> Option<usize> {
        let string = |at: usize| Some(at + 1 + usize::from(*rest.get(at)?));
        match self {
            Number8(_) | Mnemonic8(_) => Some(1),
            Number16(_) | Mnemonic16(_) | Type => Some(2),
            Ipv4 | Number32(_) | Seconds(_) | Time(_) => Some(4),
            Groups | Number64(_) => Some(8),
            Ipv6 | Location => Some(16),
            Pairs(count) => Some(count),
            Name(_) => wire::Name::parse(rest).ok().map(|name| name.len()),
            String(_) | Salt => string(0),
            Base32(_) => string(0).filter(|len| *len > 1),
            MaybeString(_) if rest.is_empty() => Some(0),
            MaybeString(_) => string(0),
            Strings => {
                let mut at = string(0)?;
                while at < rest.len() {
                    at = string(at)?;
                }
                Some(at)
            }
            Bytes(_) | Base64(_) | Hex(_) => (!rest.is_empty()).then_some(rest.len()),
            Types => bitmap::is_valid(rest).then_some(rest.len()),
            Custom(field) => (field.len)(rest),
        }
    }
}
