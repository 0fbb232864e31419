//! The format of snapshots: all zones of a store at one moment, as a stream.
//!
//! ```text
//! snapshot  "DUNLIN RECORDS 5\n", revision (8), items, checksum (8)
//! item      1: a zone: length of its origin (1), origin, revision (8), offset of its serials (4)
//!           2: a set of it: length of its key (2), key, length of its value (4), value
//!           0: the end
//! ```
//! Numbers are little-endian; keys and values are those of `codec`, in their order. In the older
//! format "DUNLIN RECORDS 4\n" no set has weights, locations or a policy but `all` and `failover`,
//! is of a view or an ALIAS record, in "DUNLIN RECORDS 3\n" none has a comment, in "DUNLIN RECORDS
//! 2\n" all sets are plain. "DUNLIN RECORDS 1\n" also has no offsets; they are read as 0. A
//! truncated, damaged or newer snapshot is refused as a whole.
use crate::codec::{self, zone_key};
use crate::form::{self, Form};
use crate::limits::ZONES_MAX;
use crate::serial::SerialStamp;
use crate::{Policy, Revision, SetRules, SetValue, StoreError};
use model::{RecordSet, View};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::io::{self, Read, Write};
use wire::{Name, NameBuf, Rtype};

/// The start of every snapshot; the format number follows.
const MARK: &[u8] = b"DUNLIN RECORDS ";
/// The newest format. A snapshot has that of the store's [`Form`].
pub const FORMAT: u8 = Form::NEWEST.of_snapshot();
/// The oldest format that [`SnapshotWriter::in_format`] writes.
pub const FORMAT_MIN: u8 = 2;
/// The first formats in which sets may have rules, comments, and weights with their policies.
const WITH_RULES: u8 = 3;
const WITH_COMMENTS: u8 = 4;
const WITH_POLICIES: u8 = 5;
const FORM_LEN: usize = 2;
/// Bytes of the longest value: the largest set that fits a message.
const VALUE_LEN_MAX: usize = 1 << 20;
/// The largest accepted revision; real ones are far below, and later ones still have numbers.
const REVISION_MAX: u64 = i64::MAX as u64;

/// Writes a snapshot.
pub struct SnapshotWriter<'w> {
    to: &'w mut dyn Write,
    sum: SipHasher13,
    item: Vec<u8>,
}

impl<'w> SnapshotWriter<'w> {
    /// Begins a snapshot of this revision, of a store of this form.
    ///
    /// # Errors
    /// The errors of `to`.
    pub fn new(to: &'w mut dyn Write, revision: Revision, form: Form) -> io::Result<Self> {
        Self::in_format(to, revision, form.of_snapshot())
    }

    /// Begins a snapshot in a format from [`FORMAT_MIN`] to [`FORMAT`]. In a format without rules
    /// or comments, the caller adds only sets without them.
    ///
    /// # Errors
    /// The errors of `to`.
    pub fn in_format(to: &'w mut dyn Write, revision: Revision, format: u8) -> io::Result<Self> {
        let mut writer = Self { to, sum: SipHasher13::new(), item: Vec::new() };
        writer.item.extend_from_slice(MARK);
        writer.item.extend_from_slice(&[b'0' + format, b'\n']);
        writer.item.extend_from_slice(&revision.0.to_le_bytes());
        writer.put()?;
        Ok(writer)
    }

    /// Adds a zone; its sets follow.
    pub fn zone(&mut self, origin: Name<'_>, stamp: SerialStamp) -> io::Result<()> {
        self.item.extend_from_slice(&[1, origin.len() as u8]);
        self.item.extend_from_slice(origin.as_bytes());
        self.item.extend_from_slice(&stamp.revision.0.to_le_bytes());
        self.item.extend_from_slice(&stamp.offset.to_le_bytes());
        self.put()
    }

    /// Adds a set of the last zone.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.item.push(2);
        self.item.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.item.extend_from_slice(key);
        self.item.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.item.extend_from_slice(value);
        self.put()
    }

    /// Ends the snapshot.
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

/// The revision of a snapshot with this start; `None` if it is invalid or too short.
pub fn revision(start: &[u8]) -> Option<Revision> {
    let ([digit, b'\n'], rest) = start.strip_prefix(MARK)?.split_first_chunk::<FORM_LEN>()? else {
        return None;
    };
    let is_known = read_format(*digit).is_some();
    let revision = rest.first_chunk().filter(|_| is_known)?;
    Some(Revision(u64::from_le_bytes(*revision)))
}

/// The format with this digit; `None`: it is newer.
fn read_format(digit: u8) -> Option<u8> {
    digit.checked_sub(b'0').filter(|format| (1..=FORMAT).contains(format))
}

/// An item of a snapshot.
#[derive(Clone, Copy, Debug)]
pub enum SnapshotItem<'i> {
    /// First: the form that a store needs for it.
    Form(Form),
    /// A zone in lower case, with its last revision and the offset of its serials.
    Zone(&'i NameBuf, SerialStamp),
    /// A set of the last zone: key and value.
    Set(&'i [u8], &'i [u8]),
}

