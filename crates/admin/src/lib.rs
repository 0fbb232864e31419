//! The local socket a running server is told and asked through.
#![forbid(unsafe_code)]
