//! How much of everything.

/// Ports of one worker: one for each address that is listened on.
pub const PORTS_MAX: usize = 16;

/// Workers of one fleet.
pub const WORKERS_MAX: usize = 1_024;

/// Turns a worker takes before it asks which other ports have something to do, as long as one
/// always has. Bounds how long a quiet port, or the order to stop, waits behind busy ones.
pub const TURNS_UNASKED_MAX: u32 = 8;

/// Turns a worker goes on after the order to stop, to answer what had arrived.
pub const TURNS_LAST_MAX: u32 = 1_024;
