//! Whether etcd continues what this server followed.
use crate::EtcdLink;
use crate::keys::{Head, Keys, check_format};
use etcd_client::{Txn, TxnOp, WatchResponse};
use etcd_link::{RequestError, values};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use store::{Form, Revision};

/// Where etcd is at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The ID of the cluster in hexadecimal, as `etcdctl` shows it.
    pub cluster: String,
    /// The revision of etcd.
    pub revision: i64,
    /// The revision of records of the last `dunlin fleet adopt`.
    pub adopted: Revision,
    /// The value of the key `revision`.
    pub head: Option<Vec<u8>>,
    /// The form of the keys; `None`: there are none.
    pub form: Option<Form>,
}

impl Position {
    /// Reads it.
    ///
    /// # Errors
    /// [`RequestError::Unusable`]: a newer version wrote the keys.
    pub async fn read(link: &EtcdLink) -> Result<Self, RequestError> {
        let keys = &link.keys;
        let gets = [keys.format(), keys.adopted(), keys.revision()];
        let gets = gets.map(|key| TxnOp::get(key, None));
        let answer = link.connection.transact(Txn::new().and_then(gets)).await?;
        let header = answer.header().ok_or_else(|| RequestError::Refused("no header".into()))?;
        let (cluster, revision) = (format!("{:x}", header.cluster_id()), header.revision());
        let [format, adopted, head] = values(&answer);
        let form = check_format(format.as_deref()).map_err(RequestError::Unusable)?;
        let adopted = Keys::read_adopted(adopted.as_deref());
        Ok(Self { cluster, revision, adopted, head, form })
    }

    /// The newest revision of records.
    ///
    /// # Errors
    /// As [`Keys::read_head`].
    pub fn head(&self, keys: &Keys) -> Result<Head, RequestError> {
        keys.read_head(self.head.as_deref())
    }
}

/// The folder in the data folder of a server with its copies of what is in etcd.
pub fn replica_folder(data_dir: &Path) -> PathBuf {
    data_dir.join("replica")
}

/// The file in it that says what the records are a copy of.
pub const ORIGIN: &str = "origin.json";

/// The cluster that the copies in a folder are of, if it is known: an operator has accepted it.
fn accepted_cluster(folder: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Accepted {
        cluster: String,
    }
    let bytes = fs::read(folder.join(ORIGIN)).ok()?;
    serde_json::from_slice::<Accepted>(&bytes).ok().map(|accepted| accepted.cluster)
}

/// The known state of the history of etcd.
#[derive(Debug)]
pub struct History {
    /// The folder of the replica, which says which cluster an operator has accepted.
    folder: PathBuf,
    /// What was followed last; `None`: nothing yet.
    known: Option<Position>,
}

impl History {
    /// Begins with what is known of it. The folder is that of the copies.
    pub fn new(folder: &Path, known: Option<Position>) -> Self {
        Self { folder: folder.to_owned(), known }
    }

    /// Whether this is the etcd that was followed, and not an older one.
    ///
    /// # Errors
    /// [`RequestError::Unusable`]: it is not, and no operator has accepted that.
    pub fn check(&self, found: &Position) -> Result<(), RequestError> {
        let accepted = accepted_cluster(&self.folder);
        let known = self.known.as_ref();
        let followed = accepted.as_ref().or(known.map(|known| &known.cluster));
        if let Some(followed) = followed.filter(|followed| **followed != found.cluster) {
            return Err(RequestError::Unusable(format!(
                "etcd is another cluster ({}) than the one that this server has a copy of \
                 ({followed}): correct `[etcd] endpoints`, or accept it by `dunlin fleet adopt`",
                found.cluster
            )));
        }
        match known {
            Some(known) if found.revision < known.revision && !self.is_replaced(found) => {
                Err(set_back("etcd is older than what this server has followed"))
            }
            _ => Ok(()),
        }
    }

    /// Whether an operator has accepted other content since.
    pub fn is_replaced(&self, found: &Position) -> bool {
        let is_other =
            |known: &Position| found.cluster != known.cluster || found.adopted > known.adopted;
        self.known.as_ref().is_none_or(is_other)
    }

    /// This is followed.
    pub fn join(&mut self, found: Position) {
        self.known = Some(found);
    }

    /// A message of a watch was received.
    pub fn reach(&mut self, message: &WatchResponse) {
        if let (Some(known), Some(header)) = (&mut self.known, message.header()) {
            known.revision = header.revision();
        }
    }
}

/// `what` is older than what this server has.
pub fn set_back(what: &str) -> RequestError {
    RequestError::Unusable(format!(
        "{what}: etcd was set back. Accept that by `dunlin fleet adopt`"
    ))
}
