//! Limits of config values and of their numbers.
use std::time::Duration;

/// Bytes of a config file: enough for the maximum of zones.
pub const CONFIG_LEN_MAX: u64 = 1 << 24;
/// Listening addresses; each needs a socket for each worker.
pub const LISTEN_MAX: usize = worker::limits::ADDRESSES_MAX;
/// Bytes of an interface's name: the kernel's maximum.
pub const INTERFACE_LEN_MAX: usize = 15;
/// Niceness of workers. Values above 0 would only delay them.
pub const NICE: std::ops::RangeInclusive<i32> = -20..=0;
/// Run priorities in a dispatcher of XDP programs.
pub const PRIORITY: std::ops::RangeInclusive<u32> = 0..=i32::MAX as u32;
/// Devices of DPDK.
pub const DPDK_DEVICES_MAX: usize = port_dpdk::limits::DEVICES_MAX;
/// Bytes of DPDK's memory; each queue needs about 7 MiB.
pub const DPDK_MEMORY: std::ops::RangeInclusive<u64> = 1 << 24..=1 << 36;
/// Worker threads: each has a reader of the snapshot, and streams need some too.
pub const WORKERS_MAX: usize = 256;
/// Zones of one config.
pub const ZONES_MAX: usize = 1 << 16;
/// Primaries of one zone.
pub const PRIMARIES_MAX: usize = 16;
/// The maximum of records that a transferred zone may have; the greatest is the default.
pub const ZONE_RECORDS: std::ops::RangeInclusive<usize> = 1..=10_000_000;
/// Cookie secrets: the signing one, and those of a rotation.
pub const SECRETS_MAX: usize = 4;
/// Bytes of a text in an answer: one character string (RFC 1035 §3.3).
pub const TEXT_LEN_MAX: usize = 255;
/// Bytes of the name of a server.
pub const MEMBER_NAME_LEN_MAX: usize = 63;
/// Bytes of a UDP response: from RFC 1035 §4.2.1 to the size of a page.
pub const UDP_SIZE: std::ops::RangeInclusive<u16> = 512..=4096;
/// Bytes of a path in the config.
pub const PATH_LEN_MAX: usize = 4096;
/// Status codes that an HTTP check accepts, each one or a range.
pub const STATUS_RANGES_MAX: usize = 32;
/// Names in `[ops] hosts`.
pub const OPS_HOSTS_MAX: usize = 64;
/// Entries of one list of prefixes.
pub const PREFIXES_MAX: usize = 1 << 12;
/// Views of one config.
pub const VIEWS_MAX: usize = 255;
/// Views of one zone.
pub const VIEWS_OF_ZONE_MAX: usize = 16;
/// Names of a zone without its check.
pub const CHECK_EXCEPT_MAX: usize = 1_000;
/// Bytes of the name of a view.
pub const VIEW_NAME_LEN_MAX: usize = 63;
/// Networks of one config.
pub const NETWORKS_MAX: usize = u16::MAX as usize - 1;
/// Prefixes of all networks.
pub const NETWORK_PREFIXES_MAX: usize = 100_000;
/// Autonomous systems of a network.
pub const AS_NUMBERS_MAX: usize = 1_024;
/// Ranges of addresses with one location, of a file of MaxMind's form.
pub const GEO_BOUNDS_MAX: usize = 2_000_000;
/// Locations of such a file.
pub const GEO_LOCATIONS_MAX: usize = 16_384;
/// Bytes of such a file.
pub const GEO_FILE_LEN_MAX: u64 = 1 << 29;
/// Bytes of the name of a network.
pub const NETWORK_NAME_LEN_MAX: usize = 63;
/// Names in one list of `deny` or `allow`.
pub const DENY_NAMES_MAX: usize = 1 << 12;
/// Bytes of a file of denied names.
pub const DENY_FILE_LEN_MAX: u64 = 64 << 20;
/// Names of such a file.
pub const DENY_FILE_NAMES_MAX: usize = 1_000_000;
/// Addresses in place of those of a denied name.
pub const DENY_ADDRESSES_MAX: usize = 8;
/// Queries or responses a second of a rate limit.
pub const RATE_MAX: u32 = 1_000_000;
/// Bytes of the tables of rate limits.
pub const LIMIT_MEMORY: std::ops::RangeInclusive<u64> = 1 << 16..=1 << 34;
/// Suffixes whose names are forwarded.
pub const FORWARDS_MAX: usize = 1024;
/// Bytes of a file of CA certificates: a system's bundle has some 200 KiB.
pub const CA_LEN_MAX: u64 = 4 << 20;
/// Hosts files.
pub const HOSTS_FILES_MAX: usize = 16;
/// TTL of names in hosts files.
pub const HOSTS_TTL: std::ops::RangeInclusive<Duration> =
    Duration::ZERO..=Duration::from_secs(7 * 24 * 3600);
