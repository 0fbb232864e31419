//! Limits of this crate.

/// Bytes of a file.
pub const FILE_LEN_MAX: usize = 1 << 20;
/// Servers of one forward rule, as the config takes them.
pub const SERVERS_MAX: usize = 16;
/// Members of etcd, as the config takes them.
pub const ENDPOINTS_MAX: usize = 16;
/// Zones and rules; further ones are reported.
pub const NAMES_MAX: usize = 1 << 10;
/// Bytes of a name of a server or cluster.
pub const LABEL_LEN_MAX: usize = 63;
/// Bytes of a path.
pub const PATH_LEN_MAX: usize = 1 << 10;
