//! The port on real sockets.
//!
//! `tests/allocations.rs` stays apart: its allocator counts.
mod contract;
