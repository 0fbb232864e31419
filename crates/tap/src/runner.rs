//! The runner: one thread that reads all rings and feeds the query log, dnstap and the sketches.
use crate::dnstap::Target;
use crate::frames::Sent;
use crate::hottest::Hottest;
use crate::limits::{FINISH_MAX, LOOK_BUSY, LOOK_OFF, LOOK_QUIET, MUCH, STOP_MAX};
use crate::pace::Pace;
use crate::querylog::{Logged, QueryLog};
use crate::sample::Sample;
use crate::settings::{Dnstap, Settings};
use crate::writer::{Dice, Rate, Tap};
use control::status::{Hot, TapStatus};
use door::EventReader;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::mem::take;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Looks at single queries, on a thread of its own. That ends when this is dropped: what has been
/// picked by then is written and sent, as far as that takes no longer than [`STOP_MAX`].
pub struct Runner {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Closed when the thread has ended. Whoever shares the runner waits for it once at most.
    ended: Mutex<Receiver<()>>,
}

/// What the runner and its thread have in common. Neither lock is held while anything is written.
struct Shared {
    rate: Arc<Rate>,
    orders: Mutex<Orders>,
    /// Readable when there are orders.
    wake: OwnedFd,
    hottest: Mutex<Hottest>,
    status: Mutex<TapStatus>,
    started: Instant,
}

/// What the thread is to do.
#[derive(Default)]
struct Orders {
    rings: Vec<EventReader>,
    settings: Option<(Settings, Option<QueryLog>)>,
    stop: bool,
}

