//! Every maximum of this crate.

use std::time::Duration;

/// Processes of one echo.
pub const PROCESSES_MAX: usize = 256;
/// Threads of one echo, all processes together: each has its counters in shared memory.
pub const THREADS_MAX: usize = 1_024;
/// Datagrams a call or a wake-up: what recvmmsg takes at once (the kernel's UIO_MAXIOV).
pub const BATCH_MAX: usize = 1_024;
/// Bytes of the largest datagram that is answered; larger ones are dropped and counted. Queries
/// are far smaller.
pub const ROOM: usize = 2_048;
/// How long a thread waits before it checks the stop word.
pub const PATIENCE: Duration = Duration::from_millis(100);
/// How long threads may take until they run, or have stopped.
pub const CHANGE_MAX: Duration = Duration::from_secs(10);
/// The most time that may be spent on each query.
pub const SPIN_MAX: Duration = Duration::from_secs(1);
/// Bytes of a socket's buffer, as the kernel counts them.
pub const BUFFER_MAX: usize = 1 << 30;
/// The longest that a socket may poll its device.
pub const BUSY_POLL_MAX: Duration = Duration::from_secs(1);
/// Bytes of a thread's error message.
pub const STORY_MAX: usize = 240;
