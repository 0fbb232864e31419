//! Forms of files that older versions wrote: each began and ended in its own way.
use sha2::{Digest, Sha256};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
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
    /// Where the content is; `None`: the file is damaged.
    pub(crate) fn verify<R: BufRead + Seek>(
        &self,
        from: &mut R,
        line: &[u8],
        len: u64,
    ) -> io::Result<Option<Range<u64>>> {
        if let OldSum::Sha256 = self.sum {
            return self.verify_sha256(from, line, len);
        }
        let Some(tail_at) = self.tail_at(from, len)? else { return Ok(None) };
        from.seek(SeekFrom::Start(0))?;
        let (mut sum, mut lines) = (SipHasher13::new(), 0);
        let mut all = from.by_ref().take(tail_at);
        loop {
            let bytes = all.fill_buf()?;
            if bytes.is_empty() {
                break;
            }
            sum.write(bytes);
            lines += bytes.iter().filter(|byte| **byte == b'\n').count();
            let read = bytes.len();
            all.consume(read);
        }
        let sum = sum.finish();
        let expected = match self.sum {
            OldSum::Json => format!("{{\"lines\":{lines},\"checksum\":\"{sum:016x}\"}}\n").into(),
            OldSum::Comment => format!("; checksum {sum:016x}\n").into_bytes(),
            OldSum::Number | OldSum::Sha256 => sum.to_le_bytes().to_vec(),
        };
        let mut found = Vec::new();
        from.read_to_end(&mut found)?;
        let begin = self.begin.len() as u64;
        Ok((found == expected && begin <= tail_at).then_some(begin..tail_at))
    }

    /// Where the checksum is.
    fn tail_at<R: Read + Seek>(&self, from: &mut R, len: u64) -> io::Result<Option<u64>> {
        let tail_len = match self.sum {
            OldSum::Number | OldSum::Sha256 => 8,
            OldSum::Comment => "; checksum 0123456789abcdef\n".len() as u64,
            OldSum::Json => {
                const LINE_LEN_MAX: u64 = 80;
                let mut end = Vec::new();
                from.seek(SeekFrom::Start(len.saturating_sub(LINE_LEN_MAX)))?;
                from.read_to_end(&mut end)?;
                let Some(line) = end.strip_suffix(b"\n") else { return Ok(None) };
                let before = line.iter().rposition(|byte| *byte == b'\n');
                (end.len() - before.map_or(0, |at| at + 1)) as u64
            }
        };
        Ok(len.checked_sub(tail_len))
    }

    fn verify_sha256<R: Read + Seek>(
        &self,
        from: &mut R,
        line: &[u8],
        len: u64,
    ) -> io::Result<Option<Range<u64>>> {
        let at = line.len() as u64;
        let mut content = Vec::new();
        from.seek(SeekFrom::Start(at))?;
        from.read_to_end(&mut content)?;
        let digest = hex::encode(Sha256::digest(&content));
        let expected = format!("{} {digest}\n", content.len());
        Ok((line[self.begin.len()..] == *expected.as_bytes()).then_some(at..len))
    }
}
