//! Record types and classes (RFC 1035 §3.2, and the IANA registry "DNS Parameters").
use core::fmt;
use core::str::FromStr;

macro_rules! numbers {
    (
        $(#[$doc:meta])* $name:ident, $prefix:literal,
        $($konst:ident = $value:literal $text:literal,)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u16);

        impl $name {
            $(
                #[doc = concat!("`", $text, "`, ", $value, ".")]
                pub const $konst: Self = Self($value);
            )*

            /// The mnemonic, if the number has one.
            pub const fn mnemonic(self) -> Option<&'static str> {
                match self.0 { $($value => Some($text),)* _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.mnemonic() {
                    Some(text) => f.pad(text),
                    None => write!(f, concat!($prefix, "{}"), self.0),
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = ();

            /// Reads a mnemonic or the generic form of RFC 3597 §5, in any case.
            fn from_str(text: &str) -> Result<Self, ()> {
                $(if text.eq_ignore_ascii_case($text) { return Ok(Self($value)); })*
                let (prefix, digits) = text.split_at_checked($prefix.len()).ok_or(())?;
                let generic = prefix.eq_ignore_ascii_case($prefix);
                if !generic || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(());
                }
                digits.parse().map(Self).map_err(|_| ())
            }
        }
    };
}

numbers! {
    /// A record type.
    Rtype, "TYPE",
    A = 1 "A", NS = 2 "NS", MD = 3 "MD", MF = 4 "MF", CNAME = 5 "CNAME", SOA = 6 "SOA", MB = 7 "MB",
    MG = 8 "MG", MR = 9 "MR", NULL = 10 "NULL", WKS = 11 "WKS", PTR = 12 "PTR", HINFO = 13 "HINFO",
    MINFO = 14 "MINFO", MX = 15 "MX", TXT = 16 "TXT", RP = 17 "RP", AFSDB = 18 "AFSDB",
    X25 = 19 "X25", ISDN = 20 "ISDN", RT = 21 "RT", NSAP = 22 "NSAP", NSAP_PTR = 23 "NSAP-PTR",
    SIG = 24 "SIG", KEY = 25 "KEY", PX = 26 "PX", GPOS = 27 "GPOS", AAAA = 28 "AAAA",
    LOC = 29 "LOC", NXT = 30 "NXT", EID = 31 "EID", NIMLOC = 32 "NIMLOC", SRV = 33 "SRV",
    ATMA = 34 "ATMA", NAPTR = 35 "NAPTR", KX = 36 "KX", CERT = 37 "CERT", A6 = 38 "A6",
    DNAME = 39 "DNAME", SINK = 40 "SINK", OPT = 41 "OPT", APL = 42 "APL", DS = 43 "DS",
    SSHFP = 44 "SSHFP", IPSECKEY = 45 "IPSECKEY", RRSIG = 46 "RRSIG", NSEC = 47 "NSEC",
    DNSKEY = 48 "DNSKEY", DHCID = 49 "DHCID", NSEC3 = 50 "NSEC3", NSEC3PARAM = 51 "NSEC3PARAM",
    TLSA = 52 "TLSA", SMIMEA = 53 "SMIMEA", HIP = 55 "HIP", NINFO = 56 "NINFO", RKEY = 57 "RKEY",
    TALINK = 58 "TALINK", CDS = 59 "CDS", CDNSKEY = 60 "CDNSKEY", OPENPGPKEY = 61 "OPENPGPKEY",
    CSYNC = 62 "CSYNC", ZONEMD = 63 "ZONEMD", SVCB = 64 "SVCB", HTTPS = 65 "HTTPS",
    DSYNC = 66 "DSYNC", HHIT = 67 "HHIT", BRID = 68 "BRID", SPF = 99 "SPF", UINFO = 100 "UINFO",
    UID = 101 "UID", GID = 102 "GID", UNSPEC = 103 "UNSPEC", NID = 104 "NID", L32 = 105 "L32",
    L64 = 106 "L64", LP = 107 "LP", EUI48 = 108 "EUI48", EUI64 = 109 "EUI64", NXNAME = 128 "NXNAME",
    TKEY = 249 "TKEY", TSIG = 250 "TSIG", IXFR = 251 "IXFR", AXFR = 252 "AXFR", MAILB = 253 "MAILB",
    MAILA = 254 "MAILA", ANY = 255 "ANY", URI = 256 "URI", CAA = 257 "CAA", AVC = 258 "AVC",
    DOA = 259 "DOA", AMTRELAY = 260 "AMTRELAY", RESINFO = 261 "RESINFO", WALLET = 262 "WALLET",
    CLA = 263 "CLA", IPN = 264 "IPN", TA = 32768 "TA", DLV = 32769 "DLV",
    // Of private use: no server asks another for it (decision 0088).
    ALIAS = 65401 "ALIAS",
}

numbers! {
    /// A class.
    Class, "CLASS",
    IN = 1 "IN", CH = 3 "CH", HS = 4 "HS", NONE = 254 "NONE", ANY = 255 "ANY",
}

impl Rtype {
    /// Whether the number is a meta-type, a Q-type or OPT, and so never a record of a zone (RFC
    /// 6895 §3.1).
    pub const fn is_meta(self) -> bool {
        self.0 == 0 || self.0 == Self::OPT.0 || (self.0 >= 128 && self.0 <= 255)
    }

    /// Bytes of each record's data, if the type fixes it.
    pub const fn fixed_rdata_len(self) -> Option<usize> {
        match self {
            Self::A => Some(4),
            Self::AAAA => Some(16),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mnemonics_and_generic_forms_are_read() {
        assert_eq!("aaaa".parse(), Ok(Rtype::AAAA));
        assert_eq!("TYPE65534".parse(), Ok(Rtype(65534)));
        assert_eq!("type1".parse(), Ok(Rtype::A));
        for bad in ["TYPE65536", "TYPE", "TYPE+1", "BOGUS", ""] {
            assert_eq!(bad.parse::<Rtype>(), Err(()), "{bad}");
        }
        assert_eq!("nsap-ptr".parse(), Ok(Rtype::NSAP_PTR));
        assert_eq!("CH".parse(), Ok(Class::CH));
    }

    #[test]
    fn query_types_are_not_zone_data() {
        for meta in [Rtype(0), Rtype::OPT, Rtype::TSIG, Rtype::AXFR, Rtype::ANY] {
            assert!(meta.is_meta(), "{meta}");
        }
        assert!(!Rtype::DLV.is_meta() && !Rtype::A.is_meta() && !Rtype::URI.is_meta());
    }
}
