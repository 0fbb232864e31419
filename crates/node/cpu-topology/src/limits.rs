//! Every maximum of this crate.

/// Devices that are read, of each kind; more are counted and left out.
pub const DEVICES_MAX: usize = 4_096;

/// Interrupts that are read; more are counted and left out.
pub const INTERRUPTS_MAX: usize = 16_384;

/// NUMA nodes are numbered below this (`MAX_NUMNODES` of common kernels).
pub const NODES_MAX: usize = 1_024;

/// Bytes of a file that are read.
pub const FILE_BYTES_MAX: u64 = 64 * 1_024;

/// Control groups that are checked for who uses which CPU.
pub const GROUPS_MAX: usize = 16_384;
