//! The encoding of sets and journal entries in a store. Keys sort in canonical order. Numbers are
//! little-endian in values and big-endian in keys.
//!
//! ```text
//! set key    name (labels from the right, each ended by 0; 0 and 1 in them as 1 1 and 1 2),
//!            0, view, type (2)
//! view       0, that of all clients, or the length of its name (1), its name
//! set value  revision (8), then its content
//! content    TTL (4), 0 or, for a set with rules, 1, their length (2) and the rules (see `model`);
//!            records (2), each after its length (2)
//! entry      time (8, milliseconds since 1970), kind (1), sets (8), length of the principal (1),
//!            principal; if kind has its highest bit set: length of the reason (1), reason;
//!            then each change: length of the name (1), name, type (2), view, before, after:
//!            each 0, or 1 and the content, without records if the journal does not keep them
//! write      bytes of the rest (4), revision (8), flags (1), length of the zone's name (1),
//!            the name, the offset of its serials if it changes (4), an entry with every change
//! flags      1: the zone is deleted; 2: the offset changes
//! ```
use crate::form;
use crate::limits::{
    JOURNAL_DATA_MAX, JOURNAL_EDITS_MAX, JOURNAL_NAMES_MAX, PRINCIPAL_LEN_MAX, REASON_LEN_MAX,
};
use crate::{
    Action, ChangeKind, Deletion, JournalEntry, Policy, PreparedWrite, RawSet, Revision, SetKey,
    SetValue, StoreError, View, WrittenSet,
};
use model::sort_key;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use wire::{Name, Rtype};

/// Stored bytes that were never written so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedRecord;

impl fmt::Display for DamagedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the store is damaged")
    }
}

impl std::error::Error for DamagedRecord {}

impl From<DamagedRecord> for StoreError {
    fn from(damaged: DamagedRecord) -> Self {
        Self::Damaged(damaged.to_string())
    }
}

/// Bytes of a write's length.
const LEN: usize = 4;
/// Set in the kind of an entry with a reason.
const HAS_REASON: u8 = 0x80;

/// The key of a zone; keys sort in canonical order.
pub fn zone_key(origin: Name<'_>) -> Vec<u8> {
    let bytes = origin.as_bytes().to_ascii_lowercase();
    let mut key = Vec::new();
    sort_key(&mut key, &bytes[..bytes.len() - 1]);
    key
}

/// Appends the key of a set. Its name is relative and in lower case.
pub fn set_key(into: &mut Vec<u8>, name: &[u8], view: View, rtype: Rtype) {
    sort_key(into, name);
    into.push(0);
    put_view(into, view);
    into.extend_from_slice(&rtype.0.to_be_bytes());
}

fn put_view(into: &mut Vec<u8>, view: View) {
    let name = view.as_bytes();
    into.push(name.len() as u8);
    into.extend_from_slice(name);
}

fn read_view(from: &mut &[u8]) -> Result<View, DamagedRecord> {
    let [len] = take(from)?;
    View::from_bytes(bytes(from, len.into())?).ok_or(DamagedRecord)
}

/// Parses the relative name, view and type of a key.
///
/// # Errors
/// The key is invalid.
pub fn read_key(key: &[u8], name: &mut Vec<u8>) -> Result<(View, Rtype), DamagedRecord> {
    name.clear();
    let (mut whole, mut end) = ([0; Name::LEN_MAX], Name::LEN_MAX);
    let (mut label, mut len) = ([0; Name::LABEL_MAX], 0);
    let mut bytes = key.iter();
    loop {
        let byte = *bytes.next().ok_or(DamagedRecord)?;
        if byte != 0 {
            let plain = match byte {
                1 => match bytes.next() {
                    Some(escaped @ (1 | 2)) => escaped - 1,
                    _ => return Err(DamagedRecord),
                },
                plain => plain,
            };
            *label.get_mut(len).ok_or(DamagedRecord)? = plain;
            len += 1;
            continue;
        }
        // After the last label.
        if len == 0 {
            break;
        }
        let start = end.checked_sub(1 + len).ok_or(DamagedRecord)?;
        whole[start] = len as u8;
        whole[start + 1..end].copy_from_slice(&label[..len]);
        (end, len) = (start, 0);
    }
    name.extend_from_slice(&whole[end..]);
    let mut tail = bytes.as_slice();
    let view = read_view(&mut tail)?;
    let rtype = <[u8; 2]>::try_from(tail).map_err(|_| DamagedRecord)?;
    Ok((view, Rtype(u16::from_be_bytes(rtype))))
}

