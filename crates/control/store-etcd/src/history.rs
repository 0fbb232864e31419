//! Whether etcd is the one that this server followed, and not an older one.
use crate::EtcdLink;
use crate::connection::RequestError;
use crate::keys::Keys;
use crate::replica;
use etcd_client::{GetOptions, WatchResponse};
use std::path::PathBuf;

/// What this process knows of the history of etcd.
pub struct History {
    /// The folder of the replica.
    folder: PathBuf,
    /// The revision of etcd that was reached, and of the last adoption.
    reached: i64,
    adopted: u64,
}

impl History {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, reached: 0, adopted: 0 }
    }

    /// The revision of etcd.
    ///
    /// # Errors
    /// It is another cluster, or was set back, and no operator has accepted that.
    pub async fn check(&mut self, link: &EtcdLink) -> Result<i64, RequestError> {
        let got = link.connection.get(link.keys.adopted(), GetOptions::new()).await?;
        let header = got.header().ok_or_else(|| RequestError::Refused("no header".into()))?;
        let (cluster, at) = (format!("{:x}", header.cluster_id()), header.revision());
        if replica::cluster_of(&self.folder).is_some_and(|followed| followed != cluster) {
            return Err(RequestError::Refused(format!(
                "etcd is another cluster ({cluster}) than the one that this server has a copy of: \
                 correct `[etcd] endpoints`, or accept it by `dunlin fleet adopt`"
            )));
        }
        let adopted = Keys::read_adopted(&got);
        if at < self.reached && adopted <= self.adopted {
            let why = "etcd was set back: accept that by `dunlin fleet adopt`";
            return Err(RequestError::Refused(why.into()));
        }
        (self.reached, self.adopted) = (at, adopted);
        Ok(at)
    }

    /// A message of a watch was received.
    pub fn reached(&mut self, message: &WatchResponse) {
        if let Some(header) = message.header() {
            self.reached = header.revision();
        }
    }
}
