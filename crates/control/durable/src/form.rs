//! The form of the files that a server reads again: a line, then the content.
//!
//! ```text
//! ; Dunlin's copy of example.org., form 2, 00000000000000001234 bytes, checksum 0123456789abcdef
//! ```
//! The line says what the file is, what it belongs to, the form of the content and its length. The
//! checksum, SipHash-1-3, covers the content and the line. It is a comment where the content has
//! comments. What does not verify is an error that names the file: it is neither taken for an empty
//! one nor overwritten (invariant I12).
use crate::files::{self, Folder};
use crate::old::OldForm;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::io::{self, BufRead, BufReader, BufWriter, Cursor, Read, Seek, SeekFrom, Take, Write};
use std::path::Path;

/// Bytes of the longest first line.
const HEAD_LEN_MAX: u64 = 64 << 10;
/// Bytes that are written or read at once.
const BUFFER_LEN: usize = 1 << 18;

/// What a file is and what it belongs to.
#[derive(Clone, Debug)]
pub struct FileForm {
    /// What it is, such as "copy".
    pub what: &'static str,
    /// What it belongs to, such as the name of a zone.
    pub owner: String,
    /// The form of its content.
    pub form: u32,
    /// The most bytes of its content.
    pub len_max: u64,
    /// How older versions wrote it.
    pub old: Vec<OldForm>,
}

/// Why a file is not used.
const DAMAGED: &str = "is cut off or damaged";

fn unreadable(why: io::Error) -> String {
    format!("cannot be read: {why}")
}

impl FileForm {
    /// How a file of this kind begins, whomever it belongs to.
    pub fn begin(&self) -> String {
        format!("; Dunlin's {} of ", self.what)
    }

    /// The owner as the first line has it.
    fn owner(&self) -> String {
        self.owner.replace(char::is_control, "?")
    }

    /// The first line up to the checksum.
    fn head(&self, len: u64) -> String {
        let (begin, owner) = (self.begin(), self.owner());
        format!("{begin}{owner}, form {}, {len:020} bytes, checksum ", self.form)
    }

    fn head_line(&self, len: u64, mut sum: SipHasher13) -> String {
        let head = self.head(len);
        sum.write(head.as_bytes());
        format!("{head}{:016x}\n", sum.finish())
    }

    /// Where the content begins in a file that [`FileForm::write`] wrote.
    pub fn content_at(&self) -> u64 {
        self.head_line(0, SipHasher13::new()).len() as u64
    }

    /// Replaces a file. The old one stays until the new one is complete and durable.
    ///
    /// # Errors
    /// The errors of `write` and of the disk.
    pub fn replace(
        &self,
        path: &Path,
        mode: u32,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        files::replace(path, mode, |file| self.write(file, write))
    }

