//! Writes the manager's actions for containers as Events of their Pods.
//!
//! A thread of its own writes them. The manager only puts them into a queue, and never waits: where
//! the queue is full, an Event is dropped and counted.
use crate::event_queue::{Count, EventQueue, Key, Pace};
use crate::limits::EVENTS_QUEUED_MAX;
use cpu_manager::{Event, group_path};
use jiff::Timestamp;
use kube_api::{Api, ApiError, Event as PodEvent, Feature, Messages, Rights, Subject};
use nri::{Container, Pod, Request};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::sleep;

/// Events of a Pod stay for an hour: a fault that holds on is written again before.
const PACE: Pace = Pace {
    repeat: Duration::from_secs(600),
    retry: Duration::from_secs(10),
    patience: Duration::from_secs(600),
};

/// A queue that is empty is checked again after this long, also if nothing comes.
const IDLE: Duration = Duration::from_secs(3_600);

/// What needs a right.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Events;

impl Feature for Events {
    fn loss(self) -> &'static str {
        "Events of Pods are off (they need create of events in all namespaces)"
    }
}

/// How many Events were written and dropped.
#[derive(Debug, Default)]
pub(crate) struct EventCounts {
    pub(crate) written: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

/// Whose a control group is.
struct Owner {
    subject: Subject,
    container: String,
    /// The group of the Pod, without slashes around it.
    parent: Option<String>,
}

/// Puts events of the manager into the queue of the thread that writes them.
pub(crate) struct PodEvents {
    queue: Sender<(Timestamp, Key)>,
    owners: BTreeMap<String, Owner>,
    pub(crate) counts: Arc<EventCounts>,
}

impl PodEvents {
    /// Starts the thread. It finds the API server by a kubeconfig, or as a Pod does, when there is
    /// an Event; one that is away is looked for again.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn start(kubeconfig: Option<PathBuf>, node: String) -> io::Result<Self> {
        let (queue, receiver) = channel(EVENTS_QUEUED_MAX);
        let counts = Arc::<EventCounts>::default();
        let writer = Writer::new(node, PACE, Arc::clone(&counts));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let write = move || {
            let connect = async || Api::connect(kubeconfig.as_deref()).await;
            runtime.block_on(writer.run(receiver, connect));
        };
        std::thread::Builder::new().name("pod-events".into()).spawn(write)?;
        Ok(Self { queue, owners: BTreeMap::new(), counts })
    }

    /// Notes whose control groups are.
    pub(crate) fn note(&mut self, request: &Request) {
        match request {
            Request::Synchronize(pods, containers) => {
                let pods: BTreeMap<&str, &Pod> =
                    pods.iter().map(|pod| (pod.id.as_str(), pod)).collect();
                let known = containers.iter();
                let known = known.filter_map(|one| owner(pods.get(one.pod_id.as_str())?, one));
                self.owners = known.collect();
            }
            Request::Create(pod, container) => self.owners.extend(owner(pod, container)),
            Request::Remove(pod, container) => {
                if let Some((path, _)) = owner(pod, container) {
                    self.owners.remove(&path);
                }
            }
            _ => {}
        }
    }

