//! Whether keys of etcd are followed: for those who wait, for the status, and for the log.
use etcd_link::{LoggedCauses, RequestError};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tokio::time::Instant;

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
#[derive(Default)]
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
        Arc::new(Self { lost, again, ..Self::default() })
    }

    /// That of the keys of another site.
    pub fn of_site(site: String) -> Arc<Self> {
        let lost = format!(
            "etcd of the site {site} is not followed; its zones are served as they were last"
        );
        let again = format!("etcd of the site {site} is followed again");
        Arc::new(Self { lost: Some(lost), again, site: Some(site), ..Self::default() })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_of_a_mirror_names_its_site_and_its_command() {
        let why = words_of_site("correct `[etcd] endpoints`, or `dunlin fleet adopt`", "b");
        assert_eq!(why, "correct `[[site]]` b `endpoints`, or `dunlin sites accept b`");
    }
}
