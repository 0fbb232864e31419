//! Any bytes as the stream of a watch, a list of objects, or what a fleet keeps of them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| source_kube::watch::fuzz::check(bytes));
