//! Snapshots and events under real threads, and their bookkeeping in one.
//!
//! `tests/loom.rs` stays apart: `--cfg loom` replaces the atomics of the crate.
#![cfg(not(loom))]
mod events;
mod stress;
