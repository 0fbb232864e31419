//! Exchange of the source with the other servers of a fleet.
use super::{Event, FleetPart, Worker};
use crate::cluster::ObjectName;
use crate::failure::{Cause, Failure};
use crate::fleet::{self, Shared};
use crate::limits::{BATCH_EVENTS_MAX, UNUSABLE_SHOWN};
use crate::objects::WatchedService;
use crate::watch::StreamEvent;
use documents::{Leader, MapEvent, MapRequest, MapValue, MapWriter, ReplicatedMap};
use server_status::seconds;
use source_parts::read_object_key;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};
use zone_manager::Stopped;
use zone_manager::hold::{Evidence, Verdict, judge};

/// The part of this server.
pub(super) enum Sharing {
    /// There is no fleet.
    Alone,
    Writes {
        map: Arc<ReplicatedMap>,
        requests: mpsc::Receiver<MapRequest>,
        leader: watch::Receiver<Leader>,
        /// What others write, while this server is refused.
        changes: Vec<MapEvent>,
        events: mpsc::Receiver<MapEvent>,
    },
    /// With the changes that were received.
    Follows(Vec<MapEvent>, mpsc::Receiver<MapEvent>),
}

impl Sharing {
    pub(super) fn new(part: Option<FleetPart>) -> Self {
        match part {
            None => Self::Alone,
            Some(FleetPart::Writes(writer)) => {
                let MapWriter { map, requests, leader, events } = writer;
                Self::Writes { map, requests, leader, changes: Vec::new(), events }
            }
            Some(FleetPart::Follows(events)) => Self::Follows(Vec::new(), events),
        }
    }

    pub(super) fn map(&self) -> Option<Arc<ReplicatedMap>> {
        match self {
            Self::Writes { map, .. } => Some(Arc::clone(map)),
            _ => None,
        }
    }
}

/// What comes from the fleet.
pub(super) enum Incoming {
    /// Another server wrote something, or another one writes.
    Change,
    /// The task that writes asks for something.
    Request(MapRequest),
}

/// The next that comes. Nothing is lost if the future is dropped.
pub(super) async fn next(sharing: &mut Sharing) -> Incoming {
    match sharing {
        Sharing::Writes { requests, leader, changes, events, .. } => {
            let is_refused = leader.borrow().is_refused;
            if is_refused && !changes.is_empty() {
                return Incoming::Change;
            }
            tokio::select! {
                Ok(()) = leader.changed() => {
                    leader.mark_changed();
                    return Incoming::Change;
                }
                Some(request) = requests.recv() => return Incoming::Request(request),
                1.. = events.recv_many(changes, BATCH_EVENTS_MAX), if is_refused => {
                    return Incoming::Change;
                }
                else => {}
            }
        }
        Sharing::Follows(changes, events) => {
            if events.recv_many(changes, BATCH_EVENTS_MAX).await > 0 {
                return Incoming::Change;
            }
        }
        Sharing::Alone => {}
    }
    std::future::pending().await
}

impl Worker {
    /// Takes in what comes from the fleet.
    pub(super) async fn take_incoming(
        &mut self,
        incoming: Incoming,
        sharing: &mut Sharing,
    ) -> Result<(), Stopped> {
        match sharing {
            Sharing::Alone => Ok(()),
            Sharing::Writes { leader, changes, .. } => {
                if leader.has_changed().unwrap_or_default() {
                    let leader = leader.borrow_and_update().clone();
                    self.take_leader(leader);
                }
                match incoming {
                    Incoming::Request(MapRequest::Elected(before)) => self.begin(before).await,
                    Incoming::Request(MapRequest::Values { keys, answer }) => {
                        self.answer(keys, answer);
                        Ok(())
                    }
                    Incoming::Change if self.follows => {
                        let changes = std::mem::take(changes);
                        self.take_changes(changes).await
                    }
                    Incoming::Change => {
                        if !self.is_refused {
                            changes.clear();
                        }
                        Ok(())
                    }
                }
            }
            Sharing::Follows(changes, _) => {
                let changes = std::mem::take(changes);
                self.take_changes(changes).await
            }
        }
    }

    async fn take_changes(&mut self, changes: Vec<MapEvent>) -> Result<(), Stopped> {
        let mut events = Vec::new();
        for change in changes {
            self.translate(change, &mut events);
        }
        self.take(&mut events).await
    }

    fn take_leader(&mut self, leader: Leader) {
        (self.leads, self.is_refused) = (leader.is_own, leader.is_refused);
        self.is_retired = leader.is_retired;
        self.status.edit(|status| {
            status.is_leader = leader.is_own;
            status.leader_seconds = leader.since.map(seconds);
            (status.leader, status.fleet_fault) = (leader.name, leader.fault);
        });
    }

