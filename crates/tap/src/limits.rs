//! How much of everything.
use std::time::Duration;

/// Octets of a thread's ring: some 4,700 queries of 50 octets with replies of 100 between two looks
/// of the reader. Memory is taken as the ring is used.
pub const RING_OCTETS: usize = 1 << 20;
/// Octets of queries that are kept while a burst is answered: all of a full burst of the largest
/// datagrams, or one of the longest stream messages.
pub const STAGED_OCTETS: usize = 256 * 1024;
/// The rarest sample: one query in so many.
pub const ONE_IN_MAX: u32 = 1_000_000;

/// As many samples at a look are much: a ring holds some 20 times that.
pub const MUCH: u64 = 256;
/// Between two looks at the rings while there is much in them.
pub const LOOK_BUSY: Duration = Duration::from_millis(10);
/// Between two looks at the rings while there is little or nothing in them.
pub const LOOK_QUIET: Duration = Duration::from_millis(50);
/// Between two looks at the rings while nothing is picked.
pub const LOOK_OFF: Duration = Duration::from_secs(1);

/// Octets that wait for the file of the query log.
pub const LOG_OUTBOX_OCTETS: usize = 1 << 20;
/// Octets that wait for the reader of dnstap messages.
pub const DNSTAP_OUTBOX_OCTETS: usize = 4 << 20;
/// Between two complaints of the same kind in the log.
pub const COMPLAINT_PAUSE: Duration = Duration::from_secs(60);

/// Before the first attempt to connect to the dnstap reader again; doubled for each further one.
pub const RECONNECT_PAUSE_MIN: Duration = Duration::from_millis(100);
/// Between attempts at most.
pub const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long the dnstap reader may take to answer a greeting.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// Octets of a control frame at most, as in the reference implementation (fstrm).
pub const CONTROL_FRAME_MAX: usize = 512;
/// How long the outputs may take for what they still hold when the runner ends, or is told to
/// send it elsewhere.
pub const FINISH_MAX: Duration = Duration::from_millis(500);
/// How long the end of the runner is waited for: the log may be stuck.
pub const STOP_MAX: Duration = Duration::from_secs(2);

/// Samples a second that the hottest are estimated from, at most, but for a moment after more is
/// asked: those of a half-life tell a share of 1 % to a thirtieth of it.
pub const HOT_SAMPLES: u32 = 1_000;
/// How long queries are counted before it is decided how many samples that makes.
pub const PACE_WINDOW: Duration = Duration::from_secs(1);
/// Names, and clients, that are counted at a time.
pub const SKETCH_ENTRIES: usize = 1_024;
/// After so long a query counts half.
pub const SKETCH_HALF_LIFE: Duration = Duration::from_secs(60);
/// Names, and clients, that are told.
pub const HOT_RANKS: usize = 20;
