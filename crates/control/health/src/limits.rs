//! Limits of this crate.
use std::time::Duration;

/// Probes a second in all. Targets above it are not probed, and their state stays unknown.
pub const PROBES_PER_SECOND_MAX: u32 = 5_000;
/// Probes a second to one address.
pub const ADDRESS_PROBES_PER_SECOND_MAX: u32 = 20;
/// Probes in progress, each with one socket. A probe that gets none is skipped.
pub const SOCKETS_MAX: usize = 4_096;
/// Bytes of the head of a response; its end has to come within them.
pub const RESPONSE_HEAD_MAX: usize = 16 << 10;
/// Fields of the head of a response.
pub const RESPONSE_FIELDS_MAX: usize = 100;
/// Bytes of a response in which a check looks for its text.
pub const BODY_MAX: usize = 64 << 10;
/// How long before the end of a certificate operators are warned, unless a check says otherwise.
pub const EXPIRY_WARNING: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// The time between two warnings about the certificate of a target.
pub const WARNING_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// Bytes of a DNS response. Servers send longer ones only if they are asked for.
pub const DNS_RESPONSE_MAX: usize = 4_096;
/// Bytes of a message of `grpc.health.v1`, whose response has some bytes only.
pub const GRPC_MESSAGE_MAX: usize = 1_024;
/// Scripts at the same time, with those that were killed and have not ended yet.
pub const SCRIPTS_MAX: usize = 64;
/// Bytes of the output of a script in which its reason is looked for. Further ones are dropped.
pub const SCRIPT_OUTPUT_MAX: usize = 4_096;
/// Bytes of the reason of a failure.
pub const REASON_MAX: usize = 160;
/// Checks.
pub const CHECKS_MAX: usize = 1_000;
/// Targets that the prober suspects itself with: fewer may well be down at once.
pub const SUSPECT_TARGETS_MIN: usize = 3;
/// Targets that are saved although no set names them now.
pub const REMEMBERED_MAX: usize = 65_536;
/// How long such a target is saved.
pub const REMEMBERED_TIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Addresses with a state that an operator has set.
pub const OVERRIDES_MAX: usize = 10_000;
/// Bytes of the reason of an operator.
pub const WHY_MAX: usize = 255;
/// What the servers of a fleet say of targets, in all; further findings are ignored and named.
pub const FINDINGS_MAX: usize = 200_000;
/// The least time between two writes of the state to disk.
pub const SAVE_INTERVAL: Duration = Duration::from_secs(1);
/// Requests to the prober that wait.
pub const REQUESTS_MAX: usize = 64;
/// Transitions that wait for the webhook. Further ones are dropped and counted.
pub const WEBHOOK_QUEUE_MAX: usize = 1_000;
/// Transitions in one request.
pub const WEBHOOK_BATCH_MAX: usize = 100;
/// The longest time of one request.
pub const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);
/// Tries of one request, within some five minutes.
pub const WEBHOOK_TRIES_MAX: u32 = 10;
/// The pause after the first try; it doubles with each further one.
pub const WEBHOOK_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
pub const WEBHOOK_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Bytes of the secret that signs requests.
pub const WEBHOOK_SECRET_LEN: std::ops::RangeInclusive<usize> = 16..=1_024;
