//! The end of a map whose writer is gone for good: all of it is deleted, and a key that stays says
//! so. Without that key, servers that were away would take the absence of everything for a map that
//! is not complete yet, and go on with what they know; and the writer would come back by itself.
use super::COMPLETE;
use etcd_client::{GetOptions, KeyValue, Txn, TxnOp};
use etcd_link::{RequestError, delete_all, is_absent};
use keyspace::keys::CLUSTERS;
use keyspace::{EtcdLink, Keys};
use serde::{Deserialize, Serialize};
use server_status::StoredCluster;

/// The value of the key of a map that has ended.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Retirement {
    /// In seconds since 1970.
    pub seconds: u64,
    /// The server that did it.
    pub server: String,
}

impl Retirement {
    /// Reads the key. A value that is none ends the map, too.
    pub fn read(kv: &KeyValue) -> Self {
        let unknown = || Self { seconds: 0, server: "an operator".into() };
        serde_json::from_slice(kv.value()).unwrap_or_else(|_| unknown())
    }
}

fn map_of(cluster: &str) -> String {
    format!("{CLUSTERS}{cluster}")
}

/// What etcd has of a cluster.
pub async fn read_cluster(link: &EtcdLink, cluster: &str) -> Result<StoredCluster, RequestError> {
    let (map, connection) = (map_of(cluster), &link.connection);
    let prefix = link.keys.documents(&map);
    let count = async |kind: &str| {
        let options = GetOptions::new().with_prefix().with_count_only();
        let got = connection.get(format!("{prefix}{kind}"), options).await?;
        Ok::<_, RequestError>(got.count().unsigned_abs())
    };
    let text = |value: Vec<u8>| String::from_utf8_lossy(&value).into_owned();
    let retired = connection.find(link.keys.retired(&map), 0).await?;
    let retired = retired.as_ref().map(Retirement::read);
    let is_complete = connection.value(&format!("{prefix}{COMPLETE}")).await?.is_some();
    Ok(StoredCluster {
        name: cluster.to_owned(),
        leader: connection.value(&link.keys.leader(&map)).await?.map(text),
        origin: connection.value(&link.keys.origin(&map)).await?.map(text),
        services: count("services/").await? + count("imports/").await?,
        slices: count("slices/").await?,
        objects: count("").await?.saturating_sub(is_complete.into()),
        retired_seconds: retired.map(|retired| retired.seconds),
    })
}

/// Deletes what etcd has of a cluster, all or nothing, unless a server writes it. Returns what
/// there was, or why nothing has changed.
pub async fn retire(
    link: &EtcdLink,
    cluster: &str,
    seconds: u64,
) -> Result<Result<StoredCluster, String>, RequestError> {
    let part = read_cluster(link, cluster).await?;
    if let Some(why) = refusal(&part) {
        return Ok(Err(why));
    }
    let (keys, map) = (&link.keys, map_of(cluster));
    let retirement = Retirement { seconds, server: link.server.0.clone() };
    let value = serde_json::to_vec(&retirement).expect("a number and a text");
    match link.connection.transact(ending(keys, &map, value)).await?.succeeded() {
        true => Ok(Ok(part)),
        false => {
            let now = read_cluster(link, cluster).await?;
            let changed = || "it changed meanwhile: try again".to_owned();
            Ok(Err(refusal(&now).unwrap_or_else(changed)))
        }
    }
}

fn ending(keys: &Keys, map: &str, value: Vec<u8>) -> Txn {
    let (leader, retired) = (keys.leader(map), keys.retired(map));
    Txn::new().when([is_absent(leader), is_absent(retired.clone())]).and_then([
        TxnOp::put(retired, value, None),
        TxnOp::delete(keys.origin(map), None),
        delete_all(keys.documents(map)),
    ])
}

/// Why a cluster cannot be retired; `None`: it can.
fn refusal(part: &StoredCluster) -> Option<String> {
    let StoredCluster { name, leader, .. } = part;
    if let Some(leader) = leader {
        return Some(format!(
            "the cluster {name} is not gone: the server {leader} writes its objects. Stop all \
             servers with the role `kubernetes` that have `[kubernetes] cluster = \"{name}\"`; its \
             place is free 10 s later"
        ));
    }
    if part.retired_seconds.is_some() {
        return Some(format!("the cluster {name} is retired already"));
    }
    (part.objects == 0 && part.origin.is_none()).then(|| format!("etcd has no cluster {name}"))
}
