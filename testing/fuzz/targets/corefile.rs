//! Any text as a Corefile.
#![no_main]

#[path = "../checks/corefile.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
