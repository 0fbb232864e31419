//! A full sync: the whole content of a zone or layer, from a list or a file.
use crate::answer::{Stopped, block_on};
use crate::limits::{EPOCH_CHANGES_MAX, EPOCH_REFUSED_MAX, LAYER_NEGATIVE_TTL};
use crate::sender::UpdateSender;
use crate::source::{Refusal, SyncOutcome, Synced, Target};
use crate::validate;
use compile::{Loader, Zone, ZoneProblem};
use image::HashKey;
use model::{BrokenRule, Change, SetValue};
use std::collections::HashSet;
use std::sync::Arc;
use wire::{Name, NameBuf, Rtype};

/// The SOA of a layer without one, for negative answers: both names, the timers, then MINIMUM.
const LAYER_SOA: &[u8] =
    b"\0\x06nobody\x07invalid\0\0\0\0\x01\0\0\x0e\x10\0\0\x04\xb0\0\x09\x3a\x80";

/// A full sync. Nothing of it is served before its commit; dropped before, it changes nothing.
pub struct Epoch<'s> {
    sender: &'s mut UpdateSender,
    target: Target,
    /// Each valid put, with its number among all puts.
    changes: Vec<(usize, Change)>,
    seen: HashSet<(Box<[u8]>, Rtype)>,
    results: Vec<Result<(), Refusal>>,
}

impl<'s> Epoch<'s> {
    pub(crate) fn new(sender: &'s mut UpdateSender, target: Target) -> Self {
        let (changes, seen, results) = (Vec::new(), HashSet::new(), Vec::new());
        Self { sender, target, changes, seen, results }
    }

    fn origin(&self) -> Name<'_> {
        origin(&self.target)
    }

    /// Puts a record set or a name. Its result is also in [`Synced`].
    ///
    /// # Errors
    /// The change is invalid by itself, occurs twice, or is not a put.
    pub fn put(&mut self, change: impl Into<Change>) -> Result<(), Refusal> {
        let mut change = change.into();
        let checked = self.check(&mut change);
        if checked.is_ok() {
            self.changes.push((self.results.len(), change));
        }
        self.results.push(checked.clone());
        checked
    }

    fn check(&mut self, change: &mut Change) -> Result<(), Refusal> {
        if self.changes.len() >= EPOCH_CHANGES_MAX {
            let what = "record sets and names in one full sync";
            return Err(Refusal::TooMany { what, max: EPOCH_CHANGES_MAX });
        }
        let (name, rtype) = match change {
            Change::Set(edit) if edit.put.is_some() => {
                validate::edit(edit, self.origin())?;
                (&edit.name, edit.rtype)
            }
            Change::AddName(name) => {
                validate::name(name, self.origin())?;
                (&*name, Rtype(0))
            }
            _ => {
                let what = "a full sync has only sets with records, and names".to_owned();
                return Err(Refusal::Invalid { field: "edits", rule: BrokenRule::DATA, what });
            }
        };
        let key = name.as_name().as_bytes().to_ascii_lowercase().into();
        if self.seen.insert((key, rtype)) {
            return Ok(());
        }
        let what = format!("{name} {rtype} occurs twice");
        Err(Refusal::Invalid { field: "name", rule: BrokenRule::TWICE, what })
    }

    /// The number of valid puts.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there is no valid put.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Publishes all puts, and removes everything else of the target. Compiles on this thread.
    ///
    /// # Errors
    /// The zone manager has ended.
    pub async fn commit(mut self) -> Result<Synced, Stopped> {
        let built = self.build();
        let Self { sender, target, results, .. } = self;
        let zone = match built {
            Ok(zone) => zone,
            Err(why) => {
                let (outcome, sequence) = (SyncOutcome::Refused(why), sender.publisher().last());
                return Ok(Synced { results, outcome, sequence });
            }
        };
        let (sequence, answer) = sender.sync(target, zone);
        Ok(Synced { results, outcome: answer.await?, sequence })
    }

    /// As [`Epoch::commit`], blocks this thread.
    ///
    /// # Errors
    /// As [`Epoch::commit`].
    pub fn commit_blocking(self) -> Result<Synced, Stopped> {
        block_on(self.commit())
    }

    /// Builds the zone without the changes that are invalid in it.
    fn build(&mut self) -> Result<Zone, Refusal> {
        let image = self.sender.publisher().image();
        let old = match &self.target {
            Target::Zone(origin) => image.zone(origin.as_name()).cloned(),
            Target::Layer(_) => None,
        };
        let needs_apex = matches!(self.target, Target::Layer(_));
        let mut refused = 0;
        loop {
            let origin = origin(&self.target);
            let problems =
                match build(image.key(), origin, old.as_deref(), &self.changes, needs_apex) {
                    Ok(zone) => return Ok(zone),
                    Err(problems) => problems,
                };
            let mut gone = HashSet::new();
            for ZoneProblem { place, rule, what } in problems {
                let at = place.and_then(|place| Some((place, self.changes.get(place as usize)?.0)));
                let refusal = Refusal::Invalid { field: "edits", rule, what };
                let Some((place, number)) = at else { return Err(refusal) };
                self.results[number] = Err(refusal.clone());
                gone.insert(place as usize);
                refused += 1;
                if refused > EPOCH_REFUSED_MAX {
                    return Err(refusal);
                }
            }
            let mut at = 0;
            self.changes.retain(|_| {
                at += 1;
                !gone.contains(&(at - 1))
            });
        }
    }
}

