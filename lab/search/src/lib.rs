//! Throughput search by MLRsearch (draft-ietf-bmwg-mlrsearch), without I/O or clock.
//!
//! [`Search`] names the next trial, the caller runs it and records the outcome, until every goal
//! has a lower and an upper bound within its width.
#![forbid(unsafe_code)]

mod classify;
mod goal;
mod grid;
pub mod limits;
mod search;

pub use classify::{Class, Stat, Target, relevant_bounds};
pub use goal::Goal;
pub use search::{Bound, Config, End, GoalResult, Outcome, Request, Search};
