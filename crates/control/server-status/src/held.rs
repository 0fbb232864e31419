//! Content that is held.
use serde::{Deserialize, Serialize};

/// A zone or hosts file with held content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeldZone {
    /// Names in the served content.
    pub had: u64,
    /// Names in the held content.
    pub has: u64,
    /// When it was first held, in seconds since 1970.
    pub since_seconds: f64,
    /// The held content does not end with a newline.
    pub is_cut: bool,
    /// It lost most of its names. What is not cut is held for this reason alone.
    pub lost_most: bool,
}

impl HeldZone {
    /// Why it is held, with its file as the subject.
    pub fn reason(&self) -> &'static str {
        match (self.is_cut, self.lost_most) {
            (true, true) => "has lost more than half of its names and does not end with a newline",
            (true, false) => "does not end with a newline, so its end may be missing",
            (false, _) => "has lost more than half of its names",
        }
    }
}
