//! Parts of this cluster in the zone that clusters share: they are written for the fleet, or given
//! to this server where there is none.
use super::{IMPORTS, NAMESPACES, PODS, SERVICES, SLICES, Settings, Worker, streams::api};
use crate::cluster::parts::SERVICES as KIND;
use crate::cluster::{Cluster, ObjectName};
use crate::limits::{EVENTS_MAX_OF_CONFLICTS, EVENTS_REPEATED_AFTER};
use crate::objects::WatchedService;
use crate::records::RecordChange;
use crate::shared_zone::SharedZone;
use documents::MapEvent;
use kube_api::{Event, Subject};
use source_parts::{Conflict, PartKey, object_key};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{mpsc, watch};

/// The zone that clusters share, as the source needs it.
#[derive(Clone, Debug)]
pub struct SharedPart {
    /// The zone.
    pub zone: Arc<SharedZone>,
    /// The name of this cluster; empty: it has none.
    pub cluster: Box<str>,
    /// Receives the parts of this cluster where no fleet does.
    pub local: Option<mpsc::Sender<MapEvent>>,
    /// What cannot be merged: it becomes Events.
    pub conflicts: watch::Receiver<Arc<BTreeSet<Conflict>>>,
}

/// The known state of the parts.
#[derive(Default)]
pub(super) struct PartsState {
    /// Services whose parts may have changed since they were given to this server.
    touched: BTreeSet<ObjectName>,
    /// All were given once.
    is_listed: bool,
    /// When Events of a conflict were last written.
    told: BTreeMap<Conflict, Instant>,
}

pub(super) fn shared_zone(settings: &Settings) -> Option<Arc<SharedZone>> {
    settings.shared.as_ref().map(|shared| Arc::clone(&shared.zone))
}

/// A service came, changed, or went.
pub(super) fn put_service(
    cluster: &mut Cluster,
    object: ObjectName,
    kept: Option<WatchedService>,
) -> Vec<RecordChange> {
    let Some(WatchedService { service, check, shared }) = kept else {
        return cluster.put_service((false, object), None);
    };
    cluster.take_shared(&object, shared);
    cluster.put_checked_service((false, object), Some(service), check.as_deref())
}

impl Worker {
    /// The parts of these services may have changed.
    pub(super) fn touch_parts(&mut self, services: Vec<ObjectName>) {
        let Some(shared) = self.settings.shared.as_ref().filter(|_| !services.is_empty()) else {
            return;
        };
        let key = |of: &ObjectName| object_key(KIND, &of.namespace, &of.name);
        if shared.local.is_some() {
            self.parts.touched.extend(services);
        } else if let Some(map) = self.map.as_ref().filter(|_| self.leads) {
            map.touch(services.iter().map(key));
        }
    }

    /// Gives this server the parts that changed, unless a list that lost much is held.
    pub(super) async fn give_parts(&mut self) {
        let Some(shared) = &self.settings.shared else { return };
        let Some(local) = &shared.local else { return };
        let all = [NAMESPACES, SERVICES, IMPORTS, SLICES, PODS];
        if !self.is_published || !self.are_listed(&all) || self.publisher.is_held() {
            return;
        }
        let value = |of: &ObjectName| {
            let key = PartKey {
                cluster: shared.cluster.clone(),
                kind: KIND.into(),
                namespace: of.namespace.clone(),
                name: of.name.clone(),
            };
            let part = self.cluster.part(of).map(|part| part.write());
            MapEvent::Put(key.write(), part)
        };
        let touched = std::mem::take(&mut self.parts.touched);
        let events: Vec<MapEvent> = match self.parts.is_listed {
            true => touched.iter().map(value).collect(),
            false => {
                let names: Vec<ObjectName> = self.cluster.part_names().collect();
                let puts = names.iter().map(value);
                let puts = puts.filter(|put| !matches!(put, MapEvent::Put(_, None)));
                let begin = std::iter::once(MapEvent::ListBegins);
                begin.chain(puts).chain([MapEvent::State(Ok(())), MapEvent::ListEnds]).collect()
            }
        };
        self.parts.is_listed = true;
        for event in events {
            // If the receiver is gone, the server ends.
            let _ = local.send(event).await;
        }
    }

    /// Writes Events on the services of this cluster whose parts cannot be merged, if this server
    /// speaks for the cluster.
    pub(super) fn tell_conflicts(&mut self) {
        let Some(shared) = &self.settings.shared else { return };
        let speaks = self.leads || shared.local.is_some();
        let conflicts = shared.conflicts.borrow().clone();
        self.parts.told.retain(|known, _| conflicts.contains(known));
        let now = Instant::now();
        let is_due = |conflict: &&Conflict| {
            let told = self.parts.told.get(*conflict);
            told.is_none_or(|at| now.duration_since(*at) > EVENTS_REPEATED_AFTER)
        };
        let own = conflicts.iter().filter(|one| one.key.cluster == shared.cluster);
        let own = own.filter(|one| speaks && &*one.key.kind == KIND);
        let due: Vec<Conflict> =
            own.filter(is_due).take(EVENTS_MAX_OF_CONFLICTS).cloned().collect();
        for conflict in due {
            if let Some(event) = self.event_of_conflict(&conflict) {
                let api = api(&self.settings.access);
                tokio::spawn(async move {
                    if let Err(why) = api.write_event(&event).await {
                        tracing::warn!("an Event cannot be written: {why}");
                    }
                });
            }
            self.parts.told.insert(conflict, now);
        }
    }

    fn event_of_conflict(&self, conflict: &Conflict) -> Option<Event> {
        let PartKey { namespace, name, .. } = &conflict.key;
        let of = self.cluster.shared(&ObjectName::new(namespace, name))?;
        let now = jiff::Timestamp::now();
        let subject = Subject {
            version: "v1",
            kind: "Service",
            namespace: namespace.to_string(),
            name: name.to_string(),
            uid: of.uid.to_string(),
        };
        let Conflict { name, why, .. } = conflict;
        let text = if name.is_empty() { why.clone() } else { format!("{name}: {why}") };
        Some(Event {
            subject,
            is_warning: true,
            reason: "NotShared",
            text,
            component: "dunlin",
            node: String::new(),
            count: 1,
            first: now,
            last: now,
        })
    }
}
