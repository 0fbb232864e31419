//! A figure and its truth: what repeated runs say, what bounded a figure, who is compared, and how
//! results are written.

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
