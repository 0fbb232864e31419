//! Settings of the prober, and requests to it.
use crate::allow::Allow;
use crate::check::Check;
use crate::checks::ReadCheck;
use crate::fleet::FleetStates;
use crate::outcome::FindUser;
use crate::report::HealthReport;
use crate::state::ProbeState;
use crate::webhook::WebhookSettings;
use documents::DocumentSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use zone_manager::HealthTarget;

/// The targets, and the settings of probes.
#[derive(Clone)]
pub struct HealthSettings {
    /// The checks.
    pub checks: Vec<Check>,
    /// The addresses that may be probed; `None`: this server does not probe.
    pub allow: Option<Allow>,
    /// The longest TTL of sets with a check.
    pub ttl_max: Duration,
    /// The folder of the saved states; `None`: they are lost at the end.
    pub folder: Option<PathBuf>,
    /// Finds the users of scripts.
    pub find_user: FindUser,
    /// Reads checks of the API.
    pub read_check: ReadCheck,
    /// The checks of the API.
    pub api_checks: Arc<dyn DocumentSet>,
    /// States of addresses that operators have set.
    pub endpoints: Arc<dyn DocumentSet>,
    /// What the servers of a fleet find, and how many of them probe each target; `None`: there is
    /// no fleet.
    pub fleet: Option<(Arc<FleetStates>, usize)>,
    /// Receives transitions; `None`: there is no receiver.
    pub webhook: Option<WebhookSettings>,
    /// CPUs that the thread leaves to others, if it may use any further one.
    pub avoided_cpus: Vec<usize>,
}

/// A filter of targets.
#[derive(Clone, Debug, Default)]
pub struct TargetFilter {
    /// Only this check.
    pub check: Option<String>,
    /// Only these addresses; empty: all.
    pub addresses: Vec<IpAddr>,
    /// Only targets of this state.
    pub state: Option<StateFilter>,
    /// Only targets after this one.
    pub after: Option<HealthTarget>,
    /// At most this many.
    pub limit: usize,
}

/// A state of targets to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateFilter {
    /// This state.
    Is(ProbeState),
    /// They are not probed, and no other server probes them.
    NotProbed,
}

impl StateFilter {
    /// The filter of a name.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "not-probed" => Some(Self::NotProbed),
            word => ProbeState::from_word(word).map(Self::Is),
        }
    }
}

/// A request to the thread of the prober.
pub(crate) enum Request {
    List(TargetFilter, oneshot::Sender<HealthReport>),
    /// How many targets name a check.
    Uses(String, oneshot::Sender<usize>),
    /// Takes in the newest checks and states of endpoints.
    Refresh(oneshot::Sender<()>),
}
