//! A simulation from a seed: three sources change zones and layers at random, and the image equals
//! a naive model after each step.
use super::*;
use ::image::{Tree, ZoneTable};
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};

const STEPS: usize = 30;
const ORIGIN: &str = "example.org.";
const NAMES: [&str; 5] = [
    "a.example.org.",
    "b.example.org.",
    "x.a.example.org.",
    "*.b.example.org.",
    "y.x.a.example.org.",
];
const TYPES: [Rtype; 3] = [Rtype::A, Rtype::TXT, Rtype::CNAME];
const KINDS: [SourceKind; 3] = [SourceKind::File, SourceKind::Kubernetes, SourceKind::Store];

/// The sets of a name by type, each with its TTL and sorted records; and whether it is declared.
type ModelName = (BTreeMap<u16, (u32, BTreeSet<Vec<u8>>)>, bool);

/// What a source has given, in the simplest form.
#[derive(Clone, Default)]
struct Model(BTreeMap<String, ModelName>);

impl Model {
    /// Applies the changes of one call; returns which are accepted.
    fn apply(&mut self, changes: &[Change]) -> Vec<bool> {
        let mut accepted = vec![false; changes.len()];
        let text = |change: &Change| change.name().to_string();
        for name in changes.iter().map(text).collect::<BTreeSet<_>>() {
            let same: Vec<_> =
                (0..changes.len()).filter(|at| text(&changes[*at]) == name).collect();
            let before = self.0.get(&name).cloned().unwrap_or_default();
            let all = same.iter().try_fold(before.clone(), |held, at| edited(held, &changes[*at]));
            let now = match all.filter(is_valid) {
                Some(now) => {
                    same.iter().for_each(|at| accepted[*at] = true);
                    now
                }
                None => same.iter().fold(before, |held, at| {
                    let now = edited(held.clone(), &changes[*at]).filter(is_valid);
                    accepted[*at] = now.is_some();
                    now.unwrap_or(held)
                }),
            };
            self.0.insert(name, now);
        }
        self.0.retain(|_, (sets, is_declared)| !sets.is_empty() || *is_declared);
        accepted
    }

    /// The names that exist: with records, declared, or above such a name.
    fn existing(&self, origin: &str) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for at in self.0.keys() {
            let mut rest = at.as_str();
            while rest != origin && all.insert(rest.to_owned()) {
                rest = rest.split_once('.').map_or("", |(_, above)| above);
            }
        }
        all
    }
}

/// One change on its own; `None`: its precondition is not met.
fn edited((mut sets, mut is_declared): ModelName, change: &Change) -> Option<ModelName> {
    match change {
        Change::AddName(_) | Change::AddAddresses(_) => is_declared = true,
        Change::RemoveName(_) => is_declared = false,
        Change::Set(edit) | Change::Add(edit) | Change::Take(edit) => {
            let is_there = sets.contains_key(&edit.rtype.0);
            match edit.expect {
                Precondition::Absent if is_there => return None,
                Precondition::Present if !is_there => return None,
                _ => {}
            }
            let given = edit.put.as_ref().map(|value| {
                let records: BTreeSet<_> = value.data.iter().map(|data| data.to_vec()).collect();
                (value.ttl, records)
            });
            let held = sets.remove(&edit.rtype.0);
            let now = match (change, given, held) {
                (Change::Add(_), Some((ttl, new)), Some((_, old))) => Some((ttl, &new | &old)),
                (Change::Take(_), Some((_, gone)), Some((ttl, old))) => Some((ttl, &old - &gone)),
                (Change::Take(_), ..) => None,
                (_, given, _) => given,
            };
            if let Some(set) = now.filter(|(_, records)| !records.is_empty()) {
                sets.insert(edit.rtype.0, set);
            }
        }
    }
    Some((sets, is_declared))
}

/// RFC 1034 §3.6.2: an alias is one record, and alone.
fn is_valid((sets, _): &ModelName) -> bool {
    let alias = sets.get(&Rtype::CNAME.0);
    alias.is_none_or(|(_, records)| records.len() == 1 && sets.len() == 1)
}

/// A source, what it has given of the zone and of its layer, and whether it has the zone.
struct Simulated {
    updates: UpdateSender,
    zone: Option<Model>,
    layer: Option<Model>,
}