    /// This server was elected. If what it listed lost most of what was written before, it serves
    /// that, as all others do, and its own list is held.
    async fn begin(&mut self, before: Option<Vec<(String, Vec<u8>)>>) -> Result<(), Stopped> {
        self.leads = true;
        if let Some(before) = before.filter(|_| !self.publisher.is_held()) {
            let fleet = self.cluster.with(|cluster| fleet::fill(cluster, before));
            let listed = Evidence::listed(fleet.names(), self.cluster.names());
            if judge(&listed) == Verdict::Hold {
                self.publisher.publish(&fleet).await?;
                drop(fleet);
                self.publish().await?;
            }
        }
        if let Some(map) = &self.map {
            map.touch(fleet::keys(&self.cluster));
        }
        Ok(())
    }

    /// The events of the streams that a change stands for.
    fn translate(&mut self, change: MapEvent, events: &mut Vec<Event>) {
        match change {
            MapEvent::ListBegins => {
                self.unusable.clear();
                self.each_stream(events, || StreamKind::Begins);
            }
            MapEvent::ListEnds => self.each_stream(events, || StreamKind::Ends),
            // An operator has said so: nothing of it is held.
            MapEvent::Retired => {
                tracing::warn!("the cluster was retired: its names are not answered any more");
                let gone =
                    fleet::keys(&self.cluster).filter_map(|key| fleet::read(&key, None).ok());
                let gone: Vec<Event> = gone.map(event_of).collect();
                events.extend(gone.into_iter().filter(|event| self.is_wanted(event)));
            }
            MapEvent::State(state) => {
                let state = state.map_err(|why| Failure::new(Cause::Fleet, why));
                self.each_stream(events, || StreamKind::State(state.clone()));
            }
            // Parts are merged elsewhere, with those of other clusters.
            MapEvent::Put(key, _) if read_object_key(&key).is_some() => {}
            MapEvent::Put(key, value) => match fleet::read(&key, value.as_deref()) {
                Ok(shared) => {
                    self.unusable.remove(&key);
                    events.extend(Some(event_of(shared)).filter(|event| self.is_wanted(event)));
                }
                Err(_) if value.is_none() => drop(self.unusable.remove(&key)),
                Err(why) if self.unusable.len() < UNUSABLE_SHOWN => {
                    tracing::error!("the object {key} in etcd is ignored: {why}");
                    self.unusable.insert(key, why);
                }
                Err(_) => {}
            },
        }
    }

    fn is_wanted(&self, event: &Event) -> bool {
        self.streams[event.stream()].is_wanted
    }

    /// An event of each stream that is wanted.
    fn each_stream(&self, events: &mut Vec<Event>, kind: impl Fn() -> StreamKind) {
        let all = [
            Event::Namespace(kind().event()),
            Event::Service(kind().event()),
            Event::Import(kind().event()),
            Event::KeptSlice(kind().event()),
            Event::Pod(kind().event()),
        ];
        events.extend(all.into_iter().filter(|event| self.is_wanted(event)));
    }

    /// Answers with the values of keys, unless a list that lost much is held: then nothing is
    /// written until it is accepted, or believed.
    fn answer(&self, keys: Vec<String>, answer: oneshot::Sender<Vec<MapValue>>) {
        if self.publisher.is_held() {
            return;
        }
        let value = |key: String| {
            let value = fleet::value(&self.cluster, &key);
            (key, value)
        };
        // The task asks again if it has lost the answer.
        let _ = answer.send(keys.into_iter().map(value).collect());
    }

    /// An object may have changed.
    pub(super) fn touch(&self, at: usize, object: &ObjectName) {
        if let Some(map) = self.map.as_ref().filter(|_| self.leads) {
            map.touch(fleet::affected(&self.cluster, at, object));
        }
    }

    /// Says whether this server knows all objects, so that it may write them.
    pub(super) fn update_readiness(&self) {
        let Some(map) = &self.map else { return };
        let mut wanted = self.streams.iter().filter(|stream| stream.is_wanted);
        let is_ready =
            wanted.all(|stream| stream.is_listed && (stream.is_open || stream.is_absent));
        map.set_ready(self.is_published && is_ready && !self.follows);
    }
}

/// What happens to all streams together.
enum StreamKind {
    Begins,
    Ends,
    State(Result<(), Failure>),
}

impl StreamKind {
    fn event<T>(self) -> StreamEvent<T> {
        match self {
            Self::Begins => StreamEvent::ListBegins,
            Self::Ends => StreamEvent::ListEnds,
            Self::State(state) => StreamEvent::State(state),
        }
    }
}

fn event_of(shared: Shared) -> Event {
    match shared {
        Shared::Namespace(object, kept) => Event::Namespace(StreamEvent::Put(object, kept)),
        Shared::Service(object, kept) => {
            let kept = kept.map(|(service, check)| WatchedService { service, check, shared: None });
            Event::Service(StreamEvent::Put(object, kept))
        }
        Shared::Import(object, kept) => Event::Import(StreamEvent::Put(object, kept)),
        Shared::Slice(object, kept) => Event::KeptSlice(StreamEvent::Put(object, kept)),
        Shared::Pod(object, kept) => Event::Pod(StreamEvent::Put(object, kept)),
    }
}