    /// Has an event written, if it is one of a Pod. Never waits.
    pub(crate) fn offer(&self, event: &Event) {
        let Some(key) = self.key(event) else { return };
        if self.queue.try_send((Timestamp::now(), key)).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn key(&self, event: &Event) -> Option<Key> {
        let (group, is_warning, reason) = match event {
            Event::Assigned(group, ..) => (group, false, "ExclusiveCPUs"),
            Event::Lost(group, _) => (group, true, "CPUsLost"),
            Event::Repaired(group, ..) => (group, true, "CPUDriftRepaired"),
            Event::Failed(group, _) => (group, true, "FailedCPUs"),
            Event::Released(..) | Event::Fixed(..) | Event::Restored => return None,
        };
        let (subject, name) = self.whose(group)?;
        let text = match event {
            Event::Assigned(_, cpus, why) => format!("{name} has CPUs {cpus} for itself: {why}"),
            Event::Lost(_, cpus) => {
                format!("{name} has lost CPUs {cpus}: they are offline, or reserved")
            }
            Event::Repaired(_, found, now) => format!(
                "Another program had set CPUs \"{found}\" for {name}, which has {now} again"
            ),
            Event::Failed(_, what) => format!("{name}: {what}"),
            Event::Released(..) | Event::Fixed(..) | Event::Restored => return None,
        };
        Some(Key { subject, is_warning, reason, text })
    }

    /// The Pod of a control group, and what of it the group is.
    fn whose(&self, group: &str) -> Option<(Subject, String)> {
        if let Some(owner) = self.owners.get(group) {
            return Some((owner.subject.clone(), format!("Container {}", owner.container)));
        }
        let of_pod = |owner: &&Owner| owner.parent.as_deref() == Some(group);
        let owner = self.owners.values().find(of_pod)?;
        Some((owner.subject.clone(), "The Pod".into()))
    }
}

/// The control group of a container, and whose it is.
fn owner(pod: &Pod, container: &Container) -> Option<(String, Owner)> {
    let path = group_path(&container.linux.as_ref()?.cgroups_path)?;
    let parent = path.rsplit_once('/').map(|(parent, _)| parent.to_owned());
    let subject = Subject {
        version: "v1",
        kind: "Pod",
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
    };
    Some((path, Owner { subject, container: container.name.clone(), parent }))
}

/// Writes Events, as many as may be.
struct Writer {
    node: String,
    queue: EventQueue,
    begun: Instant,
    rights: Rights<Events>,
    messages: Messages,
    counts: Arc<EventCounts>,
}

impl Writer {
    fn new(node: String, pace: Pace, counts: Arc<EventCounts>) -> Self {
        let (queue, begun) = (EventQueue::new(pace), Instant::now());
        let (rights, messages) = (Rights::default(), Messages::new("dunlin"));
        Self { node, queue, begun, rights, messages, counts }
    }

    /// Runs until the manager ends.
    async fn run(
        mut self,
        mut receiver: Receiver<(Timestamp, Key)>,
        mut connect: impl AsyncFnMut() -> Result<Api, String>,
    ) {
        let mut api = None;
        loop {
            let wait = self.queue.wait(self.begun.elapsed()).unwrap_or(IDLE);
            tokio::select! {
                received = receiver.recv() => match received {
                    Some(first) => self.take(first, &mut receiver),
                    None => return,
                },
                () = sleep(wait) => {}
            }
            if let Some((key, count)) = self.queue.next(self.begun.elapsed()) {
                self.write(key, count, &mut api, &mut connect).await;
            }
        }
    }

    /// Takes what has come.
    fn take(&mut self, first: (Timestamp, Key), receiver: &mut Receiver<(Timestamp, Key)>) {
        let mut next = Some(first);
        while let Some((time, key)) = next {
            if !self.queue.add(self.begun.elapsed(), time, key) {
                self.count_dropped(1);
            }
            next = receiver.try_recv().ok();
        }
    }

    async fn write(
        &mut self,
        key: Key,
        count: Count,
        api: &mut Option<Api>,
        connect: &mut impl AsyncFnMut() -> Result<Api, String>,
    ) {
        if !self.rights.allow(Events) {
            return self.count_dropped(count.number);
        }
        let event = PodEvent {
            subject: key.subject.clone(),
            is_warning: key.is_warning,
            reason: key.reason,
            text: key.text.clone(),
            component: "dunlin-cpus",
            node: self.node.clone(),
            count: count.number,
            first: count.first,
            last: count.last,
        };
        if api.is_none() {
            match connect().await {
                Ok(new) => *api = Some(new),
                Err(error) => return self.retry(key, count, &error),
            }
        }
        let Some(api) = api else { return };
        let written = api.write_event(&event).await;
        match self.rights.judge(Events, written, |text| self.messages.tell(text)) {
            Ok(Some(())) => {
                self.counts.written.fetch_add(1, Ordering::Relaxed);
            }
            // Without the right, or without the namespace, there is nothing to try again.
            Ok(None) | Err(ApiError::NotFound(_)) => self.count_dropped(count.number),
            Err(error) => self.retry(key, count, &error.to_string()),
        }
    }

    fn retry(&mut self, key: Key, count: Count, error: &str) {
        self.messages.tell(&format!("an Event of a Pod cannot be written yet: {error}"));
        let number = count.number;
        if !self.queue.put_back(self.begun.elapsed(), key, count) {
            self.count_dropped(number);
        }
    }

    fn count_dropped(&self, number: u32) {
        self.counts.dropped.fetch_add(number.into(), Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "pod_events_tests.rs"]
mod tests;
