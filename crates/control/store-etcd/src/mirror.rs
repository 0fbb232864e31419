//! A read-only copy of the records of another site.
use crate::EtcdStore;
use crate::shared::Shared;
use etcd_link::EtcdSpace;
use keyspace::EtcdSettings;
use records::{Store, StoreError};
use server_status::SiteStatus;
use std::path::Path;
use std::sync::Arc;

/// What is known of the etcd of another site.
pub struct EtcdMirror(Arc<Shared>);

/// A store that is a copy of the records of another site. Nothing is ever written there: no record,
/// no member, no lease. The copy is in the folder.
///
/// # Errors
/// The folder cannot be created, or no thread can be started.
pub fn open_mirror(
    folder: &Path,
    settings: EtcdSettings,
) -> Result<(Box<dyn Store>, Arc<EtcdMirror>), StoreError> {
    let site = Some(settings.site.unwrap_or_default());
    let store = EtcdStore::closed(folder, EtcdSettings { site, may_write: false, ..settings })?;
    let mirror = Arc::new(EtcdMirror(Arc::clone(&store.shared)));
    Ok((Box::new(store), mirror))
}

impl EtcdMirror {
    /// The part of the status that is about its etcd.
    pub fn status(&self) -> SiteStatus {
        let shared = &*self.0;
        let (connection, report) = (&shared.link.connection, &shared.report);
        SiteStatus {
            endpoint: connection.endpoint(),
            is_following: report.is_following(),
            contact_seconds: connection.traffic.contact().map(|when| when as f64 / 1_000.0),
            home_revision: shared.newest().map_or(0, |head| head.revision.0),
            bytes: connection.traffic.bytes(),
            fault: report.fault(),
            unsaved: shared.unsaved(),
            unreadable: shared.unreadable(),
            ..SiteStatus::default()
        }
    }

    /// Its space; `None`: it does not answer, or does not say. Blocks.
    pub fn space(&self) -> Option<EtcdSpace> {
        let link = &self.0.link;
        link.runtime.block_on(link.connection.space())
    }
}
