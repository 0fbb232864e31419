//! Any JSON as the body of a change or of a new zone.
#![no_main]

#[path = "../checks/powerdns.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
