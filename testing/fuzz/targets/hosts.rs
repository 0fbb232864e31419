//! Any bytes as a hosts file.
#![no_main]

#[path = "../checks/hosts.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
