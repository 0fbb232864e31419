//! Any octets as a master file.
#![no_main]

#[path = "../checks/zonefile.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| check::check(octets));
