//! Zones of primaries as a source: transferred by AXFR and IXFR, kept on disk, refreshed.
//!
//! Each zone is a task of one thread. A transfer is believed as a whole or not at all, and what is
//! served stays until the next one is complete.
#![forbid(unsafe_code)]

mod content;
mod copies;
mod exchange;
pub mod limits;
mod message;
mod reader;
mod record_log;
mod secondary;
mod timers;
mod tls;

pub use secondary::read_key;
pub use tls::TlsFiles;

use copies::Copies;
use limits::{REFRESHES_MAX, STOP_MAX, TRANSFERS_MAX};
use secondary::{Secondary, Shared};
use server_status::SecondaryStatus;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use tls::TlsClient;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle as Task;
use upstream::UpstreamAddress;
use wire::{Name, NameBuf};
use zone_manager::{HoldPolicy, Lane, SourceKind, SourceSettings, ZonePublisher};

/// The thread that follows the primaries.
pub const THREAD: &str = "transfers";

/// The name of the source.
pub const SOURCE: &str = "primaries";

/// A zone, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondarySettings {
    /// The zone, in lower case.
    pub origin: NameBuf,
    /// Its primaries, in the order in which they are asked.
    pub primaries: Vec<UpstreamAddress>,
    /// The files for primaries over TLS.
    pub tls: TlsFiles,
    /// The file with the key that is shared with them; `None`: nothing is signed.
    pub key_file: Option<PathBuf>,
    /// The most records of a transfer.
    pub records_max: usize,
}

/// A zone that is followed.
struct Followed {
    zone: Arc<Secondary>,
    task: Task<()>,
}

/// The zones of primaries.
pub struct Secondaries {
    shared: Arc<Shared>,
    runtime: Handle,
    zones: Mutex<BTreeMap<Box<[u8]>, Followed>>,
    /// `None` once stopped.
    running: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Secondaries {
    /// Follows the primaries of these zones, with copies in the data folder. Zones are served from
    /// their copies at once, and answer SERVFAIL where there is none.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        settings: Vec<SecondarySettings>,
        data_dir: &Path,
        publisher: &ZonePublisher,
    ) -> io::Result<Self> {
        let updates = publisher.start_source(SourceSettings {
            name: SOURCE.into(),
            kind: SourceKind::Primary,
            lane: Lane::Normal,
            hold: HoldPolicy::Operator,
        });
        let (transfers, refreshes) = (Semaphore::new(TRANSFERS_MAX), Semaphore::new(REFRESHES_MAX));
        let copies = Copies::new(data_dir);
        let tls = TlsClient::default();
        let shared = Arc::new(Shared { updates, copies, tls, transfers, refreshes });
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let (handle, (end, ended)) = (runtime.handle().clone(), oneshot::channel());
        let run = move || {
            // An error says that the sender is gone: that is an end, too.
            let _ = runtime.block_on(ended);
            runtime.shutdown_timeout(STOP_MAX);
        };
        let thread = thread::Builder::new().name(THREAD.into()).spawn(run)?;
        let (zones, running) = (Mutex::default(), Mutex::new(Some((end, thread))));
        let secondaries = Self { shared, runtime: handle, zones, running };
        secondaries.set(settings);
        Ok(secondaries)
    }

    /// Follows these zones from now on; blocks until their copies are served. Those that stay as
    /// they are go on; those whose primaries changed are asked for at once; others are not served
    /// any more.
    pub fn set(&self, settings: Vec<SecondarySettings>) {
        let mut zones = lock(&self.zones);
        let mut old = std::mem::take(&mut *zones);
        for of_zone in settings {
            let key: Box<[u8]> = of_zone.origin.as_name().as_bytes().into();
            let known = old.remove(&key);
            let followed = match known {
                Some(known) if known.zone.settings == of_zone => known,
                known => {
                    known.into_iter().for_each(|known| known.end(false));
                    let zone = Arc::new(Secondary::new(of_zone, Arc::clone(&self.shared)));
                    zone.load();
                    let task = self.runtime.spawn(Arc::clone(&zone).run());
                    Followed { zone, task }
                }
            };
            zones.insert(key, followed);
        }
        old.into_values().for_each(|gone| gone.end(true));
    }

    /// A primary says that a zone has changed; `false`: it is not one of these.
    pub fn notify(&self, zone: Name<'_>) -> bool {
        let zones = lock(&self.zones);
        let followed = zones.get(&*zone.as_bytes().to_ascii_lowercase());
        followed.inspect(|followed| followed.zone.notify()).is_some()
    }

    /// The status of each, by name.
    pub fn status(&self) -> Vec<SecondaryStatus> {
        lock(&self.zones).values().map(|followed| followed.zone.status()).collect()
    }

    /// Whether a thread or a task panicked. The served zones stay.
    pub fn have_failed(&self) -> bool {
        let has_ended =
            lock(&self.running).as_ref().is_some_and(|(_, thread)| thread.is_finished());
        has_ended || lock(&self.zones).values().any(|followed| followed.task.is_finished())
    }

    /// Stops to follow. What is served stays.
    pub fn stop(&self) {
        let Some((end, thread)) = lock(&self.running).take() else { return };
        lock(&self.zones).clear();
        drop(end);
        // A panic was reported by `have_failed`.
        let _ = thread.join();
    }
}

impl Followed {
    fn end(self, and_content: bool) {
        self.task.abort();
        self.zone.end(and_content);
    }
}
