//! Any bytes as keys and values of etcd.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| store_etcd::fuzz::check(bytes));
