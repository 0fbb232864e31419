//! Any bytes as a zone, asked for all its names.
#![no_main]

#[path = "../checks/zone.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
