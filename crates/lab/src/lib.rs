//! A figure and its truth: what repeated runs say, what bounded a figure, who is compared, and how
//! results are written.

#![forbid(unsafe_code)]

pub mod limits;
pub mod statistics;
pub mod verdict;
