//! An UPDATE, planned for a small zone.
#![no_main]

#[path = "../checks/update.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
