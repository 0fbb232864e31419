//! Lists: what they bring, and what they lack.
use super::Worker;
use super::events::{
    CORE, IMPORTS, NAMESPACES, OBJECTS, PODS, SERVICES, SLICES, STREAMS, STREAMS_COUNT, kind_of,
};
use crate::cluster::{Cluster, ObjectName};
use crate::failure::Failure;
use crate::limits::{SKIPPED_MAX, SKIPPED_SHOWN};
use crate::records::RecordChange;
use crate::watch::StreamEvent;
use std::collections::HashSet;
use std::time::{Instant, SystemTime};
use zone_manager::hold::{Evidence, Verdict, judge};

/// What comes of an event.
pub(super) enum Outcome {
    Changes(Vec<RecordChange>),
    Listed,
    State(Result<(), Failure>),
}

/// What comes of the end of a list.
pub(super) enum Swept {
    Changes(Vec<RecordChange>),
    /// So much is gone that it may be held.
    Loss,
}

impl Worker {
    /// Takes in an event of a stream.
    pub(super) fn stream<T>(
        &mut self,
        at: usize,
        event: StreamEvent<T>,
        put: impl FnOnce(&mut Cluster, ObjectName, Option<T>) -> Vec<RecordChange>,
    ) -> (usize, Outcome) {
        let none = Outcome::Changes(Vec::new());
        let outcome = match event {
            StreamEvent::ListBegins => {
                self.streams[at].missing = self.known(at);
                self.streams[at].is_listing = true;
                self.skipped.retain(|(kind, _), _| *kind != at);
                if let Some(map) = self.map.as_ref().filter(|_| !self.follows) {
                    // It may be another cluster than before.
                    map.set_origin(None);
                    self.asks_origin.notify_one();
                }
                none
            }
            StreamEvent::Put(object, Some(_)) if !self.has_room(at, &object) => {
                let max = self.settings.bounds.objects_max;
                self.skip(at, &object, format!("there are more than {max}"));
                none
            }
            StreamEvent::Put(object, kept) => {
                self.is_changed = true;
                let stream = &mut self.streams[at];
                stream.missing.remove(&object);
                if let Some((lost, _)) = &mut stream.lost {
                    lost.remove(&object);
                }
                if !stream.is_listing {
                    stream.current = Some(SystemTime::now());
                }
                if !self.skipped.is_empty() {
                    self.skipped.remove(&(at, shown(&object)));
                }
                self.touch(at, &object);
                let mut parts = self.cluster.affected_parts(at, &object);
                let changes = put(&mut self.cluster, object.clone(), kept);
                parts.extend(self.cluster.affected_parts(at, &object));
                self.touch_parts(parts);
                Outcome::Changes(changes)
            }
            StreamEvent::Skipped(object, why) => {
                self.streams[at].missing.remove(&object);
                self.skip(at, &object, why);
                none
            }
            StreamEvent::Current => {
                self.streams[at].current = Some(SystemTime::now());
                none
            }
            StreamEvent::ListEnds => Outcome::Listed,
            StreamEvent::State(state) => Outcome::State(state),
        };
        (at, outcome)
    }

    /// Notes an object that is not used. The first ones are logged, each once.
    fn skip(&mut self, at: usize, object: &ObjectName, why: String) {
        let key = (at, shown(object));
        if self.skipped.len() >= SKIPPED_MAX && !self.skipped.contains_key(&key) {
            return;
        }
        let is_shown = self.skipped.len() < SKIPPED_SHOWN;
        if is_shown && !self.skipped.contains_key(&key) {
            tracing::error!(kind = STREAMS[at], object = key.1, "skipped in Kubernetes: {why}");
        }
        self.skipped.insert(key, why);
    }

    /// Whether an object is known, or one more may be.
    fn has_room(&self, at: usize, object: &ObjectName) -> bool {
        let counts = self.cluster.counts();
        let count = match at {
            NAMESPACES => counts.namespaces,
            SERVICES | IMPORTS => counts.services,
            SLICES => counts.slices,
            PODS => counts.pods,
            _ => kind_of(at).map_or(0, |kind| self.cluster.count_of(kind)),
        };
        count < self.settings.bounds.objects_max || self.cluster.has(at, object)
    }

