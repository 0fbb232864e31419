//! The source: receives the parts of all clusters, and what the zones themselves have, and
//! publishes the merge.
mod report;

use crate::apex;
use crate::feed::{self, Feed, Feeds, SiteFeed, Taken};
use crate::limits::{BATCH_EVENTS_MAX, CONFLICTS_SHOWN, SAVE_INTERVAL, SERIAL_INTERVAL};
use crate::merge::{Conflict, Own, name_of};
use crate::part::{Part, PartKey};
use crate::parts::{Parts, SetChange};
use crate::saved::{self, SavedPart};
use compile::Zone;
use documents::MapEvent;
use model::SetValue;
use server_status::PartsStatus;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval};
use wire::{NameBuf, Rtype};
use zone_manager::hold::{Evidence, Verdict, judge};
use zone_manager::{
    Change, Edit, HiddenZones, HoldPolicy, Lane, Source, SourceKind, SourceSettings, Stopped,
    SyncOutcome, Target, UpdateSender,
};

/// The name of the thread.
pub const THREAD: &str = "clusters";

/// What is merged.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The zones, in lower case.
    pub zones: Vec<NameBuf>,
    /// The TTL of SOA and NS records in seconds.
    pub ttl: u32,
    /// Seconds that the absence of records may be cached.
    pub negative_ttl: u32,
    /// Where the parts are saved; `None`: they are not.
    pub folder: Option<PathBuf>,
    /// How long a list is held that lost most of what was served.
    pub hold: Duration,
    /// How long parts of a cluster are served without a heartbeat; `None`: always.
    pub max_age: Option<Duration>,
}

/// The source of the parts of all clusters.
#[derive(Debug)]
pub struct PartsSource {
    /// What is merged.
    pub settings: Settings,
    /// Receives what the clusters write, by keys such as `fra1-a/objects/parts/services/shop/web`.
    pub events: mpsc::Receiver<MapEvent>,
    /// The same of other sites.
    pub sites: Vec<SiteFeed>,
}

/// The outcome of a merge, for those who write parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Parts that cannot be merged.
    pub conflicts: BTreeSet<Conflict>,
    /// The generations of objects whose parts are answered, as far as they are not in conflict.
    pub generations: BTreeMap<PartKey, u64>,
}

/// The running source. It ends when this is dropped.
pub struct Running {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    status: Arc<Mutex<PartsStatus>>,
    report: watch::Receiver<Arc<Report>>,
}

impl Running {
    /// What is to be reported of it.
    pub fn status(&self) -> PartsStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The outcome of the merge, as it changes.
    pub fn report(&self) -> watch::Receiver<Arc<Report>> {
        self.report.clone()
    }

    /// Whether the thread ended by itself.
    pub fn has_failed(&self) -> bool {
        self.thread.as_ref().is_some_and(std::thread::JoinHandle::is_finished)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that merges parts of clusters panicked");
        }
    }
}

impl Source for PartsSource {
    /// An error: the thread cannot be started.
    type Started = std::io::Result<Running>;

    fn settings(&self) -> SourceSettings {
        SourceSettings {
            name: THREAD.into(),
            kind: SourceKind::Parts,
            lane: Lane::Normal,
            hold: HoldPolicy::Until(self.settings.hold),
        }
    }

