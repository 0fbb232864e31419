//! Other sites as sources: their zones, read from their etcd, with a copy on disk.
//!
//! A site is followed as this site's etcd is, by a user who needs only to read. What it serves has
//! the serials of its home, is answered while the site is away, and is never written here.
#![forbid(unsafe_code)]

pub mod limits;
mod rates;

use keyspace::{EtcdSettings, words_of_site};
use limits::{MEASURE_INTERVAL, SPACE_INTERVAL};
use rates::Measurements;
use records::{
    KnownViews, Mirror, RecordService, Refused, ServiceThreads, StoreSource, WriteDelay,
    WriteResult, source_of_site,
};
use server_status::SiteStatus;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use store_etcd::{EtcdMirror, EtcdSpace, open_mirror};
use wire::{Name, NameBuf};
use zone_manager::{Answer, ZoneOwner, ZonePublisher};

/// The thread that measures.
pub const THREAD: &str = "sites";

/// The folder of the copies in `[server] data_dir`.
const FOLDER: &str = "sites";

/// The folder of the copy of a site.
pub fn folder(data_dir: &Path, site: &str) -> PathBuf {
    data_dir.join(FOLDER).join(site)
}

/// A site, and which of its zones are served.
#[derive(Clone, Debug)]
pub struct SiteSettings {
    /// The name of the site; its copy is in a folder of that name.
    pub name: String,
    /// Where it is.
    pub location: Option<String>,
    /// Its zones that are served, in lower case.
    pub zones: Vec<NameBuf>,
    /// Bytes that its etcd may use, if that does not say so.
    pub quota: u64,
    /// Its etcd.
    pub etcd: EtcdSettings,
}

/// A site that is followed.
struct Site {
    settings: SiteSettings,
    service: RecordService,
    mirror: Arc<EtcdMirror>,
    delay: Arc<WriteDelay>,
    measured: Mutex<Measurements>,
}

/// The sites that are followed.
pub struct Sites {
    sites: Arc<Vec<Site>>,
    publisher: ZonePublisher,
    /// `None` once stopped.
    running: Mutex<Option<Running>>,
}

struct Running {
    threads: Vec<ServiceThreads>,
    /// Ends the thread that measures when it is dropped.
    end: Sender<()>,
    measuring: JoinHandle<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sites {
    /// Follows these sites, with copies in the data folder. Their zones are served from the copies
    /// at once, and answer SERVFAIL where there is none. `waits`: until another process has
    /// released the files.
    ///
    /// # Errors
    /// A folder cannot be created, or a thread cannot be started.
    pub fn start(
        settings: Vec<SiteSettings>,
        data_dir: &Path,
        publisher: &ZonePublisher,
        waits: bool,
    ) -> io::Result<Self> {
        let (mut sites, mut threads) = (Vec::with_capacity(settings.len()), Vec::new());
        for of_site in settings {
            let (site, serving) = Site::start(of_site, data_dir, publisher, waits)?;
            sites.push(site);
            threads.push(serving);
        }
        let (sites, (end, ended)) = (Arc::new(sites), channel::<()>());
        let (measured, zones) = (Arc::clone(&sites), publisher.clone());
        let measuring = thread::Builder::new().name(THREAD.into()).spawn(move || {
            let mut due = Instant::now();
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(MEASURE_INTERVAL) {
                let is_due = Instant::now() >= due;
                due = if is_due { Instant::now() + SPACE_INTERVAL } else { due };
                measured.iter().for_each(|site| site.measure(&zones, is_due));
            }
        })?;
        let running = Mutex::new(Some(Running { threads, end, measuring }));
        Ok(Self { sites, publisher: publisher.clone(), running })
    }

    /// The status of each.
    pub fn status(&self) -> Vec<SiteStatus> {
        self.sites.iter().map(|site| site.status(&self.publisher)).collect()
    }

    /// Accepts what the etcd of a site has, although its history is another one. It may not be
    /// older. `None`: there is no such site.
    pub fn accept(&self, name: &str) -> Option<Answer<WriteResult, Refused>> {
        let site = self.sites.iter().find(|site| site.settings.name == name)?;
        Some(site.service.adopt())
    }

    /// Whether a thread panicked. The served zones stay.
    pub fn have_failed(&self) -> bool {
        let has_ended = |running: &Running| running.measuring.is_finished();
        self.sites.iter().any(|site| site.service.has_failed())
            || lock(&self.running).as_ref().is_some_and(has_ended)
    }

    /// Releases the copies for the new process of a hot restart.
    pub fn close(&self) {
        self.sites.iter().for_each(|site| drop(site.service.close()));
    }

    /// Opens them again after the hot restart failed.
    pub fn open(&self) {
        self.sites.iter().for_each(|site| drop(site.service.open()));
    }

    /// Stops all threads.
    pub fn stop(&self) {
        let Some(running) = lock(&self.running).take() else { return };
        let Running { threads, end, measuring } = running;
        drop(end);
        threads.into_iter().for_each(ServiceThreads::stop);
        // A panic was reported by `have_failed`.
        let _ = measuring.join();
    }
}

impl Site {
    fn start(
        settings: SiteSettings,
        data_dir: &Path,
        publisher: &ZonePublisher,
        waits: bool,
    ) -> io::Result<(Self, ServiceThreads)> {
        let SiteSettings { name, location, zones, etcd, .. } = settings.clone();
        let folder = folder(data_dir, &name);
        let etcd = EtcdSettings { site: Some(name.clone()), ..etcd };
        let (store, mirror) = open_mirror(&folder, etcd).map_err(io::Error::other)?;
        let delay = Arc::<WriteDelay>::default();
        let of_site = Mirror { site: name, zones, location, delay: Arc::clone(&delay) };
        let source = StoreSource {
            store,
            fleet: None,
            waits,
            list: None,
            may_write: false,
            mirror: Some(of_site),
            // Views of another site are not those of this one: its sets of views are not served.
            views: KnownViews::default(),
        };
        let (service, serving) = publisher.start_source(source)?;
        let measured = Mutex::default();
        Ok((Self { settings, service, mirror, delay, measured }, serving))
    }

