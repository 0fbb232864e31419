//! Whether keys of etcd are followed: for those who wait, for the status, and for the log.
use crate::limits::CAUSES_MAX;
use etcd_link::RequestError;
use etcd_link::limits::{CONNECT_MAX, REQUEST_MAX};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// Whether keys are followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// Not yet, or the next member of etcd is tried.
    #[default]
    Connecting,
    /// Their changes arrive.
    Following,
    /// Not now, and why.
    Broken(String),
}

/// Says whether keys are followed.
pub struct LinkReport {
    state: watch::Sender<LinkState>,
    logged: Mutex<LoggedCauses>,
    /// What the log says of a fault; `None`: another one logs it.
    lost: Option<String>,
    /// What it says afterwards.
    again: String,
    /// The site that the keys are of; `None`: this one.
    site: Option<String>,
}

impl LinkReport {
    /// With the text of a fault, and the text of its end.
    pub fn new(lost: Option<String>, again: String) -> Arc<Self> {
        let (state, logged) = (watch::Sender::default(), Mutex::default());
        Arc::new(Self { state, logged, lost, again, site: None })
    }

    /// That of the keys of another site.
    pub fn of_site(site: String) -> Arc<Self> {
        let lost = format!(
            "etcd of the site {site} is not followed; its zones are served as they were last"
        );
        let again = format!("etcd of the site {site} is followed again");
        let (state, logged, site) = (watch::Sender::default(), Mutex::default(), Some(site));
        Arc::new(Self { state, logged, lost: Some(lost), again, site })
    }

    fn logged(&self) -> MutexGuard<'_, LoggedCauses> {
        self.logged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether they are followed, or why not.
    pub fn state(&self) -> LinkState {
        self.state.borrow().clone()
    }

    /// Whether keys are followed now.
    pub fn is_following(&self) -> bool {
        *self.state.borrow() == LinkState::Following
    }

    /// Sees each change of it.
    pub fn subscribe(&self) -> watch::Receiver<LinkState> {
        self.state.subscribe()
    }

    /// Why keys are not followed; `None`: no fault is known.
    pub fn fault(&self) -> Option<String> {
        match &*self.state.borrow() {
            LinkState::Broken(why) => Some(why.clone()),
            _ => None,
        }
    }

    /// Waits until it is known whether keys are followed.
    ///
    /// # Errors
    /// They are not, and why; or that is not known in time.
    pub async fn following(&self, until: Instant, endpoint: String) -> Result<(), String> {
        let mut state = self.state.subscribe();
        let decided = state.wait_for(|state| *state != LinkState::Connecting);
        match tokio::time::timeout_at(until, decided).await {
            Ok(Ok(state)) => match &*state {
                LinkState::Broken(why) => Err(why.clone()),
                _ => Ok(()),
            },
            _ => Err(format!("etcd at {endpoint} has not answered yet")),
        }
    }

    /// Keys are followed.
    pub fn follows(&self, endpoint: &str) {
        self.logged().clear();
        let before = self.state.send_replace(LinkState::Following);
        if matches!(before, LinkState::Broken(_)) && self.lost.is_some() {
            tracing::info!(endpoint, "{}", self.again);
        }
    }

    /// The next attempt decides.
    pub fn connects(&self) {
        self.state.send_replace(LinkState::Connecting);
    }

    /// Keys are not followed. Returns whether this is a cause that was not reported yet.
    pub fn report_fault(&self, why: &str) -> bool {
        let why = &*match &self.site {
            Some(site) => Cow::Owned(words_of_site(why, site)),
            None => Cow::Borrowed(why),
        };
        let is_new = self.logged().is_new(why);
        if let Some(lost) = self.lost.as_ref().filter(|_| is_new) {
            tracing::error!("{lost}: {why}");
        }
        self.state.send_replace(LinkState::Broken(why.to_owned()));
        is_new
    }

    /// An attempt to follow has ended. Returns whether that is a fault of which the log has not
    /// said so yet. `is_lasting`: those before failed, too.
    pub(crate) fn ended(&self, error: &RequestError, is_lasting: bool, is_awaited: bool) -> bool {
        let is_unusable = matches!(error, RequestError::Unusable(_));
        let has_followed = self.state() == LinkState::Following;
        let is_fault = is_unusable || is_lasting || (is_awaited && !has_followed);
        match is_fault {
            true => self.report_fault(error.why()),
            // The next member may serve.
            false => {
                if has_followed {
                    self.connects();
                }
                false
            }
        }
    }
}

/// What an error of this crate says, for the etcd of another site: what its operator can do there,
/// and that of this server here.
pub fn words_of_site(why: &str, site: &str) -> String {
    let again = "docs/etcd.md says how to write the records of this server again";
    let again_of_set = "docs/etcd.md says how to write those of this server again";
    let there = format!("restore it at the site {site}");
    why.replace(again, &there)
        .replace(again_of_set, &there)
        .replace("dunlin fleet adopt", &format!("dunlin sites accept {site}"))
        .replace("`[etcd] ", &format!("`[[site]]` {site} `"))
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
    pub fn is_lasting(&self, began: Instant) -> bool {
        self.pause >= self.max && began.elapsed() <= FAILED_MAX
    }

    /// Waits. Servers that lost the same member do not return all at once.
    pub async fn pause(&mut self, began: Instant) {
        if began.elapsed() > FAILED_MAX {
            self.pause = self.max / 10;
        }
        sleep(self.pause.mul_f64(0.5 + fastrand::f64())).await;
        self.pause = (self.pause * 2).min(self.max);
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
