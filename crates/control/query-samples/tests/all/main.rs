//! Samples of queries from a tap to their readers.
//!
//! `tests/allocations.rs` stays apart: its allocator counts. `tests/stuck_log.rs` does, too: the
//! log of its process blocks.
mod common;
mod dnstap;
mod runner;
