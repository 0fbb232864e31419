//! What is told of hosts files.
use super::ZoneState;
use serde::{Deserialize, Serialize};

/// One hosts file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostsStatus {
    /// The file.
    pub file: String,
    /// What is answered: of one that was never loaded, nothing.
    pub state: ZoneState,
    /// Names of what is answered that have an address.
    pub names: u64,
    /// When what is answered was loaded; nothing: never.
    pub loaded_seconds: Option<f64>,
    /// When the file was refused last, if nothing good came after it.
    pub refused_seconds: Option<f64>,
    /// Why it was refused, a line each.
    pub errors: Vec<String>,
}
