//! What is told of names that threads leave to each other.
use serde::{Deserialize, Serialize};

/// What became of names that one thread did not know and left to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HomesStatus {
    /// The other told what there is.
    pub answered: u64,
    /// Asked alone: too much was on the way to the other.
    pub full: u64,
    /// Asked alone: the other was late.
    pub late: u64,
    /// Asked alone: the other had no room, ended, had yet to forget something, or knew what is too
    /// long.
    pub refused: u64,
}

impl HomesStatus {
    /// Those that were asked alone, and why.
    pub fn alone(&self) -> [(&'static str, u64); 3] {
        [("full", self.full), ("late", self.late), ("refused", self.refused)]
    }
}
