//! A full sync: the whole content of a zone or layer, from a list or a file.
use crate::answer::{Stopped, block_on};
use crate::limits::{EPOCH_CHANGES_MAX, EPOCH_REFUSED_MAX, LAYER_NEGATIVE_TTL};
use crate::puts::{Puts, SeenSets};
use crate::sender::UpdateSender;
use crate::source::{Refusal, SyncOutcome, Synced, Target};
use crate::validate;
use compile::{Loader, Zone, ZoneProblem};
use image::HashKey;
use model::{BrokenRule, Change};
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
    /// The valid puts.
    puts: Puts,
    seen: SeenSets,
    /// The number of all puts.
    count: usize,
    refused: Vec<(usize, Refusal)>,
}

impl<'s> Epoch<'s> {
    pub(crate) fn new(sender: &'s mut UpdateSender, target: Target) -> Self {
        let (puts, seen) = (Puts::default(), SeenSets::default());
        Self { sender, target, puts, seen, count: 0, refused: Vec::new() }
    }

    fn origin(&self) -> Name<'_> {
        origin(&self.target)
    }

    /// Puts a record set, records that join a set, or a name. What is refused is also in
    /// [`Synced`].
    ///
    /// # Errors
    /// The change is invalid by itself, occurs twice, or is not a put.
    pub fn put(&mut self, change: impl Into<Change>) -> Result<(), Refusal> {
        let mut change = change.into();
        let checked = self.check(&mut change);
        match &checked {
            Ok(()) => self.puts.push(self.count, &change),
            Err(why) => self.refused.push((self.count, why.clone())),
        }
        self.count += 1;
        checked
    }

    fn check(&mut self, change: &mut Change) -> Result<(), Refusal> {
        if self.puts.len() >= EPOCH_CHANGES_MAX {
            let what = "record sets and names in one full sync";
            return Err(Refusal::TooMany { what, max: EPOCH_CHANGES_MAX });
        }
        let (name, rtype) = match change {
            Change::Set(edit) if edit.put.is_some() => {
                validate::edit(edit, self.origin())?;
                (&edit.name, edit.rtype)
            }
            Change::Add(edit) if edit.put.is_some() => {
                return Ok(validate::edit(edit, self.origin())?);
            }
            Change::AddName(name) => {
                validate::name(name, self.origin())?;
                (&*name, Rtype(0))
            }
            Change::AddAddresses(name) => {
                validate::wildcard(name, self.origin())?;
                (&*name, Rtype(0))
            }
            _ => {
                let what = "a full sync has only sets with records, records, and names".to_owned();
                return Err(Refusal::Invalid { field: "edits", rule: BrokenRule::DATA, what });
            }
        };
        // The validation has made it lower case.
        if self.seen.insert(name.as_name().as_bytes(), rtype) {
            return Ok(());
        }
        let what = format!("{name} {rtype} occurs twice");
        Err(Refusal::Invalid { field: "name", rule: BrokenRule::TWICE, what })
    }

    /// The number of valid puts.
    pub fn len(&self) -> usize {
        self.puts.len()
    }

    /// Whether there is no valid put.
    pub fn is_empty(&self) -> bool {
        self.puts.len() == 0
    }

    /// Publishes all puts, and removes everything else of the target. Compiles on this thread.
    ///
    /// # Errors
    /// The zone manager has ended.
    pub async fn commit(mut self) -> Result<Synced, Stopped> {
        self.seen = SeenSets::default();
        let built = self.build();
        let Self { sender, target, mut refused, puts, .. } = self;
        drop(puts);
        refused.sort_by_key(|(number, _)| *number);
        let zone = match built {
            Ok(zone) => zone,
            Err(why) => {
                let (outcome, sequence) = (SyncOutcome::Refused(why), sender.publisher().last());
                return Ok(Synced { refused, outcome, sequence });
            }
        };
        Ok(Synced { refused, ..sender.sync_list(target, zone).await? })
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
        let mut gone = HashSet::new();
        loop {
            let origin = origin(&self.target);
            let built = build(image.key(), origin, old.as_deref(), (&self.puts, &gone), needs_apex);
            let problems = match built {
                Ok(zone) => return Ok(zone),
                Err(problems) => problems,
            };
            let places = problems.iter().filter_map(|problem| problem.place);
            let numbers = self.puts.numbers(&places.collect());
            for ZoneProblem { place, rule, what } in problems {
                let at = place.and_then(|place| Some((place, *numbers.get(&place)?)));
                let refusal = Refusal::Invalid { field: "edits", rule, what };
                let Some((place, number)) = at else { return Err(refusal) };
                if gone.len() >= EPOCH_REFUSED_MAX {
                    return Err(refusal);
                }
                if gone.insert(place) {
                    self.refused.push((number, refusal));
                }
            }
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
    build(key, Name::ROOT, None, (&Puts::default(), &HashSet::new()), true)
        .expect("constant records")
}

fn build(
    key: &Arc<HashKey>,
    origin: Name<'_>,
    old: Option<&Zone>,
    (puts, without): (&Puts, &HashSet<u32>),
    needs_apex: bool,
) -> Result<Zone, Vec<ZoneProblem>> {
    let mut loader = Loader::new(Arc::clone(key), origin, old);
    puts.load(&mut loader, without);
    if needs_apex {
        let has = |rtype| puts.has(Name::ROOT, rtype);
        for (rtype, data) in layer_apex().into_iter().filter(|(rtype, _)| !has(*rtype)) {
            let _ = loader.add(Name::ROOT, rtype, LAYER_NEGATIVE_TTL, &data, u32::MAX);
        }
    }
    let mut zone = loader.finish()?;
    match puts.add_rules(&mut zone, without) {
        problems if problems.is_empty() => Ok(zone),
        problems => Err(problems),
    }
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
