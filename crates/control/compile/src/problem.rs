//! Errors in the records of a zone.

use model::BrokenRule;
use std::fmt;

/// An error in the records of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneProblem {
    /// The caller's place of the record, if one record is at fault.
    pub place: Option<u32>,
    /// The broken rule.
    pub rule: BrokenRule,
    /// The fault.
    pub what: String,
}

impl fmt::Display for ZoneProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}