    /// Measures, and serves zones that have no other home any more.
    fn measure(&self, publisher: &ZonePublisher, with_space: bool) {
        let space = if with_space { self.mirror.space() } else { None };
        let mut measured = lock(&self.measured);
        measured.count(Instant::now(), self.mirror.status().bytes);
        measured.measure(Instant::now(), space);
        drop(measured);
        let is_free = |zone: &NameBuf| publisher.catalog().owner(zone.as_name()).is_none();
        if self.settings.zones.iter().any(|zone| is_free(zone) && self.has(zone.as_name())) {
            drop(self.service.settle());
        }
    }

    /// Whether the site has a zone, as far as this server knows.
    fn has(&self, zone: Name<'_>) -> bool {
        self.service.zone(zone).is_ok_and(|found| found.is_some())
    }

    fn status(&self, publisher: &ZonePublisher) -> SiteStatus {
        let SiteSettings { name, location, zones, quota, .. } = &self.settings;
        let status = self.mirror.status();
        let source = source_of_site(name);
        let (mut served, mut refused, mut missing) = (0, Vec::new(), Vec::new());
        for zone in zones {
            match publisher.catalog().owner(zone.as_name()) {
                Some(ZoneOwner::Source(owner)) if *owner == source => served += 1,
                Some(ZoneOwner::BuiltIn) | None if !self.has(zone.as_name()) => {
                    missing.push(zone.to_string());
                }
                Some(ZoneOwner::BuiltIn) | None => {}
                Some(owner) => refused.push(format!("{zone} (it is of {owner})")),
            }
        }
        let unusable = || self.service.health().unavailable.map(|why| words_of_site(&why, name));
        let measured = lock(&self.measured);
        let EtcdSpace { bytes: size, quota: own_quota } = measured.space.unwrap_or_default();
        let quota = own_quota.unwrap_or(*quota);
        let revision = self.service.revision().map_or(0, |revision| revision.0);
        SiteStatus {
            location: location.clone(),
            lag_seconds: lag(&status, revision),
            revision,
            home_revision: status.home_revision.max(revision),
            delay_seconds: self.delay.last().map(|delay| delay.as_secs_f64()),
            bytes_per_second: measured.bytes_per_second,
            etcd_bytes: size,
            etcd_quota_bytes: quota,
            etcd_full_days: measured.days_until_full(quota),
            zones: served,
            refused,
            missing: if status.is_following { missing } else { Vec::new() },
            fault: status.fault.clone().or_else(unusable),
            name: name.clone(),
            ..status
        }
    }
}

/// How far what is served may be behind the site: since its last answer, while changes do not
/// arrive. `None`: the site was never reached since the start.
fn lag(status: &SiteStatus, revision: u64) -> Option<f64> {
    if status.is_following && status.home_revision <= revision {
        return Some(0.0);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    status.contact_seconds.map(|when| (now.as_secs_f64() - when).max(0.0))
}
