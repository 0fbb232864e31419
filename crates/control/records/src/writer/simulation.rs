//! Two managers on one store, driven by hand from a seed. Each has zones of files and of a cluster
//! beside those of the store. Commits conflict, fail with an unknown outcome, and reach the other
//! manager late or never; managers crash. The images equal a naive model after each step.
use super::*;
use crate::KnownViews;
use crate::tests::memory::MemoryStore;
use crate::{
    Commit, CommitError, CommitId, Reader, RestoreInfo, SetValue, StoreSource, WatchLost,
    WatchWaker,
};
use ::image::Tree;
use compile::Image;
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Mutex;
use std::time::Duration;
use wire::Rtype;
use zone_manager::{
    Answer, Epoch, HoldPolicy, Lane, PublisherThread, Source, SourceKind, SourceSettings,
    SyncOutcome, Target, ZonePublisher, answer,
};

const STEPS: usize = 40;
const ZONES: [&str; 2] = ["a.test.", "b.test."];
const NAMES: [&str; 3] = ["x", "y", "x.y"];
/// The sources beside the store, the stronger first.
const KINDS: [SourceKind; 2] = [SourceKind::File, SourceKind::Kubernetes];

/// The sets of a zone by name: TTL and sorted records.
type ModelZone = BTreeMap<String, (u32, BTreeSet<Vec<u8>>)>;

/// What goes wrong with the store of one manager.
#[derive(Default)]
struct Faults {
    /// The next commit ends with an unknown outcome. Whether it is committed, and whether the store
    /// says so when asked.
    unknown: Option<(bool, bool)>,
    /// Its outcome cannot be asked.
    is_silent: bool,
    /// Nothing arrives from the other manager.
    is_held: bool,
    /// The watch has missed something.
    has_lost: bool,
}

#[derive(Clone)]
struct FaultyStore {
    store: MemoryStore,
    faults: Arc<Mutex<Faults>>,
}

struct FaultyWatch(Box<dyn Watch>, Arc<Mutex<Faults>>);

impl Watch for FaultyWatch {
    fn next(&mut self, patience: Duration) -> Result<Option<Commit>, WatchLost> {
        let mut faults = self.1.lock().unwrap();
        if std::mem::take(&mut faults.has_lost) {
            return Err(WatchLost::Ended);
        }
        if faults.is_held { Ok(None) } else { self.0.next(patience) }
    }
}

fn unknown() -> StoreError {
    StoreError::Failed("the connection was lost".into())
}

impl Store for FaultyStore {
    fn commit(&mut self, commit: Commit) -> Result<Revision, CommitError> {
        let Some((is_done, is_told)) = self.faults.lock().unwrap().unknown.take() else {
            return self.store.commit(commit);
        };
        if is_done && let Err(conflict) = self.store.commit(commit) {
            return Err(conflict);
        }
        self.faults.lock().unwrap().is_silent = !is_told;
        Err(CommitError::Unknown(unknown()))
    }

    fn outcome(&mut self, id: CommitId) -> Result<Option<Revision>, StoreError> {
        let is_silent = std::mem::take(&mut self.faults.lock().unwrap().is_silent);
        if is_silent { Err(unknown()) } else { self.store.outcome(id) }
    }

    fn watch(
        &mut self,
        from: Revision,
        waker: WatchWaker,
    ) -> Result<Option<Box<dyn Watch>>, StoreError> {
        let watch = self.store.watch(from, waker)?;
        let faults = Arc::clone(&self.faults);
        Ok(watch.map(|watch| Box::new(FaultyWatch(watch, faults)) as Box<dyn Watch>))
    }

    fn newest(&mut self) -> Result<Revision, StoreError> {
        self.store.newest()
    }

