//! Any bytes as a zone, asked for all its names.
#![no_main]

#[path = "../checks/asking.rs"]
#[allow(dead_code, reason = "other targets use more of it")]
mod asking;
#[path = "../checks/zone.rs"]
mod check;
#[path = "../checks/reply.rs"]
#[allow(dead_code, reason = "other targets use more of it")]
mod reply;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
