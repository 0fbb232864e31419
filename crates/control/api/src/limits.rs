//! Every maximum of this room.
use std::time::Duration;

/// Connections open at a time.
pub const CONNECTIONS_MAX: usize = 1024;
/// Of them, connections from one IPv4 address or one IPv6 /64: nobody takes all.
pub const CONNECTIONS_PER_CLIENT_MAX: usize = 256;
/// How long accepting rests after an error, such as no descriptor being left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long a TLS handshake may take.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(5);
/// Bytes of a request's line and header fields.
pub const HEADER_LEN_MAX: usize = 64 << 10;
/// Header fields of a request.
pub const HEADERS_MAX: usize = 64;
/// How long a request's header fields may take to arrive, and a connection may lie idle between
/// two requests.
pub const HEADER_TIME_MAX: Duration = Duration::from_secs(30);
/// How long a body that is read as a whole may take to arrive.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(30);
/// Requests of one principal that are not yet answered, or whose responses are not yet taken. Fewer
/// than the connections of a client, so that other principals behind the same address have some.
pub const REQUESTS_PER_PRINCIPAL_MAX: usize = 192;
/// Requests of one principal whose bodies have not arrived as a whole.
pub const BODIES_PER_PRINCIPAL_MAX: usize = 64;
/// How long a connection may get on neither way: one who does not send, or does not read.
pub const STALL_TIME_MAX: Duration = Duration::from_secs(60);
/// Bytes a second that a client must take of a response while more is ready than it takes.
pub const READ_RATE_MIN: u64 = 16 << 10;
/// The time over which that rate is measured.
pub const READ_RATE_TIME: Duration = Duration::from_secs(10);
/// How long requests under way have to end after the order to stop.
pub const LAST_CALL: Duration = Duration::from_secs(2);

/// Bytes of a JSON body: a set of the most records, or as many changes as a batch may have.
pub const JSON_LEN_MAX: usize = 8 << 20;
/// What is kept of a byte of JSON at most: three of them, `"",`, are a text of 24 bytes.
pub const JSON_WEIGHT: usize = 8;
/// Bytes of all bodies that are read as a whole and not done with yet, with what is kept of them.
pub const BODIES_LEN_MAX: usize = 256 << 20;
/// Changes of one PATCH.
pub const CHANGES_MAX: usize = 10_000;
/// Hidden sets that a reply names.
pub const SHADOWS_TOLD_MAX: usize = 100;
/// Record sets and journal entries of one page.
pub const PAGE_MAX: usize = 1_000;
/// The same, where the request does not say.
pub const PAGE_DEFAULT: usize = 100;
/// Bytes of one line of an import.
pub const LINE_LEN_MAX: usize = 1 << 20;
/// Record sets that an import writes at a time.
pub const IMPORT_BATCH: usize = 1_000;
/// Bytes of a zone file that is imported: its sets are put together before any is written.
pub const ZONE_FILE_LEN_MAX: usize = 64 << 20;
/// What is kept of a byte of a zone file: a set has some sixty of them, and takes four hundred.
pub const ZONE_FILE_WEIGHT: usize = 4;
/// Records of a zone file that is imported.
pub const ZONE_FILE_RECORDS_MAX: usize = 1_000_000;
/// Bytes of the lines that an import writes at a time, unless one line has more.
pub const IMPORT_BATCH_LEN: usize = 1 << 20;
/// Imports under way.
pub const IMPORTS_MAX: usize = 8;
/// Batches of an import that are on their way to the disk at a time.
pub const IMPORT_UNDER_WAY_MAX: usize = 4;

/// How long `?wait=live` waits, from the write being durable.
pub const LIVE_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a write may take to be durable.
pub const WRITE_TIME_MAX: Duration = Duration::from_secs(30);
/// How long gathering a status may take.
pub const STATUS_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a restore is waited for, once the snapshot is here. It must be less than a connection
/// may stall.
pub const RESTORE_TIME_MAX: Duration = Duration::from_secs(45);
/// Bytes of a snapshot that is restored.
pub const SNAPSHOT_LEN_MAX: u64 = 64 << 30;
/// Bytes of a snapshot or an export that are sent, or put down, at a time.
pub const SNAPSHOT_PIECE_LEN: usize = 256 << 10;
/// Pieces of a snapshot or an export that wait for its client.
pub const SNAPSHOT_PIECES_MAX: usize = 4;
/// How long an export or a snapshot may take. So long it keeps the store from using again what is
/// written over.
pub const STREAM_TIME_MAX: Duration = Duration::from_secs(300);
/// Exports under way, until their responses are taken. Each has one of the threads that wait for
/// the store, and 1.5 MiB.
pub const EXPORTS_MAX: usize = 16;
/// The same of one principal: fewer, so that its slow clients leave some to others.
pub const EXPORTS_PER_PRINCIPAL_MAX: usize = 4;
/// Snapshots that are taken or restored at a time.
pub const SNAPSHOTS_MAX: usize = 1;
/// Buckets of how long writes take; the last ends at 3.3 s.
pub const WRITE_BUCKETS: usize = 16;
/// What one who is told to come later is told to wait.
pub const RETRY_AFTER_SECONDS: u64 = 1;

/// Credentials that are no good, of one client a second, until it is told to come later.
pub const FAILURES_PER_SECOND: u32 = 5;
/// Clients whose failures are counted at a time.
pub const FAILING_MAX: usize = 4096;

/// Names of changed record sets that the audit log tells of one request.
pub const AUDIT_NAMES_MAX: usize = 20;

/// Bytes of a principal's name.
pub const PRINCIPAL_LEN_MAX: usize = 64;
/// Grants of one principal.
pub const GRANTS_MAX: usize = 64;
/// Types that one grant names.
pub const GRANT_TYPES_MAX: usize = 32;
/// Credentials.
pub const CREDENTIALS_MAX: usize = 10_000;
/// Bytes of the subject of a certificate.
pub const SUBJECT_LEN_MAX: usize = 512;
/// Bytes of the file of credentials.
pub const CREDENTIALS_LEN_MAX: u64 = 64 << 20;
/// Bytes of a file of certificates or of a key.
pub const PEM_LEN_MAX: u64 = 4 << 20;
/// How often the files of certificates are looked at.
pub const CERTIFICATES_LOOK: Duration = Duration::from_secs(5);
