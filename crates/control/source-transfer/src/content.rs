//! Makes the zone that a transfer says there is.
use crate::reader::{Difference, Transferred, owner};
use crate::record_log::{LoggedRecord, RecordLog};
use compile::{Loader, RecordWalk, Zone, ZoneProblem};
use image::{HashKey, Tree, Zone as _};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use wire::{Name, NameBuf, Rtype};

/// A record without its TTL: the length of its relative owner, that, its type, its data.
type RecordKey = Box<[u8]>;

/// The zone with all that was transferred; `None`: what is known stays.
///
/// # Errors
/// Why the records are no zone, or no differences to the one that is known.
pub fn make(
    transferred: &Transferred,
    key: &Arc<HashKey>,
    origin: Name<'_>,
    known: Option<&Arc<Zone>>,
) -> Result<Option<Zone>, String> {
    match transferred {
        Transferred::UpToDate => Ok(None),
        Transferred::Full(log) => full(log, key, origin, known.map(|zone| &**zone)).map(Some),
        Transferred::Differences(differences) => {
            let known = known.ok_or("there is nothing that differences could change")?;
            changed(known, differences, key).map(Some)
        }
    }
}

fn full(
    log: &RecordLog,
    key: &Arc<HashKey>,
    origin: Name<'_>,
    old: Option<&Zone>,
) -> Result<Zone, String> {
    let mut loader = Loader::new(Arc::clone(key), origin, old);
    for record in log.iter() {
        loader.add(owner(&record), record.rtype, record.ttl, record.data, 0)?;
    }
    finish(loader)
}

fn finish(loader: Loader<'_>) -> Result<Zone, String> {
    let first = |problems: Vec<ZoneProblem>| problems.first().map(ToString::to_string);
    loader.finish().map_err(|problems| first(problems).unwrap_or_default())
}

fn record_key(relative: &[u8], rtype: Rtype, data: &[u8]) -> RecordKey {
    [&[relative.len() as u8], relative, &rtype.0.to_le_bytes(), data].concat().into()
}

/// What differences make of a zone, one record at a time.
struct Changes<'z> {
    zone: &'z Zone,
    removed: HashSet<RecordKey>,
    /// With their TTLs.
    added: HashMap<RecordKey, u32>,
}

fn changed(
    known: &Arc<Zone>,
    differences: &[Difference],
    key: &Arc<HashKey>,
) -> Result<Zone, String> {
    let mut changes = Changes { zone: known, removed: HashSet::new(), added: HashMap::new() };
    for Difference { removed, added } in differences {
        removed.iter().try_for_each(|record| changes.remove(&record))?;
        added.iter().try_for_each(|record| changes.add(&record))?;
    }
    let Changes { removed, added, .. } = changes;
    let origin = known.origin();
    let mut loader = Loader::new(Arc::clone(key), origin, Some(known));
    let mut problem = None;
    RecordWalk::new(Arc::clone(known)).advance(|record| {
        if removed.contains(&record_key(record.name, record.rtype, record.data)) {
            return true;
        }
        let owner = NameBuf::joined(record.name, origin).map_err(|why| why.to_string());
        let done = owner.and_then(|owner| {
            loader.add(owner.as_name(), record.rtype, record.ttl, record.data, 0)
        });
        done.map_err(|why| problem = Some(why)).is_ok()
    });
    for (record, ttl) in &added {
        let (name, rtype, data) = parts(record);
        let owner = NameBuf::joined(name, origin).map_err(|why| why.to_string())?;
        loader.add(owner.as_name(), rtype, *ttl, data, 0)?;
    }
    problem.map_or_else(|| finish(loader), Err)
}

fn parts(record: &[u8]) -> (&[u8], Rtype, &[u8]) {
    let (len, rest) = record.split_first().unwrap_or((&0, &[]));
    let (name, rest) = rest.split_at((*len).into());
    let (rtype, data) = rest.split_at(2);
    (name, Rtype(u16::from_le_bytes([rtype[0], rtype[1]])), data)
}

impl Changes<'_> {
    fn remove(&mut self, record: &LoggedRecord<'_>) -> Result<(), String> {
        let (key, has) = self.find(record)?;
        if self.added.remove(&key).is_some() || (has && self.removed.insert(key)) {
            return Ok(());
        }
        let (owner, rtype) = (owner(record), record.rtype);
        Err(format!("it removes a record {owner} {rtype} that is not there"))
    }

    fn add(&mut self, record: &LoggedRecord<'_>) -> Result<(), String> {
        let (key, has) = self.find(record)?;
        let is_there = has && !self.removed.contains(&key);
        if !is_there && self.added.insert(key, record.ttl).is_none() {
            return Ok(());
        }
        let (owner, rtype) = (owner(record), record.rtype);
        Err(format!("it adds a record {owner} {rtype} that is there"))
    }

    /// The key of a record, and whether the zone had it before all changes.
    fn find(&self, record: &LoggedRecord<'_>) -> Result<(RecordKey, bool), String> {
        let relative = self.zone.relative(owner(record)).ok_or("it leaves the zone")?;
        let LoggedRecord { rtype, data, .. } = *record;
        let trees = [self.zone.names() as &dyn Tree, self.zone.hashed()];
        let has = trees.into_iter().any(|tree| {
            let node = tree.at(tree.rank(&relative));
            let set = node.filter(|node| node.name() == &*relative).and_then(|it| it.set(rtype));
            set.is_some_and(|set| set.records().any(|known| known == data))
        });
        Ok((record_key(&relative, rtype, data), has))
    }
}