/// Reads a snapshot and passes its items to `each`: valid zones, keys and record sets, in order.
/// The checksum is verified only at the end.
///
/// # Errors
/// The snapshot is invalid, truncated or damaged, or `each` fails.
pub fn read(
    from: &mut dyn Read,
    each: &mut dyn FnMut(SnapshotItem<'_>) -> Result<(), StoreError>,
) -> Result<Revision, StoreError> {
    let mut reader = ChecksumReader { from, sum: SipHasher13::new(), bytes: Vec::new() };
    let mark = reader.take(MARK.len())?;
    if mark != MARK {
        return Err(failed("this is not a snapshot of records"));
    }
    let format = match reader.take(FORM_LEN)? {
        [digit, b'\n'] if read_format(*digit).is_some() => digit - b'0',
        _ => {
            return Err(failed(&format!(
                "the snapshot was written by a newer version: use that to restore it, or to write \
                 it again by `dunlin zones snapshot --format {FORMAT} FILE`"
            )));
        }
    };
    let has_offsets = format >= 2;
    let revision = Revision(reader.number(8)?);
    let mut seen = SnapshotOrder { revision, format, ..SnapshotOrder::default() };
    if seen.revision.0 > REVISION_MAX {
        return Err(wrong("its revision"));
    }
    each(SnapshotItem::Form(Form::from_snapshot(format)))?;
    loop {
        match reader.number(1)? {
            0 => break,
            1 => {
                let len = reader.number(1)? as usize;
                let bytes = reader.take(len)?;
                let origin = Name::parse(bytes).map_err(|_| wrong("a zone"))?;
                let mut origin = NameBuf::from(origin);
                origin.make_lowercase();
                let revision = Revision(reader.number(8)?);
                let offset = if has_offsets { reader.number(4)? as u32 } else { 0 };
                seen.zone(&origin, revision)?;
                each(SnapshotItem::Zone(&origin, SerialStamp { revision, offset }))?;
            }
            2 => {
                let len = reader.number(2)? as usize;
                let key = reader.take(len)?.to_vec();
                let len = reader.number(4)? as usize;
                if len > VALUE_LEN_MAX {
                    return Err(damaged());
                }
                let value = reader.take(len)?;
                seen.set(&key, value)?;
                each(SnapshotItem::Set(&key, value))?;
            }
            _ => return Err(damaged()),
        }
    }
    let expected = reader.sum.finish();
    if reader.number(8)? == expected { Ok(seen.revision) } else { Err(damaged()) }
}

/// The last items, to check the order.
#[derive(Default)]
struct SnapshotOrder {
    /// The snapshot's revision; no item is newer.
    revision: Revision,
    format: u8,
    zones: usize,
    /// The last zone, its key, and the key of its last set.
    zone: Option<NameBuf>,
    zone_key: Vec<u8>,
    set_key: Option<Vec<u8>>,
    name: Vec<u8>,
}

impl SnapshotOrder {
    fn zone(&mut self, origin: &NameBuf, revision: Revision) -> Result<(), StoreError> {
        let key = zone_key(origin.as_name());
        let is_next = self.zone.is_none() || key > self.zone_key;
        if !is_next || revision > self.revision {
            return Err(wrong(&origin.to_string()));
        }
        self.zones += 1;
        if self.zones > ZONES_MAX {
            return Err(failed(&format!(
                "too many zones in the store: the maximum is {ZONES_MAX}"
            )));
        }
        (self.zone, self.zone_key, self.set_key) = (Some(origin.clone()), key, None);
        Ok(())
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let zone = self.zone.as_ref().ok_or_else(|| wrong("a set"))?.as_name();
        let of_zone = || wrong(&format!("a set of {zone}"));
        let (view, rtype) = codec::read_key(key, &mut self.name).map_err(|_| of_zone())?;
        let (revision, held) = codec::read_value(value).map_err(|_| of_zone())?;
        let name = NameBuf::joined(&self.name, zone).map_err(|_| of_zone())?;
        let is_next = self.set_key.as_ref().is_none_or(|last| key > &last[..]);
        let is_lower = !self.name.iter().any(u8::is_ascii_uppercase);
        let set = RecordSet::new(rtype, held.ttl, held.records().map(Box::from));
        let policy = Policy::unpack(held.rules);
        let has_valid_rules = match policy.as_ref().map(Policy::rules) {
            Some(None) => true,
            Some(Some(rules)) => {
                let is_known =
                    kept(self.format, rtype, &Policy::Rules(rules.clone().into())).is_none();
                is_known && rules.check(rtype, held.records().count()).is_ok()
            }
            None => false,
        };
        let is_new = revision > self.revision;
        let has_valid_rules = has_valid_rules && unknown(self.format, view, rtype).is_none();
        if !is_next || !is_lower || is_new || set.is_err() || !has_valid_rules {
            return Err(wrong(&format!("{name} {rtype}")));
        }
        self.set_key = Some(key.to_vec());
        Ok(())
    }
}

fn wrong(what: &str) -> StoreError {
    failed(&format!("the snapshot is damaged: {what} is invalid"))
}

fn failed(why: &str) -> StoreError {
    StoreError::Failed(why.into())
}

fn damaged() -> StoreError {
    failed("the snapshot is truncated or damaged: its checksum is wrong")
}

/// A set that an older format cannot hold as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossySet {
    /// Its name.
    pub name: NameBuf,
    /// Its type.
    pub rtype: Rtype,
    /// What it loses.
    pub loses: &'static str,
}