/// Appends the value of a set.
pub fn set_value(into: &mut Vec<u8>, revision: Revision, value: &SetValue) {
    into.extend_from_slice(&revision.0.to_le_bytes());
    holds(into, value);
}

fn holds(into: &mut Vec<u8>, value: &SetValue) {
    into.extend_from_slice(&value.ttl.to_le_bytes());
    let rules = value.policy.pack();
    into.push(if rules.is_empty() { 0 } else { form::rules_mark(value) });
    if !rules.is_empty() {
        into.extend_from_slice(&(rules.len() as u16).to_le_bytes());
        into.extend_from_slice(&rules);
    }
    into.extend_from_slice(&(value.data.len() as u16).to_le_bytes());
    for data in &value.data {
        into.extend_from_slice(&(data.len() as u16).to_le_bytes());
        into.extend_from_slice(data);
    }
}

/// The content of a set, as stored.
#[derive(Clone, Copy, Debug)]
pub struct SetContent<'h> {
    /// Its TTL in seconds.
    pub ttl: u32,
    /// The packed rules; empty: a plain set.
    pub rules: &'h [u8],
    count: u16,
    /// The records, each after its length.
    data: &'h [u8],
}

impl<'h> SetContent<'h> {
    /// The data of each record.
    pub fn records(&self) -> impl Iterator<Item = &'h [u8]> {
        let mut rest = self.data;
        std::iter::from_fn(move || record(&mut rest).ok())
    }

    /// Copies the content.
    pub fn to_value(&self) -> SetValue {
        let mut data = Vec::with_capacity(self.count.into());
        data.extend(self.records().map(Box::from));
        // They were read before.
        let policy = Policy::unpack(self.rules).unwrap_or(Policy::All);
        SetValue { ttl: self.ttl, policy, data }
    }
}

/// Parses the revision and content of a set.
///
/// # Errors
/// The value is invalid.
pub fn read_value(mut bytes: &[u8]) -> Result<(Revision, SetContent<'_>), DamagedRecord> {
    let from = &mut bytes;
    let revision = Revision(number(from)?);
    let held = read_holds(from)?;
    if from.is_empty() { Ok((revision, held)) } else { Err(DamagedRecord) }
}

fn read_holds<'h>(from: &mut &'h [u8]) -> Result<SetContent<'h>, DamagedRecord> {
    let ttl = u32::from_le_bytes(take(from)?);
    let rules = match take(from)? {
        [0] => &[],
        [mark] if form::is_rules_mark(mark) => {
            let len = u16::from_le_bytes(take(from)?);
            let rules = bytes(from, len.into())?;
            let is_valid = Policy::unpack(rules).is_some_and(|policy| policy != Policy::All);
            if is_valid { rules } else { return Err(DamagedRecord) }
        }
        _ => return Err(DamagedRecord),
    };
    let count = u16::from_le_bytes(take(from)?);
    let all = *from;
    for _ in 0..count {
        record(from)?;
    }
    let data = &all[..all.len() - from.len()];
    Ok(SetContent { ttl, rules, count, data })
}

fn record<'h>(from: &mut &'h [u8]) -> Result<&'h [u8], DamagedRecord> {
    let len = u16::from_le_bytes(take(from)?);
    bytes(from, len.into())
}

