//! Probes of addresses.
mod probes;
