//! Status of hosts files.
use super::ZoneState;
use crate::HeldZone;
use serde::{Deserialize, Serialize};

/// One hosts file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostsStatus {
    /// The file.
    pub file: String,
    /// The state of the served content; an unloaded file has none.
    pub state: ZoneState,
    /// Names with an address in the served content.
    pub names: u64,
    /// When the served content was loaded; `None`: never.
    pub loaded_seconds: Option<f64>,
    /// When the file was last refused, unless it was loaded since.
    pub refused_seconds: Option<f64>,
    /// Why it was refused, a line each.
    pub errors: Vec<String>,
    /// Its new content is held; `None`: it is not.
    pub held: Option<HeldZone>,
}
