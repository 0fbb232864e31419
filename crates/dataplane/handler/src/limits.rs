//! Every maximum of this crate.

/// Messages of one thread that a handler outside the data plane has not answered. More are dropped
/// as [`ControlFull`](packet::DropReason::ControlFull).
pub const CONTROL_PENDING_MAX: usize = 64;

/// Bytes of the longest message for such a handler: a NOTIFY with the longest names, OPT and a
/// record of the zone. Longer ones are dropped for the same reason.
pub const CONTROL_LEN_MAX: usize = 4_096;

/// Bytes of room behind such a message for the OPT record of its response.
pub const CONTROL_REPLY_ROOM: usize = 1_024;
