//! Any bytes of a container runtime.
#![no_main]

#[path = "../checks/nri.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
