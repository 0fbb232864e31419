//! Digests and fingerprints whose length their algorithm fixes.
use wire::Rtype;

/// The part of the data before the digest, and how long the digest must be; `None`: any length.
fn expected(rtype: Rtype, data: &[u8]) -> Option<(usize, &'static str, usize)> {
    let (head, len) = match rtype {
        // RFC 3658 §2.4, RFC 4509, RFC 5933, RFC 6605, RFC 9558, RFC 9563.
        Rtype::DS | Rtype::CDS | Rtype::DLV | Rtype::TA => (
            4,
            match data.get(3)? {
                1 => ("SHA-1", 20),
                2 => ("SHA-256", 32),
                3 | 5 => ("GOST", 32),
                4 => ("SHA-384", 48),
                6 => ("SM3", 32),
                _ => return None,
            },
        ),
        // RFC 4255 §3.1.2, RFC 6594 §4.2.
        Rtype::SSHFP => (
            2,
            match data.get(1)? {
                1 => ("SHA-1", 20),
                2 => ("SHA-256", 32),
                _ => return None,
            },
        ),
        // RFC 6698 §2.1.3, RFC 8162 §2.
        Rtype::TLSA | Rtype::SMIMEA => (
            3,
            match data.get(2)? {
                1 => ("SHA-256", 32),
                2 => ("SHA-512", 64),
                _ => return None,
            },
        ),
        // RFC 8976 §2.2.3.
        Rtype::ZONEMD => (
            6,
            match data.get(5)? {
                1 => ("SHA-384", 48),
                2 => ("SHA-512", 64),
                _ => return None,
            },
        ),
        _ => return None,
    };
    Some((head, len.0, len.1))
}

/// The fault of the length of the data's digest.
pub(crate) fn problem(rtype: Rtype, data: &[u8]) -> Option<String> {
    let (head, algorithm, len) = expected(rtype, data)?;
    let found = data.len().saturating_sub(head);
    let what = format!("the digest has {found} bytes, but one of {algorithm} has {len}");
    (found != len).then_some(what)
}

#[cfg(test)]
mod tests {
    use crate::BrokenRule;
    use crate::read_data;
    use wire::Rtype;

    #[test]
    fn digest_with_another_length_than_its_algorithm_is_refused() {
        for (rtype, head, len) in [
            (Rtype::DS, "1 8 1", 20),
            (Rtype::DS, "1 8 2", 32),
            (Rtype::CDS, "1 8 4", 48),
            (Rtype::DLV, "1 8 3", 32),
            (Rtype::TA, "1 8 6", 32),
            (Rtype::SSHFP, "1 1", 20),
            (Rtype::SSHFP, "4 2", 32),
            (Rtype::TLSA, "3 1 1", 32),
            (Rtype::SMIMEA, "3 1 2", 64),
            (Rtype::ZONEMD, "1 1 1", 48),
            (Rtype::ZONEMD, "1 1 2", 64),
        ] {
            let read = |count: usize| read_data(rtype, &format!("{head} {}", "ab".repeat(count)));
            let data = read(len).expect("a whole digest");
            for wrong in [1, len - 1, len + 1] {
                let fault = read(wrong).expect_err("another length");
                let (start, end) = (format!("the digest has {wrong} bytes"), format!("has {len}"));
                assert!(fault.what.starts_with(&start) && fault.what.ends_with(&end), "{fault}");
                assert_eq!(fault.rule, BrokenRule::DATA);
            }
            let cut = hex(&data[..data.len() - 1]);
            let fault = read_data(rtype, &format!("\\# {} {cut}", data.len() - 1));
            assert_eq!(fault.expect_err("cut").rule, BrokenRule::GENERIC_DATA, "{rtype}");
        }
        // Unknown algorithms, and the CDS record that asks to remove the DS (RFC 8078 §4).
        for (rtype, text) in
            [(Rtype::DS, "1 8 200 ab"), (Rtype::CDS, "0 0 0 00"), (Rtype::TLSA, "3 0 0 ab")]
        {
            read_data(rtype, text).expect(text);
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
