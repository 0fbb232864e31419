//! Composes a message in place. Names are compressed against those written before.
use crate::limits::SUFFIXES_MAX;
use crate::{HEADER_LEN, Name, RdataField, Rtype, age_records, layout};

/// There is no room left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSpace;

/// Offsets in a pointer have 14 bits (RFC 1035 §4.1.4).
const POINTER_MAX: usize = 0x3fff;
const POINTER: u16 = 0xc000;

/// Names written so far, as targets of pointers: offset in the message, and uncompressed length.
#[derive(Clone, Debug)]
pub struct Suffixes {
    entries: [(u16, u8); SUFFIXES_MAX],
    len: usize,
}

impl Suffixes {
    /// No targets.
    pub const fn new() -> Self {
        Self { entries: [(0, 0); SUFFIXES_MAX], len: 0 }
    }
}

impl Default for Suffixes {
    fn default() -> Self {
        Self::new()
    }
}

/// A position to return to if a record set does not fit.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    at: usize,
    suffixes: usize,
}

/// Appends to a message, up to its limit.
#[derive(Debug)]
pub struct Composer<'b> {
    buf: &'b mut [u8],
    at: usize,
    limit: usize,
    suffixes: &'b mut Suffixes,
}

impl<'b> Composer<'b> {
    /// Appends behind the first `at` bytes of `buf`, which are header and question, up to `limit`
    /// bytes in all.
    #[inline]
    pub fn new(buf: &'b mut [u8], at: usize, limit: usize, suffixes: &'b mut Suffixes) -> Self {
        suffixes.len = 0;
        Self { buf, at, limit, suffixes }
    }

    /// The buffer, and the length of the message.
    #[inline]
    pub fn into_parts(self) -> (&'b mut [u8], usize) {
        (self.buf, self.at)
    }

    /// The next `len` bytes to write to.
    #[inline]
    fn room(&mut self, len: usize) -> Result<&mut [u8], NoSpace> {
        let end = self.at + len;
        if end > self.limit {
            return Err(NoSpace);
        }
        let room = self.buf.get_mut(self.at..end).ok_or(NoSpace)?;
        self.at = end;
        Ok(room)
    }

    /// Bytes of the message so far.
    #[inline]
    pub fn len(&self) -> usize {
        self.at
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.at == 0
    }

    /// The current position.
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark { at: self.at, suffixes: self.suffixes.len }
    }

    /// Removes everything written since `mark`.
    pub fn rewind(&mut self, mark: Mark) {
        self.at = mark.at;
        self.suffixes.len = mark.suffixes;
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// [`NoSpace`] if they do not fit; nothing is written then.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), NoSpace> {
        self.room(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    /// Appends a fixed number of bytes.
    ///
    /// # Errors
    /// As [`Composer::put`].
    #[inline]
    pub fn put_array<const N: usize>(&mut self, bytes: [u8; N]) -> Result<(), NoSpace> {
        self.room(N)?.copy_from_slice(&bytes);
        Ok(())
    }

    /// Overwrites two bytes written before.
    #[inline]
    pub fn patch_u16(&mut self, at: usize, value: u16) {
        self.buf[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    /// Appends whole records of another message with the same question; `age` maps their TTLs.
    ///
    /// # Errors
    /// As [`Composer::put`].
    #[inline]
    pub fn put_records(&mut self, records: &[u8], age: impl Fn(u32) -> u32) -> Result<(), NoSpace> {
        let room = self.room(records.len())?;
        room.copy_from_slice(records);
        age_records(room, age);
        Ok(())
    }

    /// Adds the question's name to the targets of pointers.
    fn remember_question(&mut self) {
        if self.at <= HEADER_LEN {
            return;
        }
        let (mut label, mut end) = (HEADER_LEN, HEADER_LEN);
        while self.buf[end] != 0 {
            end += 1 + usize::from(self.buf[end]);
        }
        while label < end {
            self.note(label, end + 1 - label);
            label += 1 + usize::from(self.buf[label]);
        }
    }

    fn note(&mut self, at: usize, len: usize) {
        if at <= POINTER_MAX && self.suffixes.len < SUFFIXES_MAX {
            self.suffixes.entries[self.suffixes.len] = (at as u16, len as u8);
            self.suffixes.len += 1;
        }
    }

    /// Appends a name, compressed as far as possible.
    ///
    /// # Errors
    /// As [`Composer::put`], but a part of the name may have been written.
    pub fn put_name(&mut self, name: Name<'_>) -> Result<(), NoSpace> {
        if self.suffixes.len == 0 {
            self.remember_question();
        }
        let mut rest = name;
        let known = self.suffixes.len;
        while let Some(parent) = rest.parent() {
            if let Some(pointer) = self.find(rest, known) {
                return self.put_array((POINTER | pointer).to_be_bytes());
            }
            let label = &rest.as_bytes()[..rest.len() - parent.len()];
            let at = self.at;
            self.put(label)?;
            self.note(at, rest.len());
            rest = parent;
        }
        self.put_array([0])
    }

    /// The offset of `name`, if it is among the first `known` suffixes.
    fn find(&self, name: Name<'_>, known: usize) -> Option<u16> {
        self.suffixes.entries[..known]
            .iter()
            .find(|(at, len)| {
                usize::from(*len) == name.len() && self.matches_at(name, (*at).into())
            })
            .map(|(at, _)| *at)
    }

    /// Whether the name at `at` is `name`. Its pointers lead backwards, because this crate wrote
    /// them.
    fn matches_at(&self, name: Name<'_>, mut at: usize) -> bool {
        let mut rest = name;
        loop {
            let len = self.buf[at];
            if len >= 0xc0 {
                at = usize::from(u16::from_be_bytes([len, self.buf[at + 1]]) & !POINTER);
                continue;
            }
            let Some(parent) = rest.parent() else { return len == 0 };
            let label = &rest.as_bytes()[..rest.len() - parent.len()];
            match self.buf.get(at..at + label.len()) {
                Some(bytes) if bytes.eq_ignore_ascii_case(label) => at += label.len(),
                _ => return false,
            }
            rest = parent;
        }
    }

    /// Appends a record's data behind its length, with names compressed where allowed.
    ///
    /// # Errors
    /// As [`Composer::put`], but a part may have been written.
    pub fn put_rdata(&mut self, rtype: Rtype, rdata: &[u8]) -> Result<(), NoSpace> {
        let length_at = self.at;
        self.put_array([0; 2])?;
        let mut rest = rdata;
        for field in layout(rtype) {
            match field {
                RdataField::Bytes(count) => {
                    let (bytes, behind) = rest.split_at((*count).min(rest.len()));
                    self.put(bytes)?;
                    rest = behind;
                }
                RdataField::Name => {
                    let Ok(name) = Name::parse(rest) else { break };
                    self.put_name(name)?;
                    rest = &rest[name.len()..];
                }
            }
        }
        self.put(rest)?;
        self.patch_u16(length_at, (self.at - length_at - 2) as u16);
        Ok(())
    }
}
