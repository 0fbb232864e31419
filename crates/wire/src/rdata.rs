//! Where names stand in record data.
use crate::Rtype;

/// One part of a record's data, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// So many octets that mean nothing here.
    Octets(usize),
    /// A name that may be written as a pointer.
    Name,
}

/// The parts of `rtype`'s data up to its last compressible name; whatever follows is copied. Only
/// the types of RFC 1035 may be compressed (RFC 3597 §4), so for all others this is empty.
pub const fn layout(rtype: Rtype) -> &'static [Field] {
    match rtype {
        Rtype::NS | Rtype::CNAME | Rtype::PTR => &[Field::Name],
        Rtype::MD | Rtype::MF | Rtype::MB | Rtype::MG | Rtype::MR => &[Field::Name],
        Rtype::SOA | Rtype::MINFO => &[Field::Name, Field::Name],
        Rtype::MX => &[Field::Octets(2), Field::Name],
        _ => &[],
    }
}

/// Where the name stands whose addresses belong into the additional section, as an offset into the
/// data: RFC 1035 §3.3.9 and §3.3.11, RFC 2782, RFC 9460 §4.1.
pub const fn target(rtype: Rtype) -> Option<usize> {
    match rtype {
        Rtype::NS => Some(0),
        Rtype::MX | Rtype::SVCB | Rtype::HTTPS => Some(2),
        Rtype::SRV => Some(6),
        _ => None,
    }
}
