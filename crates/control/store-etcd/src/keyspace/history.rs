//! Whether etcd continues what this server followed.
use super::EtcdLink;
use crate::connection::RequestError;
use crate::keys::{Keys, check_format};
use crate::replica;
use etcd_client::{Txn, TxnOp, TxnOpResponse, TxnResponse, WatchResponse};
use records::{Form, Revision};
use std::path::{Path, PathBuf};

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
}

/// The values of the keys that a transaction has read, in order.
pub fn values<const KEYS: usize>(answer: &TxnResponse) -> [Option<Vec<u8>>; KEYS] {
    let mut found = answer.op_responses().into_iter().map(|response| match response {
        TxnOpResponse::Get(got) => got.kvs().first().map(|kv| kv.value().to_vec()),
        _ => None,
    });
    std::array::from_fn(|_| found.next().flatten())
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
    pub fn new(folder: &Path, known: Option<Position>) -> Self {
        Self { folder: folder.to_owned(), known }
    }

    /// Whether this is the etcd that was followed, and not an older one.
    ///
    /// # Errors
    /// [`RequestError::Unusable`]: it is not, and no operator has accepted that.
    pub fn check(&self, found: &Position) -> Result<(), RequestError> {
        let accepted = replica::cluster_of(&self.folder);
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
