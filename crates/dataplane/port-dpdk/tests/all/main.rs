//! The port on devices of DPDK: memif, whose two ends are in this process. What lacks is printed.
mod end;
mod memif;
