//! Limits of this crate.
use std::time::Duration;

/// This many samples in a read count as busy; a ring holds some 20 times as many.
pub const MUCH: u64 = 256;
/// Read interval of busy rings.
pub const LOOK_BUSY: Duration = Duration::from_millis(10);
/// Read interval of quiet rings.
pub const LOOK_QUIET: Duration = Duration::from_millis(50);
/// Read interval without sampling.
pub const LOOK_OFF: Duration = Duration::from_secs(1);

/// Buffered bytes for the file of the query log.
pub const LOG_OUTBOX_BYTES: usize = 1 << 20;
/// Buffered bytes for the dnstap reader.
pub const DNSTAP_OUTBOX_BYTES: usize = 4 << 20;
/// Interval between log lines of the same kind.
pub const COMPLAINT_PAUSE: Duration = Duration::from_secs(60);

/// Wait before the first reconnection to the dnstap reader; doubled each time.
pub const RECONNECT_PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest wait before a reconnection.
pub const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long the dnstap reader may take to answer the handshake.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// Bytes of a control frame, as in the reference implementation (fstrm).
pub const CONTROL_FRAME_MAX: usize = 512;
/// How long outputs may take for their buffers when the thread ends or their settings change.
pub const FINISH_MAX: Duration = Duration::from_millis(500);
/// How long to wait for the end of the thread: the log may be stuck.
pub const STOP_MAX: Duration = Duration::from_secs(2);

/// Samples a second for the most frequent names and clients, except for a moment after the load
/// grows. One half-life gives a share of 1 % to a thirtieth.
pub const HOT_SAMPLES: u32 = 1_000;
/// How long to count queries before the sampling rate changes.
pub const PACE_WINDOW: Duration = Duration::from_secs(1);
/// Names, and clients, that are counted at a time.
pub const SKETCH_ENTRIES: usize = 1_024;
/// After this time a query counts half.
pub const SKETCH_HALF_LIFE: Duration = Duration::from_secs(60);
/// Names, and clients, that are reported.
pub const HOT_RANKS: usize = 20;
