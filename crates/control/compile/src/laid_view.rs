//! A view of a zone, as the zone knows it.
use std::any::Any;
use std::sync::Arc;

/// Sets that are laid over a zone.
pub trait LaidView<Z>: Send + Sync {
    /// The same sets over another version of the zone, in which the sets of these names differ.
    /// `None`: they cannot be laid over it.
    fn lay_over(&self, zone: &Z, changed: ChangedNames<'_>) -> Option<Arc<dyn LaidView<Z>>>;

    /// What the clients of the view read.
    fn as_zone(&self) -> &dyn image::Zone;

    /// The type behind it.
    fn as_any(&self) -> &dyn Any;
}

/// The relative names that have other sets than before; `None`: all.
pub type ChangedNames<'c> = Option<&'c [&'c [u8]]>;
