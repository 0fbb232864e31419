//! Any octets as a question, answered from a world of everything.
#![no_main]

#[path = "../checks/answer.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| check::check(octets));
