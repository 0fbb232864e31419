//! Loads against servers on real sockets.
mod capture;
mod common;
mod dnsperf;
mod load;
mod tcp;
mod uring;
mod xdp;