/// Appends the journal entry of a write: with data for a small one, with names and types for a
/// larger one, and else with the number of sets.
pub fn entry(into: &mut Vec<u8>, write: &PreparedWrite) {
    let (kind, count, changes) = write.journaled();
    entry_head(
        into,
        &JournalHead { when: write.when, kind, count, by: &write.by, reason: &write.reason },
    );
    if changes.len() <= JOURNAL_NAMES_MAX {
        entry_changes(into, changes, keeps_data(changes));
    }
}

/// Whether the journal stores the data of changes.
fn keeps_data(changes: &[WrittenSet]) -> bool {
    let values = changes.iter().flat_map(|change| [&change.before, &change.after]).flatten();
    let mut bytes = 0;
    changes.len() <= JOURNAL_EDITS_MAX
        && values.into_iter().all(|value| {
            bytes += value.data.iter().map(|data| data.len()).sum::<usize>();
            value.is_kept() && bytes <= JOURNAL_DATA_MAX
        })
}

fn entry_changes(into: &mut Vec<u8>, changes: &[WrittenSet], with_data: bool) {
    const UNKEPT: &SetValue = &SetValue::UNKEPT;
    for WrittenSet { name, rtype, view, before, after } in changes {
        into.push(name.len() as u8);
        into.extend_from_slice(name);
        into.extend_from_slice(&rtype.0.to_le_bytes());
        put_view(into, *view);
        for held in [before, after] {
            into.push(held.is_some().into());
            if let Some(value) = held {
                holds(into, if with_data { value } else { UNKEPT });
            }
        }
    }
}

/// The fields of an entry before its changes.
#[derive(Clone, Copy, Debug)]
pub struct JournalHead<'h> {
    /// The time of the write.
    pub when: SystemTime,
    /// Its kind.
    pub kind: ChangeKind,
    /// The number of changed sets.
    pub count: u64,
    /// The principal.
    pub by: &'h str,
    /// The reason.
    pub reason: &'h Option<Arc<str>>,
}

