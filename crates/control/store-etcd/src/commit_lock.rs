//! Locks out the commits of other servers, whose small ones are always faster than a large one.
use crate::limits::COMMIT_LOCK_TTL;
use etcd_client::KeyValue;
use etcd_link::{RequestError, is_absent, put_under};
use keyspace::limits::RENEW_INTERVAL;
use keyspace::{EtcdLink, Keys, Task};
use std::sync::Arc;
use tokio::time::sleep;

/// Only this server commits until it is dropped. If the server dies, its lease ends the lock.
pub struct CommitLock {
    link: Arc<EtcdLink>,
    /// `None`: it has ended.
    lease: Option<i64>,
    _renewing: Task,
}

impl CommitLock {
    /// Locks out all other servers, so that a commit that takes long succeeds.
    ///
    /// # Errors
    /// Another server has the lock now, or etcd refuses it.
    pub async fn take(link: &Arc<EtcdLink>) -> Result<Self, RequestError> {
        let (connection, key) = (&link.connection, link.keys.hold());
        let lease = connection.grant(COMMIT_LOCK_TTL).await?;
        let put = put_under(lease, key.as_str(), link.server.0.as_str());
        let error = match connection.write([is_absent(key.as_str())], [put]).await {
            Ok(true) => {
                let renewing = link.spawn(renew(Arc::clone(link), lease));
                return Ok(Self {
                    link: Arc::clone(link),
                    lease: Some(lease),
                    _renewing: renewing,
                });
            }
            Ok(false) => {
                let found = connection.find(key, 0).await.ok().flatten();
                let why = found.map(|kv| lock_reason(&link.keys, &kv));
                RequestError::Refused(why.unwrap_or_else(|| "try again".into()))
            }
            Err(error) => error,
        };
        // Otherwise it expires.
        let _ = connection.revoke(lease).await;
        Err(error)
    }

    /// Lets other servers commit again.
    pub async fn end(mut self) {
        if let Some(lease) = self.lease.take() {
            // Otherwise it expires.
            let _ = self.link.connection.revoke(lease).await;
        }
    }
}

/// Renews a lease until it is aborted.
async fn renew(link: Arc<EtcdLink>, lease: i64) {
    loop {
        sleep(RENEW_INTERVAL).await;
        // The commit finds out if it has expired.
        let _ = link.connection.renew(lease).await;
    }
}

impl Drop for CommitLock {
    fn drop(&mut self) {
        let (link, Some(lease)) = (Arc::clone(&self.link), self.lease) else { return };
        // Otherwise it expires.
        self.link.runtime.spawn(async move { link.connection.revoke(lease).await });
    }
}

/// Why commits are locked out, by the key `hold`, and what to do.
pub fn lock_reason(keys: &Keys, kv: &KeyValue) -> String {
    match kv.lease() {
        0 => format!(
            "the key {} in etcd holds off all writes, has no lease, and is not Dunlin's: delete it",
            keys.hold()
        ),
        _ => format!(
            "server {:?} blocks other writes during a large write, or stopped during one: try \
             again in {} s",
            String::from_utf8_lossy(kv.value()),
            COMMIT_LOCK_TTL.as_secs()
        ),
    }
}
