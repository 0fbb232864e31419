//! The contract of ports.
mod loopback;
