//! Limits of this crate.
use std::time::Duration;

/// Operations of a transaction on sets and zones. etcd accepts 128 by default; the others are those
/// of the commit itself.
pub const OPS_MAX: usize = 120;
/// Bytes of the keys and values of a transaction. etcd accepts 1.5 MiB by default.
pub const TRANSACTION_BYTES_MAX: usize = 1 << 20;
/// Bytes of a part of a staged commit.
pub const PART_BYTES_MAX: usize = 1 << 20;
/// How long to wait for the answer to one request before another member is asked.
pub const REQUEST_MAX: Duration = Duration::from_secs(2);
/// How long a request is tried again that no member has done: an election takes about a second.
pub const UNSENT_MAX: Duration = Duration::from_secs(2);
/// The pause before that.
pub const UNSENT_PAUSE: Duration = Duration::from_millis(50);
/// How long a write waits for etcd.
pub const WRITE_MAX: Duration = Duration::from_secs(5);
/// How long the outcome of a write is looked up.
pub const OUTCOME_MAX: Duration = Duration::from_secs(5);
/// How long opening waits for the full list that fills a new replica; then it is retried.
pub const FIRST_LIST_MAX: Duration = Duration::from_secs(2);
/// How long to wait for a connection, and for the login on it.
pub const CONNECT_MAX: Duration = Duration::from_secs(2);
/// How long to wait for the connection alone. A lost first packet is sent again after a second.
pub const HANDSHAKE_MAX: Duration = Duration::from_millis(1_200);
/// The interval of keepalives and progress requests, and how long their answers may take.
pub const KEEPALIVE: Duration = Duration::from_secs(5);
/// The longest wait before a member is asked again after an error; it begins with a tenth.
pub const RECONNECT_MAX: Duration = Duration::from_millis(500);
/// How long to wait before a commit that the disk did not take is tried again.
pub const STORE_RETRY: Duration = Duration::from_secs(1);
/// Encoded bytes of commits that are served, and that the disk did not take; more are left in etcd.
pub const UNSAVED_BYTES_MAX: usize = 64 << 20;
/// Commits that wait to be applied; more are left in etcd.
pub const COMMITS_QUEUED: usize = 64;
/// Keys of a page of a full list. A message of 4 MiB, the most that is read, has room for them,
/// unless their sets are unusually large: then the page is halved.
pub const PAGE_KEYS: i64 = 10_000;
/// Commits that etcd keeps for servers that were away; older ones are deleted.
pub const COMMITS_KEPT: u64 = 10_000;
/// How many revisions pass between deletions of old commits.
pub const TRIM_INTERVAL: u64 = 500;
/// How old a staged batch without a commit gets before it is swept.
pub const STAGED_MAX: Duration = Duration::from_secs(15);
/// How often to look for such batches.
pub const SWEEP_INTERVAL: Duration = Duration::from_secs(5);
/// How long a server that died stays a member.
pub const MEMBER_TTL: Duration = Duration::from_secs(10);
/// The interval of renewals of a membership.
pub const RENEW_INTERVAL: Duration = Duration::from_secs(3);
/// The shortest time between reports of the served revision that no client waits for.
pub const REPORT_INTERVAL: Duration = Duration::from_millis(200);
/// The share of each member in that time: a large fleet writes at most 100 reports a second.
pub const REPORT_SHARE: Duration = Duration::from_millis(10);
/// The interval of reports when nothing is written.
pub const REFRESH_INTERVAL: Duration = Duration::from_secs(30);
/// How often to look which zones of servers differ, until that is known.
pub const DIGESTS_LOOK: Duration = Duration::from_millis(500);
/// Zones that differ and are named.
pub const DIFFERENT_ZONES_MAX: usize = 5;
/// How long a client waits until all members serve a revision.
pub const FLEET_WAIT_MAX: Duration = Duration::from_secs(15);
/// How long the others are asked for quick reports after the last client has waited.
pub const WAIT_KEPT: Duration = Duration::from_secs(1);
/// How long a server holds off the commits of others, should it die.
pub const HOLD_TTL: Duration = Duration::from_secs(10);
/// How long before the end of a write it is tried last.
pub const LAST_TRY: Duration = Duration::from_millis(500);
/// After a newer revision came, how long its commit may take: the watch brings it at once.
pub const COMMIT_WAIT: Duration = Duration::from_secs(1);
/// The pause before a commit that another server holds off is tried again.
pub const HOLD_PAUSE: Duration = Duration::from_millis(100);
/// How often other servers may commit before a large batch, until it holds them off.
pub const BATCH_CONFLICTS_MAX: u32 = 2;
/// How far `dunlin fleet adopt` raises the revision: above every one that another server may have
/// served, which the adopting server missed. So no serial goes back there.
pub const REVISIONS_ADOPTED: u64 = 1 << 20;
/// Clients that wait for the fleet at the same time.
pub const WAITERS_MAX: usize = 1024;
/// How long the end of a server waits until the others know of it.
pub const LEAVE_MAX: Duration = Duration::from_millis(500);
/// Times that a commit is retried because another writer only fenced or moved.
pub const RETRIES_MAX: u32 = 20;
/// How long a written document may take to come back by the watch before everything is listed.
pub const ECHO_MAX: Duration = Duration::from_millis(500);
/// How long a written document waits for the copy on the disk.
pub const SAVE_MAX: Duration = Duration::from_secs(1);
/// How long what a server found out waits for more, so that one transaction writes it all.
pub const STATES_BATCH: Duration = Duration::from_millis(50);
/// How often to look for servers that are silent, at least, while that makes a difference.
pub const LIFE_LOOK: Duration = Duration::from_secs(1);
/// The pause after etcd had no space for what a server found out.
pub const NO_SPACE_PAUSE: Duration = Duration::from_secs(5);
/// How long what a server said is kept after it was last seen.
pub const STATES_KEPT: Duration = Duration::from_secs(60 * 60);
/// How often to look for what no server stands behind any more.
pub const STATES_SWEEP_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// Keys of zones and sets that cannot be read and are known; the others after these.
pub const UNREADABLE_MAX: usize = 100;
/// How many of them a message names.
pub const UNREADABLE_SHOWN: usize = 3;
/// Keys of `states/` that cannot be read and are named.
pub const UNUSABLE_STATES_MAX: usize = 100;
/// How long a change of a map waits for more, so that one transaction writes them all.
pub const MAP_BATCH: Duration = Duration::from_millis(20);
/// How long a server that does not know all values of a map still leads.
pub const MAP_READY_GRACE: Duration = Duration::from_secs(15);
/// Changes of a map that wait for the server that follows it. A full queue stops the watch.
pub const MAP_EVENTS_MAX: usize = 256;
/// Causes of one outage that are compared before they are logged.
pub const CAUSES_MAX: usize = 16;
/// How long after its end a server counts among those with announced addresses.
pub const PRESENCE_TTL: Duration = Duration::from_secs(10 * 60);
/// How often it says that it is there.
pub const PERMIT_RENEW: Duration = Duration::from_secs(60);
/// How often a permit that was refused is asked for again.
pub const PERMIT_INTERVAL: Duration = Duration::from_secs(1);
/// How long a request for a permit may take.
pub const PERMIT_TIME_MAX: Duration = Duration::from_secs(3);
/// How often a permit is tried to be taken while others take theirs.
pub const PERMIT_TRIES: usize = 8;
