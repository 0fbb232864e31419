//! The positions of names in record data.
use crate::Rtype;

/// One part of a record's data, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdataField {
    /// A number of bytes without names.
    Bytes(usize),
    /// A name that may be compressed.
    Name,
}

/// The parts of `rtype`'s data up to its last compressible name. Only the types of RFC 1035 may be
/// compressed (RFC 3597 §4); for others this is empty.
pub const fn layout(rtype: Rtype) -> &'static [RdataField] {
    match rtype {
        Rtype::NS | Rtype::CNAME | Rtype::PTR => &[RdataField::Name],
        Rtype::MD | Rtype::MF | Rtype::MB | Rtype::MG | Rtype::MR => &[RdataField::Name],
        Rtype::SOA | Rtype::MINFO => &[RdataField::Name, RdataField::Name],
        Rtype::MX => &[RdataField::Bytes(2), RdataField::Name],
        _ => &[],
    }
}

/// The offset of the name whose addresses belong into the additional section: RFC 1035 §3.3.9 and
/// §3.3.11, RFC 2782, RFC 9460 §4.1.
pub const fn target(rtype: Rtype) -> Option<usize> {
    match rtype {
        Rtype::NS => Some(0),
        Rtype::MX | Rtype::SVCB | Rtype::HTTPS => Some(2),
        Rtype::SRV => Some(6),
        _ => None,
    }
}
