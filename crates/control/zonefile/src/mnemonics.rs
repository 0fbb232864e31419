//! Numbers with mnemonics in record data: algorithms, certificate types, schemes.
use crate::fields::Fields;
use crate::report::{EntryError, quote};

/// Names of numbers, in any case. Several names of one number are all read.
pub(crate) struct Mnemonics {
    /// What the number is, for errors.
    what: &'static str,
    max: u16,
    names: &'static [(&'static str, u16)],
}

/// The algorithms of DNSSEC keys (RFC 4034 appendix A.1 and the IANA registry).
pub(crate) const ALGORITHMS: Mnemonics = Mnemonics {
    what: "an algorithm (0 to 255, or a name such as ECDSAP256SHA256)",
    max: 255,
    names: &[
        ("DELETE", 0),
        ("RSAMD5", 1),
        ("DH", 2),
        ("DSA", 3),
        ("ECC", 4),
        ("RSASHA1", 5),
        ("DSA-NSEC3-SHA1", 6),
        ("NSEC3DSA", 6),
        ("RSASHA1-NSEC3-SHA1", 7),
        ("NSEC3RSASHA1", 7),
        ("RSASHA256", 8),
        ("RSASHA512", 10),
        ("ECC-GOST", 12),
        ("ECCGOST", 12),
        ("ECDSAP256SHA256", 13),
        ("ECDSA256", 13),
        ("ECDSAP384SHA384", 14),
        ("ECDSA384", 14),
        ("ED25519", 15),
        ("ED448", 16),
        ("SM2SM3", 17),
        ("ECC-GOST12", 23),
        ("INDIRECT", 252),
        ("PRIVATEDNS", 253),
        ("PRIVATEOID", 254),
    ],
};

/// RFC 4398 §2.1.
pub(crate) const CERTIFICATES: Mnemonics = Mnemonics {
    what: "a certificate type",
    max: u16::MAX,
    names: &[
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
    ],
};

/// RFC 9859 §2.2.
pub(crate) const SCHEMES: Mnemonics =
    Mnemonics { what: "a scheme (0 to 255, or NOTIFY)", max: 255, names: &[("NOTIFY", 1)] };

/// IP protocols of WKS (RFC 1035 §3.4.2).
pub(crate) const PROTOCOLS: Mnemonics = Mnemonics {
    what: "a protocol (0 to 255, or TCP or UDP)",
    max: 255,
    names: &[("ICMP", 1), ("IGMP", 2), ("TCP", 6), ("EGP", 8), ("UDP", 17)],
};

/// Services of WKS that old zone files name (RFC 1700).
pub(crate) const SERVICES: Mnemonics = Mnemonics {
    what: "a port (0 to 65535, or the name of a well-known service)",
    max: u16::MAX,
    names: &[
        ("echo", 7),
        ("discard", 9),
        ("systat", 11),
        ("daytime", 13),
        ("netstat", 15),
        ("qotd", 17),
        ("chargen", 19),
        ("ftp-data", 20),
        ("ftp", 21),
        ("ssh", 22),
        ("telnet", 23),
        ("smtp", 25),
        ("time", 37),
        ("nameserver", 42),
        ("whois", 43),
        ("nicname", 43),
        ("domain", 53),
        ("tftp", 69),
        ("gopher", 70),
        ("finger", 79),
        ("http", 80),
        ("www", 80),
        ("kerberos", 88),
        ("pop2", 109),
        ("pop3", 110),
        ("sunrpc", 111),
        ("auth", 113),
        ("nntp", 119),
        ("ntp", 123),
        ("imap", 143),
        ("imap2", 143),
        ("snmp", 161),
        ("irc", 194),
        ("ldap", 389),
        ("https", 443),
    ],
};

impl Mnemonics {
    /// Takes a number or its name.
    pub(crate) fn read(&self, fields: &mut Fields<'_>) -> Result<u16, EntryError> {
        let raw = fields.peek().map(|token| fields.raw(token)).unwrap_or_default();
        let is_it = |(name, _): &&(&str, u16)| raw.eq_ignore_ascii_case(name.as_bytes());
        if let Some((_, number)) = self.names.iter().find(is_it) {
            fields.token(self.what)?;
            return Ok(*number);
        }
        let at = fields.here();
        let number = fields.parse::<u16>(self.what)?;
        if number > self.max {
            let what = format!("{} is not {}", quote(raw), self.what);
            return Err(EntryError::new(at, what));
        }
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use crate::{data_text, read_data};
    use wire::Rtype;

    #[test]
    fn algorithms_are_numbers_or_mnemonics_in_every_type_that_has_them() {
        let digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        for (rtype, before, after) in [
            (Rtype::DNSKEY, "257 3", "AAAA".to_owned()),
            (Rtype::CDNSKEY, "257 3", "AAAA".to_owned()),
            (Rtype::KEY, "512 3", "AAAA".to_owned()),
            (Rtype::RKEY, "0 3", "AAAA".to_owned()),
            (Rtype::DS, "1", format!("2 {digest}")),
            (Rtype::CDS, "1", format!("2 {digest}")),
            (Rtype::DLV, "1", format!("2 {digest}")),
            (Rtype::TA, "1", format!("2 {digest}")),
            (Rtype::CERT, "PGP 0", "AAAA".to_owned()),
            (Rtype::RRSIG, "SOA", "2 60 20300101000000 20200101000000 1 . AAAA".to_owned()),
            (Rtype::SIG, "SOA", "2 60 20300101000000 20200101000000 1 . AAAA".to_owned()),
        ] {
            for (name, number) in [("ECDSAP256SHA256", 13), ("rsasha256", 8), ("NSEC3RSASHA1", 7)] {
                let by_name = read_data(rtype, &format!("{before} {name} {after}"));
                let by_number = read_data(rtype, &format!("{before} {number} {after}"));
                let data = by_number.expect("a number");
                assert_eq!(by_name, Ok(data.clone()), "{rtype} {name}");
                let text = data_text(rtype, &data);
                assert!(text.contains(&format!(" {number} ")), "{rtype}: {text}");
                assert_eq!(read_data(rtype, &text), Ok(data), "{rtype}: {text}");
            }
            let fault = read_data(rtype, &format!("{before} ECDSAX {after}")).expect_err("none");
            assert!(fault.what.starts_with("`ECDSAX` is not an algorithm"), "{rtype}: {fault}");
            assert!(read_data(rtype, &format!("{before} 256 {after}")).is_err(), "{rtype}");
        }
    }
}
