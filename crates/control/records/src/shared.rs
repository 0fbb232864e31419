//! What the threads and handles of the record service share.
use crate::health::Health;
use crate::live::LiveRevisions;
use crate::ownership::ZoneOwnership;
use crate::queue::WriteQueue;
use crate::{Fleet, Reader, Refused, StoreError};
use compile::Zone;
use std::sync::Arc;
use wire::Name;
use zone_manager::ZonePublisher;

/// State shared by handles.
pub(crate) struct SharedService {
    pub publisher: ZonePublisher,
    pub ownership: Arc<dyn ZoneOwnership>,
    pub reader: Arc<dyn Reader>,
    pub queue: WriteQueue,
    pub live: LiveRevisions,
    pub health: Health,
    pub fleet: Option<Arc<dyn Fleet>>,
    /// Whether writes are taken.
    pub may_write: bool,
}

impl SharedService {
    /// The served zone if it is built in. Not a zone that the store had a moment ago and that is
    /// still served.
    pub fn built_in(&self, origin: Name<'_>) -> Option<Arc<Zone>> {
        let image = self.publisher.image();
        let is_hosts = || origin == Name::ROOT;
        image.zone(origin).filter(|_| is_hosts() || self.ownership.is_built_in(origin)).cloned()
    }
}

/// The refusal for an error of the store.
pub(crate) fn refused(why: StoreError) -> Refused {
    match why {
        StoreError::Full => Refused::Full,
        StoreError::Closed => Refused::Stopping,
        StoreError::Damaged(why) | StoreError::Failed(why) => Refused::Failed(why.into()),
        StoreError::Unreachable(why) => Refused::Unreachable(why.into()),
        StoreError::NoSpace(why) => Refused::NoSpace(why.into()),
    }
}
