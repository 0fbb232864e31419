//! Limits of this crate.
use std::time::Duration;

/// Units of changes of one sender that wait to be applied. A change takes one, and one more for
/// every [`CHANGE_UNIT_BYTES`] of data.
pub const NORMAL_ROOM: u32 = 16_384;
/// As [`NORMAL_ROOM`], of an urgent sender.
pub const URGENT_ROOM: u32 = 4_096;
/// Bytes of data that a change may have for each of its units.
pub const CHANGE_UNIT_BYTES: usize = 4_096;
/// Changes of the normal lane that are applied before the urgent lane is served again. One call
/// with more is applied at once.
pub const ROUND_CHANGES_MAX: usize = 1_024;
/// Record sets and names of one full sync.
pub const EPOCH_CHANGES_MAX: usize = 16_000_000;
/// Refused changes of one full sync before all of it is refused.
pub const EPOCH_REFUSED_MAX: usize = 1_000;
/// Smaller losses of names are never held.
pub const LOSS_MIN: u64 = 20;
/// How often to check whether replaced images can be freed.
pub const COLLECT_INTERVAL: Duration = Duration::from_millis(10);
/// How often to check whether all workers have loaded an image that someone waits for.
pub const LIVE_INTERVAL: Duration = Duration::from_micros(50);
/// Seconds for which a negative answer from a layer may be cached.
pub const LAYER_NEGATIVE_TTL: u32 = 30;
/// Targets of checks: pairs of a check and an address.
pub const HEALTH_TARGETS_MAX: usize = 65_536;
/// Names from an ALIAS record to its addresses: longer chains, and circles, have none.
pub const ALIAS_HOPS_MAX: usize = 8;
/// Sets that are named if an address is their last one.
pub const LAST_SETS_SHOWN_MAX: usize = 10;
