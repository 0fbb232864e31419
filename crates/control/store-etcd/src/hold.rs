//! Holds off the commits of other servers, whose small ones are always faster than a large one.
use crate::limits::{BATCH_CONFLICTS_MAX, HOLD_TTL};
use crate::shared::Shared;
use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp, TxnOpResponse};
use etcd_link::RequestError;
use keyspace::limits::RENEW_INTERVAL;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Holds off the commits of others until it is dropped. If the server dies, its lease ends it.
pub struct Hold {
    shared: Arc<Shared>,
    /// `None`: it has ended.
    lease: Option<i64>,
    renewing: JoinHandle<()>,
}

impl Hold {
    /// Holds off the commits of all other servers, so that a commit that takes long succeeds.
    ///
    /// # Errors
    /// Another server does so now, or etcd refuses it.
    pub async fn take(shared: &Arc<Shared>) -> Result<Self, RequestError> {
        let link = &shared.link;
        let (connection, key) = (&link.connection, link.keys.hold());
        let lease = connection.grant(HOLD_TTL).await?;
        let options = PutOptions::new().with_lease(lease);
        let txn = Txn::new()
            .when([Compare::create_revision(key.as_str(), CompareOp::Equal, 0)])
            .and_then([TxnOp::put(key.as_str(), link.server.0.as_str(), Some(options))])
            .or_else([TxnOp::get(key.as_str(), None)]);
        let held = match connection.transact(txn).await {
            Ok(done) if done.succeeded() => {
                let renewing = link.runtime.spawn(renew(Arc::clone(shared), lease));
                let shared = Arc::clone(shared);
                return Ok(Self { shared, lease: Some(lease), renewing });
            }
            Ok(done) => {
                let found = done.op_responses().into_iter().next();
                let why = held_off(shared, found.as_ref());
                Err(RequestError::Refused(why.unwrap_or_else(|| "try again".into())))
            }
            Err(error) => Err(error),
        };
        // Otherwise it expires.
        let _ = connection.revoke(lease).await;
        held
    }

    /// Lets other servers commit again.
    pub async fn end(mut self) {
        if let Some(lease) = self.lease.take() {
            // Otherwise it expires.
            let _ = self.shared.link.connection.revoke(lease).await;
        }
    }
}

/// Renews a lease until it is aborted.
async fn renew(shared: Arc<Shared>, lease: i64) {
    loop {
        sleep(RENEW_INTERVAL).await;
        // The commit finds out if it has expired.
        let _ = shared.link.connection.renew(lease).await;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.renewing.abort();
        let (shared, Some(lease)) = (Arc::clone(&self.shared), self.lease) else { return };
        // Otherwise it expires.
        self.shared.link.runtime.spawn(async move { shared.link.connection.revoke(lease).await });
    }
}

/// Why commits are held off, by what etcd has at the key `hold`; `None`: they are not.
pub fn held_off(shared: &Shared, found: Option<&TxnOpResponse>) -> Option<String> {
    let Some(TxnOpResponse::Get(got)) = found else { return None };
    let kv = got.kvs().first()?;
    let (key, by) = (shared.link.keys.hold(), String::from_utf8_lossy(kv.value()));
    Some(match kv.lease() {
        0 => format!(
            "the key {key} in etcd holds off all writes, has no lease, and is not Dunlin's: delete \
             it"
        ),
        _ => format!(
            "server {by:?} blocks other writes during a large write, or stopped during one: try \
             again in {} s",
            HOLD_TTL.as_secs()
        ),
    })
}

/// Whether this server holds off others for a large batch.
#[derive(Default)]
pub struct BatchHold {
    /// How often the batch came too late.
    late: u32,
    hold: Option<Hold>,
}

impl BatchHold {
    pub fn is_held(&self) -> bool {
        self.hold.is_some()
    }

    /// After a conflict of the batch.
    pub fn note_conflict(&mut self, shared: &Arc<Shared>) {
        self.late += 1;
        if self.late >= BATCH_CONFLICTS_MAX && self.hold.is_none() {
            // The batch is tried again anyway.
            self.hold = shared.link.runtime.block_on(Hold::take(shared)).ok();
        }
    }

    /// Lets other servers commit again.
    pub fn release(&mut self) {
        (self.late, self.hold) = (0, None);
    }
}
