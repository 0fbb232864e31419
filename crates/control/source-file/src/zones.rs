//! The zones and hosts files of the config, and the built-in zones, as sources of the zone manager:
//! loads and saves them, adds and removes them while the server runs, and reports their status.
mod built_in;
mod files;
mod hosts;
mod registry;

pub use built_in::BuiltInZones;

use crate::FileLoop;
use crate::handler::{FilesToLoad, LoadAttempt, LoadHandler, ZoneFile};
use crate::saved::{self, ZoneSaver};
use crate::watch::{CommandId, CommandSender};
use built_in::{BuiltInLoader, BuiltInSource};
use files::{Copies, FileLoader, FileSource};
use hosts::{HostsFiles, HostsLoader, HostsSource};
use registry::ZoneRegistry;
use server_status::{HostsStatus, ZoneStatus};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};
use tokio::sync::oneshot;
use wire::NameBuf;
use zone_manager::ZonePublisher;

/// The thread that loads zones.
pub const LOADER: &str = "zone-files";
/// The thread that saves zones.
pub const SAVER: &str = "zone-saver";

/// The zones of a config.
#[derive(Clone, Debug, Default)]
pub struct ZoneConfig {
    /// The zone files and hosts files.
    pub files: FilesToLoad,
    /// The built-in zones beside them.
    pub built_in: BuiltInZones,
    /// The TTL of records from hosts files in seconds.
    pub hosts_ttl: u32,
    /// How long the copies of other zones stay.
    pub saved_for: Duration,
}

/// The zones, and the threads that load and save them.
pub struct Zones {
    commands: CommandSender,
    control: ZonePublisher,
    registry: Arc<ZoneRegistry>,
    built_in: Arc<Mutex<BuiltInZones>>,
    hosts: Arc<HostsFiles>,
    saved_for: Arc<Mutex<Duration>>,
    /// `None` once stopped.
    saver: Mutex<Option<Arc<ZoneSaver>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Zones {
    /// Starts the threads, and loads every zone once; the command is done when all were tried.
    /// Until it is loaded, a zone answers SERVFAIL (invariant I10). Copies of good zones are saved
    /// in `data_dir`, if there is one.
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn start(
        control: &ZonePublisher,
        config: ZoneConfig,
        data_dir: Option<&Path>,
    ) -> io::Result<(Self, CommandId)> {
        let registry = Arc::new(ZoneRegistry::default());
        registry.set(&config.files.zones);
        let hosts = Arc::new(HostsFiles::default());
        hosts.set(&config.files.hosts);
        let folder = data_dir.map(saved::folder);
        let newest = control.clone();
        let newest = move |origin: wire::Name<'_>| newest.image().zone(origin).cloned();
        let saver = folder.clone().map(|folder| ZoneSaver::start(folder, newest)).transpose()?;
        let saver = saver.map(Arc::new);
        let built_in = Arc::new(Mutex::new(config.built_in.clone()));
        let saved_for = Arc::new(Mutex::new(config.saved_for));
        let copies = folder.zip(saver.clone()).map(|(folder, saver)| Copies {
            folder,
            saver,
            saved_for: Arc::clone(&saved_for),
        });
        let mut loader = ZoneLoader {
            files: control.start_source(FileSource { registry: Arc::clone(&registry), copies }),
            hosts: control.start_source(HostsSource(Arc::clone(&hosts))),
            built_in: control.start_source(BuiltInSource(Arc::clone(&built_in))),
        };
        loader.files.claim(&config.files.zones);
        loader.built_in.put(&config.files.zones);
        control.wait(control.last());
        let (commands, mut files) = FileLoop::new();
        let run = move || files.run(&mut loader);
        let thread = thread::Builder::new().name(LOADER.into()).spawn(run)?;
        let zones = Self {
            commands,
            control: control.clone(),
            registry,
            built_in,
            hosts,
            saved_for,
            saver: Mutex::new(saver),
            thread: Mutex::new(Some(thread)),
        };
        let first = zones.set(config);
        Ok((zones, first))
    }

    /// Replaces the zones and hosts files. Loads new and moved ones; removes the others with their
    /// copies.
    pub fn set(&self, config: ZoneConfig) -> CommandId {
        self.commands.set_files(self.take(config))
    }

    /// As [`Zones::set`], and loads every file again.
    pub fn reload(&self, config: ZoneConfig) -> CommandId {
        self.commands.reload(self.take(config))
    }

    /// Loads the file of a zone, even if unchanged.
    pub fn load(&self, origin: NameBuf) -> CommandId {
        self.commands.load(origin)
    }

    /// Loads a hosts file, even if unchanged.
    pub fn load_hosts(&self, file: PathBuf) -> CommandId {
        self.commands.load_hosts(file)
    }

    fn take(&self, config: ZoneConfig) -> FilesToLoad {
        *lock(&self.built_in) = config.built_in;
        *lock(&self.saved_for) = config.saved_for;
        self.hosts.set_ttl(config.hosts_ttl);
        config.files
    }

    /// Waits until a command is done: the status has the result of each zone. False: the zones were
    /// stopped before.
    pub async fn wait(&self, command: CommandId) -> bool {
        let (sender, done) = oneshot::channel();
        let commands = self.commands.clone();
        let wait = move || {
            // The requester may be gone.
            let _ = sender.send(commands.wait(command));
        };
        let waiter = thread::Builder::new().name("zone-waiter".into()).spawn(wait);
        match waiter {
            Ok(_) => done.await.unwrap_or(false),
            Err(_) => self.commands.wait(command),
        }
    }

    /// The status of each configured zone, in the order of the config.
    pub fn status(&self) -> Vec<ZoneStatus> {
        let mut status = self.registry.status();
        let mut held = self.control.holds().all();
        if !held.is_empty() {
            status.iter_mut().for_each(|zone| zone.held = held.remove(&zone.name));
        }
        status
    }

    /// The status of each hosts file, in the order of the config.
    pub fn hosts(&self) -> Vec<HostsStatus> {
        let mut status = self.hosts.status();
        let holds = self.control.holds();
        status.iter_mut().for_each(|hosts| hosts.held = holds.held(&hosts.file));
        status
    }

    /// Whether the thread that loads zones panicked.
    pub fn have_failed(&self) -> bool {
        self.commands.have_failed()
    }

    /// Why zones cannot be saved now; `None`: they can.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.saver).as_ref()?.trouble()
    }