    fn tidy(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn restore(&mut self, from: &mut dyn io::Read, write: &RestoreInfo) -> Result<(), StoreError> {
        self.store.restore(from, write)
    }

    fn close(&mut self) {}

    fn open(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn reader(&self) -> Arc<dyn Reader> {
        self.store.reader()
    }
}

/// A manager with its sources.
struct Manager {
    writer: Writer,
    publisher: ZonePublisher,
    faults: Arc<Mutex<Faults>>,
    sources: Vec<(UpdateSender, [Option<ModelZone>; 2])>,
    _running: PublisherThread,
}

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
}

fn soa() -> Edit {
    let data = [&b"\x02ns\0\x04root\0"[..], &[0; 20]].concat();
    Edit::put(name("."), Rtype::SOA, SetValue::new(60, vec![data.into()]))
}

fn servers(zone: &str) -> Edit {
    Edit::put(name(zone), Rtype::NS, SetValue::new(60, vec![b"\x02ns\0"[..].into()]))
}

impl Manager {
    fn start(store: &MemoryStore) -> Self {
        let key = HashKey::new(std::array::from_fn(|n| n as u64 * 77 + 5));
        let (publisher, running) = ZonePublisher::start(Image::new(Arc::new(key))).unwrap();
        let faults = Arc::new(Mutex::new(Faults::default()));
        let store = Box::new(FaultyStore { store: store.clone(), faults: Arc::clone(&faults) });
        let store = StoreSource {
            store,
            fleet: None,
            waits: false,
            list: None,
            may_write: true,
            mirror: None,
            views: KnownViews::default(),
        };
        let updates = publisher.start_source(store.settings());
        let (_, writer) = store.open(updates);
        let source = |kind| {
            let (lane, hold) = (Lane::Normal, HoldPolicy::Never);
            let settings = SourceSettings { name: "test".into(), kind, lane, hold };
            (publisher.start_source(settings), [None, None])
        };
        let sources = KINDS.map(source).into();
        Self { writer, publisher, faults, sources, _running: running }
    }

    /// What another source serves of a zone.
    fn hiding(&self, zone: usize) -> Option<&ModelZone> {
        self.sources.iter().find_map(|(_, zones)| zones[zone].as_ref())
    }

    fn take(&mut self, request: ZoneRequest) -> Answer<WriteResult, Refused> {
        let (promise, answer) = answer();
        self.writer.take(WriteRequest::Zone(Box::new(request), promise));
        answer
    }

    fn served(&self, zone: usize) -> Option<ModelZone> {
        self.publisher.wait(self.publisher.last());
        let image = self.publisher.image();
        let origin = name(ZONES[zone]);
        let names = image.zone(origin.as_name())?.names();
        let mut found = ModelZone::new();
        for node in (0..names.len()).filter_map(|rank| names.at(rank)) {
            let at = NameBuf::joined(node.name(), origin.as_name()).unwrap().to_string();
            for set in node.sets().filter(|set| set.rtype() == Rtype::TXT) {
                let records = set.records().map(<[u8]>::to_vec).collect();
                found.insert(at.clone(), (set.ttl(), records));
            }
        }
        Some(found)
    }
}

/// A request, and what it does to the zone.
struct Intent {
    manager: usize,
    zone: usize,
    request: ZoneRequest,
    answer: Answer<WriteResult, Refused>,
    /// Whether it was right to refuse it at once.
    is_invalid: bool,
}

/// The zone after a request; `None`: the request is refused.
fn expected(held: Option<&ModelZone>, request: &ZoneRequest) -> Option<Option<ModelZone>> {
    match request {
        ZoneRequest::Delete(..) => held.map(|_| None),
        ZoneRequest::Create(_) => match held {
            None => Some(Some(ModelZone::new())),
            Some(zone) => zone.is_empty().then(|| Some(ModelZone::new())),
        },
        ZoneRequest::Planned(..) => unreachable!("none is generated"),
        ZoneRequest::Write(batch) => {
            let (before, mut after) = (held?, held?.clone());
            for Edit { name, expect, put, .. } in &batch.edits {
                let at = name.to_string();
                match expect {
                    Precondition::Absent if before.contains_key(&at) => return None,
                    Precondition::Present if !before.contains_key(&at) => return None,
                    _ => {}
                }
                after.remove(&at);
                if let Some(value) = put {
                    let records = value.data.iter().map(|data| data.to_vec()).collect();
                    after.insert(at, (value.ttl, records));
                }
            }
            Some(Some(after))
        }
    }
}

struct Simulation {
    seed: u64,
    random: Rng,
    store: MemoryStore,
    managers: Vec<Manager>,
    /// What the store has.
    model: [Option<ModelZone>; 2],
    revision: Revision,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let store = MemoryStore::default();
        let managers = (0..2).map(|_| Manager::start(&store)).collect();
        let (random, model) = (Rng::with_seed(seed), [None, None]);
        Self { seed, random, store, managers, model, revision: Revision::NONE }
    }

