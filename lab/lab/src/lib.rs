//! Results and their reliability: statistics of repeated runs, the limiting cause of a figure, the
//! compared servers, and output formats.

#![forbid(unsafe_code)]

pub mod ceiling;
pub mod compare;
pub mod import;
pub mod limits;
pub mod observer;
pub mod output;
pub mod record;
pub mod relay;
pub mod servers;
pub mod statistics;
pub mod verdict;

/// An error: the attempt, its object, the reason, and what to do.
pub type Result<T, E = String> = std::result::Result<T, E>;
