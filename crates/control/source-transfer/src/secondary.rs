//! One zone of primaries: asks them, transfers it, serves it, until it expires.
use crate::content;
use crate::copies::Copies;
use crate::exchange::{KnownSoa, Primary};
use crate::limits::{KEY_FILE_LEN_MAX, NOTIFY_AFTER_FAILURE, OWNER_INTERVAL};
use crate::message::{Age, Soa, age};
use crate::reader::Transferred;
use crate::timers;
use crate::tls::TlsClient;
use crate::{SOURCE, SecondarySettings};
use compile::Zone;
use image::Tree;
use server_status::SecondaryStatus;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep_until};
use tsig::Key;
use upstream::UpstreamAddress;
use wire::{Name, Rtype};
use zone_manager::hold::{Evidence, Verdict, judge};
use zone_manager::{SyncOutcome, Target, UpdateSender, ZoneOwner};

/// What all zones of primaries share.
pub struct Shared {
    pub updates: UpdateSender,
    pub copies: Copies,
    pub tls: TlsClient,
    pub transfers: Semaphore,
    pub refreshes: Semaphore,
}

/// A zone of primaries.
pub struct Secondary {
    pub settings: SecondarySettings,
    shared: Arc<Shared>,
    state: Mutex<State>,
    /// A primary says that it has changed.
    notified: Notify,
    /// Held while the zone is published; false once it is given up.
    is_alive: Mutex<bool>,
}

/// What is known of a zone.
#[derive(Default)]
struct State {
    /// Its newest content: served, held, or kept after it expired.
    zone: Option<Arc<Zone>>,
    is_held: bool,
    is_expired: bool,
    /// When the zone expires without another contact.
    expires: Option<Instant>,
    /// A NOTIFY has no effect before.
    not_before: Option<Instant>,
    failures: u32,
    /// The owner of the zone, if that is another source.
    superseded: Option<ZoneOwner>,
    status: SecondaryStatus,
}

/// The newest content that is known.
struct Known {
    zone: Arc<Zone>,
    serial: u32,
    soa: Vec<u8>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// The SOA of a zone, as data and as numbers.
fn soa_of(zone: &Zone) -> Option<(Vec<u8>, Soa)> {
    let data = zone.set(zone.origin(), Rtype::SOA)?.records().next()?.to_vec();
    let soa = Soa::parse(&data)?;
    Some((data, soa))
}

impl Secondary {
    pub fn new(settings: SecondarySettings, shared: Arc<Shared>) -> Self {
        let (state, notified) = (Mutex::default(), Notify::new());
        Self { settings, shared, state, notified, is_alive: Mutex::new(true) }
    }

    fn origin(&self) -> Name<'_> {
        self.settings.origin.as_name()
    }

