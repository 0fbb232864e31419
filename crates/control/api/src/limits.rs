//! Limits of the API.
use std::time::Duration;

/// Connections open at a time.
pub const CONNECTIONS_MAX: usize = 1024;
/// Connections from one IPv4 address or one IPv6 /64.
pub const CONNECTIONS_PER_CLIENT_MAX: usize = 256;
/// Bytes of a request's line and header fields.
pub const HEADER_LEN_MAX: usize = 64 << 10;
/// Header fields of a request.
pub const HEADERS_MAX: usize = 64;
/// Maximum time until the header fields of a request have arrived, also after an idle connection's
/// last request.
pub const HEADER_TIME_MAX: Duration = Duration::from_secs(30);
/// Maximum time until a body that is read as a whole has arrived.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(30);
/// Requests of one principal in progress, until their responses are read. Fewer than the
/// connections of a client, so that other principals at the same address have some.
pub const REQUESTS_PER_PRINCIPAL_MAX: usize = 192;
/// Requests of one principal whose bodies are incomplete.
pub const BODIES_PER_PRINCIPAL_MAX: usize = 64;
/// Maximum time of requests in progress after a stop.
pub const LAST_CALL: Duration = Duration::from_secs(2);

/// Bytes of a JSON body: a set with the most records, or the most changes of a batch.
pub const JSON_LEN_MAX: usize = 8 << 20;
/// Memory for a byte of JSON at most: three bytes, `"",`, become a text of 24 bytes.
pub const JSON_WEIGHT: usize = 8;
/// Memory for all bodies that are read as a whole and in use.
pub const BODIES_LEN_MAX: usize = 256 << 20;
/// Changes of one PATCH.
pub const CHANGES_MAX: usize = 10_000;
/// Hidden sets that a response names.
pub const SHADOWS_TOLD_MAX: usize = 100;
/// Record sets or journal entries of a page.
pub const PAGE_MAX: usize = 1_000;
/// Entries of a page by default.
pub const PAGE_DEFAULT: usize = 100;
/// Bytes of one line of an import.
pub const LINE_LEN_MAX: usize = 1 << 20;
/// Record sets of an import that are checked again at its end.
pub const DOUBTFUL_MAX: usize = 10_000;
/// Record sets of a batch of an import.
pub const IMPORT_BATCH: usize = 1_000;
/// Bytes of an imported zone file: its sets are complete only at its end.
pub const ZONE_FILE_LEN_MAX: usize = 64 << 20;
/// Memory for a byte of a zone file: a set has about 60 bytes of text and takes 400 bytes.
pub const ZONE_FILE_WEIGHT: usize = 4;
/// Records of an imported zone file.
pub const ZONE_FILE_RECORDS_MAX: usize = 1_000_000;
/// Bytes of the lines in a batch of an import, unless one line has more.
pub const IMPORT_BATCH_LEN: usize = 1 << 20;
/// Imports in progress.
pub const IMPORTS_MAX: usize = 8;
/// Batches of an import that wait for the disk.
pub const IMPORT_UNDER_WAY_MAX: usize = 4;

/// Maximum wait of `?wait=live`, after the write is durable.
pub const LIVE_TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum time until a write is durable.
pub const WRITE_TIME_MAX: Duration = Duration::from_secs(30);
/// Maximum time to build a status.
pub const STATUS_TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum time of a restore after the snapshot has arrived. Less than the stall timeout of a
/// connection.
pub const RESTORE_TIME_MAX: Duration = Duration::from_secs(45);
/// Bytes of a restored snapshot.
pub const SNAPSHOT_LEN_MAX: u64 = 64 << 30;
/// Bytes of one chunk of a snapshot or an export.
pub const SNAPSHOT_PIECE_LEN: usize = 256 << 10;
/// Chunks of a snapshot or an export that wait for the client.
pub const SNAPSHOT_PIECES_MAX: usize = 4;
/// Bytes of a piece of a zone that is dumped, beside its last record. A connection holds a few.
pub const DUMP_PIECE_LEN: usize = 64 << 10;
/// Maximum time of an export or a snapshot. Meanwhile the store cannot reuse overwritten pages.
pub const STREAM_TIME_MAX: Duration = Duration::from_secs(300);
/// Exports and dumps in progress, until their responses are read. An export uses a thread that
/// waits for the store, and 1.5 MiB.
pub const EXPORTS_MAX: usize = 16;
/// Exports and dumps of one principal, so that its slow clients leave some to others.
pub const EXPORTS_PER_PRINCIPAL_MAX: usize = 4;
/// Snapshots or restores in progress.
pub const SNAPSHOTS_MAX: usize = 1;
/// Buckets of the write latency histogram; the last one ends at 3.3 s.
pub const WRITE_BUCKETS: usize = 16;
/// The value of Retry-After.
pub const RETRY_AFTER_SECONDS: u64 = 1;

/// Failed authentications of one client a second, until it gets 429.
pub const FAILURES_PER_SECOND: u32 = 5;
/// Clients whose failures are counted.
pub const FAILING_MAX: usize = 4096;

/// Names of changed record sets in a line of the audit log.
pub const AUDIT_NAMES_MAX: usize = 20;

/// Bytes of a principal's name.
pub const PRINCIPAL_LEN_MAX: usize = 64;
/// Grants of one principal.
pub const GRANTS_MAX: usize = 64;
/// Views that one grant names.
pub const GRANT_VIEWS_MAX: usize = 16;
/// Types that one grant names.
pub const GRANT_TYPES_MAX: usize = 32;
/// Prefixes of addresses in one grant.
pub const GRANT_PREFIXES_MAX: usize = 64;
/// Credentials.
pub const CREDENTIALS_MAX: usize = 10_000;
/// Bytes of the subject of a certificate.
pub const SUBJECT_LEN_MAX: usize = 512;
/// Bytes of the file of credentials.
pub const CREDENTIALS_LEN_MAX: u64 = 64 << 20;
/// How often a revert is planned again because another client wrote meanwhile.
pub const REVERT_TRIES_MAX: usize = 8;