/// Milliseconds since 1970, as an entry has them.
pub fn milliseconds(when: SystemTime) -> u64 {
    when.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// Appends the head of an entry.
pub fn entry_head(into: &mut Vec<u8>, head: &JournalHead<'_>) {
    into.extend_from_slice(&milliseconds(head.when).to_le_bytes());
    into.push(head.kind as u8 | if head.reason.is_some() { HAS_REASON } else { 0 });
    into.extend_from_slice(&head.count.to_le_bytes());
    text(into, head.by, PRINCIPAL_LEN_MAX);
    if let Some(reason) = head.reason {
        text(into, reason, REASON_LEN_MAX);
    }
}

/// Appends up to `max` bytes of a text, at most 255, after their number.
fn text(into: &mut Vec<u8>, text: &str, max: usize) {
    let bytes = &text.as_bytes()[..text.len().min(max)];
    into.push(bytes.len() as u8);
    into.extend_from_slice(bytes);
}

fn read_text(from: &mut &[u8]) -> Result<String, DamagedRecord> {
    let [len] = take(from)?;
    Ok(String::from_utf8_lossy(bytes(from, len.into())?).into_owned())
}

/// Parses a journal entry.
///
/// # Errors
/// The entry is invalid.
pub fn read_entry(revision: Revision, mut from: &[u8]) -> Result<JournalEntry, DamagedRecord> {
    let from = &mut from;
    let when = SystemTime::UNIX_EPOCH + Duration::from_millis(number(from)?);
    let [word] = take(from)?;
    let kind = match word & !HAS_REASON {
        0 => ChangeKind::Created,
        1 => ChangeKind::Changed,
        2 => ChangeKind::Restored,
        3 => ChangeKind::Deleted,
        _ => return Err(DamagedRecord),
    };
    let count = number(from)?;
    let by = read_text(from)?;
    let reason = (word & HAS_REASON != 0).then(|| read_text(from)).transpose()?;
    let mut changes = Vec::new();
    while !from.is_empty() {
        let [len] = take(from)?;
        let name = bytes(from, len.into())?.into();
        let rtype = Rtype(u16::from_le_bytes(take(from)?));
        let view = read_view(from)?;
        let mut held = || match take(from)? {
            [0] => Ok(None),
            _ => read_holds(from).map(|held| Some(held.to_value())),
        };
        let (before, after) = (held()?, held()?);
        changes.push(WrittenSet { name, rtype, view, before, after });
    }
    Ok(JournalEntry { revision, when, by, reason, kind, count, changes })
}

/// Appends a write, so that it can be replayed.
pub fn write(into: &mut Vec<u8>, write: &PreparedWrite) {
    let start = into.len();
    into.extend_from_slice(&[0; LEN]);
    into.extend_from_slice(&write.revision.0.to_le_bytes());
    into.push(u8::from(write.is_deletion()) | u8::from(write.offset.is_some()) << 1);
    let zone = write.zone.as_name();
    into.push(zone.len() as u8);
    into.extend_from_slice(zone.as_bytes());
    write.offset.iter().for_each(|offset| into.extend_from_slice(&offset.to_le_bytes()));
    let (kind, count, changes) = write.journaled();
    entry_head(
        into,
        &JournalHead { when: write.when, kind, count, by: &write.by, reason: &write.reason },
    );
    entry_changes(into, changes, true);
    let len = (into.len() - start - LEN) as u32;
    into[start..start + LEN].copy_from_slice(&len.to_le_bytes());
}

/// Parses the next of several writes.
///
/// # Errors
/// The write is invalid.
pub fn read_write(from: &mut &[u8]) -> Result<PreparedWrite, DamagedRecord> {
    let len = u32::from_le_bytes(take::<LEN>(from)?);
    let write = &mut bytes(from, len as usize)?;
    let revision = Revision(number(write)?);
    let [flags @ 0..=3, len] = take(write)? else { return Err(DamagedRecord) };
    let zone = Name::parse(bytes(write, len.into())?).map_err(|_| DamagedRecord)?.into();
    let offset = match flags & 2 {
        0 => None,
        _ => Some(u32::from_le_bytes(take(write)?)),
    };
    let JournalEntry { when, by, reason, kind, count, changes, .. } = read_entry(revision, write)?;
    let action = match (flags & 1, kind) {
        (0, ChangeKind::Created) => Action::Create(changes),
        (0, ChangeKind::Changed) => Action::Change(changes),
        // An earlier format has no list of the deleted sets.
        (1, ChangeKind::Changed) => Action::Delete(Deletion::default()),
        (1, ChangeKind::Deleted) => Action::Delete(Deletion { count, changes }),
        _ => return Err(DamagedRecord),
    };
    let (by, reason) = (by.into(), reason.map(Arc::from));
    Ok(PreparedWrite { zone, revision, when, by, offset, reason, action })
}

fn bytes<'f>(from: &mut &'f [u8], len: usize) -> Result<&'f [u8], DamagedRecord> {
    let (bytes, rest) = from.split_at_checked(len).ok_or(DamagedRecord)?;
    *from = rest;
    Ok(bytes)
}

fn take<const N: usize>(from: &mut &[u8]) -> Result<[u8; N], DamagedRecord> {
    let (bytes, rest) = from.split_first_chunk().ok_or(DamagedRecord)?;
    *from = rest;
    Ok(*bytes)
}

fn number(from: &mut &[u8]) -> Result<u64, DamagedRecord> {
    take(from).map(u64::from_le_bytes)
}

/// The key of a set; `None` if its name is outside of the zone.
pub fn key_of(set: &SetKey) -> Option<Vec<u8>> {
    let (zone, name) = (set.zone.as_name(), set.name.as_name());
    let relative = name.is_within(zone).then(|| &name.as_bytes()[..name.len() - zone.len()])?;
    let mut key = Vec::new();
    set_key(&mut key, &relative.to_ascii_lowercase(), set.view, set.rtype);
    Some(key)
}

