//! One signature, and the record set that it is of.
use super::FindingKind;
use super::key::{KeyVerdict, Keys};
use image::{Node, RecordSet};
use server_status::SignatureSpan;
use std::borrow::Cow;
use wire::{Class, Name, NameBuf, Rtype};

/// Bytes of the data of an RRSIG record before the name of the signer (RFC 4034 §3.1).
const HEAD_LEN: usize = 18;

/// An RRSIG record.
#[derive(Clone, Copy)]
pub struct Signature<'d> {
    pub covered: Rtype,
    pub algorithm: u8,
    pub tag: u16,
    labels: u8,
    expiration: u32,
    inception: u32,
    signer: Name<'d>,
    /// The data before the signer.
    head: &'d [u8; HEAD_LEN],
    signature: &'d [u8],
}

impl<'d> Signature<'d> {
    pub fn parse(data: &'d [u8]) -> Option<Self> {
        let (head, rest) = data.split_first_chunk::<HEAD_LEN>()?;
        let number = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let time = |at: usize| u32::from(number(at)) << 16 | u32::from(number(at + 2));
        let signer = Name::parse(rest).ok()?;
        Some(Self {
            covered: Rtype(number(0)),
            algorithm: head[2],
            labels: head[3],
            expiration: time(8),
            inception: time(12),
            tag: number(16),
            signer,
            head,
            signature: rest.get(signer.len()..)?,
        })
    }

    /// Its validity. Times count modulo 2^32 (RFC 4034 §3.1.5): the nearest to `now` is meant.
    pub fn span(&self, now: i64) -> SignatureSpan {
        let validity_seconds = i64::from(self.expiration.wrapping_sub(self.inception));
        SignatureSpan { expires_seconds: near(self.expiration, now), validity_seconds }
    }
}

/// The seconds since 1970 that are meant by a time modulo 2^32.
fn near(time: u32, now: i64) -> i64 {
    now + i64::from(time.wrapping_sub(now as u32).cast_signed())
}

/// A date as signers write it.
pub fn date(seconds: i64) -> String {
    zonefile::date_text(u64::try_from(seconds).unwrap_or_default())
}

/// The known state of one signature of a set.
pub enum Verdict {
    /// It is valid, as far as it was asked to verify it.
    Valid,
    /// Its algorithm is not known here.
    Unknown,
    /// Resolvers refuse it.
    Refused(FindingKind),
}

/// A record set to be signed.
pub struct SignedSet<'z> {
    origin: Name<'z>,
    node: Node<'z>,
    set: RecordSet<'z>,
}

impl<'z> SignedSet<'z> {
    pub fn new(origin: Name<'z>, node: Node<'z>, set: RecordSet<'z>) -> Self {
        Self { origin, node, set }
    }

    /// Its relative name.
    pub fn name(&self) -> &'z [u8] {
        self.node.name()
    }

    pub fn rtype(&self) -> Rtype {
        self.set.rtype()
    }

    /// Judges a signature; with `verifies`, also by its key.
    pub fn judge(
        &self,
        signature: &Signature<'_>,
        keys: &Keys,
        now: i64,
        verifies: bool,
    ) -> Verdict {
        let (expires, starts) =
            (signature.span(now).expires_seconds, near(signature.inception, now));
        if expires < now {
            return Verdict::Refused(FindingKind::Expired(expires));
        }
        if starts > now {
            return Verdict::Refused(FindingKind::Early(starts));
        }
        let Ok(owner) = NameBuf::joined(self.name(), self.origin) else { return Verdict::Unknown };
        // A wildcard's own `*` does not count (RFC 4034 §3.1.3).
        let labels = owner.as_name().labels().filter(|label| *label != b"*".as_slice()).count();
        let signer = signature.signer.as_bytes();
        let is_ours = signer.eq_ignore_ascii_case(self.origin.as_bytes());
        if !is_ours || usize::from(signature.labels) != labels {
            return Verdict::Refused(FindingKind::Wrong);
        }
        if !verifies {
            return match keys.has(signature.tag, signature.algorithm) {
                true => Verdict::Valid,
                false => Verdict::Refused(FindingKind::NoKey(signature.tag)),
            };
        }
        let message = self.message(owner.as_name(), signature);
        match keys.verify(signature.tag, signature.algorithm, &message, signature.signature) {
            KeyVerdict::Valid => Verdict::Valid,
            KeyVerdict::Unknown => Verdict::Unknown,
            KeyVerdict::NoKey => Verdict::Refused(FindingKind::NoKey(signature.tag)),
            KeyVerdict::Wrong => Verdict::Refused(FindingKind::Wrong),
        }
    }

    /// The signed bytes (RFC 4034 §3.1.8.1): the signature's own data, then the records in
    /// canonical form and order.
    fn message(&self, owner: Name<'_>, signature: &Signature<'_>) -> Vec<u8> {
        let mut message = signature.head.to_vec();
        message.extend(signature.signer.as_bytes().to_ascii_lowercase());
        let canonical = |data: &'z [u8]| {
            let mut data = Cow::Borrowed(data);
            if zonefile::has_canonical_names(self.rtype()) {
                zonefile::make_canonical(self.rtype(), data.to_mut());
            }
            data
        };
        let mut records: Vec<Cow<'z, [u8]>> = self.set.records().map(canonical).collect();
        records.sort_unstable();
        records.dedup();
        let mut head = owner.as_bytes().to_ascii_lowercase();
        head.extend(self.rtype().0.to_be_bytes());
        head.extend(Class::IN.0.to_be_bytes());
        // The original TTL.
        head.extend_from_slice(&signature.head[4..8]);
        for data in records {
            message.extend_from_slice(&head);
            message.extend((data.len() as u16).to_be_bytes());
            message.extend_from_slice(&data);
        }
        message
    }
}
