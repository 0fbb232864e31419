//! Signed messages (RFC 8945). Those that name a key of this server are verified outside the data
//! plane; all others get NOTAUTH with BADKEY.
use crate::{Disposition, Policy};
use packet::Packet;
use wire::{Class, Flags, HEADER_LEN, Name, NameBuf, Query, Records, Rtype, Tsig, signature_at};

/// Bytes of a record between its owner and its data.
const HEAD_LEN: usize = 10;
/// Bytes of the longest TSIG record that reports an error.
const RECORD_LEN_MAX: usize = Name::LEN_MAX + HEAD_LEN + Tsig::UNSIGNED_LEN_MAX;
/// Offset of the count of additional records in a header.
const ADDITIONAL_AT: usize = 10;

/// The names of keys, in lower case and sorted by their bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyNames<'p>(&'p [NameBuf]);

impl<'p> KeyNames<'p> {
    /// These names, which [`sort`](Self::sort) has sorted.
    pub const fn new(names: &'p [NameBuf]) -> Self {
        Self(names)
    }

    /// Sorts names for [`new`](Self::new).
    pub fn sort(names: &mut [NameBuf]) {
        names.iter_mut().for_each(NameBuf::make_lowercase);
        names.sort_unstable_by(|one, other| bytes(one).cmp(bytes(other)));
    }

    /// Whether the TSIG record at an offset of a message names one of the keys.
    #[inline(never)]
    pub(crate) fn name_signer(self, packet: &Packet<'_>, at: u16) -> bool {
        let record = Records::new(packet.message(), at.into(), 1).next();
        let owner = record.and_then(Result::ok).and_then(|record| record.owner().ok());
        let find = |owner| self.0.binary_search_by(|name| bytes(name).cmp(bytes(&owner)));
        !self.0.is_empty() && owner.is_some_and(|owner| find(owner).is_ok())
    }
}

fn bytes(name: &NameBuf) -> &[u8] {
    name.as_name().as_bytes()
}

/// What becomes of a message whose opcode has a handler: if that needs a signature, who may have
/// signed it is decided here, so that others never take the handler's time.
#[inline(never)]
pub(crate) fn sort_handled<'w>(
    policy: &Policy<'_>,
    query: &mut Query,
    packet: &Packet<'_>,
) -> Disposition<'w> {
    if policy.signed_opcodes >> query.flags.opcode() & 1 == 0 {
        return Disposition::PassedOn;
    }
    query.tsig_at = signature_at(packet.message()).map(|at| at as u16);
    match query.tsig_at {
        None => Disposition::Unsigned,
        Some(at) if policy.keys.name_signer(packet, at) => Disposition::PassedOn,
        Some(_) => Disposition::Signed,
    }
}

/// The TSIG record of the reply to a key that this server does not have.
pub(crate) struct BadKey {
    record: [u8; RECORD_LEN_MAX],
    len: usize,
}

impl BadKey {
    /// Reads the TSIG record of a query, which its reply overwrites; `None` if it has none.
    #[inline(never)]
    pub(crate) fn new(query: &Query, packet: &Packet<'_>) -> Option<Self> {
        let at = query.tsig_at?.into();
        let record = Records::new(packet.message(), at, 1).next()?.ok()?;
        let (owner, tsig) = (record.owner().ok()?, Tsig::parse(record.class, record.data())?);
        let id = *packet.message().first_chunk()?;
        let mut data = [0; Tsig::UNSIGNED_LEN_MAX];
        let data_len = tsig.put_unsigned(Tsig::BAD_KEY, id, &mut data);
        let ([t0, t1], [c0, c1]) = (Rtype::TSIG.0.to_be_bytes(), Class::ANY.0.to_be_bytes());
        let [l0, l1] = (data_len as u16).to_be_bytes();
        let head: [u8; HEAD_LEN] = [t0, t1, c0, c1, 0, 0, 0, 0, l0, l1];
        let mut bad_key = Self { record: [0; RECORD_LEN_MAX], len: 0 };
        for part in [owner.as_name().as_bytes(), &head, &data[..data_len]] {
            bad_key.record[bad_key.len..bad_key.len + part.len()].copy_from_slice(part);
            bad_key.len += part.len();
        }
        Some(bad_key)
    }

    /// Appends the record to a reply of at most `len_max` bytes. A reply without room for it is
    /// truncated (RFC 8945 §5.3.1).
    #[inline(never)]
    pub(crate) fn append(&self, len_max: usize, packet: &mut Packet<'_>) {
        let end = packet.len + self.len;
        let Some((header, rest)) = packet.buf.split_first_chunk_mut::<HEADER_LEN>() else { return };
        if end > len_max {
            header[2] |= (Flags::TC >> 8) as u8;
            return;
        }
        rest[packet.len - HEADER_LEN..end - HEADER_LEN].copy_from_slice(&self.record[..self.len]);
        packet.len = end;
        let count = u16::from_be_bytes([header[ADDITIONAL_AT], header[ADDITIONAL_AT + 1]]) + 1;
        header[ADDITIONAL_AT..].copy_from_slice(&count.to_be_bytes());
    }
}