    /// Finishes the current load and pending copies, and stops.
    pub fn stop(&self) {
        self.commands.stop();
        if let Some(thread) = lock(&self.thread).take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that loads zones panicked; they were served as they were");
        }
        // Wait without the lock, so that the status does not wait.
        let saver = lock(&self.saver).take();
        drop(saver);
    }
}

impl Drop for Zones {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The three sources of the thread that loads zones.
struct ZoneLoader {
    files: FileLoader,
    hosts: HostsLoader,
    built_in: BuiltInLoader,
}

impl LoadHandler for ZoneLoader {
    fn load(&mut self, zone: &ZoneFile, attempt: &mut LoadAttempt<'_>) -> Vec<PathBuf> {
        self.files.load(zone, attempt)
    }

    fn serve_saved(&mut self, zone: &ZoneFile) -> bool {
        self.files.serve_saved(zone)
    }

    fn set_writing(&mut self, zone: &ZoneFile, since: Option<SystemTime>) {
        self.files.set_writing(zone, since);
    }

    fn load_hosts(&mut self, file: &Path, attempt: &mut LoadAttempt<'_>) {
        self.hosts.load(file, attempt);
    }

    fn set_files(&mut self, FilesToLoad { zones, hosts }: &FilesToLoad) {
        self.hosts.set_files(hosts);
        // A built-in zone takes the place of a removed one at once.
        self.built_in.put(zones);
        self.files.set_files(zones);
    }

    fn settle(&mut self, zones: &[ZoneFile]) {
        self.built_in.remove_unwanted(zones);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that holds it can panic midway.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