/// `www.example.org. A: its comment`.
impl std::fmt::Display for LossySet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.name, self.rtype, self.loses)
    }
}

/// What of the policy of a set of this type a format can hold, and what is lost; `None`: nothing.
fn kept(format: u8, rtype: Rtype, policy: &Policy) -> Option<(Policy, &'static str)> {
    let has_choice = policy.rules().is_some_and(SetRules::has_choice);
    let has_comment = !policy.comment().is_empty();
    let is_newer = form::is_next(policy) && format < FORMAT;
    let loses_comment = has_comment && format < WITH_COMMENTS || is_newer;
    let is_plain = policy.rules().is_none_or(|rules| rules.is_plain(rtype));
    let loses_choice = has_choice && format < WITH_RULES || !is_plain && format < WITH_POLICIES;
    match (loses_choice, loses_comment) {
        (false, false) => None,
        (false, true) => Some((policy.clone().with_comment(""), "its comment")),
        (true, false) if is_plain => Some((comment_of(policy), "its policy, check and tiers")),
        (true, false) => {
            Some((comment_of(policy), "its policy, check, tiers, weights and locations"))
        }
        (true, true) if is_plain => Some((Policy::All, "its policy, check, tiers and comment")),
        (true, true) => {
            Some((Policy::All, "its policy, check, tiers, weights, locations and comment"))
        }
    }
}

/// Why a format cannot hold a set of this view and type; `None`: it can.
fn unknown(format: u8, view: View, rtype: Rtype) -> Option<&'static str> {
    match rtype {
        _ if format >= WITH_POLICIES => None,
        _ if view != View::DEFAULT => Some("the whole set, which is of a view"),
        Rtype::ALIAS => Some("the whole set, which stands for addresses"),
        _ => None,
    }
}

/// A plain set with the comment of a policy.
fn comment_of(policy: &Policy) -> Policy {
    Policy::All.with_comment(policy.comment())
}

/// Writes a snapshot again in an older format. Returns the sets that lose something.
///
/// # Errors
/// As [`read`], or those of `to`.
pub fn convert(
    from: &mut dyn Read,
    to: &mut dyn Write,
    revision: Revision,
    format: u8,
) -> Result<Vec<LossySet>, StoreError> {
    let unwritten = |error: io::Error| failed(&format!("the snapshot cannot be written: {error}"));
    let mut writer = SnapshotWriter::in_format(to, revision, format).map_err(unwritten)?;
    let (mut lost, mut zone) = (Vec::new(), NameBuf::from(Name::ROOT));
    let (mut name, mut less) = (Vec::new(), Vec::new());
    read(from, &mut |item| match item {
        SnapshotItem::Form(_) => Ok(()),
        SnapshotItem::Zone(origin, stamp) => {
            zone = origin.clone();
            writer.zone(origin.as_name(), stamp).map_err(unwritten)
        }
        SnapshotItem::Set(key, value) => {
            let (revision, held) = codec::read_value(value)?;
            let policy = Policy::unpack(held.rules).ok_or_else(damaged)?;
            let (view, rtype) = codec::read_key(key, &mut name)?;
            if let Some(loses) = unknown(format, view, rtype) {
                let name = NameBuf::joined(&name, zone.as_name()).map_err(|_| damaged())?;
                lost.push(LossySet { name, rtype, loses });
                return Ok(());
            }
            let Some((policy, loses)) = kept(format, rtype, &policy) else {
                return writer.set(key, value).map_err(unwritten);
            };
            let name = NameBuf::joined(&name, zone.as_name()).map_err(|_| damaged())?;
            lost.push(LossySet { name, rtype, loses });
            less.clear();
            let value = SetValue { policy, ..held.to_value() };
            codec::set_value(&mut less, revision, &value);
            writer.set(key, &less).map_err(unwritten)
        }
    })?;
    writer.finish().map_err(unwritten)?;
    Ok(lost)
}

/// Computes the checksum of what is read.
struct ChecksumReader<'f> {
    from: &'f mut dyn Read,
    sum: SipHasher13,
    bytes: Vec<u8>,
}

impl ChecksumReader<'_> {
    fn take(&mut self, len: usize) -> Result<&[u8], StoreError> {
        self.bytes.resize(len, 0);
        self.from.read_exact(&mut self.bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged(),
            _ => failed(&format!("the snapshot cannot be read: {error}")),
        })?;
        self.sum.write(&self.bytes);
        Ok(&self.bytes)
    }

    fn number(&mut self, len: usize) -> Result<u64, StoreError> {
        let mut number = [0; 8];
        number[..len].copy_from_slice(self.take(len)?);
        Ok(u64::from_le_bytes(number))
    }
}

#[cfg(test)]
mod tests;