impl Runner {
    /// Starts the thread.
    ///
    /// # Errors
    /// The file of the query log cannot be opened, or there is no room for a thread.
    pub fn start(settings: Settings) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            rate: Arc::default(),
            orders: Mutex::default(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            hottest: Mutex::default(),
            status: Mutex::default(),
            started: Instant::now(),
        });
        let (end, ended) = channel();
        let log = QueryLog::open(&settings.queries)?;
        let mut desk = Desk::new(Arc::clone(&shared), end);
        desk.set(settings, log);
        let thread = Some(Builder::new().name("tap".into()).spawn(move || desk.run())?);
        Ok(Self { shared, thread, ended: Mutex::new(ended) })
    }

    /// A tap for a thread of the plane. `seed` decides which queries are picked.
    pub fn tap(&self, seed: u64) -> Tap {
        let (tap, ring) = Tap::new(Arc::clone(&self.shared.rate), seed);
        self.shared.order(|orders| orders.rings.push(ring));
        tap
    }

    /// Takes other settings. They hold a moment later, when the thread has finished what was picked
    /// before; nobody waits for that. The file of the query log is opened anew, even if it has the
    /// same name: it may have been moved away.
    ///
    /// # Errors
    /// That file cannot be opened; then nothing changes.
    pub fn set(&self, settings: Settings) -> io::Result<()> {
        let log = QueryLog::open(&settings.queries)?;
        self.shared.order(|orders| orders.settings = Some((settings, log)));
        Ok(())
    }

    /// What is asked most, and who asks most, lately.
    pub fn hot(&self) -> Hot {
        lock(&self.shared.hottest).tell(self.shared.started.elapsed())
    }

    /// What became of the queries that were picked.
    pub fn status(&self) -> TapStatus {
        lock(&self.shared.status).clone()
    }

    /// Ends the thread, as dropping does. Waits for it; not to be called where nothing may wait.
    pub fn stop(self) {}
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.shared.order(|orders| orders.stop = true);
        // It may hang in writing to a log that nobody reads: then the process ends without it.
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        let hangs = matches!(ended.recv_timeout(STOP_MAX), Err(RecvTimeoutError::Timeout));
        if !hangs && let Some(thread) = self.thread.take() {
            // A panic of the thread has told of itself.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn order(&self, write: impl FnOnce(&mut Orders)) {
        write(&mut lock(&self.orders));
        // Only a counter at its very end refuses, and then it is readable already.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// Nothing under these locks is left half done by a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The thread: its rings, and where samples go.
struct Desk {
    shared: Arc<Shared>,
    rings: Vec<EventReader>,
    outlets: Outlets,
    /// Queries picked that were read, and those lost by rings that are gone.
    read: u64,
    lost_by_gone: u64,
    /// Dropped with the desk.
    _end: Sender<()>,
}

impl Desk {
    fn new(shared: Arc<Shared>, end: Sender<()>) -> Self {
        let outlets = Outlets {
            settings: Settings::default(),
            pace: Pace::new(0, Duration::ZERO),
            dice: Dice(shared.started.elapsed().as_nanos() as u64),
            log: None,
            dnstap: None,
            logged_before: Logged::default(),
            sent_before: Sent::default(),
        };
        Self { shared, rings: Vec::new(), outlets, read: 0, lost_by_gone: 0, _end: end }
    }

    fn run(mut self) {
        loop {
            let orders = take(&mut *lock(&self.shared.orders));
            self.rings.extend(orders.rings);
            if let Some((settings, log)) = orders.settings {
                // What was picked under the old settings is theirs.
                self.look();
                self.set(settings, log);
            }
            let seen = self.look();
            if orders.stop {
                self.set(Settings::default(), None);
                self.tell();
                return;
            }
            self.outlets.turn();
            if self.outlets.pace.turn(self.shared.started.elapsed()) {
                self.shared.rate.set(self.outlets.one_in());
            }
            self.tell();
            self.wait(match seen {
                0 if self.outlets.one_in() == 0 => LOOK_OFF,
                0..MUCH => LOOK_QUIET,
                _ => LOOK_BUSY,
            });
        }
    }

    /// Takes settings, and only then has the plane pick as they say.
    fn set(&mut self, settings: Settings, log: Option<QueryLog>) {
        self.outlets.pace = Pace::new(settings.hot_one_in, self.shared.started.elapsed());
        self.outlets.set(settings, log);
        self.shared.rate.set(self.outlets.one_in());
    }

    /// Reads what is in the rings now, and returns how many samples that were.
    fn look(&mut self) -> u64 {
        let now = self.shared.started.elapsed();
        let (outlets, hottest) = (&mut self.outlets, &self.shared.hottest);
        let mut seen = 0;
        self.rings.retain_mut(|ring| {
            let closed = ring.is_closed();
            ring.drain(|event| {
                seen += 1;
                if let Some(sample) = Sample::read(event) {
                    outlets.show(&sample, hottest, now);
                }
            });
            self.lost_by_gone += if closed { ring.lost() } else { 0 };
            !closed
        });
        self.read += seen;
        seen
    }

    /// Publishes what was counted.
    fn tell(&self) {
        let lost = self.lost_by_gone + self.rings.iter().map(EventReader::lost).sum::<u64>();
        let (logged, sent, connected) = self.outlets.counts();
        *lock(&self.shared.status) = TapStatus {
            sampled: self.read + lost,
            lost,
            logged: logged.written,
            log_lost: logged.lost,
            dnstap_wanted: self.outlets.dnstap.is_some(),
            dnstap_connected: connected,
            dnstap_sent: sent.sent,
            dnstap_lost: sent.lost,
            dnstap_reconnects: sent.reconnects,
        };
    }

    /// Waits for orders, for what dnstap wishes, or for the time of the next look.
    fn wait(&self, most: Duration) {
        let wake = (self.shared.wake.as_fd(), PollFlags::IN);
        let wish = self.outlets.dnstap.as_ref().and_then(Target::wish);
        let both = [wake, wish.unwrap_or(wake)].map(|(fd, of)| PollFd::from_borrowed_fd(fd, of));
        let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        // Whatever it returns, all is looked at next.
        let _ = poll(&mut { both }, Some(&most));
        let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
    }
}

/// Where samples go.
struct Outlets {
    settings: Settings,
    /// How many the hottest want.
    pace: Pace,
    dice: Dice,
    log: Option<QueryLog>,
    dnstap: Option<Target>,
    /// What was counted under earlier settings.
    logged_before: Logged,
    sent_before: Sent,
}

impl Outlets {
    /// Finishes what changes, and begins what is new.
    fn set(&mut self, settings: Settings, log: Option<QueryLog>) {
        let until = Instant::now() + FINISH_MAX;
        if let Some(old) = std::mem::replace(&mut self.log, log) {
            self.logged_before = self.logged_before + old.finish(until);
        }
        // Another rate is no reason to connect anew.
        let place = |settings: &Settings| {
            settings.dnstap.clone().map(|dnstap| Dnstap { one_in: 0, ..dnstap })
        };
        if place(&settings) != place(&self.settings) {
            if let Some(old) = self.dnstap.take() {
                self.sent_before = self.sent_before + old.finish(until);
            }
            let dnstap = settings.dnstap.as_ref();
            self.dnstap = dnstap.map(|dnstap| Target::new(dnstap, Instant::now()));
        }
        self.settings = settings;
    }

    /// Shows a sample to everyone whose turn it is.
    fn show(&mut self, sample: &Sample<'_>, hottest: &Mutex<Hottest>, now: Duration) {
        let picked = sample.one_in;
        self.pace.count(picked);
        if keep(&mut self.dice, picked, self.pace.one_in()) {
            let times = f64::from(picked.max(self.pace.one_in()));
            lock(hottest).add(sample, times, now);
        }
        if let Some(log) = &mut self.log
            && keep(&mut self.dice, picked, self.settings.queries.one_in)
        {
            log.push(sample);
        }
        if let (Some(target), Some(dnstap)) = (&mut self.dnstap, &self.settings.dnstap)
            && keep(&mut self.dice, picked, dnstap.one_in)
        {
            target.push(sample);
        }
    }

    /// One query in so many is picked, so that everybody has enough; 0: none.
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

    /// All that was counted, and whether somebody reads dnstap.
    fn counts(&self) -> (Logged, Sent, bool) {
        let logged = self.log.as_ref().map(QueryLog::counts).unwrap_or_default();
        let (sent, connected) = self.dnstap.as_ref().map(Target::counts).unwrap_or_default();
        (self.logged_before + logged, self.sent_before + sent, connected)
    }
}

/// Whether a query of which one in `picked` was picked is among those of which one in `wanted` is
/// wanted.
fn keep(dice: &mut Dice, picked: u32, wanted: u32) -> bool {
    wanted != 0 && (wanted <= picked || dice.below(wanted) < picked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wants_fewer_gets_fewer() {
        let mut dice = Dice(1);
        let mut kept =
            |picked, wanted| (0..100_000).filter(|_| keep(&mut dice, picked, wanted)).count();
        assert_eq!(kept(1, 0), 0);
        assert_eq!((kept(1, 1), kept(64, 64), kept(64, 10)), (100_000, 100_000, 100_000));
        assert!((900..1_100).contains(&kept(1, 100)));
        assert!((49_000..51_000).contains(&kept(8, 16)));
    }
}
