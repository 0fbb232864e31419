//! The store of the server: opens it, reports its status, and stops it.
use crate::etcd::{self, EtcdSettings, OwnLease};
use crate::resources::VERSION;
use crate::sites::{SiteSettings, Sites};
use config::limits::MEMBER_NAME_LEN_MAX;
use config::{Config, Etcd, Server, Site, StoreKind};
use records::{
    Fleet, Form, KnownViews, RecordService, ServiceThreads, Store, StoreSize, StoreSource, View,
};
use server_status::{Member, StoreStatus, StoreZoneFault};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use store_redb::RedbStore;
use zone_manager::ZonePublisher;

/// The writer thread.
pub const WRITER: &str = records::WRITER_THREAD;

/// The store of a server that has one.
pub struct Stored {
    pub service: RecordService,
    /// The tree and the log.
    files: [PathBuf; 2],
    /// `None` once stopped.
    serving: Mutex<Option<ServiceThreads>>,
}

impl Stored {
    /// Opens the configured store, and serves its zones; `None`: none is configured. In a hot
    /// restart it waits until the old process has released it. Opening is retried until it
    /// succeeds; the zones answer SERVFAIL until then (invariant I11).
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        config: &StoreConfig,
        control: &ZonePublisher,
        is_hot_restart: bool,
    ) -> io::Result<Option<Self>> {
        let StoreConfig { kind, folder, etcd, may_write, views, .. } = config;
        let Some(folder) = folder else { return Ok(None) };
        let began = Instant::now();
        let (store, fleet, of_files): (Box<dyn Store>, Option<Arc<dyn Fleet>>, _) = match kind {
            StoreKind::None => return Ok(None),
            StoreKind::Redb => {
                let store = RedbStore::closed(folder).map_err(io::Error::other)?;
                (Box::new(store), None, folder.clone())
            }
            StoreKind::Etcd => {
                let opened = etcd::open(folder, etcd.clone()).map_err(io::Error::other)?;
                (opened.0, Some(opened.1), etcd::replica_folder(folder))
            }
        };
        let source = StoreSource {
            store,
            fleet,
            waits: is_hot_restart,
            list: Some(folder.join(store::ZONE_LIST)),
            may_write: *may_write,
            mirror: None,
            views: views.clone(),
        };
        let (service, serving) = control.start_source(source)?;
        let files = store_redb::paths(&of_files);
        // The service logs why it cannot be used.
        if let Ok(StoreSize { revision, zones, sets }) = service.held() {
            let milliseconds = began.elapsed().as_millis() as u64;
            let file = files[0].display();
            tracing::info!(%file, zones, sets, %revision, milliseconds, "store opened");
        }
        Ok(Some(Self { service, files, serving: Mutex::new(Some(serving)) }))
    }

    /// Its status.
    pub fn status(&self) -> StoreStatus {
        let folder = self.files[0].parent().unwrap_or(Path::new("."));
        let free = rustix::fs::statvfs(folder).map(|found| found.f_bavail * found.f_frsize);
        let health = self.service.health();
        let named = health.unreadable.iter().map(|(zone, why)| (zone.to_string(), why.to_string()));
        let status = StoreStatus {
            file: self.files[0].display().to_string(),
            bytes: self.files.iter().flat_map(fs::metadata).map(|found| found.len()).sum(),
            free_bytes: free.unwrap_or_default(),
            servfail: health.unreadable_count as u64,
            servfail_zones: named.map(|(name, reason)| StoreZoneFault { name, reason }).collect(),
            form: health.form.0,
            form_newest: Form::NEWEST.0,
            form_refusals: health.form_refusals,
            is_unread: !health.was_read && health.list.is_some(),
            list_fault: health.list.map(|why| why.to_string()),
            fleet: self.service.fleet().map(|fleet| fleet.status()),
            ..StoreStatus::default()
        };
        match self.service.held() {
            Ok(StoreSize { revision, zones, sets }) => StoreStatus {
                revision: revision.0,
                zones,
                rrsets: sets,
                writes_refused: self.service.writable().err().map(|why| why.to_string()),
                ..status
            },
            Err(why) => {
                // The status has the file already.
                let why = health.unavailable.map_or_else(|| why.to_string(), |why| why.to_string());
                StoreStatus { fault: Some(why), zones: status.servfail, ..status }
            }
        }
    }

    /// Commits queued writes, and stops.
    pub fn stop(&self) {
        let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(serving) = serving {
            serving.stop();
        }
    }
}

/// The views that a config names for zones of the store, with their numbers.
pub fn known_views(
    config: &Config,
    numbers: &HashMap<String, packet::View>,
) -> HashMap<View, packet::View> {
    let of = |name: &String| Some((View::from_word(name)?, *numbers.get(name)?));
    config.store.views.iter().filter_map(of).collect()
}

/// The store that a config names.
pub struct StoreConfig {
    kind: StoreKind,
    folder: Option<PathBuf>,
    /// Of a store in etcd.
    pub etcd: EtcdSettings,
    /// Whether this server takes writes.
    may_write: bool,
    /// Other sites.
    sites: Vec<SiteSettings>,
    /// The views that clients may have.
    pub views: KnownViews,
}

impl StoreConfig {
    /// Follows the other sites, if there are any.
    ///
    /// # Errors
    /// A thread cannot be started, or a folder cannot be created.
    pub fn start_sites(&self, control: &ZonePublisher, waits: bool) -> io::Result<Option<Sites>> {
        match &self.folder {
            Some(folder) if !self.sites.is_empty() => {
                Sites::start(self.sites.clone(), folder, control, waits).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The store of a server that listens on these addresses.
    pub fn new(config: &Config, listen: &[String], own: &OwnLease) -> Self {
        let Server { roles, name, location, .. } = &config.server;
        let member = Member {
            name: if name.is_empty() { host_name() } else { name.clone() },
            addresses: listen.to_vec(),
            version: VERSION.to_owned(),
            roles: roles.words().iter().map(|&word| word.to_owned()).collect(),
            location: location.clone(),
            ..Member::default()
        };
        let may_write = roles.api;
        let own = own.clone();
        let etcd = EtcdSettings { member, may_write, own, ..etcd_settings(&config.etcd) };
        let folder = config.server.folder().map(Path::to_owned);
        let sites = config.sites.iter().map(site_settings).collect();
        let views = KnownViews::default();
        Self { kind: config.store.kind, folder, etcd, may_write, sites, views }
    }
}

/// Where an etcd is, and how to log in, for one who only reads.
fn etcd_settings(etcd: &Etcd) -> EtcdSettings {
    let Etcd { endpoints, prefix, ca, cert, key, user, password_file } = etcd.clone();
    let user = (!user.is_empty()).then_some(user);
    let (identity, user) = (cert.zip(key), user.zip(password_file));
    EtcdSettings { endpoints, prefix, ca, identity, user, ..EtcdSettings::default() }
}

/// The other sites of a config.
pub fn site_settings(site: &Site) -> SiteSettings {
    let Site { name, location, zones, etcd, quota, .. } = site.clone();
    SiteSettings { name, location, zones, quota, etcd: etcd_settings(&etcd) }
}

/// The name of this host, without what a key may not have.
fn host_name() -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy();
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
    name.chars().filter(is_plain).take(MEMBER_NAME_LEN_MAX).collect()
}
