//! The identity of the watched cluster: the UID of the namespace `kube-system`, which each cluster
//! has. It is read before the objects of a list are written for the fleet.
use crate::body::{ReadError, read_whole};
use crate::client::Connection;
use crate::failure::{Backoff, Cause, Failure, FailureLog};
use crate::limits::Bounds;
use documents::ReplicatedMap;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Notify;
use tokio::time::sleep;

const PATH: &str = "/api/v1/namespaces?fieldSelector=metadata.name%3Dkube-system";
const NAMESPACE: &str = "kube-system";
/// Bytes of the response: one object.
const LEN_MAX: usize = 1 << 20;

#[derive(Deserialize)]
struct Namespaces {
    items: Vec<Namespace>,
}

#[derive(Deserialize)]
struct Namespace {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: Box<str>,
    #[serde(default)]
    uid: Box<str>,
}

/// Gives the map the identity of the cluster, now and whenever it is requested again.
pub(super) async fn tell_origin(
    connection: Connection,
    bounds: Bounds,
    map: Arc<ReplicatedMap>,
    again: Arc<Notify>,
) {
    let (mut backoff, mut log) = (Backoff::default(), FailureLog::default());
    loop {
        match read(&connection).await {
            Ok(uid) => {
                backoff.reset();
                map.set_origin(Some(format!("the cluster {uid}")));
                again.notified().await;
            }
            Err(why) => {
                if log.take(&why, NAMESPACE, Instant::now()).is_some() {
                    tracing::error!("nothing is written for the fleet: {why}");
                }
                sleep(backoff.wait(&why, &bounds, fastrand::f64())).await;
            }
        }
    }
}

async fn read(connection: &Connection) -> Result<Box<str>, Failure> {
    let malformed = |what: &str| Failure::new(Cause::Malformed, what);
    let body = connection.get(PATH, "list", "namespaces").await?;
    let bytes = read_whole(body, LEN_MAX).await.map_err(|why| match why {
        ReadError::TooLong => malformed("the namespace kube-system is too long"),
        ReadError::Failed(why) => why,
    })?;
    let found: Namespaces = serde_json::from_slice(&bytes)
        .map_err(|why| malformed(&format!("the list of namespaces is none: {why}")))?;
    let system = found.items.into_iter().find(|one| &*one.metadata.name == NAMESPACE);
    let uid = system.map(|one| one.metadata.uid).filter(|uid| !uid.is_empty());
    uid.ok_or_else(|| malformed("the cluster has no namespace kube-system with a UID yet"))
}
