//! Any bytes as the response of an upstream to any query, also to a rewritten one.
#![no_main]

#[path = "../checks/asking.rs"]
#[allow(dead_code, reason = "other targets use more of it")]
mod asking;
#[path = "../checks/forwarded.rs"]
mod check;
#[path = "../checks/reply.rs"]
#[allow(dead_code, reason = "other targets use more of it")]
mod reply;
#[path = "../checks/world.rs"]
mod world;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
