//! Which zones have another owner than the store.
use crate::ZoneOwner;
use compile::Zone;
use image::HashKey;
use std::sync::Arc;
use wire::{Name, NameBuf};

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

    /// The zone to serve after the store's zone was removed.
    fn instead(&self, origin: Name<'_>, key: &Arc<HashKey>) -> Option<Zone>;
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

    fn instead(&self, _: Name<'_>, _: &Arc<HashKey>) -> Option<Zone> {
        None
    }
}
