//! A signed message.
#![no_main]

#[path = "../checks/tsig.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
