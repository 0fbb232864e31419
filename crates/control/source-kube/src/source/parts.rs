//! Parts of this cluster in zones beside its own: they are written for the fleet, or given to this
//! server where there is none.
use super::part_status::StatusWrite;
use super::{ALL, Settings, Worker, streams::api};
use crate::cluster::parts::{PartKind, PartName};
use crate::cluster::{Cluster, ObjectName};
use crate::fleet;
use crate::limits::{EVENTS_MAX_OF_CONFLICTS, EVENTS_REPEATED_AFTER, HEARTBEAT_INTERVAL};
use crate::objects::WatchedService;
use crate::record_zones::RecordZones;
use crate::records::RecordChange;
use crate::shared_zone::SharedZone;
use documents::MapEvent;
use kube_api::{Event, Subject};
use source_parts::{Conflict, PartKey, Report, object_key};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{mpsc, watch};

/// The zones with parts, as the source needs them.
#[derive(Clone, Debug)]
pub struct SharedPart {
    /// Where Services have parts; `None`: they have none.
    pub zone: Option<Arc<SharedZone>>,
    /// Where other objects have records.
    pub records: Arc<RecordZones>,
    /// The kinds of objects with parts that are watched, but for Services.
    pub kinds: Vec<PartKind>,
    /// The name of this cluster; empty: it has none.
    pub cluster: Box<str>,
    /// Receives the parts of this cluster where no fleet does.
    pub local: Option<mpsc::Sender<MapEvent>>,
    /// Says what became of the parts, for Events and the status of objects.
    pub report: watch::Receiver<Arc<Report>>,
}

impl SharedPart {
    pub(super) fn key(&self, PartName { kind, object }: &PartName) -> PartKey {
        PartKey {
            cluster: self.cluster.clone(),
            kind: kind.word().into(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        }
    }
}

/// The known state of the parts.
#[derive(Default)]
pub(super) struct PartsState {
    /// Objects whose parts may have changed since they were given to this server.
    touched: BTreeSet<PartName>,
    /// All were given once.
    is_listed: bool,
    /// When Events of a conflict were last written.
    told: BTreeMap<Conflict, Instant>,
    /// The status that was last written into each DNSEndpoint.
    pub statuses: BTreeMap<ObjectName, StatusWrite>,
}

impl Settings {
    /// Tells a cluster without objects where objects have parts.
    pub(super) fn set_part_zones(&self, cluster: &mut Cluster) {
        if let Some(shared) = &self.shared {
            cluster.set_part_zones(shared.zone.clone(), Arc::clone(&shared.records));
        }
    }
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
    /// The parts of these objects may have changed.
    pub(super) fn touch_parts(&mut self, parts: Vec<PartName>) {
        let Some(shared) = self.settings.shared.as_ref().filter(|_| !parts.is_empty()) else {
            return;
        };
        let key = |PartName { kind, object }: &PartName| {
            object_key(kind.word(), &object.namespace, &object.name)
        };
        if shared.local.is_some() {
            self.parts.touched.extend(parts);
        } else if let Some(map) = self.map.as_ref().filter(|_| self.leads) {
            map.touch(parts.iter().map(key));
        }
    }

    /// Gives this server the parts that changed, unless a list that lost much is held.
    pub(super) async fn give_parts(&mut self) {
        let Some(shared) = &self.settings.shared else { return };
        let Some(local) = &shared.local else { return };
        if !self.is_published || !self.are_listed(&ALL) || self.publisher.is_held() {
            return;
        }
        let value = |of: &PartName| {
            let part = self.cluster.part(of).map(|part| part.write());
            MapEvent::Put(shared.key(of).write(), part)
        };
        let touched = std::mem::take(&mut self.parts.touched);
        let events: Vec<MapEvent> = match self.parts.is_listed {
            true => touched.iter().map(value).collect(),
            false => {
                let names: Vec<PartName> = self.cluster.part_names().collect();
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

    /// Says that the writer of this cluster is there: without it, others may leave out its parts.
    pub(super) fn beat(&mut self) {
        let Some(map) = self.map.as_ref().filter(|_| self.leads && self.settings.shared.is_some())
        else {
            return;
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        // The clock may have been set back.
        if now.abs_diff(self.cluster.parts.heartbeat) >= HEARTBEAT_INTERVAL.as_secs() {
            self.cluster.parts.heartbeat = now;
            map.touch([fleet::heartbeat_key()]);
        }
    }

    /// Whether this server says what became of the parts of its cluster.
    pub(super) fn speaks(&self) -> bool {
        let is_alone = self.settings.shared.as_ref().is_some_and(|shared| shared.local.is_some());
        self.leads || is_alone
    }

    /// Writes Events on the objects of this cluster whose parts cannot be merged, if this server
    /// speaks for the cluster.
    pub(super) fn tell_conflicts(&mut self) {
        let Some(shared) = &self.settings.shared else { return };
        let (speaks, report) = (self.speaks(), Arc::clone(&shared.report.borrow()));
        let conflicts = &report.conflicts;
        self.parts.told.retain(|known, _| conflicts.contains(known));
        let now = Instant::now();
        let is_due = |conflict: &&Conflict| {
            let told = self.parts.told.get(*conflict);
            told.is_none_or(|at| now.duration_since(*at) > EVENTS_REPEATED_AFTER)
        };
        let own = conflicts.iter().filter(|one| speaks && one.key.cluster == shared.cluster);
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
        let PartKey { kind, namespace, name, .. } = &conflict.key;
        let kind = PartKind::of_word(kind)?;
        let of = PartName { kind, object: ObjectName::new(namespace, name) };
        let uid = self.cluster.part_uid(&of)?;
        let now = jiff::Timestamp::now();
        let (version, kind) = kind.api();
        let subject = Subject {
            version,
            kind,
            namespace: namespace.to_string(),
            name: name.to_string(),
            uid: uid.to_string(),
        };
        Some(Event {
            subject,
            is_warning: true,
            reason: "NotShared",
            text: conflict.text(),
            component: "dunlin",
            node: String::new(),
            count: 1,
            first: now,
            last: now,
        })
    }
}