/// Passes a stored set to a reader; `name` is a buffer for its name.
///
/// # Errors
/// Key or value are invalid.
pub fn show(
    key: &[u8],
    value: &[u8],
    name: &mut Vec<u8>,
    each: &mut dyn FnMut(RawSet<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, DamagedRecord> {
    let (view, rtype) = read_key(key, name)?;
    let (revision, value) = read_value(value)?;
    Ok(each(RawSet { name, rtype, view, revision, value }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sorted: &[u8]) -> Result<Vec<u8>, DamagedRecord> {
        let mut name = Vec::new();
        read_key(&[sorted, &[0, 0, 0, 1]].concat(), &mut name).map(|_| name)
    }

    #[test]
    fn key_round_trips() {
        let named = View::from_word("internal").expect("a view");
        for name in [&b""[..], b"\x03www", b"\x01a\x02\0\x01", b"\x01*\x03www"] {
            let keys = [View::DEFAULT, named].map(|view| {
                let mut key = Vec::new();
                set_key(&mut key, name, view, Rtype::A);
                let mut again = b"before".to_vec();
                assert_eq!(read_key(&key, &mut again), Ok((view, Rtype::A)));
                assert_eq!(again, name);
                for len in 0..key.len() {
                    assert_eq!(read_key(&key[..len], &mut again), Err(DamagedRecord));
                }
                key
            });
            let mut below = Vec::new();
            set_key(&mut below, &[b"\x01a", name].concat(), View::DEFAULT, Rtype::A);
            assert!(keys[0] < keys[1] && keys[1] < below, "in canonical order");
        }
    }

    #[test]
    fn write_round_trips_with_and_without_an_offset() {
        let zone = wire::NameBuf::from(Name::ROOT);
        let (when, action) = (SystemTime::UNIX_EPOCH, Action::Change(Vec::new()));
        let mut lens = Vec::new();
        for offset in [None, Some(0), Some(2_026_112_295)] {
            let (zone, action) = (zone.clone(), action.clone());
            let revision = Revision(7);
            let (by, reason) = ("x".into(), Some("test".into()));
            let made = PreparedWrite { zone, revision, when, by, offset, reason, action };
            let mut bytes = Vec::new();
            write(&mut bytes, &made);
            let read = read_write(&mut &bytes[..]).unwrap();
            assert_eq!((read.revision, read.offset), (made.revision, offset));
            lens.push(bytes.len());
            // The flags come after the length and the revision.
            bytes[12] = 4;
            assert_eq!(read_write(&mut &bytes[..]).err(), Some(DamagedRecord));
        }
        assert_eq!(lens, [lens[0], lens[0] + 4, lens[0] + 4]);
    }

    #[test]
    fn rules_round_trip_and_a_plain_set_has_no_byte_more() {
        use crate::SetRules;
        let data: Vec<Box<[u8]>> = vec![[10, 0, 0, 1][..].into()];
        let plain = SetValue::new(60, data.clone());
        let rules = SetRules { check: "web".into(), ..SetRules::default() };
        let checked = SetValue { ttl: 60, policy: Policy::new(rules), data };
        let written = |value: &SetValue| {
            let mut bytes = Vec::new();
            set_value(&mut bytes, Revision(7), value);
            bytes
        };
        assert_eq!(written(&plain).len(), 8 + 4 + 1 + 2 + 2 + 4);
        for value in [plain, checked] {
            let bytes = written(&value);
            assert_eq!(read_value(&bytes).unwrap().1.to_value(), value);
            for len in 0..bytes.len() {
                assert!(read_value(&bytes[..len]).is_err(), "{len}");
            }
        }
    }

    /// An invalid name would break comparisons of names.
    #[test]
    fn key_without_a_valid_name_is_damaged() {
        let long = [&[b'a'; 64][..], &[0]].concat();
        let labels = b"a\0".repeat(128);
        for sorted in [&b"\0"[..], b"a\0\0", b"\0a\0", b"a", b"a\0b", b"\x01", b"\x01\x03\0"] {
            assert_eq!(read(sorted), Err(DamagedRecord), "{sorted:?}");
        }
        assert_eq!((read(&long), read(&labels)), (Err(DamagedRecord), Err(DamagedRecord)));
    }
}
