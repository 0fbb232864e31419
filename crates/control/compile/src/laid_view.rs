//! A view of a zone, as the zone knows it.
use std::sync::Arc;

/// Sets that are laid over a zone.
pub trait LaidView<Z>: Send + Sync {
    /// The same sets over another version of the zone; `None`: they cannot be laid over it.
    fn lay_over(&self, zone: &Z) -> Option<Arc<dyn LaidView<Z>>>;

    /// What the clients of the view read.
    fn as_zone(&self) -> &dyn image::Zone;
}