    fn start(self, updates: UpdateSender) -> Self::Started {
        let Self { settings, events, sites } = self;
        let status = Arc::<Mutex<PartsStatus>>::default();
        let (sender, report) = watch::channel(Arc::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let shared = Arc::clone(&status);
        let run = move || {
            let feeds = Feeds::new(&sites);
            let mut worker = Worker::new(settings, updates, feeds, shared, sender);
            runtime.block_on(async {
                let events = feed::gather(events, sites);
                tokio::select! {
                    _ = stopped => {}
                    _ = worker.run(events) => {}
                }
            });
            worker.save();
        };
        let thread = std::thread::Builder::new().name(THREAD.into()).spawn(run)?;
        Ok(Running { stop: Some(stop), thread: Some(thread), status, report })
    }
}

struct Worker {
    settings: Settings,
    updates: UpdateSender,
    hidden: HiddenZones,
    parts: Parts,
    /// The SOA that a zone itself has.
    own_soa: Vec<Option<SetValue>>,
    feeds: Feeds,
    /// Names that exist in a zone itself whatever records they have.
    own_names: Vec<BTreeSet<Box<[u8]>>>,
    /// Parts that cannot be read, and why.
    unusable: BTreeMap<PartKey, String>,
    serial: u32,
    is_published: bool,
    is_changed: bool,
    /// The serials are to change.
    is_new: bool,
    status: Arc<Mutex<PartsStatus>>,
    outcome: watch::Sender<Arc<Report>>,
}

impl Worker {
    fn new(
        settings: Settings,
        updates: UpdateSender,
        feeds: Feeds,
        status: Arc<Mutex<PartsStatus>>,
        outcome: watch::Sender<Arc<Report>>,
    ) -> Self {
        for origin in &settings.zones {
            updates.claim(origin.clone(), None);
        }
        let hidden = updates.hidden(settings.zones.clone());
        let zones = settings.zones.iter().map(ToString::to_string).collect();
        let known = PartsStatus { zones, ..PartsStatus::default() };
        *status.lock().unwrap_or_else(PoisonError::into_inner) = known;
        Self {
            parts: Parts::new(settings.zones.clone()),
            own_soa: vec![None; settings.zones.len()],
            own_names: vec![BTreeSet::new(); settings.zones.len()],
            settings,
            updates,
            hidden,
            feeds,
            unusable: BTreeMap::new(),
            serial: now_seconds(),
            is_published: false,
            is_changed: false,
            is_new: false,
            status,
            outcome,
        }
    }

    fn edit_status(&self, edit: impl FnOnce(&mut PartsStatus)) {
        edit(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    async fn run(&mut self, mut events: mpsc::Receiver<(Feed, MapEvent)>) -> Result<(), Stopped> {
        self.load().await?;
        let mut batch = Vec::new();
        let (mut save, mut serial) = (interval(SAVE_INTERVAL), interval(SERIAL_INTERVAL));
        save.set_missed_tick_behavior(MissedTickBehavior::Delay);
        serial.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                1.. = events.recv_many(&mut batch, BATCH_EVENTS_MAX) => {
                    let events = std::mem::take(&mut batch);
                    self.take(events).await?;
                }
                hidden = self.hidden.next() => {
                    for (zone, content) in hidden? {
                        let (changes, names) = self.take_own(zone, content.as_deref());
                        self.apply(changes).await?;
                        if self.is_published && !names.is_empty() {
                            self.send([(zone, names)].into()).await?;
                        }
                    }
                }
                _ = save.tick() => self.save(),
                _ = serial.tick() => self.renew_serial().await?,
            }
        }
    }

    /// Serves what was saved.
    async fn load(&mut self) -> Result<(), Stopped> {
        let Some(folder) = &self.settings.folder else { return Ok(()) };
        match saved::load(folder) {
            Ok(saved) if saved.is_empty() => Ok(()),
            Ok(saved) => {
                for SavedPart { key, part, site } in saved {
                    // What a site had that is no more in the config is gone.
                    if let Some(feed) = self.feeds.of_site(&site) {
                        self.feeds.take(feed, &key.cluster);
                        self.parts.put(key, Some(part));
                    }
                }
                self.edit_status(|status| status.is_saved = true);
                self.publish().await
            }
            Err(why) => {
                tracing::error!("parts of clusters: {why}");
                Ok(())
            }
        }
    }