    /// Writes an empty file.
    ///
    /// # Errors
    /// The errors of `write` and of `out`.
    pub fn write(
        &self,
        out: impl Write + Seek,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let out = BufWriter::with_capacity(BUFFER_LEN, out);
        let mut out = SumWriter { out, sum: SipHasher13::new(), len: 0 };
        // The length and the checksum are not known yet.
        out.out.write_all(self.head_line(0, SipHasher13::new()).as_bytes())?;
        write(&mut out)?;
        // This also writes what is in the buffer.
        out.out.seek(SeekFrom::Start(0))?;
        out.out.write_all(self.head_line(out.len, out.sum).as_bytes())?;
        out.out.flush()
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// The errors of `write`.
    pub fn bytes(
        &self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.write(Cursor::new(&mut bytes), write)?;
        Ok(bytes)
    }

    /// Opens a file at its content, which is verified; `None`: there is no file.
    ///
    /// # Errors
    /// The file, and why it is not used. It stays as it is.
    pub fn open(&self, path: &Path) -> Result<Option<Take<impl BufRead + use<>>>, String> {
        let fault = |why| format!("{}: {why}", path.display());
        let opened = files::split(path)
            .and_then(|(folder, name)| Folder::open(folder).and_then(|folder| folder.read(name)));
        match opened {
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(fault(unreadable(why))),
            Ok(file) => {
                let file = BufReader::with_capacity(BUFFER_LEN, file);
                self.verify(file).map(Some).map_err(fault)
            }
        }
    }

    /// The content of an open file or of bytes, which is verified.
    ///
    /// # Errors
    /// Why the file is not used.
    pub fn verify<R: BufRead + Seek>(&self, mut from: R) -> Result<Take<R>, String> {
        let (at, len) = self.locate(&mut from).map_err(unreadable)??;
        if len > self.len_max {
            return Err(format!("has {len} bytes, and {} are the most", self.len_max));
        }
        from.seek(SeekFrom::Start(at)).map_err(unreadable)?;
        Ok(from.take(len))
    }

    /// Where the content is, and its length.
    fn locate<R: BufRead + Seek>(&self, from: &mut R) -> io::Result<Result<(u64, u64), String>> {
        let damaged = || Ok(Err(DAMAGED.into()));
        from.seek(SeekFrom::Start(0))?;
        let mut line = Vec::new();
        from.by_ref().take(HEAD_LEN_MAX).read_until(b'\n', &mut line)?;
        if let Some(old) = self.old.iter().find(|old| line.starts_with(&old.begin)) {
            from.read_to_end(&mut line)?;
            let content = old.verify(&line).ok_or_else(|| DAMAGED.to_owned());
            return Ok(content.map(|content| (content.start as u64, content.len() as u64)));
        }
        let head = str::from_utf8(&line).unwrap_or_default();
        if !head.starts_with(&self.begin()) && !line.is_empty() {
            return Ok(Err(format!("does not begin like Dunlin's {}", self.what)));
        }
        let Some((owner, form, len, sum)) = self.parse(head) else { return damaged() };
        let mut read = SumWriter { out: io::sink(), sum: SipHasher13::new(), len: 0 };
        io::copy(from, &mut read)?;
        read.sum.write(&line[..line.len() - 17]);
        if read.len != len || format!("{:016x}", read.sum.finish()) != sum {
            return damaged();
        }
        Ok(if form != self.form {
            let known = self.form;
            Err(format!(
                "has form {form}, and this version reads {known}: use the version that wrote it"
            ))
        } else if owner != self.owner() {
            Err(format!("belongs to another one: {owner}"))
        } else {
            Ok((line.len() as u64, len))
        })
    }

    /// Owner, form, length and checksum of a first line.
    fn parse<'l>(&self, line: &'l str) -> Option<(&'l str, u32, u64, &'l str)> {
        let (owner, rest) = line.strip_prefix(&self.begin())?.rsplit_once(", form ")?;
        let (form, rest) = rest.split_once(", ")?;
        let (len, sum) = rest.split_once(" bytes, checksum ")?;
        let sum = sum.strip_suffix('\n').filter(|sum| sum.len() == 16)?;
        Some((owner, form.parse().ok()?, len.parse().ok()?, sum))
    }

    /// Whether a file has this content. Stops at the first difference.
    pub fn holds(
        &self,
        file: impl Read,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> bool {
        let mut file = BufReader::with_capacity(BUFFER_LEN, file);
        let mut line = Vec::new();
        if file.by_ref().take(HEAD_LEN_MAX).read_until(b'\n', &mut line).is_err() {
            return false;
        }
        let same = SameReader { file, bytes: Vec::new() };
        let mut same = SumWriter { out: same, sum: SipHasher13::new(), len: 0 };
        let is_same = write(&mut same).is_ok();
        let is_end = same.out.file.read(&mut [0]).is_ok_and(|more| more == 0);
        is_same && is_end && line == self.head_line(same.len, same.sum).as_bytes()
    }
}

/// Passes bytes on, and computes their checksum and length.
struct SumWriter<W> {
    out: W,
    sum: SipHasher13,
    len: u64,
}

impl<W: Write> Write for SumWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.out.write(bytes)?;
        self.sum.write(&bytes[..len]);
        self.len += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Compares what is written with a file, and fails at the first difference.
struct SameReader<R> {
    file: BufReader<R>,
    bytes: Vec<u8>,
}

impl<R: Read> Write for SameReader<R> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.bytes.resize(text.len(), 0);
        self.file.read_exact(&mut self.bytes)?;
        match self.bytes == text {
            true => Ok(text.len()),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
