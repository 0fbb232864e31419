//! The shared state of the threads and handles of the record service.
use crate::health::Health;
use crate::mirror::Mirror;
use crate::queue::WriteQueue;
use crate::views::KnownViews;
use crate::{Edit, Fleet, InvalidEdit, Reader, Refused, Revision, StoreError, ZoneOwner};
use compile::Zone;
use model::BrokenRule;
use std::sync::Arc;
use tokio::sync::watch;
use wire::{Name, NameBuf, Rtype};
use zone_manager::{Sequence, SourceKind, ZonePublisher};

/// What was passed to the zone manager last.
#[derive(Clone, Copy, Default)]
pub(crate) struct Published {
    pub revision: Revision,
    pub sequence: Sequence,
    /// There will be nothing more.
    pub has_ended: bool,
}

/// State shared by handles.
pub(crate) struct SharedService {
    pub publisher: ZonePublisher,
    pub reader: Arc<dyn Reader>,
    pub queue: WriteQueue,
    pub published: watch::Sender<Published>,
    pub health: Health,
    pub fleet: Option<Arc<dyn Fleet>>,
    /// The views that clients may have.
    pub views: KnownViews,
    /// Whether writes are taken.
    pub may_write: bool,
    /// What is served of another site; `None`: the store is of this one.
    pub mirror: Option<Mirror>,
}

impl SharedService {
    /// The served zone if it is built in. Not a zone that the store had a moment ago and that is
    /// still served.
    pub fn built_in(&self, origin: Name<'_>) -> Option<Arc<Zone>> {
        let image = self.publisher.image();
        let is_hosts = || origin == Name::ROOT;
        let is_built_in = || self.publisher.catalog().owner(origin) == Some(ZoneOwner::BuiltIn);
        image.zone(origin).filter(|_| is_hosts() || is_built_in()).cloned()
    }

    /// The owner of a zone; `None`: it is the store's, built in, or of no source.
    pub fn foreign_owner(&self, origin: Name<'_>) -> Option<ZoneOwner> {
        let owner = self.publisher.catalog().owner(origin)?;
        let is_own = match (&owner, &self.mirror) {
            (ZoneOwner::BuiltIn, _) | (ZoneOwner::Store, None) => true,
            (ZoneOwner::Source(name), Some(mirror)) => **name == mirror.source(),
            _ => false,
        };
        (!is_own).then_some(owner)
    }

    /// Checks that the targets of ALIAS records are in zones of this server.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check_targets(&self, zone: Name<'_>, edits: &[Edit]) -> Result<(), Refused> {
        for (number, edit) in edits.iter().enumerate() {
            let Some(value) = edit.put.as_ref().filter(|_| edit.rtype == Rtype::ALIAS) else {
                continue;
            };
            // Other data is no name, and is refused as such.
            for target in value.data.iter().filter_map(|data| Name::parse(data).ok()) {
                let mut above = std::iter::successors(Some(target), |name| name.parent());
                let has_owner = |origin| self.publisher.catalog().owner(origin).is_some();
                if target.is_within(zone) || above.any(has_owner) {
                    continue;
                }
                let what = format!(
                    "{target} is in no zone of this server, so its addresses are not known here: \
                     write the addresses, or, below the apex, a CNAME record"
                );
                let rule = BrokenRule::OUT_OF_ZONE;
                let invalid = InvalidEdit { edit: number, field: "data", rule, what };
                return Err(Refused::Invalid(invalid));
            }
        }
        Ok(())
    }

    /// Whether a zone of the store is served, and kept in memory.
    pub fn serves(&self, origin: Name<'_>) -> bool {
        self.mirror.as_ref().is_none_or(|mirror| mirror.has(origin))
    }

    /// The origins of all zones with such an owner, in any order.
    pub fn foreign_origins(&self) -> Vec<NameBuf> {
        use SourceKind::{File, Kubernetes, Primary, Site};
        let kinds = [File, Kubernetes, Site, Primary];
        kinds.into_iter().flat_map(|kind| self.publisher.catalog().origins(kind)).collect()
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
        StoreError::Form(why) => Refused::Form(why.into()),
    }
}
