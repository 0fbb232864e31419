//! Every maximum of this crate. Rings and buffers of a device: `native/dunlin_dpdk.c`.

/// Devices of one server: a worker has a port for each.
pub const DEVICES_MAX: usize = 16;

/// Bytes of a device's name and arguments, as in DPDK's own examples or longer.
pub const ADDRESS_LEN_MAX: usize = 512;

/// Deferred replies that are sent together.
pub const LATE_MAX: usize = 32;

/// Bytes of an IP packet that fit a buffer, of 2,048 bytes, behind the link's header.
pub const MTU_MAX: usize = 2_048 - packet::frame::LINK_MAX;

/// Frames that one burst gives the kernel, and that it takes from there.
pub const HOST_BURST_MAX: usize = 16;

/// Bursts until it is asked again whether the kernel sends frames.
pub const HOST_TURNS: u32 = 8;

/// Polls that receive nothing until a queue with interrupts waits for one. With the pauses of its
/// worker, which grow meanwhile, some 60 ms.
pub const EMPTY_POLLS_MAX: u32 = 4_096;

/// Symbolic links and folders between the root and the library.
pub const FOLDERS_MAX: usize = 64;
