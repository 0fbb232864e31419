//! Decisions of the autoscaler, in courses of load that are simulated.
mod common;
mod load;
mod metrics;
mod rivals;
mod traps;
