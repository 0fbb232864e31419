//! The thread that reads all rings and writes the query log, dnstap and the sketches.
use crate::dnstap::DnstapTarget;
use crate::frames::SendCounts;
use crate::hot_counters::HotCounters;
use crate::limits::{FINISH_MAX, LOOK_BUSY, LOOK_OFF, LOOK_QUIET, MUCH, STOP_MAX};
use crate::querylog::{LogCounts, QueryLog};
use crate::sample_rate::SampleRate;
use crate::settings::{DnstapSettings, TapSettings};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use server_status::{HottestNames, TapStatus};
use std::io;
use std::mem::take;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use sync::EventReader;
use tap::Sample;
use tap::{QueryTap, SampleRng, SharedRate};

/// Processes samples in a thread of its own. Dropping it ends the thread, which writes the
/// remaining samples within [`STOP_MAX`].
pub struct TapThread {
    shared: Arc<SharedTap>,
    thread: Option<JoinHandle<()>>,
    /// Closed when the thread has ended. Only the first caller waits.
    ended: Mutex<Receiver<()>>,
}

/// State shared with the thread. No lock is held during I/O.
struct SharedTap {
    rate: Arc<SharedRate>,
    orders: Mutex<TapCommands>,
    /// Readable when there are commands.
    wake: OwnedFd,
    hottest: Mutex<HotCounters>,
    status: Mutex<TapStatus>,
    started: Instant,
}

/// Commands to the thread.
#[derive(Default)]
struct TapCommands {
    rings: Vec<EventReader>,
    settings: Option<(TapSettings, Option<QueryLog>)>,
    stop: bool,
}

impl TapThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The file of the query log cannot be opened, or the thread cannot be started.
    pub fn start(settings: TapSettings) -> io::Result<Self> {
        let shared = Arc::new(SharedTap {
            rate: Arc::default(),
            orders: Mutex::default(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            hottest: Mutex::default(),
            status: Mutex::default(),
            started: Instant::now(),
        });
        let (end, ended) = channel();
        let log = QueryLog::open(&settings.queries)?;
        let mut tap_loop = TapLoop::new(Arc::clone(&shared), end);
        tap_loop.set(settings, log);
        let thread = Some(Builder::new().name("tap".into()).spawn(move || tap_loop.run())?);
        Ok(Self { shared, thread, ended: Mutex::new(ended) })
    }

    /// A tap for a worker. `seed` selects the sampled queries.
    pub fn tap(&self, seed: u64) -> QueryTap {
        let (tap, ring) = QueryTap::new(Arc::clone(&self.shared.rate), seed);
        self.shared.order(|orders| orders.rings.push(ring));
        tap
    }

    /// Replaces the settings. They apply a moment later, when earlier samples are done; does not
    /// wait. Opens the file of the query log again, because it may have been moved away.
    ///
    /// # Errors
    /// The file cannot be opened; then nothing changes.
    pub fn set(&self, settings: TapSettings) -> io::Result<()> {
        let log = QueryLog::open(&settings.queries)?;
        self.shared.order(|orders| orders.settings = Some((settings, log)));
        Ok(())
    }

    /// The most frequent names and clients lately.
    pub fn hot(&self) -> HottestNames {
        lock(&self.shared.hottest).tell(self.shared.started.elapsed())
    }

    /// The counts of samples.
    pub fn status(&self) -> TapStatus {
        lock(&self.shared.status).clone()
    }

    /// Ends the thread as dropping does; waits for it.
    pub fn stop(self) {}
}

impl Drop for TapThread {
    fn drop(&mut self) {
        self.shared.order(|orders| orders.stop = true);
        // If the log is stuck, the process ends without the thread.
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        let hangs = matches!(ended.recv_timeout(STOP_MAX), Err(RecvTimeoutError::Timeout));
        if !hangs && let Some(thread) = self.thread.take() {
            // The panic was logged.
            let _ = thread.join();
        }
    }
}

