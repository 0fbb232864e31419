//! Reads the messages of a transfer (RFC 5936, RFC 1995), without I/O.
//!
//! All of a transfer is read before any of it is believed: it begins and ends with the same SOA.
use crate::limits::TRANSFER_BYTES_MAX;
use crate::message::{Age, DATA_LEN_MAX, Query, Soa, age, check};
use crate::record_log::{LoggedRecord, RecordLog};
use model::TTL_MAX;
use wire::{Name, Record, Rtype};

/// What a transfer brought.
#[derive(Debug)]
pub enum Transferred {
    /// The primary has nothing newer than what is known.
    UpToDate,
    /// All records of the zone, its SOA once.
    Full(RecordLog),
    /// What has changed, in the order of the serials.
    Differences(Vec<Difference>),
}

/// The step from one serial to the next. Both parts begin with the SOA.
#[derive(Debug, Default)]
pub struct Difference {
    pub removed: RecordLog,
    pub added: RecordLog,
}

/// Where the reader is.
#[derive(Debug)]
enum State {
    /// Before the first record.
    Begin,
    /// Behind the first SOA: the next record says which kind of transfer it is.
    First,
    Full(RecordLog),
    /// In the last of the differences, in its removed or its added records.
    Removed(Vec<Difference>),
    Added(Vec<Difference>),
    Done(Transferred),
}

/// Reads one transfer.
#[derive(Debug)]
pub struct TransferReader {
    query: Query,
    /// The serial that is known, for IXFR.
    known: Option<u32>,
    /// The first SOA: its TTL, its data.
    soa: (u32, Vec<u8>),
    state: State,
    is_first: bool,
    records: usize,
    records_max: usize,
    bytes: u64,
    room: Vec<u8>,
}

impl TransferReader {
    /// Reads the response to a query; `known`: the serial that a query for IXFR names.
    pub fn new(query: Query, known: Option<u32>, records_max: usize) -> Self {
        Self {
            query,
            known,
            soa: (0, Vec::new()),
            state: State::Begin,
            is_first: true,
            records: 0,
            records_max,
            bytes: 0,
            room: vec![0; DATA_LEN_MAX],
        }
    }

    /// Reads the next message. Returns whether it was the last one.
    ///
    /// # Errors
    /// Why nothing of the transfer is believed.
    pub fn push(&mut self, message: &[u8]) -> Result<bool, String> {
        self.bytes += message.len() as u64;
        if self.bytes > TRANSFER_BYTES_MAX {
            return Err(format!("it has more than {TRANSFER_BYTES_MAX} bytes"));
        }
        let response = self.query.response(message, self.is_first)?;
        if response.authority > 0 {
            return Err("a message has authority records".into());
        }
        let (mut count, mut room) = (0, std::mem::take(&mut self.room));
        for record in response.answers {
            let record = record.map_err(|_| "it is malformed")?;
            count += 1;
            self.take(&record, &mut room)?;
        }
        self.room = room;
        if count == 0 {
            return Err("a message has no records".into());
        }
        self.end_of_message();
        self.is_first = false;
        Ok(matches!(self.state, State::Done(_)))
    }

    /// What came.
    ///
    /// # Errors
    /// The last message has not come.
    pub fn finish(self) -> Result<Transferred, String> {
        match self.state {
            State::Done(transferred) => Ok(transferred),
            _ => Err("it ends before its last record".into()),
        }
    }

    /// RFC 1995 §4: one SOA that is not newer says that nothing has changed.
    fn end_of_message(&mut self) {
        let serial = Soa::parse(&self.soa.1).map(|soa| soa.serial);
        if let (State::First, Some(known), Some(serial)) = (&self.state, self.known, serial)
            && age(serial, known) != Age::Newer
        {
            self.state = State::Done(Transferred::UpToDate);
        }
    }

    fn take(&mut self, record: &Record<'_>, room: &mut [u8]) -> Result<(), String> {
        self.records += 1;
        // The SOA comes twice in a full one, and in each difference.
        if self.records > self.records_max.saturating_add(2) {
            let max = self.records_max;
            return Err(format!("it has more than {max} records: raise `max_records` of the zone"));
        }
        let zone = self.query.zone.clone();
        let (owner, data) = check(record, zone.as_name(), room)?;
        let is_apex = owner.as_name() == zone.as_name();
        if record.rtype == Rtype::SOA && !is_apex {
            return Err(format!("{owner} has an SOA record, and is not the apex"));
        }
        // RFC 2181 §8: a TTL with its highest bit counts as 0.
        let ttl = if record.ttl > TTL_MAX { 0 } else { record.ttl };
        let owner = owner.as_name().as_bytes();
        let record = LoggedRecord { owner, rtype: record.rtype, ttl, data };
        self.step(record)
    }

