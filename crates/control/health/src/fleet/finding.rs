//! Findings about targets, as JSON.
use crate::state::{ProbeState, TargetState};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The finding of a server about a target that it probes. There is none before the first result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The state, and since when. It has no certificate.
    pub state: TargetState,
    /// The epoch of the server in which it says so: a finding of an earlier one does not count.
    pub epoch: i64,
}

/// The format of a finding in JSON.
const FORMAT: u64 = 1;

#[derive(Deserialize, Serialize)]
struct FindingJson {
    format: u64,
    state: String,
    ever_up: bool,
    /// In milliseconds since 1970.
    since: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(rename = "life")]
    epoch: i64,
}

impl Finding {
    /// Its JSON.
    ///
    /// # Panics
    /// Never: its parts are numbers and texts.
    pub fn encode(&self) -> Vec<u8> {
        let Self { state, epoch } = self;
        let json = FindingJson {
            format: FORMAT,
            state: state.state.word().into(),
            ever_up: state.ever_up,
            since: state.since.as_millis() as u64,
            reason: state.reason.to_string(),
            epoch: *epoch,
        };
        serde_json::to_vec(&json).expect("a finding is JSON")
    }

    /// Reads its JSON.
    ///
    /// # Errors
    /// Its fault.
    pub fn decode(json: &[u8]) -> Result<Self, String> {
        let value: serde_json::Value =
            serde_json::from_slice(json).map_err(|why| format!("it is not JSON: {why}"))?;
        match value.get("format").and_then(serde_json::Value::as_u64) {
            Some(FORMAT) => {}
            Some(format) => {
                return Err(format!("a newer version wrote it, in format {format}"));
            }
            None => return Err("it has no format".into()),
        }
        let json: FindingJson =
            serde_json::from_value(value).map_err(|why| format!("it is not a finding: {why}"))?;
        let state = ProbeState::from_word(&json.state)
            .filter(|state| *state != ProbeState::Unknown)
            .ok_or_else(|| format!("{:?} is neither \"up\" nor \"down\"", json.state))?;
        let since = Duration::from_millis(json.since);
        Ok(Self {
            state: reported_state(state, json.ever_up, since, &json.reason),
            epoch: json.epoch,
        })
    }
}

/// A state as a server reports it: with whole milliseconds, and without what only the server needs.
pub(super) fn reported_state(
    state: ProbeState,
    ever_up: bool,
    since: Duration,
    reason: &str,
) -> TargetState {
    let since = Duration::from_millis(since.as_millis() as u64);
    let mut reported = TargetState::saved(state, ever_up, since);
    reported.take_reason(reason);
    reported
}
