//! How sets and journal entries lie in a store: keys whose plain order is the canonical one, and
//! values. Numbers are little-endian in values and big-endian in keys.
//!
//! ```text
//! set key    name (labels from the right, each ended by 0; 0 and 1 in them as 1 1 and 1 2),
//!            0, view (1), type (2)
//! set value  revision (8), then what a set holds
//! holds      TTL (4), policy (1), records (2), each behind its length (2)
//! entry      when (8, milliseconds since 1970), kind (1), sets (8), length of who (1), who, then
//!            each change: length of the name (1), name, type (2), view (1), before, after: each
//!            0, or 1 and what a set holds
//! write      octets of what follows (4), revision (8), whether the zone goes (1), length of the
//!            zone's name (1), the name, an entry with every change
//! ```
use crate::limits::{JOURNAL_EDITS_MAX, PRINCIPAL_LEN_MAX};
use crate::{
    Action, JournalEntry, Kind, Policy, Prepared, RawSet, Revision, SetChange, SetKey, SetValue,
    StoreError, View,
};
use compile::sort_key;
use std::fmt;
use std::ops::ControlFlow;
use std::time::{Duration, SystemTime};
use wire::{Name, Rtype};

/// What lies there is nothing that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the store is damaged: restore a snapshot")
    }
}

impl std::error::Error for Damaged {}

impl From<Damaged> for StoreError {
    fn from(damaged: Damaged) -> Self {
        Self::Failed(damaged.to_string())
    }
}

/// Octets behind the name in a key.
const KEY_TAIL_LEN: usize = 4;
/// Octets of the length of a write.
const LEN: usize = 4;

/// The key of a zone: zones lie in the canonical order of their names.
pub fn zone_key(origin: Name<'_>) -> Vec<u8> {
    let octets = origin.octets().to_ascii_lowercase();
    let mut key = Vec::new();
    sort_key(&mut key, &octets[..octets.len() - 1]);
    key
}

/// Appends the key of a set: its name is relative, in lower case.
pub fn set_key(into: &mut Vec<u8>, name: &[u8], view: View, rtype: Rtype) {
    sort_key(into, name);
    into.extend_from_slice(&[0, view as u8]);
    into.extend_from_slice(&rtype.0.to_be_bytes());
}

/// The relative name, view and type of a key.
///
/// # Errors
/// When it is none.
pub fn read_key(key: &[u8], name: &mut Vec<u8>) -> Result<(View, Rtype), Damaged> {
    let (sorted, tail) = key.split_last_chunk::<KEY_TAIL_LEN>().ok_or(Damaged)?;
    let [0, 0, high, low] = *tail else { return Err(Damaged) };
    name.clear();
    let (mut whole, mut end) = ([0; Name::LEN_MAX], Name::LEN_MAX);
    let (mut label, mut len) = ([0; Name::LABEL_MAX], 0);
    let mut octets = sorted.iter();
    while let Some(&octet) = octets.next() {
        if octet != 0 {
            let plain = match octet {
                1 => match octets.next() {
                    Some(escaped @ (1 | 2)) => escaped - 1,
                    _ => return Err(Damaged),
                },
                plain => plain,
            };
            *label.get_mut(len).ok_or(Damaged)? = plain;
            len += 1;
            continue;
        }
        if len == 0 {
            return Err(Damaged);
        }
        let start = end.checked_sub(1 + len).ok_or(Damaged)?;
        whole[start] = len as u8;
        whole[start + 1..end].copy_from_slice(&label[..len]);
        (end, len) = (start, 0);
    }
    if len > 0 {
        return Err(Damaged);
    }
    name.extend_from_slice(&whole[end..]);
    Ok((View::Default, Rtype(u16::from_be_bytes([high, low]))))
}

/// Appends the value of a set.
pub fn set_value(into: &mut Vec<u8>, revision: Revision, value: &SetValue) {
    into.extend_from_slice(&revision.0.to_le_bytes());
    holds(into, value);
}

fn holds(into: &mut Vec<u8>, value: &SetValue) {
    into.extend_from_slice(&value.ttl.to_le_bytes());
    into.push(value.policy as u8);
    into.extend_from_slice(&(value.data.len() as u16).to_le_bytes());
    for data in &value.data {
        into.extend_from_slice(&(data.len() as u16).to_le_bytes());
        into.extend_from_slice(data);
    }
}