struct Simulation {
    random: Rng,
    publisher: ZonePublisher,
    sources: Vec<Simulated>,
    seed: u64,
    _running: PublisherThread,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let image =
            Image::new(Arc::new(HashKey::new(std::array::from_fn(|n| n as u64 * 77 + seed))));
        let (publisher, running) = ZonePublisher::start(image).unwrap();
        let source = |kind| {
            let hold = HoldPolicy::Never;
            let updates = publisher.start_source(SourceSettings { hold, ..settings(kind) });
            Simulated { updates, zone: None, layer: None }
        };
        let sources = KINDS.map(source).into();
        Self { random: Rng::with_seed(seed), publisher, sources, seed, _running: running }
    }

    fn change(&mut self) -> Change {
        let random = &mut self.random;
        let at = name(NAMES[random.usize(..NAMES.len())]);
        let rtype = TYPES[random.usize(..TYPES.len())];
        let (count, ttl) = (random.usize(1..3), random.u32(1..3));
        let records = (0..count).map(|_| {
            let n = random.u8(..3);
            let data = match rtype {
                Rtype::A => vec![10, 0, 0, n],
                Rtype::TXT => vec![1, n],
                _ => vec![1, b'a' + n, 0],
            };
            data.into()
        });
        let value = SetValue::new(ttl, records.collect());
        let expect = match random.u8(..6) {
            0 => Precondition::Absent,
            1 => Precondition::Present,
            _ => Precondition::Anything,
        };
        let edit = Edit { expect, ..Edit::put(at.clone(), rtype, value) };
        match random.u8(..8) {
            0 => Change::Add(edit),
            1 => Change::Take(edit),
            2 => Change::AddName(at),
            3 => Change::RemoveName(at),
            4 => Change::Set(Edit { put: None, ..edit }),
            _ => Change::Set(edit),
        }
    }

    /// One step of one source.
    fn step(&mut self) {
        let at = self.random.usize(..self.sources.len());
        let is_layer = self.random.bool();
        let target = if is_layer { Target::Layer(0) } else { Target::Zone(name(ORIGIN)) };
        match self.random.u8(..10) {
            0 => {
                let source = &mut self.sources[at];
                *if is_layer { &mut source.layer } else { &mut source.zone } = None;
                self.publisher.wait(source.updates.remove(target)).unwrap();
            }
            1..=3 => self.sync(at, target, is_layer),
            _ => self.apply(at, target, is_layer),
        }
    }

    fn apply(&mut self, at: usize, target: Target, is_layer: bool) {
        let calls: Vec<Vec<Change>> = (0..self.random.usize(1..4))
            .map(|_| (0..self.random.usize(1..6)).map(|_| self.change()).collect())
            .collect();
        let Simulated { updates, zone, layer } = &mut self.sources[at];
        // A call after the other without waiting; none is lost, none applied twice.
        let send = |changes: &Vec<Change>| {
            updates.apply_blocking(target.clone(), changes.clone()).expect("it runs")
        };
        let answers: Vec<_> = calls.iter().map(send).collect();
        for (changes, answer) in calls.iter().zip(answers) {
            let results = answer.wait().expect("it runs").results;
            let model = match is_layer {
                true => Some(layer.get_or_insert_default()),
                false => zone.as_mut(),
            };
            let expected = model.map(|model| model.apply(changes));
            let expected = expected.unwrap_or_else(|| vec![false; changes.len()]);
            let found: Vec<bool> = results.iter().map(Result::is_ok).collect();
            assert_eq!(found, expected, "seed {}: {changes:?} {results:?}", self.seed);
        }
    }

    /// A full sync, which is cut short at times.
    fn sync(&mut self, at: usize, target: Target, is_layer: bool) {
        let (count, is_cut) = (self.random.usize(..8), self.random.u8(..4) == 0);
        let changes: Vec<_> = (0..count).map(|_| self.change()).collect();
        let source = &mut self.sources[at];
        let mut epoch = source.updates.full_sync(target);
        let (mut model, mut seen) = (Model::default(), BTreeSet::new());
        for change in changes {
            let (Change::Set(Edit { put: Some(_), .. }) | Change::Add(_) | Change::AddName(_)) =
                &change
            else {
                assert!(epoch.put(change).is_err());
                continue;
            };
            let any = |edit: Edit| Edit { expect: Precondition::Anything, ..edit };
            let change = match change {
                Change::Set(edit) => Change::Set(any(edit)),
                Change::Add(edit) => Change::Add(any(edit)),
                change => change,
            };
            // The first of two that conflict is not defined; the model has sets that do not.
            let rtype = match &change {
                Change::Set(edit) | Change::Add(edit) => edit.rtype.0,
                _ => 0,
            };
            let key = (change.name().to_string(), rtype);
            let accepts = model.clone().apply(std::slice::from_ref(&change)) == [true];
            // Records join a set of their TTL: of several, the lowest is served.
            let joins = match &change {
                Change::Add(edit) => {
                    let set = model.0.get(&key.0).and_then(|(sets, _)| sets.get(&rtype));
                    set.is_some_and(|(ttl, _)| Some(*ttl) == edit.put.as_ref().map(|put| put.ttl))
                }
                _ => false,
            };
            if accepts && (seen.insert(key) || joins) {
                epoch.put(change.clone()).unwrap();
                model.apply(&[change]);
            }
        }
        if is_cut {
            return;
        }
        if !is_layer {
            epoch.put(put(ORIGIN, Rtype::SOA, &[&soa()])).unwrap();
            epoch.put(put(ORIGIN, Rtype::NS, &[b"\x02ns\0"])).unwrap();
        }
        let synced = epoch.commit_blocking().unwrap();
        assert_eq!(synced.outcome, SyncOutcome::Published, "seed {}", self.seed);
        *if is_layer { &mut source.layer } else { &mut source.zone } = Some(model);
    }

    /// Compares the image with the models.
    fn check(&self) {
        let image = self.publisher.image();
        let zone = image.zone(name(ORIGIN).as_name()).map(|zone| &**zone);
        let owner = self.sources.iter().find_map(|source| source.zone.as_ref());
        assert_eq!(zone.is_some(), owner.is_some(), "seed {}", self.seed);
        if let (Some(zone), Some(model)) = (zone, owner) {
            self.check_tree(zone.names(), model, ORIGIN);
        }
        let mut layers: Vec<_> = KINDS.into_iter().zip(&self.sources).collect();
        layers.sort_by_key(|(kind, _)| std::cmp::Reverse(*kind));
        let layers: Vec<_> = layers.iter().filter_map(|(_, it)| it.layer.as_ref()).collect();
        for (number, model) in layers.iter().enumerate() {
            let layer = image.hosts(View::DEFAULT, number).expect("a layer");
            self.check_tree(layer.names(), model, "");
        }
        assert!(image.hosts(View::DEFAULT, layers.len()).is_none(), "seed {}", self.seed);
    }

    fn check_tree(&self, tree: &dyn Tree, model: &Model, origin: &str) {
        let mut names = BTreeSet::new();
        let mut sets = BTreeMap::new();
        let origin_name = name(if origin.is_empty() { "." } else { origin });
        for node in (0..tree.len()).filter_map(|rank| tree.at(rank)) {
            if node.name().is_empty() {
                continue;
            }
            let at = NameBuf::joined(node.name(), origin_name.as_name()).unwrap().to_string();
            for set in node.sets() {
                let records: BTreeSet<_> = set.records().map(<[u8]>::to_vec).collect();
                sets.insert((at.clone(), set.rtype().0), (set.ttl(), records));
            }
            names.insert(at);
        }
        let expected = model.0.iter().flat_map(|(at, (sets, _))| {
            sets.iter().map(move |(rtype, set)| ((at.clone(), *rtype), set.clone()))
        });
        assert_eq!(sets, expected.collect(), "seed {}", self.seed);
        assert_eq!(names, model.existing(origin), "seed {}", self.seed);
    }
}

fn simulate(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut simulation = Simulation::new(seed);
        for _ in 0..STEPS {
            simulation.step();
            simulation.check();
        }
    }
}

#[test]
fn image_equals_a_naive_model_after_each_step() {
    simulate(0..300);
}

#[test]
#[ignore = "slow: 10,000 seeds"]
fn image_equals_a_naive_model_for_ten_thousand_seeds() {
    std::thread::scope(|scope| {
        scope.spawn(|| simulate(0..5_000));
        simulate(5_000..10_000);
    });
}
