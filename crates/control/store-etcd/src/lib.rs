//! The store of a fleet: etcd is authoritative, and each server has a replica on its disk.
//!
//! The replica is a store of `store-redb` that follows the commits in etcd. So reads, journals and
//! a start need no etcd, and no answer waits for it. A commit is one transaction that succeeds only
//! on the newest revision; a large one is staged first, and becomes visible by one key.
#![forbid(unsafe_code)]

mod commit;
mod connection;
mod digests;
mod documents;
mod encoding;
mod events;
mod follow;
#[cfg(any(test, feature = "fuzz"))]
#[path = "../../../../testing/fuzz/checks/etcd.rs"]
pub mod fuzz;
mod hold;
mod keys;
mod keyspace;
pub mod limits;
mod list;
mod map;
mod members;
mod mirror;
mod permits;
mod plan;
mod replica;
mod shared;
mod staged;
mod states;
mod store;
mod traffic;
mod unreadable;
mod waits;
mod watch;

pub use self::store::EtcdStore;
pub use documents::{CheckDocument, DocumentKind, EtcdDocuments};
pub use keyspace::EtcdLink;
pub use map::EtcdMap;
pub use members::OwnLease;
pub use mirror::{EtcdMirror, EtcdSpace, MirrorState, open_mirror};
pub use permits::EtcdPermits;
use records::{Fleet, Store, StoreError};
use server_status::Member;
pub use states::EtcdStates;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where etcd is, and how to log in.
#[derive(Clone, Debug, Default)]
pub struct EtcdSettings {
    /// The URLs of its members: at least one.
    pub endpoints: Vec<String>,
    /// The prefix of all keys.
    pub prefix: String,
    /// The CA that signed the members' certificates; `None`: none is accepted.
    pub ca: Option<PathBuf>,
    /// The client's certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The user, and the file with its password.
    pub user: Option<(String, PathBuf)>,
    /// The description of this server for the others; its name must be unique.
    pub member: Member,
    /// Whether this server may write. If not, its user in etcd need not be able to.
    pub may_write: bool,
    /// Distinguishes this server from another one with its name: the same in all settings of a
    /// server.
    pub own: OwnLease,
    /// The site that this etcd is of, if it is another one: then this server only reads, and is no
    /// member. `None`: its own.
    pub site: Option<String>,
}

/// A store, and the servers that share it.
pub type SharedStore = (Box<dyn Store>, Arc<dyn Fleet>);

/// The store of a fleet, and its other servers. Its replica is in the data folder of the server.
///
/// # Errors
/// The folder cannot be created, or no thread can be started.
pub fn open(data_dir: &Path, settings: EtcdSettings) -> Result<SharedStore, StoreError> {
    let store = EtcdStore::closed(data_dir, settings)?;
    let fleet = store.fleet();
    Ok((Box::new(store), fleet))
}

/// The folder of the replica in the data folder of a server.
pub fn replica_folder(data_dir: &Path) -> PathBuf {
    data_dir.join(replica::FOLDER)
}

#[cfg(test)]
#[path = "../../../../testing/fuzz/checks/corpus.rs"]
mod corpus;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzz_corpus_of_etcd_passes() {
        corpus::replay("etcd", fuzz::check);
        corpus::search("etcd", fuzz::check);
    }
}
