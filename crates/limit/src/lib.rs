//! Who may ask, and how much: access lists and rates.
#![no_std]
#![forbid(unsafe_code)]
