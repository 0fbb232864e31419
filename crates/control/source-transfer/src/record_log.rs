//! Records in the order in which they came, packed.
use wire::Rtype;

/// Bytes of a record beside its owner and its data: type, TTL, both lengths.
const HEAD_LEN: usize = 2 + 4 + 1 + 2;

/// Records one behind the other.
#[derive(Clone, Debug, Default)]
pub struct RecordLog {
    bytes: Vec<u8>,
}

/// A record of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedRecord<'l> {
    /// Its owner, in lower case.
    pub owner: &'l [u8],
    pub rtype: Rtype,
    pub ttl: u32,
    /// Its data, with uncompressed names.
    pub data: &'l [u8],
}

impl RecordLog {
    /// Appends a record; its owner and data have at most 255 and 65,535 bytes.
    pub fn push(&mut self, record: LoggedRecord<'_>) {
        let LoggedRecord { owner, rtype, ttl, data } = record;
        self.bytes.extend(rtype.0.to_le_bytes());
        self.bytes.extend(ttl.to_le_bytes());
        self.bytes.push(owner.len() as u8);
        self.bytes.extend((data.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(owner);
        self.bytes.extend_from_slice(data);
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = LoggedRecord<'_>> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let ([r0, r1, t0, t1, t2, t3, owner, d0, d1], behind) =
                rest.split_first_chunk::<HEAD_LEN>()?;
            let (owner, behind) = behind.split_at_checked((*owner).into())?;
            let (data, behind) = behind.split_at_checked(u16::from_le_bytes([*d0, *d1]).into())?;
            rest = behind;
            let rtype = Rtype(u16::from_le_bytes([*r0, *r1]));
            let ttl = u32::from_le_bytes([*t0, *t1, *t2, *t3]);
            Some(LoggedRecord { owner, rtype, ttl, data })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_in_their_order() {
        let mut log = RecordLog::default();
        let data = vec![7; usize::from(u16::MAX)];
        let all = [
            LoggedRecord { owner: b"\0", rtype: Rtype::SOA, ttl: 1, data: b"" },
            LoggedRecord { owner: b"\x01a\0", rtype: Rtype(65_280), ttl: u32::MAX, data: &data },
            LoggedRecord { owner: b"\x01a\0", rtype: Rtype::A, ttl: 0, data: &[1, 2, 3, 4] },
        ];
        all.iter().for_each(|record| log.push(*record));
        assert!(log.iter().eq(all));
    }
}