/// What a set holds, as it lies there.
#[derive(Clone, Copy, Debug)]
pub struct Held<'h> {
    /// Seconds it may be kept.
    pub ttl: u32,
    /// Which of its records an answer holds.
    pub policy: Policy,
    count: u16,
    /// The records, each behind its length.
    data: &'h [u8],
}

impl<'h> Held<'h> {
    /// The data of each record.
    pub fn records(&self) -> impl Iterator<Item = &'h [u8]> {
        let mut rest = self.data;
        std::iter::from_fn(move || record(&mut rest).ok())
    }

    /// The same, to be kept.
    pub fn to_value(&self) -> SetValue {
        let mut data = Vec::with_capacity(self.count.into());
        data.extend(self.records().map(Box::from));
        SetValue { ttl: self.ttl, policy: self.policy, data }
    }
}

/// The revision of a set and what it holds.
///
/// # Errors
/// When it is no value of a set.
pub fn read_value(mut octets: &[u8]) -> Result<(Revision, Held<'_>), Damaged> {
    let from = &mut octets;
    let revision = Revision(number(from)?);
    let held = read_holds(from)?;
    if from.is_empty() { Ok((revision, held)) } else { Err(Damaged) }
}

fn read_holds<'h>(from: &mut &'h [u8]) -> Result<Held<'h>, Damaged> {
    let ttl = u32::from_le_bytes(take(from)?);
    let [0] = take(from)? else { return Err(Damaged) };
    let count = u16::from_le_bytes(take(from)?);
    let all = *from;
    for _ in 0..count {
        record(from)?;
    }
    let data = &all[..all.len() - from.len()];
    Ok(Held { ttl, policy: Policy::All, count, data })
}

fn record<'h>(from: &mut &'h [u8]) -> Result<&'h [u8], Damaged> {
    let len = u16::from_le_bytes(take(from)?);
    octets(from, len.into())
}

/// Appends what the journal keeps of a write: nothing of a zone that goes, and its journal with it.
pub fn entry(into: &mut Vec<u8>, write: &Prepared) {
    let Some((kind, changes)) = write.changes() else { return };
    entry_head(into, write.when, kind, changes.len() as u64, &write.by);
    if changes.len() <= JOURNAL_EDITS_MAX {
        entry_changes(into, changes);
    }
}

fn entry_changes(into: &mut Vec<u8>, changes: &[SetChange]) {
    for SetChange { name, rtype, view, before, after } in changes {
        into.push(name.len() as u8);
        into.extend_from_slice(name);
        into.extend_from_slice(&rtype.0.to_le_bytes());
        into.push(*view as u8);
        for held in [before, after] {
            into.push(held.is_some().into());
            if let Some(value) = held {
                holds(into, value);
            }
        }
    }
}

/// Appends what the journal keeps before the changes.
pub fn entry_head(into: &mut Vec<u8>, when: SystemTime, kind: Kind, count: u64, by: &str) {
    let since = when.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    into.extend_from_slice(&(since.as_millis() as u64).to_le_bytes());
    into.push(kind as u8);
    into.extend_from_slice(&count.to_le_bytes());
    let by = &by.as_bytes()[..by.len().min(PRINCIPAL_LEN_MAX)];
    into.push(by.len() as u8);
    into.extend_from_slice(by);
}

/// What the journal says at a revision.
///
/// # Errors
/// When it is no entry.
pub fn read_entry(revision: Revision, mut from: &[u8]) -> Result<JournalEntry, Damaged> {
    let from = &mut from;
    let when = SystemTime::UNIX_EPOCH + Duration::from_millis(number(from)?);
    let kind = match take(from)? {
        [0] => Kind::Created,
        [1] => Kind::Changed,
        [2] => Kind::Restored,
        _ => return Err(Damaged),
    };
    let count = number(from)?;
    let [len] = take(from)?;
    let by = String::from_utf8_lossy(octets(from, len.into())?).into_owned();
    let mut changes = Vec::new();
    while !from.is_empty() {
        let [len] = take(from)?;
        let name = octets(from, len.into())?.into();
        let rtype = Rtype(u16::from_le_bytes(take(from)?));
        let [0] = take(from)? else { return Err(Damaged) };
        let mut held = || match take(from)? {
            [0] => Ok(None),
            _ => read_holds(from).map(|held| Some(held.to_value())),
        };
        let (before, after) = (held()?, held()?);
        changes.push(SetChange { name, rtype, view: View::Default, before, after });
    }
    Ok(JournalEntry { revision, when, by, kind, count, changes })
}