    fn edit(&mut self, zone: usize) -> Edit {
        let random = &mut self.random;
        let at = format!("{}.{}", NAMES[random.usize(..NAMES.len())], ZONES[zone]);
        let data = (0..random.usize(1..3)).map(|_| vec![1, random.u8(..4)].into()).collect();
        let mut edit = Edit::put(name(&at), Rtype::TXT, SetValue::new(random.u32(1..3), data));
        edit.expect = match random.u8(..6) {
            0 => Precondition::Absent,
            1 => Precondition::Present,
            _ => Precondition::Anything,
        };
        if random.u8(..4) == 0 { Edit { put: None, ..edit } } else { edit }
    }

    fn request(&mut self, zone: usize) -> ZoneRequest {
        let context = WriteContext::by("test");
        match self.random.u8(..8) {
            0 => ZoneRequest::Delete(name(ZONES[zone]), context),
            1 | 2 => {
                let edits = vec![servers(ZONES[zone])];
                ZoneRequest::Create(Batch { zone: name(ZONES[zone]), edits, context })
            }
            _ => {
                let mut edits = vec![self.edit(zone), self.edit(zone)];
                edits.dedup_by(|one, other| one.name == other.name);
                ZoneRequest::Write(Batch { zone: name(ZONES[zone]), edits, context })
            }
        }
    }

    /// One to three requests of one manager. The other may commit before they are.
    fn write(&mut self) {
        let at = self.random.usize(..2);
        let intents = self.intents(at);
        if self.random.u8(..3) == 0 {
            let others = self.intents(1 - at);
            self.commit(1 - at, others);
        }
        if self.random.u8(..5) == 0 {
            let told = (self.random.bool(), self.random.bool());
            self.managers[at].faults.lock().unwrap().unknown = Some(told);
        }
        self.commit(at, intents);
    }

    /// Some requests, each validated with those before it.
    fn intents(&mut self, manager: usize) -> Vec<Intent> {
        let mut model = self.model.clone();
        let count = self.random.usize(1..4);
        let intent = |_| {
            let zone = self.random.usize(..2);
            let request = self.request(zone);
            let answer = self.managers[manager].take(request.clone());
            let is_hidden = self.managers[manager].hiding(zone).is_some();
            let expected = expected(model[zone].as_ref(), &request).filter(|_| !is_hidden);
            let is_invalid = expected.is_none();
            model[zone] = expected.unwrap_or(model[zone].take());
            Intent { manager, zone, request, answer, is_invalid }
        };
        (0..count).map(intent).collect()
    }