impl SharedTap {
    fn order(&self, write: impl FnOnce(&mut TapCommands)) {
        write(&mut lock(&self.orders));
        // It refuses only at its maximum, and then it is readable already.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// A panic never leaves this state incomplete.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The thread with its rings and outputs.
struct TapLoop {
    shared: Arc<SharedTap>,
    rings: Vec<EventReader>,
    outputs: TapOutputs,
    /// Samples read, and samples lost by closed rings.
    read: u64,
    lost_by_gone: u64,
    /// Dropped at the end of the thread.
    _end: Sender<()>,
}

impl TapLoop {
    fn new(shared: Arc<SharedTap>, end: Sender<()>) -> Self {
        let outputs = TapOutputs {
            settings: TapSettings::default(),
            pace: SampleRate::new(0, Duration::ZERO),
            rng: SampleRng(shared.started.elapsed().as_nanos() as u64),
            log: None,
            dnstap: None,
            logged_before: LogCounts::default(),
            sent_before: SendCounts::default(),
        };
        Self { shared, rings: Vec::new(), outputs, read: 0, lost_by_gone: 0, _end: end }
    }

    fn run(mut self) {
        loop {
            let orders = take(&mut *lock(&self.shared.orders));
            self.rings.extend(orders.rings);
            if let Some((settings, log)) = orders.settings {
                // Earlier samples belong to the old settings.
                self.look();
                self.set(settings, log);
            }
            let seen = self.look();
            if orders.stop {
                self.set(TapSettings::default(), None);
                self.tell();
                return;
            }
            self.outputs.turn();
            if self.outputs.pace.turn(self.shared.started.elapsed()) {
                self.shared.rate.set(self.outputs.one_in());
            }
            self.tell();
            self.wait(match seen {
                0 if self.outputs.one_in() == 0 => LOOK_OFF,
                0..MUCH => LOOK_QUIET,
                _ => LOOK_BUSY,
            });
        }
    }

    /// Applies settings to the outputs first, then to the taps.
    fn set(&mut self, settings: TapSettings, log: Option<QueryLog>) {
        self.outputs.pace = SampleRate::new(settings.hot_one_in, self.shared.started.elapsed());
        self.outputs.set(settings, log);
        self.shared.rate.set(self.outputs.one_in());
    }

    /// Reads the rings; returns the number of samples.
    fn look(&mut self) -> u64 {
        let now = self.shared.started.elapsed();
        let (outputs, hottest) = (&mut self.outputs, &self.shared.hottest);
        let mut seen = 0;
        self.rings.retain_mut(|ring| {
            let closed = ring.is_closed();
            ring.drain(|event| {
                seen += 1;
                if let Some(sample) = Sample::read(event) {
                    outputs.show(&sample, hottest, now);
                }
            });
            self.lost_by_gone += if closed { ring.lost() } else { 0 };
            !closed
        });
        self.read += seen;
        seen
    }

    /// Publishes the counts.
    fn tell(&self) {
        let lost = self.lost_by_gone + self.rings.iter().map(EventReader::lost).sum::<u64>();
        let (logged, sent, connected) = self.outputs.counts();
        *lock(&self.shared.status) = TapStatus {
            sampled: self.read + lost,
            lost,
            logged: logged.written,
            log_lost: logged.lost,
            log_fault: self.outputs.log.as_ref().and_then(QueryLog::fault),
            dnstap_wanted: self.outputs.dnstap.is_some(),
            dnstap_connected: connected,
            dnstap_sent: sent.sent,
            dnstap_lost: sent.lost,
            dnstap_reconnects: sent.reconnects,
        };
    }

    /// Waits for commands, for dnstap, or until the next read.
    fn wait(&self, most: Duration) {
        let wake = (self.shared.wake.as_fd(), PollFlags::IN);
        let interest = self.outputs.dnstap.as_ref().and_then(DnstapTarget::interest);
        let both =
            [wake, interest.unwrap_or(wake)].map(|(fd, of)| PollFd::from_borrowed_fd(fd, of));
        let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        // Everything is checked next, whatever it returns.
        let _ = poll(&mut { both }, Some(&most));
        let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
    }
}

/// The outputs of samples.
struct TapOutputs {
    settings: TapSettings,
    /// The sampling rate for frequent names.
    pace: SampleRate,
    rng: SampleRng,
    log: Option<QueryLog>,
    dnstap: Option<DnstapTarget>,
    /// Counts under earlier settings.
    logged_before: LogCounts,
    sent_before: SendCounts,
}

impl TapOutputs {
    /// Ends changed outputs, and starts new ones.
    fn set(&mut self, settings: TapSettings, log: Option<QueryLog>) {
        let until = Instant::now() + FINISH_MAX;
        if let Some(old) = std::mem::replace(&mut self.log, log) {
            self.logged_before = self.logged_before + old.finish(until);
        }
        // Another rate alone needs no new connection.
        let place = |settings: &TapSettings| {
            settings.dnstap.clone().map(|dnstap| DnstapSettings { one_in: 0, ..dnstap })
        };
        if place(&settings) != place(&self.settings) {
            if let Some(old) = self.dnstap.take() {
                self.sent_before = self.sent_before + old.finish(until);
            }
            let dnstap = settings.dnstap.as_ref();
            self.dnstap = dnstap.map(|dnstap| DnstapTarget::new(dnstap, Instant::now()));
        }
        self.settings = settings;
    }

    /// Passes a sample to the outputs that want it.
    fn show(&mut self, sample: &Sample<'_>, hottest: &Mutex<HotCounters>, now: Duration) {
        let picked = sample.one_in;
        self.pace.count(picked);
        if keep(&mut self.rng, picked, self.pace.one_in()) {
            let times = f64::from(picked.max(self.pace.one_in()));
            lock(hottest).add(sample, times, now);
        }
        if let Some(log) = &mut self.log
            && keep(&mut self.rng, picked, self.settings.queries.one_in)
        {
            log.push(sample);
        }
        if let (Some(target), Some(dnstap)) = (&mut self.dnstap, &self.settings.dnstap)
            && keep(&mut self.rng, picked, dnstap.one_in)
        {
            target.push(sample);
        }
    }

    /// The sampling rate that is enough for all outputs; 0: none.
    fn one_in(&self) -> u32 {
        self.settings.one_in(self.pace.one_in())
    }

    fn turn(&mut self) {
        if let Some(log) = &mut self.log {
            log.turn();
        }
        if let Some(dnstap) = &mut self.dnstap {
            dnstap.turn(Instant::now());
        }
    }

    /// All counts, and whether a dnstap reader is connected.
    fn counts(&self) -> (LogCounts, SendCounts, bool) {
        let logged = self.log.as_ref().map(QueryLog::counts).unwrap_or_default();
        let (sent, connected) = self.dnstap.as_ref().map(DnstapTarget::counts).unwrap_or_default();
        (self.logged_before + logged, self.sent_before + sent, connected)
    }
}

/// Whether a sample taken at one in `picked` is among one in `wanted`.
fn keep(rng: &mut SampleRng, picked: u32, wanted: u32) -> bool {
    wanted != 0 && (wanted <= picked || rng.below(wanted) < picked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_rate_keeps_fewer_samples() {
        let mut rng = SampleRng(1);
        let mut kept =
            |picked, wanted| (0..100_000).filter(|_| keep(&mut rng, picked, wanted)).count();
        assert_eq!(kept(1, 0), 0);
        assert_eq!((kept(1, 1), kept(64, 64), kept(64, 10)), (100_000, 100_000, 100_000));
        assert!((900..1_100).contains(&kept(1, 100)));
        assert!((49_000..51_000).contains(&kept(8, 16)));
    }
}
