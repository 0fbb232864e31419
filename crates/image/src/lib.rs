//! The immutable world an answer is read from, as borrowed slices.
#![no_std]