    async fn take(&mut self, events: Vec<(Feed, MapEvent)>) -> Result<(), Stopped> {
        let mut changes = Vec::new();
        for (feed, event) in events {
            match event {
                MapEvent::ListBegins => {
                    self.feeds.begin(feed, self.parts.parts().keys());
                    self.unusable.retain(|key, _| !self.feeds.has(feed, &key.cluster));
                }
                MapEvent::Put(key, value) => {
                    if let Some(key) = PartKey::read(&key) {
                        changes.extend(self.put(feed, key, value.as_deref()));
                    }
                }
                // A cluster that is retired loses its keys.
                MapEvent::Retired => {}
                MapEvent::State(state) => {
                    self.feeds.report(feed, state.err());
                    let error = self.feeds.error();
                    self.edit_status(|status| status.error = error);
                    if self.publish_first().await? {
                        changes.clear();
                    }
                }
                MapEvent::ListEnds => {
                    let before = self.parts.names() as u64;
                    let missing = self.feeds.end(feed);
                    changes.extend(missing.into_iter().flat_map(|key| self.parts.put(key, None)));
                    self.is_changed = true;
                    let evidence = Evidence::listed(before, self.parts.names() as u64);
                    if self.is_published && judge(&evidence) == Verdict::Hold {
                        changes.clear();
                        self.publish().await?;
                    } else if self.publish_first().await? {
                        changes.clear();
                    }
                }
            }
        }
        self.apply(changes).await
    }

    /// Publishes for the first time, once there is nothing to wait for. Returns whether it did: all
    /// changes until then are in it.
    async fn publish_first(&mut self) -> Result<bool, Stopped> {
        if self.is_published || !self.feeds.are_known() {
            return Ok(false);
        }
        self.publish().await?;
        Ok(true)
    }

    /// A part came, changed, or went. One that cannot be read leaves what was known of it.
    fn put(&mut self, feed: Feed, key: PartKey, value: Option<&[u8]>) -> Vec<SetChange> {
        let mut changes = Vec::new();
        if value.is_some() {
            match self.feeds.take(feed, &key.cluster) {
                Taken::Own => {}
                Taken::Refused => return changes,
                Taken::Replaced => {
                    let others = self.parts.parts().keys();
                    let others: Vec<PartKey> =
                        others.filter(|one| one.cluster == key.cluster).cloned().collect();
                    changes.extend(others.into_iter().flat_map(|key| self.parts.put(key, None)));
                }
            }
        } else if !self.feeds.has(feed, &key.cluster) {
            return changes;
        }
        self.feeds.see(feed, &key);
        self.unusable.remove(&key);
        self.is_changed = true;
        match value.map(Part::read).transpose() {
            Ok(part) => changes.extend(self.parts.put(key, part)),
            Err(why) => {
                tracing::error!("the part {key} is ignored: {why}");
                if self.unusable.len() < CONFLICTS_SHOWN {
                    self.unusable.insert(key, why);
                }
            }
        }
        changes
    }

    /// Takes in the content of a zone itself; the sets, and names without records, that change.
    fn take_own(&mut self, zone: usize, content: Option<&Zone>) -> (Vec<SetChange>, Vec<Change>) {
        let (mut own, mut soa, mut names) = (Own::new(), None, BTreeSet::new());
        for node in content.into_iter().flat_map(Zone::nodes) {
            let origin = self.settings.zones[zone].as_name();
            let Ok(name) = NameBuf::joined(node.name(), origin) else { continue };
            if node.sets().next().is_none() {
                names.insert(name.as_name().as_bytes().into());
            }
            for set in node.sets() {
                let (rtype, value) = (set.rtype(), SetValue::from(set));
                match rtype {
                    Rtype::SOA => soa = Some(value),
                    _ => drop(own.insert((name.as_name().as_bytes().into(), rtype), value)),
                }
            }
        }
        self.own_soa[zone] = soa;
        self.is_new = true;
        let known = std::mem::replace(&mut self.own_names[zone], names);
        let names = &self.own_names[zone];
        let gone = known.difference(names).map(|name| Change::RemoveName(name_of(name)));
        let new = names.difference(&known).map(|name| Change::AddName(name_of(name)));
        let changes = gone.chain(new).collect();
        (self.parts.set_own(zone, own), changes)
    }

