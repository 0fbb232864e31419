//! A question becomes an answer inside its own buffer.
#![no_std]
