//! The message header (RFC 1035 §4.1.1).

/// Bytes of the header.
pub const HEADER_LEN: usize = 12;

/// The 16 bits behind the message ID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// A response, not a query.
    pub const QR: u16 = 0x8000;
    /// Authoritative answer.
    pub const AA: u16 = 0x0400;
    /// Truncated.
    pub const TC: u16 = 0x0200;
    /// Recursion desired; copied into the response.
    pub const RD: u16 = 0x0100;
    /// Recursion available.
    pub const RA: u16 = 0x0080;
    /// Authentic data (RFC 4035 §3.2.3).
    pub const AD: u16 = 0x0020;
    /// Checking disabled (RFC 4035 §3.2.2).
    pub const CD: u16 = 0x0010;
    const OPCODE: u16 = 0x7800;
    const NOTIFY: u16 = 4 << 11;

    /// Whether all of `bits` are set.
    #[inline]
    pub const fn has(self, bits: u16) -> bool {
        self.0 & bits == bits
    }

    /// Whether it is a standard query: neither a response nor of another opcode.
    #[inline]
    pub const fn is_query(self) -> bool {
        self.0 & (Self::QR | Self::OPCODE) == 0
    }

    /// Whether it tells that a zone has changed (RFC 1996), and is not a response.
    #[inline]
    pub const fn is_notify(self) -> bool {
        self.0 & (Self::QR | Self::OPCODE) == Self::NOTIFY
    }

    /// The opcode (RFC 6895 §2.2), 0 to 15.
    #[inline]
    pub const fn opcode(self) -> u8 {
        (self.0 >> 11) as u8 & 0xf
    }

    /// The flags that an authoritative response copies from the query: opcode and RD. CD is cleared
    /// (RFC 4035 §3.1.6).
    #[inline]
    pub const fn reply(self) -> Self {
        Self(Self::QR | self.0 & (Self::OPCODE | Self::RD))
    }
}

/// Response codes, the extended ones too (RFC 6895 §2.3, RFC 6891 §6.1.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Rcode {
    /// No error.
    #[default]
    NoError = 0,
    /// The message is malformed.
    FormErr = 1,
    /// The server failed.
    ServFail = 2,
    /// The name does not exist.
    NxDomain = 3,
    /// Not implemented.
    NotImp = 4,
    /// Refused by policy.
    Refused = 5,
    /// A name that would be too long (RFC 6672 §2.2).
    YxDomain = 6,
    /// A record set exists that an update requires not to (RFC 2136 §2.2).
    YxRrset = 7,
    /// A record set does not exist as an update requires (RFC 2136 §2.2).
    NxRrset = 8,
    /// Not authoritative for the zone (RFC 2136 §2.2), or not authorized (RFC 8945 §5.2.1).
    NotAuth = 9,
    /// A name of an update is outside of its zone (RFC 2136 §2.2).
    NotZone = 10,
    /// EDNS version not supported (RFC 6891 §6.1.3).
    BadVers = 16,
}

impl Rcode {
    /// Every code, for counters.
    pub const ALL: [Rcode; 12] = [
        Self::NoError,
        Self::FormErr,
        Self::ServFail,
        Self::NxDomain,
        Self::NotImp,
        Self::Refused,
        Self::YxDomain,
        Self::YxRrset,
        Self::NxRrset,
        Self::NotAuth,
        Self::NotZone,
        Self::BadVers,
    ];

    /// Its index in [`Rcode::ALL`].
    #[inline]
    pub const fn index(self) -> usize {
        match self {
            Self::BadVers => 11,
            low => low as usize,
        }
    }

    /// The mnemonic of the IANA registry.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoError => "NOERROR",
            Self::FormErr => "FORMERR",
            Self::ServFail => "SERVFAIL",
            Self::NxDomain => "NXDOMAIN",
            Self::NotImp => "NOTIMP",
            Self::Refused => "REFUSED",
            Self::YxDomain => "YXDOMAIN",
            Self::YxRrset => "YXRRSET",
            Self::NxRrset => "NXRRSET",
            Self::NotAuth => "NOTAUTH",
            Self::NotZone => "NOTZONE",
            Self::BadVers => "BADVERS",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_know_their_place() {
        for (place, code) in Rcode::ALL.iter().enumerate() {
            assert_eq!(code.index(), place, "{}", code.name());
        }
    }

    #[test]
    fn a_reply_keeps_opcode_and_rd_only() {
        assert_eq!(Flags(0xffff).reply().0, 0x8000 | 0x7800 | 0x0100);
        assert!(Flags(0x07ff).is_query() && !Flags(0x0800).is_query());
        assert!(Flags(0x27ff).is_notify() && !Flags(0xa000).is_notify());
        assert!(!Flags(0x2800).is_notify() && !Flags(0).is_notify());
        assert_eq!([0, 0x27ff, 0xa800].map(|bits| Flags(bits).opcode()), [0, 4, 5]);
    }
}
