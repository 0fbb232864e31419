//! Any bytes as a question, answered from a world of everything.
#![no_main]

#[path = "../checks/asking.rs"]
mod asking;
#[path = "../checks/answer.rs"]
mod check;
#[path = "../checks/reply.rs"]
#[allow(dead_code, reason = "other targets use more of it")]
mod reply;
#[path = "../checks/world.rs"]
mod world;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
