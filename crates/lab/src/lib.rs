//! A figure and its truth: what repeated runs say, what bounded a figure, who is compared, and how
//! results are written.

#![forbid(unsafe_code)]

pub mod ceiling;
pub mod compare;
pub mod limits;
pub mod output;
pub mod servers;
pub mod statistics;
pub mod verdict;
pub mod witness;

/// What was tried, on what, why it failed, and what to do.
pub type Result<T, E = String> = std::result::Result<T, E>;