/// Appends a write, so that it can be done again.
pub fn write(into: &mut Vec<u8>, write: &Prepared) {
    let start = into.len();
    into.extend_from_slice(&[0; LEN]);
    into.extend_from_slice(&write.revision.0.to_le_bytes());
    into.push(write.changes().is_none().into());
    let zone = write.zone.as_name();
    into.push(zone.len() as u8);
    into.extend_from_slice(zone.octets());
    let (kind, changes) = write.changes().unwrap_or((Kind::Changed, &[]));
    entry_head(into, write.when, kind, changes.len() as u64, &write.by);
    entry_changes(into, changes);
    let len = (into.len() - start - LEN) as u32;
    into[start..start + LEN].copy_from_slice(&len.to_le_bytes());
}

/// The next write of a row of them.
///
/// # Errors
/// When it is none.
pub fn read_write(from: &mut &[u8]) -> Result<Prepared, Damaged> {
    let len = u32::from_le_bytes(take::<LEN>(from)?);
    let write = &mut octets(from, len as usize)?;
    let revision = Revision(number(write)?);
    let [goes, len] = take(write)?;
    let zone = Name::parse(octets(write, len.into())?).map_err(|_| Damaged)?.into();
    let JournalEntry { when, by, kind, changes, .. } = read_entry(revision, write)?;
    let action = match (goes, kind) {
        (0, Kind::Created) => Action::Create(changes),
        (0, Kind::Changed) => Action::Change(changes),
        (1, _) => Action::Delete,
        _ => return Err(Damaged),
    };
    Ok(Prepared { zone, revision, when, by: by.into(), action })
}

fn octets<'f>(from: &mut &'f [u8], len: usize) -> Result<&'f [u8], Damaged> {
    let (octets, rest) = from.split_at_checked(len).ok_or(Damaged)?;
    *from = rest;
    Ok(octets)
}

fn take<const N: usize>(from: &mut &[u8]) -> Result<[u8; N], Damaged> {
    let (octets, rest) = from.split_first_chunk().ok_or(Damaged)?;
    *from = rest;
    Ok(*octets)
}

fn number(from: &mut &[u8]) -> Result<u64, Damaged> {
    take(from).map(u64::from_le_bytes)
}

/// The key of a set; nothing where its name does not lie in its zone.
pub fn key_of(set: &SetKey) -> Option<Vec<u8>> {
    let (zone, name) = (set.zone.as_name(), set.name.as_name());
    let relative = name.is_within(zone).then(|| &name.octets()[..name.len() - zone.len()])?;
    let mut key = Vec::new();
    set_key(&mut key, &relative.to_ascii_lowercase(), set.view, set.rtype);
    Some(key)
}

/// Shows a set as it lies in the store; `name` is room for its name.
///
/// # Errors
/// When key or value are none.
pub fn show(
    key: &[u8],
    value: &[u8],
    name: &mut Vec<u8>,
    each: &mut dyn FnMut(RawSet<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, Damaged> {
    let (view, rtype) = read_key(key, name)?;
    let (revision, value) = read_value(value)?;
    Ok(each(RawSet { name, rtype, view, revision, value }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sorted: &[u8]) -> Result<Vec<u8>, Damaged> {
        let mut name = Vec::new();
        read_key(&[sorted, &[0, 0, 0, 1]].concat(), &mut name).map(|_| name)
    }

    #[test]
    fn a_key_is_read_as_it_was_written() {
        for name in [&b""[..], b"\x03www", b"\x01a\x02\0\x01", b"\x01*\x03www"] {
            let mut key = Vec::new();
            set_key(&mut key, name, View::Default, Rtype::A);
            let mut again = b"before".to_vec();
            assert_eq!(read_key(&key, &mut again), Ok((View::Default, Rtype::A)));
            assert_eq!(again, name);
        }
    }

    /// What no name has would be taken for one by who compares names.
    #[test]
    fn a_key_of_no_name_is_damaged() {
        let long = [&[b'a'; 64][..], &[0]].concat();
        let labels = b"a\0".repeat(128);
        for sorted in [&b"\0"[..], b"a\0\0", b"\0a\0", b"a", b"a\0b", b"\x01", b"\x01\x03\0"] {
            assert_eq!(read(sorted), Err(Damaged), "{sorted:?}");
        }
        assert_eq!((read(&long), read(&labels)), (Err(Damaged), Err(Damaged)));
    }
}
