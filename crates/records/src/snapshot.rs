//! What a snapshot looks like: all zones of a store at one moment, as a stream.
//!
//! ```text
//! snapshot  "DUNLIN RECORDS 1\n", revision (8), items, checksum (8)
//! item      1: a zone: length of its origin (1), origin, revision (8)
//!           2: a set of it: length of its key (2), key, length of its value (4), value
//!           0: the end
//! ```
//! Numbers are little-endian; keys and values are those of `codec`. A snapshot that is cut off,
//! damaged or of another form is refused as a whole.
use crate::{Revision, StoreError};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::io::{self, Read, Write};
use wire::{Name, NameBuf};

/// How every snapshot begins; the number is that of its form.
const MARK: &[u8] = b"DUNLIN RECORDS ";
const FORM: &[u8] = b"1\n";
/// Octets of the longest value: a set with data of every length that fits a message.
const VALUE_LEN_MAX: usize = 1 << 20;

/// Writes a snapshot.
pub struct Writer<'w> {
    to: &'w mut dyn Write,
    sum: SipHasher13,
    item: Vec<u8>,
}

impl<'w> Writer<'w> {
    /// Begins a snapshot of this revision.
    ///
    /// # Errors
    /// What `to` fails with; so below.
    pub fn new(to: &'w mut dyn Write, revision: Revision) -> io::Result<Self> {
        let mut writer = Self { to, sum: SipHasher13::new(), item: Vec::new() };
        writer.item.extend_from_slice(MARK);
        writer.item.extend_from_slice(FORM);
        writer.item.extend_from_slice(&revision.0.to_le_bytes());
        writer.put()?;
        Ok(writer)
    }

    /// A zone: its sets follow.
    pub fn zone(&mut self, origin: Name<'_>, revision: Revision) -> io::Result<()> {
        self.item.extend_from_slice(&[1, origin.len() as u8]);
        self.item.extend_from_slice(origin.octets());
        self.item.extend_from_slice(&revision.0.to_le_bytes());
        self.put()
    }

    /// A set of the zone before it.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.item.push(2);
        self.item.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.item.extend_from_slice(key);
        self.item.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.item.extend_from_slice(value);
        self.put()
    }

    /// There are no more zones.
    pub fn finish(mut self) -> io::Result<()> {
        self.item.push(0);
        self.put()?;
        self.to.write_all(&self.sum.finish().to_le_bytes())?;
        self.to.flush()
    }

    fn put(&mut self) -> io::Result<()> {
        self.sum.write(&self.item);
        self.to.write_all(&self.item)?;
        self.item.clear();
        Ok(())
    }
}

/// What a snapshot holds, one after the other.
#[derive(Clone, Copy, Debug)]
pub enum Item<'i> {
    /// A zone, in lower case, and when it was last written.
    Zone(&'i NameBuf, Revision),
    /// A set of the zone before it: its key and value.
    Set(&'i [u8], &'i [u8]),
}

/// Reads a snapshot and shows what it holds. Nothing of it is to be trusted before this returns.
///
/// # Errors
/// When it is none, is cut off or damaged, or `each` fails.
pub fn read(
    from: &mut dyn Read,
    each: &mut dyn FnMut(Item<'_>) -> Result<(), StoreError>,
) -> Result<Revision, StoreError> {
    let mut reader = Summed { from, sum: SipHasher13::new(), octets: Vec::new() };
    let mark = reader.take(MARK.len())?;
    if mark != MARK {
        return Err(failed("this is no snapshot of records"));
    }
    if reader.take(FORM.len())? != FORM {
        return Err(failed("the snapshot was written by a newer version: use that to restore it"));
    }
    let revision = Revision(reader.number(8)?);
    loop {
        match reader.number(1)? {
            0 => break,
            1 => {
                let len = reader.number(1)? as usize;
                let octets = reader.take(len)?;
                let origin = Name::parse(octets).map_err(|_| damaged())?;
                let mut origin = NameBuf::from(origin);
                origin.make_lowercase();
                let revision = Revision(reader.number(8)?);
                each(Item::Zone(&origin, revision))?;
            }
            2 => {
                let len = reader.number(2)? as usize;
                let key = reader.take(len)?.to_vec();
                let len = reader.number(4)? as usize;
                if len > VALUE_LEN_MAX {
                    return Err(damaged());
                }
                each(Item::Set(&key, reader.take(len)?))?;
            }
            _ => return Err(damaged()),
        }
    }
    let expected = reader.sum.finish();
    if reader.number(8)? == expected { Ok(revision) } else { Err(damaged()) }
}

fn failed(why: &str) -> StoreError {
    StoreError::Failed(why.into())
}

fn damaged() -> StoreError {
    failed("the snapshot is cut off or damaged: its checksum is another")
}

/// Sums up what is read.
struct Summed<'f> {
    from: &'f mut dyn Read,
    sum: SipHasher13,
    octets: Vec<u8>,
}

impl Summed<'_> {
    fn take(&mut self, len: usize) -> Result<&[u8], StoreError> {
        self.octets.resize(len, 0);
        self.from.read_exact(&mut self.octets).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged(),
            _ => failed(&format!("the snapshot cannot be read: {error}")),
        })?;
        self.sum.write(&self.octets);
        Ok(&self.octets)
    }

    fn number(&mut self, len: usize) -> Result<u64, StoreError> {
        let mut number = [0; 8];
        number[..len].copy_from_slice(self.take(len)?);
        Ok(u64::from_le_bytes(number))
    }
}