    fn apex(&self, zone: usize) -> Vec<Edit> {
        let own = self.own_soa[zone].as_ref();
        let ttls = (self.settings.ttl, self.settings.negative_ttl);
        apex::edits(ttls, &self.settings.zones[zone], own, self.serial)
    }

    /// Publishes all sets in place of those before, unless they lost too much.
    async fn publish(&mut self) -> Result<(), Stopped> {
        self.is_published = true;
        for zone in 0..self.settings.zones.len() {
            let target = Target::Zone(self.settings.zones[zone].clone());
            let apex = self.apex(zone);
            let mut epoch = self.updates.full_sync(target.clone());
            let all = self.parts.all(zone).map(Edit::from);
            for change in apex.into_iter().chain(all) {
                if let Err(why) = epoch.put(change) {
                    tracing::warn!("a record of clusters is not served: {why}");
                }
            }
            let server = apex::server(&self.settings.zones[zone]);
            let server = self.own_soa[zone].is_none().then_some(server);
            let names = self.own_names[zone].iter().map(|name| name_of(name));
            for name in names.chain(server) {
                let _ = epoch.put(Change::AddName(name));
            }
            if let SyncOutcome::Refused(why) = epoch.commit().await?.outcome {
                tracing::error!(%target, "parts of clusters are not served: {why}");
            }
        }
        Ok(())
    }

    async fn apply(&mut self, changes: Vec<SetChange>) -> Result<(), Stopped> {
        if changes.is_empty() || !self.is_published {
            return Ok(());
        }
        self.is_new = true;
        let mut by_zone: BTreeMap<usize, Vec<Change>> = BTreeMap::new();
        for change in changes {
            by_zone.entry(change.zone).or_default().push(Edit::from(change).into());
        }
        self.send(by_zone).await
    }

    async fn send(&mut self, by_zone: BTreeMap<usize, Vec<Change>>) -> Result<(), Stopped> {
        let mut answers = Vec::new();
        for (zone, changes) in by_zone {
            let target = Target::Zone(self.settings.zones[zone].clone());
            answers.push(self.updates.apply(target, changes).await?);
        }
        for answer in answers {
            for refused in answer.await?.results.into_iter().filter_map(Result::err) {
                tracing::warn!("a record of clusters is not served: {refused}");
            }
        }
        Ok(())
    }

    async fn renew_serial(&mut self) -> Result<(), Stopped> {
        self.leave_out_gone().await?;
        self.report();
        if !self.is_published || !std::mem::take(&mut self.is_new) {
            return Ok(());
        }
        let now = now_seconds();
        let is_later = now.wrapping_sub(self.serial) as i32 > 0;
        self.serial = if is_later { now } else { self.serial.wrapping_add(1) };
        let zones = 0..self.settings.zones.len();
        let apex = |zone| (zone, self.apex(zone).into_iter().map(Change::from).collect());
        self.send(zones.map(apex).collect()).await
    }

    fn is_held(&self) -> bool {
        let mut zones = self.settings.zones.iter();
        zones.any(|zone| self.updates.is_held(&Target::Zone(zone.clone())))
    }

    /// Saves the parts if they changed, are whole, and are believed.
    fn save(&mut self) {
        let Some(folder) = &self.settings.folder else { return };
        if !self.is_changed || !self.feeds.is_complete() || !self.is_published || self.is_held() {
            return;
        }
        let site = |key: &PartKey| self.feeds.site_of(&key.cluster);
        let parts = self.parts.parts().iter().map(|(key, part)| (key, part, site(key)));
        let saved = saved::save(folder, parts);
        self.is_changed = saved.is_err();
        if let Err(why) = &saved {
            tracing::error!("parts of clusters: {why}; it is retried");
        }
        self.edit_status(|status| status.saving = saved.err());
    }
}

/// Seconds since 1970, as the serial of a zone.
fn now_seconds() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as u32
}
