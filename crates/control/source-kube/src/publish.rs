//! From records to the zone manager.
use crate::cluster::Cluster;
use crate::limits::SHARED_MIN;
use crate::names::reverse_name;
use crate::records::{Place, RecordChange, Set};
use crate::sample::Sampler;
use crate::shared::SharedSets;
use crate::source::Settings;
use std::collections::{BTreeMap, HashSet};
use wire::{Name, NameBuf, Rtype};
use zone_manager::{
    Change, Edit, Policy, Refusal, SetRules, SetValue, Stopped, SyncOutcome, Target, UpdateSender,
};

/// The layer of reverse names.
const REVERSE: u32 = 0;

/// Sends records to the zone manager.
pub(crate) struct Publisher {
    updates: UpdateSender,
    /// The origin of each zone, and whether names that it lacks are looked up elsewhere.
    zones: Vec<(NameBuf, bool)>,
    sampler: Sampler,
    /// Sets of reverse names that no message can carry, as a whole.
    shared: SharedSets,
}

impl Publisher {
    /// Claims the zones: until there is content they answer SERVFAIL (invariant I10).
    pub fn new(updates: UpdateSender, settings: &Settings) -> Self {
        let zones = settings.naming.zones.iter();
        let zones: Vec<_> = zones.map(|zone| (zone.origin.clone(), zone.falls_through)).collect();
        for (origin, falls_through) in &zones {
            if !falls_through {
                updates.claim(origin.clone(), None);
            }
        }
        let (sampler, shared) = (Sampler::default(), SharedSets::default());
        Self { updates, zones, sampler, shared }
    }

    /// How many record sets are served in part, because no message can carry them.
    pub fn sampled(&self) -> u64 {
        self.sampler.count() as u64
    }

    /// Whether a list that lost much is held.
    pub fn is_held(&self) -> bool {
        self.places().any(|place| self.updates.is_held(&self.target(place)))
    }

    fn target(&self, place: Place) -> Target {
        match place {
            Place::Reverse => Target::Layer(REVERSE),
            Place::Zone(at) => match self.zones.get(usize::from(at)) {
                Some((origin, false)) => Target::Zone(origin.clone()),
                _ => Target::Layer(REVERSE + 1 + u32::from(at)),
            },
        }
    }

    fn places(&self) -> impl Iterator<Item = Place> + use<> {
        let zones = (0..self.zones.len()).map(|at| Place::Zone(at as u8));
        zones.chain([Place::Reverse])
    }

    /// Publishes changes, and waits until they are.
    pub async fn apply(&mut self, changes: Vec<RecordChange>) -> Result<(), Stopped> {
        let mut parts: BTreeMap<Place, Vec<Change>> = BTreeMap::new();
        let reverse = self.updates.content(&Target::Layer(REVERSE));
        let served = |name: &[u8], rtype| {
            let set = reverse.as_ref()?.set(Name::parse(name).ok()?, rtype)?;
            Some(SetValue::from(set).data)
        };
        for change in self.shared.whole(changes, served) {
            if let Some((place, change)) = converted(fitting(&mut self.sampler, change)) {
                parts.entry(place).or_default().push(change);
            }
        }
        let mut answers = Vec::new();
        for (place, part) in parts {
            answers.push(self.updates.apply(self.target(place), part).await?);
        }
        for answer in answers {
            for refused in answer.await?.results.into_iter().filter_map(Result::err) {
                tracing::warn!("a record of Kubernetes is not served: {refused}");
            }
        }
        Ok(())
    }

