//! Any bytes of a proxy, before a message.
#![no_main]

#[path = "../checks/proxy.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