/// The origin of a target's zone.
pub(crate) fn origin(target: &Target) -> Name<'_> {
    match target {
        Target::Zone(origin) => origin.as_name(),
        Target::Layer(_) => Name::ROOT,
    }
}

/// The apex records of a layer without any.
fn layer_apex() -> [(Rtype, Vec<u8>); 2] {
    [(Rtype::SOA, [LAYER_SOA, &LAYER_NEGATIVE_TTL.to_be_bytes()].concat()), (Rtype::NS, vec![0])]
}

/// A layer without names.
pub(crate) fn empty_layer(key: &Arc<HashKey>) -> Zone {
    build(key, Name::ROOT, None, &[], true).expect("constant records")
}

fn build(
    key: &Arc<HashKey>,
    origin: Name<'_>,
    old: Option<&Zone>,
    changes: &[(usize, Change)],
    needs_apex: bool,
) -> Result<Zone, Vec<ZoneProblem>> {
    let mut loader = Loader::new(Arc::clone(key), origin, old);
    // The names of all changes are in the zone.
    for (place, (_, change)) in changes.iter().enumerate() {
        let place = place as u32;
        match change {
            Change::Set(edit) => {
                let SetValue { ttl, data, .. } = edit.put.as_ref().expect("checked by `put`");
                for data in data {
                    let _ = loader.add(edit.name.as_name(), edit.rtype, *ttl, data, place);
                }
            }
            change => drop(loader.declare(change.name().as_name(), place)),
        }
    }
    if needs_apex {
        let has = |rtype| {
            let is_it = |change: &Change| {
                matches!(change, Change::Set(edit)
                    if edit.rtype == rtype && edit.name.as_name() == Name::ROOT)
            };
            changes.iter().any(|(_, change)| is_it(change))
        };
        for (rtype, data) in layer_apex().into_iter().filter(|(rtype, _)| !has(*rtype)) {
            let _ = loader.add(Name::ROOT, rtype, LAYER_NEGATIVE_TTL, &data, u32::MAX);
        }
    }
    loader.finish()
}

/// The names below which the tree of a zone has content: what a loss is judged by.
pub(crate) fn names(zone: &Zone) -> u64 {
    use image::Tree;
    zone.names().len() as u64
}

/// A name in lower case.
pub(crate) fn lower(name: &NameBuf) -> Box<[u8]> {
    name.as_name().as_bytes().to_ascii_lowercase().into()
}
