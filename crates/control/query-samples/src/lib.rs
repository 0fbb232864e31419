//! Samples of queries: query log, dnstap, most frequent names and clients.
//!
//! A `QueryTap` on each worker samples queries and writes each with its reply, or the reason of
//! its drop, into a ring without waiting. The [`TapThread`] reads the rings and passes the samples
//! to the outputs.
#![forbid(unsafe_code)]

mod dnstap;
mod frames;
mod hot_counters;
pub mod limits;
mod line;
mod querylog;
mod runner;
mod sample_rate;
mod send_buffer;
mod settings;
mod sketch;

pub use runner::TapThread;
pub use settings::{DnstapSettings, LogFormat, QueryLogSettings, TapSettings};
