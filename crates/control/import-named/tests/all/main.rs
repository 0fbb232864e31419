//! Integration tests, one binary.
mod cases;
