//! Limits.

use std::time::Duration;

/// Samples of one side of a comparison: the exact test handles them within a second.
pub const SAMPLES_MAX: usize = 50;

/// Number of bootstrap samples of a statistic.
pub const RESAMPLES: usize = 4_000;

/// How long a server may take to answer after it was started.
pub const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes of its zone for which it may take a second more.
pub const START_BYTES: u64 = 4 << 20;

/// The time from SIGTERM until a server is killed.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Lines of a server's log that an error quotes.
pub const LOG_LINES_MAX: usize = 20;

/// Bytes of a server's build information that are stored.
pub const VERSION_BYTES_MAX: usize = 8 << 10;

/// Address records of a zone, for a server that takes them one by one in its config.
pub const ADDRESSES_MAX: usize = 1_000_000;

/// Rounds of a comparison: the samples of one side that the exact test can handle.
pub const ROUNDS_MAX: usize = SAMPLES_MAX;

/// Trials of the initial search between the best rate that a server kept up with and 1.5 times it:
/// the result is known to 7 % of the former, and a round searches further.
pub const BEGIN_STEPS: usize = 3;

/// Trials by which a round looks for the best rate between 0.5 and 1.1 of what a server answered at
/// most in the beginning: each halves what is left, so it is known to 2 % of that.
pub const SEARCH_STEPS: usize = 5;

/// How often a rate is tried until enough is answered in time: where something else has the machine
/// for 10 ms, a trial of a second fails whatever the server does.
pub const TRIES: usize = 2;

/// Network namespaces that are searched for a server.
pub const NAMESPACES_MAX: usize = 256;

/// Threads of this machine that are read.
pub const TASKS_MAX: usize = 65_536;

/// CPUs of a generator that are observed for stalls.
pub const SLEEPERS_MAX: usize = 256;

/// How many times more datagrams than packets there may be before packets are taken to hold
/// several: counters are not read at one instant.
pub const JOINED: f64 = 1.02;

/// Length of an echo measurement before and after a run, ns.
pub const CEILING_NS: u64 = 500_000_000;

/// Tries of an echo that does not answer; each pause is half a second longer.
pub const CEILING_TRIES: usize = 5;

/// Outstanding queries of an echo measurement: more than the echo or the generator handles at once.
pub const CEILING_OUTSTANDING: usize = 1_024;

/// Source ports of a comparison's generator: enough for every socket of a server to get some.
pub const SOURCES: usize = 256;

/// Intervals in the record of a run.
pub const INTERVALS_MAX: usize = 3_600;

/// Datagrams that wait in one direction of a relay: at 100 Mbit/s some 10 ms of small ones.
pub const RELAY_QUEUE_MAX: usize = 2_000;

/// Bytes of the Ethernet, IPv4 and UDP headers of a datagram.
pub const RELAY_HEADERS_LEN: usize = 42;
