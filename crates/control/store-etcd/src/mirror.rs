//! A read-only copy of the records of another site.
use crate::EtcdStore;
use crate::shared::Shared;
use keyspace::{EtcdSettings, words_of_site};
use records::{Store, StoreError};
use std::path::Path;
use std::sync::Arc;

/// What is known of the etcd of another site.
pub struct EtcdMirror {
    shared: Arc<Shared>,
    site: String,
}

/// Whether it is followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorState {
    /// The member in use.
    pub endpoint: String,
    /// Whether its changes arrive.
    pub is_following: bool,
    /// Why they do not, and what to do; `None`: they do, or the next member is tried.
    pub fault: Option<String>,
    /// The newest revision that it is known to have.
    pub revision: u64,
    /// When it answered last: milliseconds since 1970; `None`: never.
    pub contact: Option<u64>,
    /// Bytes of keys and values that came from it since the start.
    pub bytes: u64,
    /// Why the copy on this server is not saved; `None`: it is.
    pub unsaved: Option<String>,
    /// Which keys cannot be read, and what to do; `None`: all can.
    pub unreadable: Option<String>,
}

/// The space of an etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtcdSpace {
    /// Bytes of its file.
    pub bytes: u64,
    /// The most bytes that it may have, if it says so.
    pub quota: Option<u64>,
}

/// A store that is a copy of the records of another site. Nothing is ever written there: no record,
/// no member, no lease. The copy is in the folder.
///
/// # Errors
/// The folder cannot be created, or no thread can be started.
pub fn open_mirror(
    folder: &Path,
    settings: EtcdSettings,
) -> Result<(Box<dyn Store>, Arc<EtcdMirror>), StoreError> {
    let site = settings.site.clone().unwrap_or_default();
    let settings = EtcdSettings { site: Some(site.clone()), may_write: false, ..settings };
    let store = EtcdStore::closed(folder, settings)?;
    let mirror = Arc::new(EtcdMirror { shared: store.shared(), site });
    Ok((Box::new(store), mirror))
}

impl EtcdMirror {
    /// Whether it is followed.
    pub fn state(&self) -> MirrorState {
        let Shared { link, report, .. } = &*self.shared;
        MirrorState {
            endpoint: link.connection.endpoint(),
            is_following: self.shared.is_following(),
            fault: report.fault(),
            revision: self.shared.newest().map_or(0, |head| head.revision.0),
            contact: link.connection.traffic.contact(),
            bytes: link.connection.traffic.bytes(),
            unsaved: self.shared.unsaved(),
            unreadable: self.shared.unreadable(),
        }
    }

    /// Its space; `None`: it does not answer, or does not say. Blocks.
    pub fn space(&self) -> Option<EtcdSpace> {
        let link = &self.shared.link;
        let (bytes, quota) = link.runtime.block_on(link.connection.space())?;
        Some(EtcdSpace { bytes, quota })
    }

    /// An error of the store, in words for the operator of this server.
    pub fn words(&self, why: &str) -> String {
        words_of_site(why, &self.site)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_of_a_mirror_names_its_site_and_its_command() {
        let said = words_of_site("correct `[etcd] endpoints`, or `dunlin fleet adopt`", "b");
        assert_eq!(said, "correct `[[site]]` b `endpoints`, or `dunlin sites accept b`");
    }
}