/// Bytes of the name of a cluster: a label (RFC 1035 §2.3.4).
pub const CLUSTER_NAME_LEN_MAX: usize = 63;
/// Namespaces of one network.
pub const NETWORK_NAMESPACES_MAX: usize = 256;
/// Labels that the Pods of one network have.
pub const NETWORK_POD_LABELS_MAX: usize = 16;
/// Conditions on the labels of services.
pub const KUBERNETES_SELECTOR_MAX: usize = 32;
/// Zones of a Kubernetes cluster.
pub const KUBERNETES_ZONES_MAX: usize = 16;
/// How long parts of a cluster may be answered whose writer is away: at least, and at most.
pub const KUBERNETES_MAX_AGE: (Duration, Duration) =
    (Duration::from_secs(15 * 60), Duration::from_secs(366 * 24 * 3600));
/// Zones in which objects of a cluster have records.
pub const KUBERNETES_RECORD_ZONES_MAX: usize = 256;
/// Namespaces of a cluster that are named one by one.
pub const KUBERNETES_NAMESPACES_MAX: usize = 1024;
/// Announced addresses; each is probed four times a second.
pub const ANYCAST_ADDRESSES_MAX: usize = 8;
/// The shortest time between a withdrawal and the next announcement.
pub const ANYCAST_HOLD: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(3600);
/// Times that records of a cluster may be cached: those of CoreDNS.
pub const KUBERNETES_TTL: std::ops::RangeInclusive<Duration> =
    Duration::ZERO..=Duration::from_secs(3600);
/// How long a list may be held.
pub const KUBERNETES_HOLD: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(7 * 24 * 3600);
/// Rewrite rules.
pub const REWRITES_MAX: usize = 1024;
/// Bytes of the cache.
pub const CACHE_MEMORY: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 38;
/// TTLs of cached answers: a week at most (RFC 8767 §4).
pub const CACHE_TTL: std::ops::RangeInclusive<Duration> =
    Duration::ZERO..=Duration::from_secs(7 * 24 * 3600);
/// TTL of a cached failure at first (RFC 9520 §3.2).
pub const FAILURE_TTLS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(upstream::limits::FAILURE_TTL_MAX as u64);
/// Stream threads.
pub const STREAM_THREADS_MAX: usize = 64;
/// Open stream connections.
pub const STREAMS_MAX: usize = 1 << 20;
/// Idle timeout of a stream connection.
pub const STREAM_IDLE: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(3600);
/// Bytes of the buffers of all stream connections.
pub const STREAM_MEMORY: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 36;
/// Duration of the drain.
pub const DRAIN: std::ops::RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3600);
/// How long the copies of zones stay that the config does not name any more.
pub const SAVED_FOR: std::ops::RangeInclusive<Duration> =
    Duration::ZERO..=Duration::from_secs(365 * 86_400);
/// Reported errors of one config file; the others are counted.
pub const DIAGNOSTICS_MAX: usize = 100;
/// Letters of an invalid key or value in a message.
pub const TEXT_SHOWN_MAX: usize = 64;
/// The longest TTL of sets with a check.
pub const HEALTH_TTL: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(3600);
/// The time between two probes of a target, and the longest time of one.
pub const CHECK_INTERVAL: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(3600);
/// Probes in a row until a target changes its state.
pub const CHECK_ROUNDS: std::ops::RangeInclusive<u8> = 1..=100;
/// Servers of a fleet that probe one address.
pub const VANTAGES: std::ops::RangeInclusive<u8> = 1..=9;
/// How long before the end of a certificate operators are warned.
pub const EXPIRY_WARNING: std::ops::RangeInclusive<Duration> =
    Duration::ZERO..=Duration::from_secs(366 * 24 * 3600);
/// The program of a script and its arguments.
pub const CHECK_ARGUMENTS_MAX: usize = 64;
/// Percent of the interval by which a probe may be later.
pub const CHECK_JITTER: std::ops::RangeInclusive<u8> = 0..=50;
/// Members of etcd that are asked.
pub const ETCD_ENDPOINTS_MAX: usize = 16;
/// Other sites.
pub const SITES_MAX: usize = 32;
/// Zones of another site.
pub const SITE_ZONES_MAX: usize = 10_000;
/// The quota of the etcd of another site, in bytes.
pub const SITE_QUOTA: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 40;
/// What etcd has by default.
pub const SITE_QUOTA_DEFAULT: u64 = 2 << 30;

/// Transfers at once, at most.
pub const TRANSFERS_MAX: usize = 1_024;
/// Addresses of transfers over TLS.
pub const TLS_LISTEN_MAX: usize = 16;
/// Servers that are notified of changes.
pub const NOTIFY_SERVERS_MAX: usize = 64;
/// Bytes of the text of one: an address, a port, and the name of a key.
pub const NOTIFY_SERVER_LEN_MAX: usize = 512;
