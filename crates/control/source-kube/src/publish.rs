//! From records to the zone manager.
use crate::cluster::Cluster;
use crate::records::{Place, RecordChange, Set};
use crate::source::Settings;
use std::collections::BTreeMap;
use wire::{Name, NameBuf, Rtype};
use zone_manager::hold::HeldZone;
use zone_manager::{Change, Edit, Refusal, SetValue, Stopped, SyncOutcome, Target, UpdateSender};

/// The layer of reverse names.
const REVERSE: u32 = 0;

/// Sends records to the zone manager.
pub(crate) struct Publisher {
    updates: UpdateSender,
    /// The origin of each zone, and whether names that it lacks are looked up elsewhere.
    zones: Vec<(NameBuf, bool)>,
}

impl Publisher {
    /// Claims the zones: until there is content they answer SERVFAIL (invariant I10).
    pub fn new(updates: UpdateSender, settings: &Settings) -> Self {
        let zones = settings.naming.zones.iter();
        let through = settings.falls_through.iter().copied().chain(std::iter::repeat(false));
        let zones: Vec<_> = zones.map(|zone| zone.origin.clone()).zip(through).collect();
        for (origin, falls_through) in &zones {
            if !falls_through {
                updates.claim(origin.clone(), None);
            }
        }
        Self { updates, zones }
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
    pub async fn apply(&self, changes: Vec<RecordChange>) -> Result<(), Stopped> {
        let mut parts: BTreeMap<Place, Vec<Change>> = BTreeMap::new();
        for change in changes {
            if let Some((place, change)) = converted(change) {
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

    /// Publishes all records of a cluster in place of those before; the zones that are held.
    pub async fn publish(
        &mut self,
        cluster: &Cluster,
    ) -> Result<Vec<(NameBuf, HeldZone)>, Stopped> {
        let mut held = Vec::new();
        for place in self.places() {
            let target = self.target(place);
            let mut epoch = self.updates.full_sync(target.clone());
            // An address can lead back to several services.
            let mut shared: BTreeMap<(Box<[u8]>, Rtype), Set> = BTreeMap::new();
            for change in cluster.all().flat_map(|records| records.all()) {
                match change {
                    RecordChange::Add((of, name, rtype), (ttl, data)) if of == place => {
                        let set = shared.entry((name, rtype)).or_insert((ttl, Vec::new()));
                        set.1.extend(data);
                    }
                    change => {
                        if let Some((of, change)) = converted(change)
                            && of == place
                        {
                            note(epoch.put(change));
                        }
                    }
                }
            }
            for ((name, rtype), set) in shared {
                let whole = RecordChange::Set((place, name, rtype), Some(set));
                if let Some((_, change)) = converted(whole) {
                    note(epoch.put(change));
                }
            }
            match epoch.commit().await?.outcome {
                SyncOutcome::Published => {}
                SyncOutcome::Held(loss) => {
                    if let Place::Zone(at) = place
                        && let Some((origin, _)) = self.zones.get(usize::from(at))
                    {
                        held.push((origin.clone(), loss));
                    }
                }
                SyncOutcome::Refused(why) => {
                    tracing::error!(%target, "Kubernetes is not served: {why}");
                }
            }
        }
        Ok(held)
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
        RecordChange::RemoveName(zone, owner) => {
            (Place::Zone(zone), Change::RemoveName(name(&owner)?))
        }
    })
}
