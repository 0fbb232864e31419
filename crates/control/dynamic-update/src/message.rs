//! The message of an update (RFC 2136 §2).
use wire::{Class, HEADER_LEN, NameBuf, Records, Rtype, skip_name};

/// Bytes of memory that a record takes beside its data.
const RECORD_LEN: usize = size_of::<UpdateRecord>();

/// An update: prerequisites and changes of one zone, both in the order of the message.
#[derive(Clone, Debug)]
pub struct Update {
    /// The zone, in lower case.
    pub zone: NameBuf,
    pub(crate) prerequisites: Vec<UpdateRecord>,
    pub(crate) changes: Vec<UpdateRecord>,
}

/// A record of a prerequisite or a change. Its class says what it means.
#[derive(Clone, Debug)]
pub(crate) struct UpdateRecord {
    /// Its owner, in lower case.
    pub name: NameBuf,
    pub rtype: Rtype,
    pub class: Class,
    pub ttl: u32,
    /// Its data, with uncompressed names.
    pub data: Box<[u8]>,
}

/// Why a message is not an update of a zone here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAnUpdate {
    /// It is malformed: FORMERR.
    Malformed,
    /// Its zone has another class than IN: NOTAUTH.
    Class,
}

impl Update {
    /// Reads a message. Its additional records are ignored.
    ///
    /// # Errors
    /// It is not an update.
    pub fn read(message: &[u8]) -> Result<Self, NotAnUpdate> {
        Self::read_sections(message).ok_or(NotAnUpdate::Malformed)?
    }

    /// `None`: malformed.
    fn read_sections(message: &[u8]) -> Option<Result<Self, NotAnUpdate>> {
        let counts = message.get(4..HEADER_LEN)?;
        let count = |at: usize| usize::from(u16::from_be_bytes([counts[at], counts[at + 1]]));
        // RFC 2136 §3.1.1: one zone, by its SOA.
        if count(0) != 1 {
            return None;
        }
        let end = skip_name(message, HEADER_LEN).ok()?;
        let zone = name_at(message, HEADER_LEN)?;
        let [t0, t1, c0, c1] = *message.get(end..)?.first_chunk::<4>()?;
        if Rtype(u16::from_be_bytes([t0, t1])) != Rtype::SOA {
            return None;
        }
        let mut room = vec![0; usize::from(u16::MAX)];
        let mut records = Records::new(message, end + 4, count(2) + count(4) + count(6));
        let prerequisites = read_records(&mut records, count(2), &mut room)?;
        let changes = read_records(&mut records, count(4), &mut room)?;
        records.by_ref().try_for_each(|record| record.map(drop)).ok()?;
        if records.at() != message.len() {
            return None;
        }
        if Class(u16::from_be_bytes([c0, c1])) != Class::IN {
            return Some(Err(NotAnUpdate::Class));
        }
        Some(Ok(Self { zone, prerequisites, changes }))
    }

    /// The names and types that it changes, for the log: the first few.
    pub fn summary(&self) -> String {
        let shown = self.changes.iter().take(SHOWN_MAX);
        let mut text: Vec<String> =
            shown.map(|record| format!("{} {}", record.name, record.rtype)).collect();
        text.dedup();
        if self.changes.len() > SHOWN_MAX {
            text.push("…".into());
        }
        text.join(", ")
    }

    /// Its memory in bytes.
    pub(crate) fn weight(&self) -> usize {
        let all = self.prerequisites.iter().chain(&self.changes);
        size_of::<Self>() + all.map(|record| RECORD_LEN + record.data.len()).sum::<usize>()
    }
}

/// Names of a summary.
const SHOWN_MAX: usize = 8;

fn read_records(
    records: &mut Records<'_>,
    count: usize,
    room: &mut [u8],
) -> Option<Vec<UpdateRecord>> {
    let mut read = Vec::new();
    for record in records.take(count) {
        let record = record.ok()?;
        // RFC 2136 §2.4: without data there is nothing to expand.
        let data = match record.data() {
            [] => Box::default(),
            _ => record.expand(room).ok()?.into(),
        };
        let (rtype, class, ttl) = (record.rtype, record.class, record.ttl);
        read.push(UpdateRecord { name: record.owner().ok()?, rtype, class, ttl, data });
    }
    (read.len() == count).then_some(read)
}

/// The name of the zone section, in lower case.
fn name_at(message: &[u8], at: usize) -> Option<NameBuf> {
    let end = skip_name(message, at).ok()?;
    let mut name = NameBuf::from(wire::Name::parse(message.get(at..end)?).ok()?);
    name.make_lowercase();
    Some(name)
}
