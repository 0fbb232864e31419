//! Salvages the readable content of damaged files as a snapshot.
use crate::failed;
use crate::files::{OpenMode, lock, open_file, paths, placed};
use crate::tables::ZoneRow;
use crate::tree::{ALL, TableRoots, Tree, TreeInfo, TreeItem};
use crate::wal::Wal;
use redb::StorageBackend;
use std::collections::{BTreeMap, btree_map};
use std::io::{self, Write};
use std::iter::Peekable;
use std::path::Path;
use store::codec::{self, zone_key};
use store::serial::SerialStamp;
use store::snapshot::SnapshotWriter;
use store::{
    Action, Form, PreparedWrite, Revision, SalvageReport, SalvagedZone, StoreError, WrittenSet,
};
use wire::NameBuf;

/// The stored value of a set; `None`: it was removed.
type SalvagedSet = Option<Vec<u8>>;

/// A zone for the snapshot.
struct ZoneMerge {
    origin: NameBuf,
    stamp: SerialStamp,
    /// Where its sets are in the tree, and their number; `None`: it was created later.
    in_tree: Option<(u32, u64)>,
    /// Later changes, by the keys of sets.
    since: BTreeMap<Vec<u8>, SalvagedSet>,
}

/// The files, as far as they can be read.
#[derive(Default)]
struct StoreFiles {
    tree: Option<Box<dyn StorageBackend>>,
    log: Option<Box<dyn StorageBackend>>,
}

/// Writes all verified content of a store's files as a snapshot, for [`store::Store::restore`] or
/// [`crate::RedbStore::replace`]. Only reads the files; no server may have them open.
///
/// # Errors
/// Nothing can be read, another process uses the store, or `to` fails.
pub fn salvage(data_dir: &Path, to: &mut dyn Write) -> Result<SalvageReport, StoreError> {
    let mut report = SalvageReport::default();
    let files = open(data_dir, &mut report)?;
    let trees = match files.tree.as_deref().map(Tree::of_damaged) {
        Some(Ok(trees)) => trees,
        Some(Err(why)) => {
            report.damage.push(of_file(data_dir, 0, &why.to_string()));
            Vec::new()
        }
        None => Vec::new(),
    };
    let tree = best(&trees, data_dir, &mut report)?;
    let about = tree.as_ref().map(|(_, _, about)| about.clone()).unwrap_or_default();
    let mut zones = match &tree {
        Some((tree, tables, _)) => rows(tree, tables, data_dir, &mut report)?,
        None => BTreeMap::new(),
    };
    let newest = zones.values().map(|zone| zone.stamp.revision).max().unwrap_or(Revision::NONE);
    report.revision = about.revision.max(newest);
    for write in since(files.log, &about, data_dir, &mut report)? {
        report.revision = report.revision.max(write.revision);
        take(&mut zones, write);
    }
    if tree.is_none() && zones.is_empty() {
        return Err(failed(&format!(
            "{}: nothing of the store can be read: {}",
            data_dir.display(),
            report.damage.join("; ")
        )));
    }
    let unwritten = |error: io::Error| failed(&format!("the snapshot: {error}"));
    let form = about.form.unwrap_or(Form::NEWEST);
    let mut writer = SnapshotWriter::new(to, report.revision, form).map_err(unwritten)?;
    for zone in zones.values() {
        writer.zone(zone.origin.as_name(), zone.stamp).map_err(unwritten)?;
        let tree = tree.as_ref().map(|(tree, tables, _)| (*tree, tables));
        let mut damaged = Vec::new();
        let (sets, lost) = put(&mut writer, zone, tree, report.revision, &mut damaged)?;
        report.damage.extend(damaged.iter().map(|at| {
            let why = format!("it is damaged near byte {at}, in sets of {}", zone.origin);
            of_file(data_dir, 0, &why)
        }));
        report.zones.push(SalvagedZone { origin: zone.origin.to_string(), sets, lost });
    }
    writer.finish().map_err(unwritten)?;
    Ok(report)
}

/// An error of a file.
fn of_file(folder: &Path, which: usize, why: &str) -> String {
    format!("{}: {why}", paths(folder)[which].display())
}

