//! Status of queries passed between threads.
use serde::{Deserialize, Serialize};

/// Results of cache misses passed to the thread that owns the name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShardStatus {
    /// The owner answered.
    pub answered: u64,
    /// Sent upstream directly: too many were waiting for the owner.
    pub full: u64,
    /// Sent upstream directly: the owner was late.
    pub late: u64,
    /// Sent upstream directly: the owner had no room, had ended, was flushing, or had too long an
    /// answer.
    pub refused: u64,
}

impl ShardStatus {
    /// Queries sent upstream directly, by reason.
    pub fn alone(&self) -> [(&'static str, u64); 3] {
        [("full", self.full), ("late", self.late), ("refused", self.refused)]
    }
}
