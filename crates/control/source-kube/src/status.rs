//! The status of the source.
pub use server_status::{KubernetesStatus, KubernetesStream as StreamStatus};
use std::sync::{Arc, Mutex, PoisonError};

/// The status, shared by the source and who reports it.
#[derive(Clone, Default)]
pub struct SharedStatus(Arc<Mutex<KubernetesStatus>>);

impl SharedStatus {
    /// The status as it is now.
    pub fn get(&self) -> KubernetesStatus {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes it.
    pub fn edit(&self, edit: impl FnOnce(&mut KubernetesStatus)) {
        edit(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