    /// Publishes all records of a cluster in place of those before, unless they lost too much.
    pub async fn publish(&mut self, cluster: &Cluster) -> Result<(), Stopped> {
        self.sampler.clear();
        self.shared = SharedSets::default();
        // Sets of these reverse names may not fit one message: they are put as a whole.
        let crowded: HashSet<Box<[u8]>> = cluster
            .shared_addresses(SHARED_MIN)
            .map(|address| reverse_name(address).as_name().as_bytes().into())
            .collect();
        for place in self.places() {
            let target = self.target(place);
            let mut epoch = self.updates.full_sync(target.clone());
            // An address can lead back to several services, so records join its set.
            let mut shared: Vec<(Box<[u8]>, Rtype, Set)> = Vec::new();
            for change in cluster.all(Some(place)).flat_map(|records| records.all()) {
                match change {
                    RecordChange::Add((_, name, rtype), set) if crowded.contains(&name) => {
                        shared.push((name, rtype, set));
                    }
                    change => {
                        if let Some((of, change)) = converted(fitting(&mut self.sampler, change))
                            && of == place
                        {
                            note(epoch.put(change));
                        }
                    }
                }
            }
            shared.sort_unstable();
            for same in shared.chunk_by(|a, b| (&a.0, a.1) == (&b.0, b.1)) {
                let (name, rtype, (ttl, _)) = &same[0];
                let data = same.iter().flat_map(|(_, _, (_, data))| data.iter().cloned());
                let whole = self.shared.put(name, *rtype, (*ttl, data.collect()));
                if let Some((_, change)) = converted(fitting(&mut self.sampler, whole)) {
                    note(epoch.put(change));
                }
            }
            drop(shared);
            if let SyncOutcome::Refused(why) = epoch.commit().await?.outcome {
                tracing::error!(%target, "Kubernetes is not served: {why}");
            }
        }
        Ok(())
    }
}

/// The change, with a sample of a set that no message can carry.
fn fitting(sampler: &mut Sampler, change: RecordChange) -> RecordChange {
    match change {
        RecordChange::Set(key, Some(set)) => {
            let set = sampler.fit(&key, set);
            RecordChange::Set(key, Some(set))
        }
        RecordChange::Ruled(key, set, mut rules) => {
            let members = set.1.len();
            let set = sampler.fit(&key, set);
            if set.1.len() != members {
                // Rules of single members would be those of others.
                *rules =
                    SetRules { check: std::mem::take(&mut rules.check), ..SetRules::default() };
            }
            RecordChange::Ruled(key, set, rules)
        }
        RecordChange::Set(key, None) => {
            sampler.remove(&key);
            RecordChange::Set(key, None)
        }
        other => other,
    }
}

fn note(put: Result<(), Refusal>) {
    if let Err(why) = put {
        tracing::warn!("a record of Kubernetes is not served: {why}");
    }
}

/// A change as the zone manager takes it.
fn converted(change: RecordChange) -> Option<(Place, Change)> {
    let name = |bytes: &[u8]| Name::parse(bytes).ok().map(NameBuf::from);
    let put = |name, rtype, (ttl, data): Set| Edit::put(name, rtype, SetValue::new(ttl, data));
    Some(match change {
        RecordChange::Set((place, owner, rtype), Some(set)) => {
            (place, Change::Set(put(name(&owner)?, rtype, set)))
        }
        RecordChange::Ruled((place, owner, rtype), (ttl, data), rules) => {
            let policy = Policy::new(*rules);
            let value = SetValue { ttl, policy, data };
            (place, Change::Set(Edit::put(name(&owner)?, rtype, value)))
        }
        RecordChange::Set((place, owner, rtype), None) => {
            (place, Change::Set(Edit::remove(name(&owner)?, rtype)))
        }
        RecordChange::Add((place, owner, rtype), set) => {
            (place, Change::Add(put(name(&owner)?, rtype, set)))
        }
        RecordChange::Take((place, owner, rtype), set) => {
            (place, Change::Take(put(name(&owner)?, rtype, set)))
        }
        RecordChange::AddName(zone, owner) => (Place::Zone(zone), Change::AddName(name(&owner)?)),
        RecordChange::AddAddresses(zone, owner) => {
            (Place::Zone(zone), Change::AddAddresses(name(&owner)?))
        }
        RecordChange::RemoveName(zone, owner) => {
            (Place::Zone(zone), Change::RemoveName(name(&owner)?))
        }
    })
}
