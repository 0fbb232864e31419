//! Any bytes as a question, answered from a world of everything.
#![no_main]

#[path = "../checks/answer.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check::check(bytes));