    /// Whether what is known is complete and believed, so that it may replace the saved state.
    pub(super) fn is_whole(&self) -> bool {
        // Parts are saved elsewhere.
        let mut wanted = self.streams[..CORE.len()].iter().filter(|stream| stream.is_wanted);
        let is_whole = wanted.all(|stream| stream.is_listed && !stream.is_listing);
        self.is_published && is_whole && !self.publisher.is_held()
    }

    /// The names of all objects of a stream.
    fn known(&self, at: usize) -> HashSet<ObjectName> {
        let cluster = &self.cluster;
        match at {
            NAMESPACES => cluster.namespace_names().map(|name| ObjectName::new("", name)).collect(),
            SERVICES => cluster.service_names(false).collect(),
            IMPORTS => cluster.service_names(true).collect(),
            SLICES => cluster.slice_names().collect(),
            PODS => cluster.pod_names().cloned().collect(),
            _ => kind_of(at).into_iter().flat_map(|kind| cluster.part_objects(kind)).collect(),
        }
    }

    /// A list is complete: what it did not name is gone.
    pub(super) fn end_list(&mut self, at: usize) -> Swept {
        let stream = &mut self.streams[at];
        (stream.is_listed, stream.is_listing) = (true, false);
        stream.current = Some(SystemTime::now());
        let missing = std::mem::take(&mut self.streams[at].missing);
        let missing = self.hold_objects(at, missing);
        let before = self.cluster.names();
        let gone = missing.len();
        let changes = self.remove(at, missing);
        let after = self.cluster.names();
        let (kind, was_saved) = (STREAMS[at], self.status.get().is_saved);
        tracing::info!(kind, gone, "Kubernetes objects listed");
        self.is_changed = true;
        if was_saved && self.are_listed(&CORE) {
            self.status.edit(|status| status.is_saved = false);
        }
        match self.is_published && judge(&Evidence::listed(before, after)) == Verdict::Hold {
            true => Swept::Loss,
            false => Swept::Changes(changes),
        }
    }

    /// The missing objects that are to go. If a list lost most objects of a kind with parts, they
    /// stay for the time of a hold: the zone manager holds only what the cluster itself names.
    fn hold_objects(&mut self, at: usize, missing: HashSet<ObjectName>) -> HashSet<ObjectName> {
        let Some(kind) = kind_of(at) else { return missing };
        let (before, gone) = (self.cluster.count_of(kind), missing.len() as u64);
        let since = self.streams[at].lost.take().map_or_else(Instant::now, |(_, since)| since);
        if judge(&Evidence::listed(before, before.saturating_sub(gone))) != Verdict::Hold {
            return missing;
        }
        let why = format!("a list lacks {gone} of {before}: their records stay for `hold_time`");
        self.skip(at, &ObjectName::new("", "*"), why);
        self.streams[at].lost = Some((missing, since));
        HashSet::new()
    }

    /// Removes objects that a list lost, once their hold is over.
    pub(super) fn end_holds(&mut self) {
        for at in OBJECTS..STREAMS_COUNT {
            let hold = self.settings.hold;
            let lost = self.streams[at].lost.take_if(|(_, since)| since.elapsed() >= hold);
            if let Some((lost, _)) = lost {
                self.skipped.remove(&(at, "*".into()));
                self.remove(at, lost);
            }
        }
    }

    /// Removes objects of a stream; the records that change.
    fn remove(&mut self, at: usize, objects: HashSet<ObjectName>) -> Vec<RecordChange> {
        let mut changes = Vec::new();
        for object in objects {
            self.touch(at, &object);
            let parts = self.cluster.affected_parts(at, &object);
            self.touch_parts(parts);
            changes.extend(match at {
                NAMESPACES => self.cluster.put_namespace(&object.name, false),
                SERVICES => self.cluster.put_service((false, object), None),
                IMPORTS => self.cluster.put_service((true, object), None),
                SLICES => self.cluster.put_slice(object, None),
                PODS => self.cluster.put_pod(object, None),
                _ => {
                    if let Some(kind) = kind_of(at) {
                        self.cluster.put_part_object(kind, &object, None);
                    }
                    Vec::new()
                }
            });
        }
        changes
    }
}

/// An object as it is named in the status.
fn shown(object: &ObjectName) -> String {
    match (&*object.namespace, &*object.name) {
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}
