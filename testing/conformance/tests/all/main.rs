//! Tests of running servers, a module for each subject: one binary, which is linked once.
//!
//! `cargo test -p conformance --test all names::` runs those of a module. All share a process: a
//! test changes neither variables, user, folder nor namespace of the process. No test needs a
//! binary of its own.
mod attacked;
mod differential;
mod encrypted;
mod floods;
mod forward;
mod framing;
mod homes;
mod kubernetes;
mod lifecycle;
mod loops;
mod memory;
mod names;
mod reload;
mod rfc8906;
mod spoofing;
mod upstreams;
mod views;