    /// Commits the group of a manager, and applies to the model what succeeded.
    fn commit(&mut self, at: usize, intents: Vec<Intent>) {
        self.managers[at].writer.commit();
        self.managers[at].faults.lock().unwrap().unknown = None;
        let newest = self.store.newest().unwrap();
        for Intent { manager, zone, request, answer, is_invalid } in intents {
            let expected = expected(self.model[zone].as_ref(), &request);
            let manager = &self.managers[manager];
            let is_hidden = manager.hiding(zone).is_some();
            let is_late = manager.faults.lock().unwrap().is_held;
            let seed = self.seed;
            let accepted = match answer.wait() {
                Ok(done) => {
                    assert!(!is_hidden && done.revision <= newest, "seed {seed}: {request:?}");
                    self.revision = self.revision.max(done.revision);
                    true
                }
                // Nothing else wrote: what is in the store is this group.
                Err(Refused::UnknownOutcome { .. }) => newest > self.revision,
                // Looked up: it is not in the store.
                Err(Refused::Failed(_)) => false,
                Err(_) => {
                    // A manager that does not hear of the other refuses what it knows to be wrong.
                    let is_right = is_invalid || expected.is_none();
                    assert!(is_hidden || is_late || is_right, "seed {seed}: {request:?}");
                    false
                }
            };
            if accepted {
                self.model[zone] = expected.expect("a refused request was accepted");
            }
        }
        self.revision = newest;
    }

    /// A full sync of another source, which is cut short at times.
    fn sync(&mut self) {
        let (at, source) = (self.random.usize(..2), self.random.usize(..KINDS.len()));
        let (zone, is_cut) = (self.random.usize(..2), self.random.u8(..4) == 0);
        let edits: Vec<Edit> = (0..3).map(|_| self.edit(zone)).collect();
        let (updates, zones) = &mut self.managers[at].sources[source];
        if self.random.u8(..3) == 0 {
            updates.remove(Target::Zone(name(ZONES[zone])));
            zones[zone] = None;
            return;
        }
        let mut model = ModelZone::new();
        let mut epoch: Epoch<'_> = updates.full_sync(Target::Zone(name(ZONES[zone])));
        for Edit { name, put, .. } in edits {
            let Some(value) = put.filter(|_| !model.contains_key(&name.to_string())) else {
                continue;
            };
            let records = value.data.iter().map(|data| data.to_vec()).collect();
            model.insert(name.to_string(), (value.ttl, records));
            epoch.put(Edit::put(name, Rtype::TXT, value)).unwrap();
        }
        if is_cut {
            return;
        }
        epoch.put(Edit { name: name(ZONES[zone]), ..soa() }).unwrap();
        epoch.put(servers(ZONES[zone])).unwrap();
        assert_eq!(epoch.commit_blocking().unwrap().outcome, SyncOutcome::Published);
        zones[zone] = Some(model);
    }

    fn step(&mut self) {
        let at = self.random.usize(..2);
        match self.random.u8(..12) {
            // A crash: files and the cluster are read again, too, but not in this model.
            0 => self.managers[at] = Manager::start(&self.store),
            1 => self.managers[at].faults.lock().unwrap().is_held = true,
            2 => self.managers[at].faults.lock().unwrap().has_lost = true,
            3 | 4 => self.sync(),
            _ => self.write(),
        }
        self.check();
    }

    /// Compares the images with the model, once each manager has heard of the other.
    fn check(&mut self) {
        let hears = self.random.bool();
        for manager in &mut self.managers {
            manager.faults.lock().unwrap().is_held &= !hears;
            // As the thread does without a request.
            let _ = manager.writer.make_sure();
            manager.writer.follow();
            if manager.faults.lock().unwrap().is_held {
                continue;
            }
            for (zone, origin) in ZONES.iter().enumerate() {
                let expected = manager.hiding(zone).or(self.model[zone].as_ref());
                let served = manager.served(zone);
                assert_eq!(served.as_ref(), expected, "seed {}: {origin}", self.seed);
            }
        }
    }
}

fn simulate(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut simulation = Simulation::new(seed);
        (0..STEPS).for_each(|_| simulation.step());
    }
}

#[test]
fn two_managers_on_one_store_equal_a_naive_model() {
    simulate(0..300);
}

#[test]
#[ignore = "slow: 10,000 seeds"]
fn two_managers_on_one_store_equal_a_naive_model_for_ten_thousand_seeds() {
    std::thread::scope(|scope| {
        scope.spawn(|| simulate(0..5_000));
        simulate(5_000..10_000);
    });
}
