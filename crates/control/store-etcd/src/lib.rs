//! The store of a fleet: etcd is authoritative, and each server has a replica on its disk.
//!
//! The replica is a store of `store-redb` that follows the commits in etcd. So reads, journals and
//! a start need no etcd, and no answer waits for it. A commit is one transaction that succeeds only
//! on the newest revision; a large one is staged first, and becomes visible by one key.
#![forbid(unsafe_code)]

mod commit;
mod commit_lock;
mod encoding;
mod follow;
#[cfg(any(test, feature = "fuzz"))]
#[path = "../../../../testing/fuzz/checks/etcd.rs"]
pub mod fuzz;
pub mod limits;
mod list;
mod mirror;
mod plan;
mod replica;
mod shared;
mod staged;
mod store;
mod unreadable;
mod watch;
mod zone_value;

pub use self::store::EtcdStore;
pub use etcd_link::EtcdSpace;
pub use mirror::{EtcdMirror, open_mirror};

use keyspace::EtcdSettings;
use records::{Fleet, Store, StoreError};
use std::path::Path;
use std::sync::Arc;

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
