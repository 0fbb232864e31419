//! Maximum sizes.

/// Bytes of a message: what containerd's own side accepts.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// Bytes of a message that one frame carries. The runtime reads into a buffer of this size, and
/// drops the connection where a frame does not fit.
pub const FRAME_BYTES_MAX: usize = 4_096;

/// Pods, and containers, of a runtime. A runtime with more is an error.
pub const CONTAINERS_MAX: usize = 16_384;

/// Calls that wait for an answer. A runtime makes one at a time.
pub const OPEN_MAX: usize = 64;