    fn target(&self) -> Target {
        Target::Zone(self.settings.origin.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// A primary says that the zone has changed.
    pub fn notify(&self) {
        self.notified.notify_one();
    }

    /// Gives the zone up; `and_content`: it is not served any more either.
    pub fn end(&self, and_content: bool) {
        *lock(&self.is_alive) = false;
        if and_content {
            self.shared.updates.remove_zone(self.origin());
        }
    }

    /// Follows the primaries as long as it is polled.
    pub async fn run(self: Arc<Self>) {
        let mut due = Instant::now();
        loop {
            let expires = self.state().expires;
            let expiry = async {
                match expires {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = sleep_until(due) => {}
                () = self.notified.notified() => {
                    let not_before = self.state().not_before;
                    sleep_until(not_before.unwrap_or_else(Instant::now).min(due)).await;
                }
                () = expiry => {
                    self.expire();
                    continue;
                }
            }
            due = Instant::now() + self.refresh().await;
        }
    }

    /// Claims the zone, and serves its copy if that has not expired.
    pub fn load(&self) {
        let Shared { updates, copies, .. } = &*self.shared;
        let claimed = updates.claim(self.settings.origin.clone(), None);
        let publisher = updates.publisher();
        // `None`: the server ends.
        publisher.wait(claimed);
        let (origin, key) = (self.origin(), publisher.key());
        let (zone, age) = match copies.read(origin, &key) {
            Ok(Some(copy)) => copy,
            Ok(None) => return,
            Err(why) => {
                return tracing::error!(zone = %origin,
                    "the copy of the zone is not used, it is transferred as a whole: {why}");
            }
        };
        let Some((_, soa)) = soa_of(&zone) else { return };
        let left = timers::expire(&soa).saturating_sub(age);
        let zone = Arc::new(zone);
        let mut state = self.state();
        state.zone = Some(Arc::clone(&zone));
        state.expires = (!left.is_zero()).then(|| Instant::now() + left);
        state.status.contact_seconds = Some(unix_seconds() - age.as_secs_f64());
        state.is_expired = left.is_zero();
        drop(state);
        tracing::info!(zone = %origin, serial = soa.serial, confirmed_seconds_ago = age.as_secs(),
            is_expired = left.is_zero(), "copy of a transferred zone read");
        if !left.is_zero() {
            self.serve(zone, None);
        }
    }

    /// Publishes content, unless the zone is given up.
    fn serve(&self, zone: Arc<Zone>, evidence: Option<Evidence>) -> Option<SyncOutcome> {
        let is_alive = lock(&self.is_alive);
        if !*is_alive {
            return None;
        }
        Some(self.shared.updates.sync_zone(zone, evidence).wait().ok()?.outcome)
    }

    fn expire(&self) {
        let mut state = self.state();
        state.expires = None;
        if state.is_held {
            // What was never served is not served after an expiry either.
            (state.zone, state.is_held) = (None, false);
        }
        state.is_expired = true;
        drop(state);
        let origin = self.origin();
        tracing::error!(zone = %origin,
            "zone expired: no primary has confirmed it for as long as its SOA allows; it is \
             answered with SERVFAIL until one does");
        self.shared.updates.drop_held(&self.target());
        let key = self.shared.updates.publisher().key();
        self.serve(Arc::new(Zone::unloaded(key, origin)), None);
    }

    /// The owner of the zone, if that is another source.
    fn other_owner(&self) -> Option<ZoneOwner> {
        let owner = self.shared.updates.publisher().catalog().owner(self.origin());
        owner.filter(|owner| !matches!(owner, ZoneOwner::Source(name) if **name == *SOURCE))
    }

    /// Asks each primary in turn until one confirms the zone or transfers it. Returns when to ask
    /// again.
    async fn refresh(self: &Arc<Self>) -> Duration {
        let superseded = self.other_owner();
        self.state().superseded.clone_from(&superseded);
        if superseded.is_some() {
            // It is not asked for, and so it cannot expire.
            self.state().expires = None;
            return OWNER_INTERVAL;
        }
        // Never closed.
        let _permit = self.shared.refreshes.acquire().await;
        let mut reasons = Vec::new();
        for primary in &self.settings.primaries {
            match self.follow(primary).await {
                Ok(()) => return self.record_contact(primary),
                Err(why) => {
                    tracing::warn!(zone = %self.origin(), primary = %primary,
                        "not transferred, the zone stays as it was: {why}");
                    reasons.push(format!("{primary}: {why}"));
                }
            }
        }
        self.record_failure(reasons.join("; "))
    }

    fn record_contact(&self, address: &UpstreamAddress) -> Duration {
        let mut state = self.state();
        let soa = state.zone.as_deref().and_then(soa_of).map(|(_, soa)| soa);
        (state.failures, state.not_before) = (0, None);
        state.status.fault = None;
        state.status.primary = Some(address.to_string());
        state.status.contact_seconds = Some(unix_seconds());
        let Some(soa) = soa else { return timers::retry(None, 1) };
        state.expires = Some(Instant::now() + timers::expire(&soa));
        let pause = timers::jittered(timers::refresh(&soa), fastrand::f64());
        state.status.refresh_seconds = unix_seconds() + pause.as_secs_f64();
        pause
    }

    fn record_failure(&self, why: String) -> Duration {
        let mut state = self.state();
        let soa = state.zone.as_deref().and_then(soa_of).map(|(_, soa)| soa);
        state.failures = state.failures.saturating_add(1);
        state.status.failures += 1;
        state.status.fault = Some(why);
        let pause = timers::retry(soa.as_ref(), state.failures);
        let pause = timers::jittered(pause, fastrand::f64());
        state.not_before = Some(Instant::now() + pause.min(NOTIFY_AFTER_FAILURE));
        state.status.refresh_seconds = unix_seconds() + pause.as_secs_f64();
        pause
    }

    /// The key as its file has it now.
    fn key(&self) -> Result<Option<Arc<Key>>, String> {
        let Some(file) = &self.settings.key_file else { return Ok(None) };
        read_key(file).map(|key| Some(Arc::new(key)))
    }

    /// The newest content; what was held and is served meanwhile is saved.
    fn known(&self) -> Option<Known> {
        self.save_accepted();
        let zone = self.state().zone.clone()?;
        let (soa, numbers) = soa_of(&zone)?;
        Some(Known { zone, serial: numbers.serial, soa })
    }

    fn save_accepted(&self) {
        let mut state = self.state();
        if !state.is_held || self.shared.updates.is_held(&self.target()) {
            return;
        }
        state.is_held = false;
        state.zone = self.shared.updates.content(&self.target());
        let zone = state.zone.clone();
        drop(state);
        zone.into_iter().for_each(|zone| self.save(&zone));
    }

    /// Asks one primary. `Ok`: the zone is as that has it.
    async fn follow(self: &Arc<Self>, address: &UpstreamAddress) -> Result<(), String> {
        let tls = (&self.shared.tls, &self.settings.tls);
        let (primary, zone) = (Primary { address, key: self.key()?, tls }, self.origin());
        let known = self.known();
        if let Some(known) = &known {
            let soa = primary.soa(zone).await?;
            let serial = Soa::parse(&soa).ok_or("its SOA is invalid")?.serial;
            match age(serial, known.serial) {
                Age::Same => return self.confirm().await,
                Age::Older => {
                    let known = known.serial;
                    return Err(format!(
                        "its serial {serial} is older than {known}, which is here"
                    ));
                }
                Age::Newer => {}
            }
        }
        // Never closed.
        let _permit = self.shared.transfers.acquire().await;
        let max = self.settings.records_max;
        if let Some(Known { serial, soa, .. }) = &known {
            let from = KnownSoa { serial: *serial, data: soa };
            match self.publish(primary.transfer(zone, Some(from), max).await, &primary).await {
                Ok(()) => return Ok(()),
                Err(why) => tracing::info!(zone = %zone, primary = %address,
                    "no differences, the whole zone is transferred: {why}"),
            }
        }
        self.publish(primary.transfer(zone, None, max).await, &primary).await
    }

    /// The primary has the serial that is known.
    async fn confirm(self: &Arc<Self>) -> Result<(), String> {
        let this = Arc::clone(self);
        let confirm = move || {
            let mut state = this.state();
            let is_expired = std::mem::take(&mut state.is_expired);
            let (zone, is_held) = (state.zone.clone(), state.is_held);
            drop(state);
            if let Some(zone) = zone.filter(|_| is_expired) {
                this.serve(zone, None);
                tracing::info!(zone = %this.origin(), "the zone is confirmed, and answered again");
            }
            if !is_held && let Err(why) = this.shared.copies.confirm(this.origin()) {
                // It was removed, or could not be written before.
                tracing::debug!("{why}");
                let zone = this.state().zone.clone();
                zone.into_iter().for_each(|zone| this.save(&zone));
            }
        };
        tokio::task::spawn_blocking(confirm).await.map_err(|why| why.to_string())
    }

    /// Serves what was transferred.
    async fn publish(
        self: &Arc<Self>,
        transferred: Result<Transferred, String>,
        primary: &Primary<'_>,
    ) -> Result<(), String> {
        let (this, transferred, address) =
            (Arc::clone(self), transferred?, primary.address.clone());
        let publish = move || this.take(&transferred, &address);
        tokio::task::spawn_blocking(publish).await.map_err(|why| why.to_string())?
    }

    /// Makes the zone, saves it, serves it.
    fn take(&self, transferred: &Transferred, primary: &UpstreamAddress) -> Result<(), String> {
        let (origin, known) = (self.origin(), self.known());
        let key = self.shared.updates.publisher().key();
        let made = content::make(transferred, &key, origin, known.as_ref().map(|it| &it.zone))?;
        let zone = Arc::new(made.ok_or("it says that it has nothing newer")?);
        let (_, soa) = soa_of(&zone).ok_or("the zone has no SOA")?;
        if let Some(Known { serial, .. }) = &known
            && age(soa.serial, *serial) != Age::Newer
        {
            let got = soa.serial;
            return Err(format!("the zone has the serial {got}, which is not newer than {serial}"));
        }
        let served = self.shared.updates.content(&self.target());
        let served = served.filter(|zone| zone.facts().loaded);
        let names = |zone: &Zone| zone.names().len() as u64;
        let before = served.as_deref().or(known.as_ref().map(|known| &*known.zone)).map(names);
        let evidence = before.map(|before| Evidence::listed(before, names(&zone)));
        // What is served is on disk before, so that its serial only grows over a crash.
        if evidence.is_none_or(|evidence| judge(&evidence) != Verdict::Hold) {
            self.save(&zone);
        }
        let outcome = self.serve(Arc::clone(&zone), evidence);
        let is_held = matches!(outcome, Some(SyncOutcome::Held(_)));
        if let Some(SyncOutcome::Refused(why)) = outcome {
            return Err(format!("the zone is refused: {why}"));
        }
        self.record_transfer(&zone, is_held, transferred);
        let (serial, records) = (soa.serial, zone.count().1);
        let is_whole = matches!(transferred, Transferred::Full(_));
        match outcome {
            Some(SyncOutcome::Held(held)) => tracing::warn!(zone = %origin, %primary, serial,
                names_served = held.had, names_transferred = held.has,
                "zone held: it {}; the zone as it was is served; `dunlin zones accept {origin}` \
                 serves what was transferred", held.reason()),
            _ => {
                tracing::info!(zone = %origin, %primary, serial, records, is_whole,
                    "zone transferred");
            }
        }
        Ok(())
    }

    fn record_transfer(&self, zone: &Arc<Zone>, is_held: bool, transferred: &Transferred) {
        let mut state = self.state();
        state.zone = Some(Arc::clone(zone));
        (state.is_held, state.is_expired) = (is_held, false);
        state.status.transferred_seconds = Some(unix_seconds());
        match transferred {
            Transferred::Full(_) => state.status.whole_transfers += 1,
            _ => state.status.difference_transfers += 1,
        }
    }

    /// Saves a zone that is served.
    fn save(&self, zone: &Zone) {
        let saved = self.shared.copies.write(zone);
        if let Err(why) = &saved {
            tracing::error!(zone = %self.origin(),
                "the zone is not saved, and is transferred again after a restart: {why}");
        }
        self.state().status.unsaved = saved.err();
    }

    /// Its status.
    pub fn status(&self) -> SecondaryStatus {
        let served = self.shared.updates.content(&self.target());
        let superseded = self.other_owner();
        let state = self.state();
        let left = state.expires.map(|at| at.saturating_duration_since(Instant::now()));
        SecondaryStatus {
            name: self.settings.origin.to_string().to_ascii_lowercase(),
            primaries: self.settings.primaries.iter().map(ToString::to_string).collect(),
            serial: served.and_then(|zone| zone.serial()),
            expires_seconds: left.map(|left| left.as_secs_f64()),
            is_expired: state.is_expired,
            is_held: state.is_held,
            superseded: superseded.map(|owner| owner.to_string()),
            ..state.status.clone()
        }
    }
}

/// Reads a key file.
///
/// # Errors
/// The file, and what is wrong with it.
pub fn read_key(file: &Path) -> Result<Key, String> {
    let mut text = String::new();
    let read = File::open(file);
    let read = read.and_then(|file| file.take(KEY_FILE_LEN_MAX).read_to_string(&mut text));
    let fault = |why: String| format!("the key file {}: {why}", file.display());
    read.map_err(|why| fault(why.to_string()))?;
    Key::from_file_text(&text).map_err(fault)
}
