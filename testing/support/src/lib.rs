//! What tests of several crates share.

pub mod bpf;
pub mod containerd;
pub mod counting;
pub mod dpdk;
pub mod etcd;
pub mod expected;
pub mod folder;
pub mod forward;
pub mod mmdb;
#[cfg(feature = "operator")]
pub mod operator;
pub mod ports;
pub mod registry;
pub mod relay;
pub mod skip;
pub mod spaces;
pub mod thread;
pub mod tools;
pub mod wait;
