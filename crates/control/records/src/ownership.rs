//! Which zones have another owner than the store.
use crate::ZoneOwner;
use wire::{Name, NameBuf};
use zone_manager::{SourceKind, ZonePublisher};

/// Owners of zones other than the store.
pub trait ZoneOwnership: Send + Sync + 'static {
    /// The owner of a zone, if it is not the store.
    fn owner(&self, origin: Name<'_>) -> Option<ZoneOwner>;

    /// Whether the zone is built in and has no other owner.
    fn is_built_in(&self, origin: Name<'_>) -> bool;

    /// The origins of all zones with another owner, in any order, without built-in ones.
    fn origins(&self) -> Vec<NameBuf> {
        Vec::new()
    }
}

/// All zones belong to the store.
pub struct SoleOwner;

impl ZoneOwnership for SoleOwner {
    fn owner(&self, _: Name<'_>) -> Option<ZoneOwner> {
        None
    }

    fn is_built_in(&self, _: Name<'_>) -> bool {
        false
    }
}

/// The owners that the zone manager knows.
impl ZoneOwnership for ZonePublisher {
    fn owner(&self, origin: Name<'_>) -> Option<ZoneOwner> {
        let owner = self.catalog().owner(origin)?;
        (!matches!(owner, ZoneOwner::Store | ZoneOwner::BuiltIn)).then_some(owner)
    }

    fn is_built_in(&self, origin: Name<'_>) -> bool {
        self.catalog().owner(origin) == Some(ZoneOwner::BuiltIn)
    }

    fn origins(&self) -> Vec<NameBuf> {
        let kinds = [SourceKind::File, SourceKind::Kubernetes];
        kinds.into_iter().flat_map(|kind| self.catalog().origins(kind)).collect()
    }
}