    fn step(&mut self, record: LoggedRecord<'_>) -> Result<(), String> {
        let is_soa = record.rtype == Rtype::SOA;
        // The same SOA: the TTL is no part of it.
        let is_last = is_soa && record.data == self.soa.1;
        self.state = match std::mem::replace(&mut self.state, State::Begin) {
            State::Begin if is_soa => {
                self.soa = (record.ttl, record.data.to_vec());
                State::First
            }
            State::Begin => return Err("it does not begin with the SOA".into()),
            State::First if is_soa && !is_last => self.begin_differences(record)?,
            State::First if is_last => State::Done(Transferred::Full(self.only_soa())),
            State::First => {
                let mut log = self.only_soa();
                log.push(record);
                State::Full(log)
            }
            State::Full(log) if is_last => State::Done(Transferred::Full(log)),
            State::Full(_) if is_soa => {
                return Err("its last SOA differs from the first".into());
            }
            State::Full(mut log) => {
                log.push(record);
                State::Full(log)
            }
            State::Removed(all) => removed(all, record, is_soa),
            State::Added(all) => self.added(all, record, (is_soa, is_last))?,
            State::Done(_) => return Err("records follow the last SOA".into()),
        };
        Ok(())
    }

    /// A log with the first SOA.
    fn only_soa(&self) -> RecordLog {
        let mut log = RecordLog::default();
        let (ttl, data) = &self.soa;
        let owner = self.query.zone.as_name();
        let (owner, rtype) = (owner.as_bytes(), Rtype::SOA);
        log.push(LoggedRecord { owner, rtype, ttl: *ttl, data });
        log
    }

    /// The first SOA is followed by another one: differences from the known serial on.
    fn begin_differences(&self, record: LoggedRecord<'_>) -> Result<State, String> {
        let serial = Soa::parse(record.data).map(|soa| soa.serial);
        let newest = Soa::parse(&self.soa.1).map(|soa| soa.serial);
        match (self.known, serial, newest) {
            (None, ..) => Err("its last SOA differs from the first".into()),
            (Some(known), Some(serial), Some(newest))
                if serial == known && age(newest, known) == Age::Newer =>
            {
                Ok(State::Removed(vec![begun(record)]))
            }
            (Some(known), ..) => Err(format!("its differences do not begin at {known}")),
        }
    }

    /// A record in the added part of the last difference.
    fn added(
        &self,
        mut all: Vec<Difference>,
        record: LoggedRecord<'_>,
        (is_soa, is_last): (bool, bool),
    ) -> Result<State, String> {
        let last = all.last_mut().ok_or("it has no difference")?;
        if !is_soa {
            last.added.push(record);
            return Ok(State::Added(all));
        }
        let reached = last.added.iter().next().and_then(|soa| Soa::parse(soa.data));
        let (Some(reached), Some(next)) = (reached, Soa::parse(record.data)) else {
            return Err("it has an invalid SOA".into());
        };
        if reached.serial != next.serial {
            return Err("its differences do not follow each other".into());
        }
        if is_last {
            return Ok(State::Done(Transferred::Differences(all)));
        }
        all.push(begun(record));
        Ok(State::Removed(all))
    }
}

/// A difference that begins with this SOA.
fn begun(soa: LoggedRecord<'_>) -> Difference {
    let mut difference = Difference::default();
    difference.removed.push(soa);
    difference
}

/// A record in the removed part of the last difference.
fn removed(mut all: Vec<Difference>, record: LoggedRecord<'_>, is_soa: bool) -> State {
    if let Some(last) = all.last_mut() {
        match is_soa {
            true => last.added.push(record),
            false => last.removed.push(record),
        }
    }
    if is_soa { State::Added(all) } else { State::Removed(all) }
}

/// The owner of a logged record.
pub fn owner<'l>(record: &LoggedRecord<'l>) -> Name<'l> {
    Name::parse(record.owner).unwrap_or(Name::ROOT)
}

#[cfg(test)]
mod tests;
