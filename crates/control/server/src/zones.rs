//! The zones and hosts files of the config, kept as they are served: loaded from their files, zones
//! else from what was saved of them; added and taken away while the server runs; and what is to be
//! told of each.
mod hosts;
mod keeper;
mod registry;

use crate::local::{self, Locals};
use compile::Image;
use config::{Config, Forward, Zone};
use hosts::Shelf;
use image::{HASH_KEY_WORDS, HashKey};
use keeper::ZoneKeeper;
use registry::Registry;
use source_file::{CommandId, CommandSender, FilesToLoad, Source, ZoneFile, ZoneSaver, saved};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use tokio::sync::oneshot;
use wire::{Name, NameBuf};
use zone_manager::ZonePublisher;
use zone_manager::status::{HostsStatus, ZoneStatus};

/// The thread that loads zones.
pub const LOADER: &str = "zone-files";
/// The thread that saves them.
pub const SAVER: &str = "zone-saver";

/// Whose names are answered here.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    files: FilesToLoad,
    locals: Locals,
    /// Seconds that what hosts files say may be kept.
    hosts_ttl: u32,
}

impl Wanted {
    /// As a config says, beside the rules that the process was started with.
    pub fn new(config: &Config, forwards: &[Forward]) -> Self {
        let locals = Locals::new(config.server.local_zones, forwards);
        let hosts_ttl = config.hosts.ttl.as_secs() as u32;
        let files = FilesToLoad { zones: files(&config.zones), hosts: config.hosts.files.clone() };
        Self { files, locals, hosts_ttl }
    }
}

/// An image in which no configured zone is loaded yet: each answers SERVFAIL (invariant I10).
///
/// # Errors
/// When the system has no randomness to give.
pub fn first_image(wanted: &Wanted) -> Result<Image, getrandom::Error> {
    let mut words = [0; HASH_KEY_WORDS];
    for word in &mut words {
        *word = getrandom::u64()?;
    }
    let key = Arc::new(HashKey::new(words));
    let mut image = Image::new(Arc::clone(&key));
    let configured: Vec<NameBuf> =
        wanted.files.zones.iter().map(|zone| zone.origin.clone()).collect();
    for name in wanted.locals.names(&configured) {
        image.put_zone(local::load(&key, name.as_name()).into());
    }
    for zone in &wanted.files.zones {
        let unloaded = compile::Zone::unloaded(Arc::clone(&key), zone.origin.as_name());
        image.put_zone(unloaded.into());
    }
    Ok(image)
}

