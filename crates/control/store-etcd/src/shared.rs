//! State that the store, its watch and the task that follows etcd share.
use crate::EtcdSettings;
use crate::connection::Connection;
use crate::keys::{Head, Keys};
use crate::limits::{CAUSES_MAX, CONNECT_MAX, REQUEST_MAX};
use records::{Revision, StoreError};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Whether writes can be committed.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
enum Link {
    /// Not yet known.
    #[default]
    Connecting,
    /// The replica follows etcd.
    Following,
    /// Not now, and why.
    Broken(String),
}

#[derive(Default)]
struct LinkState {
    link: Link,
    logged: LoggedCauses,
    /// The newest known value of the key `revision`.
    head: Option<Head>,
    /// The head with which etcd had lost most of what the replica has, and what to do.
    held: Option<(Head, String)>,
    /// Why commits cannot be applied to the replica; `None`: they can.
    unstored: Option<String>,
}

/// The shared state.
pub struct Shared {
    pub keys: Keys,
    pub connection: Connection,
    /// Runs requests and the task that follows.
    pub runtime: Handle,
    state: Mutex<LinkState>,
    changed: Condvar,
    /// Ends the thread of the runtime.
    _end: oneshot::Sender<()>,
}

/// Starts a thread that runs tasks until the sender is dropped.
///
/// # Errors
/// It cannot be started.
pub fn start_runtime(name: &str) -> io::Result<(Handle, oneshot::Sender<()>)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (end, ended) = oneshot::channel::<()>();
    let handle = runtime.handle().clone();
    thread::Builder::new().name(name.into()).spawn(move || {
        // It ends when the sender is dropped.
        let _ = runtime.block_on(ended);
    })?;
    Ok((handle, end))
}

/// The causes of an outage that the log has already.
#[derive(Default)]
pub struct LoggedCauses(Vec<String>);

impl LoggedCauses {
    /// Whether this is a cause that was not logged since the last success, whichever member of etcd
    /// it is of.
    pub fn is_new(&mut self, why: &str) -> bool {
        let cause = why.strip_prefix("etcd at ").and_then(|rest| rest.split_once(": "));
        let cause = cause.map_or(why, |(_, cause)| cause);
        // Further ones are left out: texts that always differ must not fill the log.
        if self.0.len() >= CAUSES_MAX || self.0.iter().any(|logged| logged == cause) {
            return false;
        }
        self.0.push(cause.to_owned());
        true
    }

    /// What failed works again.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// An attempt that lasts longer has worked for a while: it has connected and got an answer.
const FAILED_MAX: Duration = CONNECT_MAX.saturating_add(REQUEST_MAX);

/// The pauses before something is tried again.
pub struct Retry {
    pause: Duration,
    max: Duration,
}

impl Retry {
    /// Pauses up to this one; the first is a tenth.
    pub fn new(max: Duration) -> Self {
        Self { pause: max / 10, max }
    }

    /// Whether an attempt that began then failed after others: the next member of etcd does not
    /// serve either.
    pub fn is_lasting(&self, began: tokio::time::Instant) -> bool {
        self.pause >= self.max && began.elapsed() <= FAILED_MAX
    }

    /// Waits. Servers that lost the same member do not return all at once.
    pub async fn pause(&mut self, began: tokio::time::Instant) {
        if began.elapsed() > FAILED_MAX {
            self.pause = self.max / 10;
        }
        tokio::time::sleep(self.pause.mul_f64(0.5 + fastrand::f64())).await;
        self.pause = (self.pause * 2).min(self.max);
    }
}

impl Shared {
    /// Starts the thread that runs requests.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(settings: EtcdSettings) -> io::Result<Arc<Self>> {
        let (runtime, end) = start_runtime("etcd")?;
        Ok(Arc::new(Self {
            keys: Keys::new(&settings.prefix),
            connection: Connection::new(settings),
            runtime,
            state: Mutex::new(LinkState::default()),
            changed: Condvar::new(),
            _end: end,
        }))
    }

    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The replica follows etcd, whose newest revision this is.
    pub fn follows(&self, head: Head) {
        let mut state = self.state();
        if let Link::Broken(_) = state.link {
            tracing::info!(endpoint = self.connection.endpoint(), "etcd is followed again");
        }
        state.logged.clear();
        (state.link, state.head) = (Link::Following, Some(head));
        self.changed.notify_all();
    }

