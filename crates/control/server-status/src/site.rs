//! Status of other sites.
use serde::{Deserialize, Serialize};

/// Another site whose zones this server serves, too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SiteStatus {
    /// Its name.
    pub name: String,
    /// Where it is; `None`: the config does not say.
    pub location: Option<String>,
    /// The member of its etcd in use.
    pub endpoint: String,
    /// Whether its changes arrive.
    pub is_following: bool,
    /// When its etcd answered last; `None`: not since the start.
    pub contact_seconds: Option<f64>,
    /// How far what is served may be behind it; `None`: it was not reached since the start.
    pub lag_seconds: Option<f64>,
    /// The revision that is served.
    pub revision: u64,
    /// The newest revision that it is known to have.
    pub home_revision: u64,
    /// How long its last write took to get here, by the clocks of both; `None`: none came since the
    /// start.
    pub delay_seconds: Option<f64>,
    /// Bytes of keys and values that came from it since the start.
    pub bytes: u64,
    /// Those of the last seconds.
    pub bytes_per_second: f64,
    /// Bytes of its etcd; 0: not known yet.
    pub etcd_bytes: u64,
    /// Bytes that its etcd may have.
    pub etcd_quota_bytes: u64,
    /// Days until it has them, if it goes on growing; `None`: it does not grow, or that is not
    /// known yet.
    pub etcd_full_days: Option<f64>,
    /// Its zones that are served.
    pub zones: u64,
    /// Zones that are not served because they have another home, with that.
    pub refused: Vec<String>,
    /// Zones of the config that it does not have.
    pub missing: Vec<String>,
    /// Why it is not followed, and what to do; `None`: it is. Its zones are served as they were
    /// last.
    pub fault: Option<String>,
    /// Why its copy on this server is not saved; `None`: it is.
    pub unsaved: Option<String>,
    /// Which of its keys cannot be read, and what to do; `None`: all can.
    pub unreadable: Option<String>,
}

/// Days until the etcd of a site is full from which on that is a fault.
const FULL_DAYS_MIN: f64 = 7.0;

/// The share of its quota from which on that is a fault.
const FULL_SHARE_MAX: f64 = 0.9;

impl SiteStatus {
    /// How full its etcd is, if that is a fault.
    pub fn fullness(&self) -> Option<String> {
        let share = self.etcd_bytes as f64 / (self.etcd_quota_bytes.max(1)) as f64;
        match self.etcd_full_days.filter(|days| *days < FULL_DAYS_MIN) {
            _ if share >= FULL_SHARE_MAX => Some(format!("{:.0} % of its quota", share * 100.0)),
            Some(days) => Some(format!("full in {days:.1} days")),
            None => None,
        }
    }
}
