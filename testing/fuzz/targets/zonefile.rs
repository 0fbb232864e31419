//! Any bytes as a master file.
#![no_main]

#[path = "../checks/zonefile.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
