//! The parts of the crates of a fleet that this crate uses. A build without them has
//! `absent/etcd.rs`.
pub use fleet_members::EtcdPermits;
pub use fleet_state::{CheckDocument, DocumentKind, EtcdDocuments, EtcdMap, EtcdStates};
pub use keyspace::{EtcdLink, EtcdSettings, OwnLease, replica_folder};
pub use store_etcd::open;