fn open(folder: &Path, report: &mut SalvageReport) -> Result<StoreFiles, StoreError> {
    let mut files = StoreFiles::default();
    let named = paths(folder);
    for (path, room) in named.iter().zip([&mut files.tree, &mut files.log]) {
        match open_file(path, OpenMode::Read) {
            Ok(file) => {
                lock(&file, OpenMode::Read).map_err(|why| placed(path, why))?;
                *room = Some(Box::new(file));
            }
            Err(error) => report.damage.push(format!("{}: {error}", path.display())),
        }
    }
    Ok(files)
}

/// The newest readable state of a tree, its tables, and its header.
fn best<'t>(
    trees: &'t [Tree<'t>],
    folder: &Path,
    report: &mut SalvageReport,
) -> Result<Option<(&'t Tree<'t>, TableRoots, TreeInfo)>, StoreError> {
    for tree in trees {
        let (tables, is_lossy) = tree.store_tables()?;
        if is_lossy {
            report.damage.push(of_file(folder, 0, "the list of its tables is damaged"));
        }
        if !tables.contains_key("zones") {
            continue;
        }
        let mut meta = BTreeMap::new();
        entries(tree, &tables, "meta", folder, report, &mut |key, value| {
            meta.insert(key.to_vec(), value.to_vec());
        })?;
        return Ok(Some((tree, tables, TreeInfo::read(&meta))));
    }
    Ok(None)
}

/// Passes the readable entries of a table to `each`, and reports the others.
fn entries(
    tree: &Tree<'_>,
    tables: &TableRoots,
    name: &str,
    folder: &Path,
    report: &mut SalvageReport,
    each: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<(), StoreError> {
    let Some(table) = tables.get(name) else { return Ok(()) };
    tree.walk(table, ALL, &mut |seen| match seen {
        TreeItem::Entry(key, value) => each(key, value),
        TreeItem::Lost(at) => {
            let why = format!("it is damaged near byte {at}, in the table of {name}");
            report.damage.push(of_file(folder, 0, &why));
        }
    })
}

fn rows(
    tree: &Tree<'_>,
    tables: &TableRoots,
    folder: &Path,
    report: &mut SalvageReport,
) -> Result<BTreeMap<Vec<u8>, ZoneMerge>, StoreError> {
    let mut zones = BTreeMap::new();
    entries(tree, tables, "zones", folder, report, &mut |key, row| {
        let Ok(row) = ZoneRow::read(row) else { return };
        let (origin, stamp) = (row.origin, row.stamp);
        let in_tree = Some((row.number, row.sets));
        zones.insert(key.to_vec(), ZoneMerge { origin, stamp, in_tree, since: BTreeMap::new() });
    })?;
    // Sets of a zone without its row cannot be told from those of a removed zone.
    Ok(zones)
}

/// The writes in the log that are not in the tree.
fn since(
    log: Option<Box<dyn StorageBackend>>,
    about: &TreeInfo,
    folder: &Path,
    report: &mut SalvageReport,
) -> Result<Vec<PreparedWrite>, StoreError> {
    let Some(log) = log else { return Ok(Vec::new()) };
    let mut damage = |why: String| report.damage.push(of_file(folder, 1, &why));
    let store = (about.store != [0, 0]).then_some(about.store);
    let wal = match Wal::of_damaged(log, store) {
        Ok(wal) => wal,
        Err(why) => {
            damage(why.to_string());
            return Ok(Vec::new());
        }
    };
    let found = wal.read(about.revision)?;
    let last = found.writes.last().map_or(about.revision, |write| write.revision);
    if let Err(why) = wal.behind(about.in_tree()) {
        damage(why.to_string());
    }
    if last < wal.newest() {
        damage(format!("writes up to revision {} are lost", wal.newest()));
    }
    Ok(found.writes)
}

/// Adds a write of the log.
fn take(zones: &mut BTreeMap<Vec<u8>, ZoneMerge>, write: PreparedWrite) {
    let (key, revision) = (zone_key(write.zone.as_name()), write.revision);
    if !matches!(write.action, Action::Change(_)) {
        zones.remove(&key);
    }
    let changes = match write.action {
        Action::Delete(_) => return,
        Action::Create(changes) | Action::Change(changes) => changes,
    };
    let origin = write.zone;
    let stamp = SerialStamp { revision, offset: 0 };
    let made = || ZoneMerge { origin, stamp, in_tree: None, since: BTreeMap::new() };
    let zone = zones.entry(key).or_insert_with(made);
    zone.stamp.revision = zone.stamp.revision.max(revision);
    zone.stamp.offset = write.offset.unwrap_or(zone.stamp.offset);
    for WrittenSet { name, rtype, view, after, .. } in changes {
        let mut key = Vec::new();
        codec::set_key(&mut key, &name, view, rtype);
        let value = after.map(|value| {
            let mut bytes = Vec::new();
            codec::set_value(&mut bytes, revision, &value);
            bytes
        });
        zone.since.insert(key, value);
    }
}

/// Writes the sets of a zone, with later changes merged in.
struct SetMerge<'m, 'w> {
    writer: &'m mut SnapshotWriter<'w>,
    since: Peekable<btree_map::Iter<'m, Vec<u8>, SalvagedSet>>,
    sets: u64,
    done: io::Result<()>,
}

impl SetMerge<'_, '_> {
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) {
        if let (Some(value), Ok(())) = (value, &self.done) {
            self.sets += 1;
            self.done = self.writer.set(key, value);
        }
    }

    /// Later changes up to a key of the tree, or to the end.
    fn since(&mut self, end: Option<&[u8]>) {
        while let Some((key, change)) =
            self.since.next_if(|(key, _)| end.is_none_or(|end| key[..] < *end))
        {
            self.put(key, change.as_deref());
        }
    }

    /// A set of the tree, unless it was changed later.
    fn of_tree(&mut self, key: &[u8], value: &[u8]) {
        self.since(Some(key));
        match self.since.next_if(|(other, _)| other[..] == *key) {
            Some((_, change)) => self.put(key, change.as_deref()),
            None => self.put(key, Some(value)),
        }
    }
}