    /// The replica has everything that etcd has: writes wait until it is followed again.
    pub fn was_read(&self) {
        let mut state = self.state();
        (state.link, state.held) = (Link::Connecting, None);
    }

    /// What etcd has with this head is not taken.
    pub fn holds(&self, head: Head, why: String) {
        self.breaks(&why);
        self.state().held = Some((head, why));
    }

    /// Why what etcd has with this head is not taken; `None`: it was not read yet.
    pub fn held(&self, head: &Head) -> Option<String> {
        let state = self.state();
        state.held.as_ref().filter(|(held, _)| held == head).map(|(_, why)| why.clone())
    }

    /// Writes are refused from now on, and why.
    pub fn breaks(&self, why: &str) {
        let mut state = self.state();
        if state.logged.is_new(why) {
            tracing::error!(
                "etcd is not followed; zones are served as they are, and writes are refused: {why}"
            );
        }
        state.link = Link::Broken(why.to_owned());
        self.changed.notify_all();
    }

    /// The newest revision that is known to be in etcd.
    pub fn newest(&self) -> Revision {
        self.state().head.as_ref().map_or(Revision::NONE, |head| head.revision)
    }

    /// A newer value of the key `revision` is known.
    pub fn notes(&self, head: Head) {
        let mut state = self.state();
        if state.head.as_ref().is_none_or(|known| known.revision <= head.revision) {
            state.head = Some(head);
        }
    }

    /// The newest known value of the key `revision`, once etcd is followed.
    ///
    /// # Errors
    /// It is not followed, and why.
    pub fn head(&self, patience: Duration) -> Result<Head, StoreError> {
        let until = Instant::now() + patience;
        let mut state = self.state();
        loop {
            match (&state.link, &state.head) {
                (Link::Following, Some(head)) => return Ok(head.clone()),
                (Link::Broken(why), _) => return Err(StoreError::Unreachable(why.clone())),
                _ => (),
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let endpoint = self.connection.endpoint();
                let why = format!("etcd at {endpoint} has not answered yet");
                return Err(StoreError::Unreachable(why));
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether a write would be accepted now.
    ///
    /// # Errors
    /// Why not.
    pub fn writable(&self) -> Result<(), StoreError> {
        let state = self.state();
        match (&state.link, &state.unstored) {
            (Link::Broken(why), _) | (_, Some(why)) => Err(StoreError::Unreachable(why.clone())),
            (Link::Following | Link::Connecting, None) => Ok(()),
        }
    }

    /// Whether the replica follows etcd.
    pub fn is_following(&self) -> bool {
        self.state().link == Link::Following
    }

    /// Whether commits can be applied to the replica, and why not.
    pub fn stores(&self, is_stored: bool, why: &str) {
        let mut state = self.state();
        if is_stored == state.unstored.is_none() {
            return;
        }
        if is_stored {
            tracing::info!("the copy of etcd can be written again");
        } else {
            tracing::error!("{why}");
        }
        state.unstored = (!is_stored).then(|| why.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cause_is_logged_once_for_all_members_until_it_works_again() {
        let mut logged = LoggedCauses::default();
        assert!(logged.is_new("etcd at http://a:1: refused"));
        assert!(!logged.is_new("etcd at http://b:1: refused"));
        assert!(logged.is_new("etcd at http://b:1: no TLS"));
        assert!(!logged.is_new("etcd at http://a:1: refused"));
        logged.clear();
        assert!(logged.is_new("etcd at http://a:1: refused"));
        let new = (0..100).filter(|number| logged.is_new(&format!("cause {number}"))).count();
        assert_eq!(new, CAUSES_MAX - 1, "texts that always differ do not fill the log");
    }
}
