//! Forms of files that older versions wrote: each began and ended in its own way.
use sha2::{Digest, Sha256};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::ops::Range;

/// How an older version wrote a file.
#[derive(Clone, Debug)]
pub struct OldForm {
    /// How the file begins. Content follows, or the rest of the line with [`OldSum::Sha256`].
    pub begin: Vec<u8>,
    /// Its checksum.
    pub sum: OldSum,
}

/// The checksum of an older form: SipHash-1-3 of all before it, unless another one is named.
#[derive(Clone, Copy, Debug)]
pub enum OldSum {
    /// The last line: `{"lines":4,"checksum":"0123456789abcdef"}`.
    Json,
    /// The last line: `; checksum 0123456789abcdef`.
    Comment,
    /// The last eight bytes.
    Number,
    /// The first line ends with the length and the SHA-256 of what follows it.
    Sha256,
}

impl OldForm {
    /// Where the content of a file is that begins so; `None`: the file is damaged.
    pub(crate) fn verify(&self, file: &[u8]) -> Option<Range<usize>> {
        let begin = self.begin.len();
        let tail_at = match self.sum {
            OldSum::Sha256 => {
                let at = file.iter().position(|byte| *byte == b'\n')? + 1;
                let (len, digest) = (file.len() - at, hex::encode(Sha256::digest(&file[at..])));
                let is_right = file[begin..at] == *format!("{len} {digest}\n").as_bytes();
                return is_right.then_some(at..file.len());
            }
            OldSum::Number => file.len().checked_sub(8)?,
            // The last line.
            _ => file.strip_suffix(b"\n")?.iter().rposition(|byte| *byte == b'\n')? + 1,
        };
        let (all, tail) = file.split_at(tail_at);
        let mut sum = SipHasher13::new();
        sum.write(all);
        let sum = sum.finish();
        let lines = || all.iter().filter(|byte| **byte == b'\n').count();
        let expected = match self.sum {
            OldSum::Json => {
                format!("{{\"lines\":{},\"checksum\":\"{sum:016x}\"}}\n", lines()).into()
            }
            OldSum::Comment => format!("; checksum {sum:016x}\n").into_bytes(),
            _ => sum.to_le_bytes().to_vec(),
        };
        (tail == expected && begin <= tail_at).then_some(begin..tail_at)
    }
}