/// Writes the sets of a zone. Returns how many there are, and how many the tree lacks; reports
/// damage.
fn put(
    writer: &mut SnapshotWriter<'_>,
    zone: &ZoneMerge,
    tree: Option<(&Tree<'_>, &TableRoots)>,
    newest: Revision,
    damaged: &mut Vec<u64>,
) -> Result<(u64, u64), StoreError> {
    let since = zone.since.iter().peekable();
    let mut merge = SetMerge { writer, since, sets: 0, done: Ok(()) };
    let (mut found, mut name) = (0, Vec::new());
    let table = tree.and_then(|(tree, tables)| Some((tree, tables.get("sets")?)));
    if let (Some((number, _)), Some((tree, table))) = (zone.in_tree, table) {
        let (from, to) = (number.to_be_bytes(), number.wrapping_add(1).to_be_bytes());
        tree.walk(table, (&from, Some(&to)), &mut |entry| {
            let (key, value) = match entry {
                TreeItem::Entry(key, value) => (key, value),
                TreeItem::Lost(at) => return damaged.push(at),
            };
            let key = key.get(from.len()..).unwrap_or_default();
            let is_set = codec::read_key(key, &mut name).is_ok()
                && codec::read_value(value).is_ok_and(|(revision, _)| revision <= newest);
            if is_set {
                found += 1;
                merge.of_tree(key, value);
            }
        })?;
    }
    merge.since(None);
    merge.done.map_err(|error| failed(&format!("the snapshot: {error}")))?;
    let had = zone.in_tree.map_or(0, |(_, sets)| sets);
    Ok((merge.sets, had.saturating_sub(found)))
}

/// The newest revision found anywhere in the files.
pub fn newest(folder: &Path) -> Revision {
    let mut report = SalvageReport::default();
    let Ok(files) = open(folder, &mut report) else { return Revision::NONE };
    let of_tree = files.tree.as_deref().and_then(|tree| {
        let trees = Tree::of_damaged(tree).ok()?;
        let (_, _, about) = best(&trees, folder, &mut report).ok()??;
        Some(about.revision)
    });
    let of_log = files.log.and_then(|log| Some(Wal::of_damaged(log, None).ok()?.newest()));
    of_tree.max(of_log).unwrap_or(Revision::NONE)
}