/// The zones, and the threads that load and save them.
pub struct Zones {
    wishes: CommandSender,
    control: ZonePublisher,
    registry: Arc<Registry>,
    locals: Arc<Mutex<Locals>>,
    shelf: Arc<Shelf>,
    /// Gone once they are stopped.
    saver: Mutex<Option<Arc<ZoneSaver>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Zones {
    /// Starts the threads, and has every zone tried once: that is what the wish is about. Copies
    /// of good zones are kept in `data_dir`; without it there are none.
    ///
    /// # Errors
    /// When a thread could not be started.
    pub fn start(
        control: &ZonePublisher,
        wanted: Wanted,
        data_dir: Option<&Path>,
    ) -> io::Result<(Self, CommandId)> {
        let registry = Arc::new(Registry::default());
        // Whoever asks meanwhile is told of them.
        registry.set(&wanted.files.zones);
        let shelf = Arc::new(Shelf::default());
        shelf.set(&wanted.files.hosts);
        let folder = data_dir.map(saved::folder);
        let newest = control.clone();
        let newest = move |origin: wire::Name<'_>| newest.image().zone(origin).cloned();
        let saver = folder.clone().map(|folder| ZoneSaver::start(folder, newest)).transpose()?;
        let saver = saver.map(Arc::new);
        let locals = Arc::new(Mutex::new(wanted.locals.clone()));
        let mut keeper = ZoneKeeper::new(
            control.clone(),
            Arc::clone(&registry),
            folder.zip(saver.clone()),
            Arc::clone(&locals),
            Arc::clone(&shelf),
        );
        let (wishes, mut source) = Source::new();
        let run = move || source.run(&mut keeper);
        let thread = thread::Builder::new().name(LOADER.into()).spawn(run)?;
        let zones_kept = Self {
            wishes,
            control: control.clone(),
            registry,
            locals,
            shelf,
            saver: Mutex::new(saver),
            thread: Mutex::new(Some(thread)),
        };
        let wished = zones_kept.set(wanted);
        Ok((zones_kept, wished))
    }

    /// Serves these from now on. Zones and hosts files that are new or another are loaded; those
    /// that are no more go, and the zones' copies with them.
    pub fn set(&self, wanted: Wanted) -> CommandId {
        self.wishes.set_files(self.take(wanted))
    }

    /// The same, and loads every file again.
    pub fn reload(&self, wanted: Wanted) -> CommandId {
        self.wishes.reload(self.take(wanted))
    }

    /// Reads the file of a zone again, whether it changed or not.
    pub fn load(&self, origin: NameBuf) -> CommandId {
        self.wishes.load(origin)
    }

    fn take(&self, wanted: Wanted) -> FilesToLoad {
        *lock(&self.locals) = wanted.locals;
        self.shelf.set_ttl(wanted.hosts_ttl);
        wanted.files
    }

    /// Waits, without holding up others, until all that was wished is done: what became of each
    /// zone is in the status. False: the zones were stopped before.
    pub async fn granted(&self, wished: CommandId) -> bool {
        let (tell, told) = oneshot::channel();
        let wishes = self.wishes.clone();
        let wait = move || {
            // Who asked may not want to know any more.
            let _ = tell.send(wishes.wait(wished));
        };
        let waiter = thread::Builder::new().name("zone-waiter".into()).spawn(wait);
        match waiter {
            Ok(_) => told.await.unwrap_or(false),
            Err(_) => self.wishes.wait(wished),
        }
    }

    /// Whose zones are not the store's.
    pub fn others(&self) -> Arc<dyn records::ZoneOwnership> {
        let (registry, locals) = (Arc::clone(&self.registry), Arc::clone(&self.locals));
        Arc::new(FileZones { registry, locals })
    }

    /// What is to be told of each configured zone, in the order of the config.
    pub fn status(&self) -> Vec<ZoneStatus> {
        let mut status = self.registry.status();
        let mut held = self.control.holds().all();
        if !held.is_empty() {
            status.iter_mut().for_each(|zone| zone.held = held.remove(&zone.name));
        }
        status
    }

    /// What is to be told of each hosts file, in the order of the config.
    pub fn hosts(&self) -> Vec<HostsStatus> {
        self.shelf.status()
    }

    /// Whether the thread that loads zones has ended by itself.
    pub fn have_failed(&self) -> bool {
        self.wishes.have_failed()
    }

    /// What keeps zones from being saved now, if something does.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.saver).as_ref()?.trouble()
    }

    /// Loads nothing more; a load at work is finished, and what is soon saved is saved.
    pub fn stop(&self) {
        self.wishes.stop();
        if let Some(thread) = lock(&self.thread).take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that loads zones panicked; they were served as they were");
        }
        // Waited for outside of the lock: who asks what it has to tell is not to wait as well.
        let saver = lock(&self.saver).take();
        drop(saver);
    }
}

impl Drop for Zones {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The zones of the config, and those that are built in.
struct FileZones {
    registry: Arc<Registry>,
    locals: Arc<Mutex<Locals>>,
}

impl records::ZoneOwnership for FileZones {
    fn owner(&self, origin: Name<'_>) -> Option<records::ZoneOwner> {
        self.registry.file(origin).map(records::ZoneOwner::File)
    }

    fn is_built_in(&self, origin: Name<'_>) -> bool {
        let is_it = |name: NameBuf| name.as_name() == origin;
        let locals = lock(&self.locals);
        // Most names cannot be one of them, whatever is configured.
        locals.candidates().any(is_it) && locals.names(&self.registry.names()).any(is_it)
    }

    fn origins(&self) -> Vec<NameBuf> {
        self.registry.names()
    }

    fn instead(&self, origin: Name<'_>, key: &Arc<HashKey>) -> Option<compile::Zone> {
        self.is_built_in(origin).then(|| local::load(key, origin))
    }
}

fn files(zones: &[Zone]) -> Vec<ZoneFile> {
    let file = |zone: &Zone| ZoneFile { origin: zone.name.clone(), file: zone.file.clone() };
    zones.iter().map(file).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that holds it can panic half way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
