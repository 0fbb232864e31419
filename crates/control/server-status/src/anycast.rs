//! Status of the announced addresses.
use serde::{Deserialize, Serialize};

/// The announcement, and why there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AnycastStatus {
    /// The addresses.
    pub addresses: Vec<String>,
    /// The kernel table of their routes.
    pub table: u32,
    /// Whether there is a route for each, as the keeper last reported.
    pub is_announced: bool,
    /// The device with the routes.
    pub device: Option<String>,
    /// Since when the server wants them announced or withdrawn.
    pub since_seconds: f64,
    /// Why the server wants them withdrawn; `None`: it wants them announced.
    pub reason: Option<String>,
    /// Why they stay announced although the server wants them withdrawn: the fleet gives no permit.
    pub no_permit: Option<String>,
    /// What is wrong with the keeper.
    pub fault: Option<String>,
    /// How often the server has withdrawn them.
    pub withdrawals: u64,
    /// Answers to the server's own queries through them.
    pub probes: u64,
}
