//! The port on devices of DPDK: memif, whose two ends are in this process, and those whose other
//! end is a packet socket. What lacks is printed.
mod end;
mod frames;
mod memif;
