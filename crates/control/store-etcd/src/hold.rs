//! Holds off the commits of other servers, whose small ones are always faster than a large one.
use crate::connection::RequestError;
use crate::limits::{BATCH_CONFLICTS_MAX, BATCH_MAX};
use crate::shared::Shared;
use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};
use std::sync::Arc;
use std::time::Duration;

/// Holds off the commits of all other servers, so that a commit that takes long succeeds. Returns
/// the lease to revoke afterwards; `longest` is how long it lives.
///
/// # Errors
/// Another server does so now, or etcd refuses it.
pub async fn hold_off(shared: &Shared, longest: Duration) -> Result<i64, RequestError> {
    let (connection, key) = (&shared.link.connection, shared.link.keys.hold());
    let lease = connection.grant(longest).await?;
    let options = PutOptions::new().with_lease(lease);
    let txn = Txn::new()
        .when([Compare::create_revision(key.as_str(), CompareOp::Equal, 0)])
        .and_then([TxnOp::put(key.as_str(), "", Some(options))]);
    let held = match connection.transact(txn).await {
        Ok(done) if done.succeeded() => return Ok(lease),
        Ok(_) => Err(RequestError::Refused(
            "another server writes much, or has died while it did: try again in a minute".into(),
        )),
        Err(error) => Err(error),
    };
    // Otherwise it expires.
    let _ = connection.revoke(lease).await;
    held
}

/// Whether this server holds off others for a large batch.
#[derive(Default)]
pub struct BatchHold {
    /// How often the batch came too late.
    late: u32,
    lease: Option<i64>,
}

impl BatchHold {
    pub fn is_held(&self) -> bool {
        self.lease.is_some()
    }

    /// After a conflict of the batch.
    pub fn note_conflict(&mut self, shared: &Shared) {
        self.late += 1;
        if self.late >= BATCH_CONFLICTS_MAX && self.lease.is_none() {
            // The batch is tried again anyway.
            self.lease = shared.link.runtime.block_on(hold_off(shared, BATCH_MAX)).ok();
        }
    }

    /// Lets other servers commit again.
    pub fn release(&mut self, shared: &Arc<Shared>) {
        self.late = 0;
        if let Some(lease) = self.lease.take() {
            let connected = Arc::clone(shared);
            // Otherwise it expires.
            shared.link.runtime.spawn(async move { connected.link.connection.revoke(lease).await });
        }
    }
}
