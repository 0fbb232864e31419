//! Sets of documents that the servers of a fleet share: a key for each document.
//!
//! Only the task that follows etcd changes the content, so a server never has an older document
//! after a newer one. A write waits until the watch brings it back.
mod copy;
mod follow;

use crate::limits::{ECHO_MAX, SAVE_MAX};
use copy::{CopyFile, CopyOrigin};
use documents::{Content, DocumentSet, Value, WriteError};
use etcd_client::{
    Compare, CompareOp, GetOptions, KeyValue, Txn, TxnOp, TxnOpResponse, TxnResponse,
};
use etcd_link::RequestError;
use keyspace::limits::{FIRST_LIST_MAX, LAST_TRY, WRITE_MAX};
use keyspace::{EtcdLink, FollowedKeys, History, LinkReport, Position, Task, replica_folder};
use server_status::DocumentsStatus;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::Revision;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout_at};

/// The format of each document.
const FORMAT: u64 = 1;

/// The pause before an unanswered write is repeated.
const REPEAT_PAUSE: Duration = Duration::from_millis(100);

/// Says what is wrong with a document of this name.
pub type CheckDocument = Box<dyn Fn(&str, &Value) -> Result<(), String> + Send + Sync>;

/// A kind of documents.
pub struct DocumentKind {
    /// The part of their keys after the prefix, and their name in texts.
    pub name: &'static str,
    /// The file with their copy.
    pub copy: &'static str,
    /// Says what is wrong with a document.
    pub check: CheckDocument,
}

/// A set of documents in etcd, with a copy on the disk of this server.
pub struct EtcdDocuments {
    set: Arc<SharedSet>,
    /// The folder of the replica.
    folder: PathBuf,
    /// The tasks that follow etcd and save the copy, once they are needed.
    tasks: Mutex<Vec<Task>>,
    /// Held by the one that writes.
    writing: Mutex<()>,
}

/// The shared state of the tasks.
struct SharedSet {
    link: Arc<EtcdLink>,
    kind: DocumentKind,
    prefix: String,
    copy: CopyFile,
    content: watch::Sender<Arc<Content>>,
    /// What the content is a copy of; `None`: it is not known.
    origin: Mutex<Option<CopyOrigin>>,
    /// The revision of etcd that the copy on the disk has.
    saved: watch::Sender<i64>,
    report: Arc<LinkReport>,
    /// Everything is listed again.
    relist: Notify,
}

impl EtcdDocuments {
    /// The set, with the content of its copy in the data folder of a server. Nothing is asked of
    /// etcd until the set is needed.
    pub fn new(link: &Arc<EtcdLink>, kind: DocumentKind, data_dir: &Path) -> Arc<Self> {
        let prefix = link.keys.documents(kind.name);
        let folder = replica_folder(data_dir);
        let copy = CopyFile::new(&folder, kind.copy);
        let loaded = copy.load(&prefix).unwrap_or_else(|why| {
            tracing::error!("{why}: what it had is read from etcd");
            None
        });
        let unread = || Content::unknown(format!("{} were not read from etcd yet", kind.name));
        let (origin, content) =
            loaded.map_or_else(|| (None, unread()), |(origin, content)| (Some(origin), content));
        let name = kind.name;
        let lost = format!(
            "{name} in etcd are not followed; those of the copy of this server hold, and changes \
             are refused"
        );
        let report = LinkReport::new(Some(lost), format!("{name} in etcd are followed again"));
        let set = SharedSet {
            link: Arc::clone(link),
            kind,
            prefix,
            copy,
            content: watch::Sender::new(Arc::new(content)),
            origin: Mutex::new(origin),
            saved: watch::Sender::new(0),
            report,
            relist: Notify::new(),
        };
        let (set, tasks, writing) = (Arc::new(set), Mutex::default(), Mutex::default());
        Arc::new(Self { set, folder, tasks, writing })
    }

    /// Begins to follow etcd.
    pub fn start(&self) {
        let mut tasks = lock(&self.tasks);
        if tasks.is_empty() {
            let link = &self.set.link;
            let set = Arc::clone(&self.set);
            let content = Content::default();
            let follower =
                follow::SetFollower { set, content, listed_at: 0, is_listed_anew: false };
            tasks.push(link.spawn(self.followed().follow(follower)));
            tasks.push(link.spawn(follow::save(Arc::clone(&self.set))));
        }
    }

    fn followed(&self) -> FollowedKeys {
        let revision = self.set.content.borrow().revision;
        let known =
            lock(&self.set.origin).clone().map(|CopyOrigin { cluster, adopted, .. }| Position {
                cluster,
                revision,
                adopted: Revision(adopted),
                ..Position::default()
            });
        let SharedSet { link, prefix, report, .. } = &*self.set;
        let history = History::new(&self.folder, known);
        FollowedKeys::new(link, vec![prefix.clone()], history, report)
    }

    /// The status; `None`: the set was not needed.
    pub fn status(&self) -> Option<DocumentsStatus> {
        if lock(&self.tasks).is_empty() {
            return None;
        }
        let content = Arc::clone(&self.set.content.borrow());
        let fault = self.set.report.fault().or_else(|| content.fault.clone());
        let unusable = content.unusable.iter();
        Some(DocumentsStatus {
            name: self.set.kind.name.to_owned(),
            documents: content.documents.len() as u64,
            fault,
            unusable: unusable.map(|(name, found)| format!("{name}: {}", found.why)).collect(),
        })
    }

    /// Waits until it is known whether documents can be written.
    fn writable(&self, until: Instant) -> Result<(), String> {
        self.start();
        let link = &self.set.link;
        let following = self.set.report.following(until, link.connection.endpoint());
        link.runtime.block_on(following)
    }

    /// Waits until all changes up to a revision of etcd are known.
    fn known_at(&self, revision: i64, until: Instant) -> bool {
        let mut content = self.set.content.subscribe();
        let known = content.wait_for(|content| content.revision >= revision);
        let known = self.set.link.runtime.block_on(async { timeout_at(until, known).await });
        known.is_ok()
    }

    /// Sends a write until it is answered. Whether it was written, and the revision of etcd.
    fn transact(&self, write: &Write, until: Instant) -> Result<(bool, i64), WriteError> {
        let connection = &self.set.link.connection;
        let mut unanswered: Option<String> = None;
        let sending = async {
            loop {
                let error = match connection.transact(write.txn.clone()).await {
                    Ok(answer) => return Ok(write.outcome(&answer, unanswered.is_some())),
                    Err(error) => error,
                };
                match error {
                    RequestError::Unanswered(why) => unanswered = Some(why),
                    RequestError::Unsent(_) if Instant::now() + LAST_TRY < until => (),
                    // etcd may report the full disk of a transaction that it has applied.
                    RequestError::NoSpace(why) => {
                        match connection.get(&*write.key, GetOptions::new()).await {
                            Ok(found) if write.is_in(found.kvs().first()) => {
                                let revision = found.header().map_or(0, |at| at.revision());
                                return Ok((true, revision));
                            }
                            Ok(_) => return Err(WriteError::NoSpace(why)),
                            Err(_) => unanswered = Some(why),
                        }
                    }
                    error if unanswered.is_none() => {
                        return Err(WriteError::NotSaved(error.why().to_owned()));
                    }
                    // An earlier attempt may have been written.
                    error => unanswered = Some(error.why().to_owned()),
                }
                sleep(REPEAT_PAUSE).await;
            }
        };
        let sent = self.set.link.runtime.block_on(async { timeout_at(until, sending).await });
        sent.unwrap_or_else(|_| {
            let why = unanswered.unwrap_or_else(|| "etcd does not answer".into());
            Err(WriteError::Unknown(format!(
                "outcome unknown: etcd may have it, and then all servers do: {why}; see what is \
                 there before you repeat it"
            )))
        })
    }
}

/// A write of one document.
struct Write {
    key: String,
    /// The value; `None`: the key is deleted.
    value: Option<Vec<u8>>,
    txn: Txn,
}

impl Write {
    /// Whether the key is as it would be after the write.
    fn is_in(&self, found: Option<&KeyValue>) -> bool {
        found.map(KeyValue::value) == self.value.as_deref()
    }

    /// Whether it was written, and the revision of etcd. `may_be_done`: an attempt before was not
    /// answered.
    fn outcome(&self, answer: &TxnResponse, may_be_done: bool) -> (bool, i64) {
        let revision = answer.header().map_or(0, |header| header.revision());
        let is_there = answer.op_responses().iter().any(|response| match response {
            TxnOpResponse::Get(got) => may_be_done && self.is_in(got.kvs().first()),
            _ => false,
        });
        (answer.succeeded() || is_there, revision)
    }
}

impl DocumentSet for EtcdDocuments {
    fn content(&self) -> watch::Receiver<Arc<Content>> {
        self.set.content.subscribe()
    }

    fn load(&self) -> Result<(), String> {
        self.start();
        let mut content = self.set.content.subscribe();
        let until = Instant::now() + FIRST_LIST_MAX;
        let known = content.wait_for(|content| content.fault.is_none());
        let known = self.set.link.runtime.block_on(async { timeout_at(until, known).await });
        match known {
            Ok(_) => Ok(()),
            Err(_) => {
                let fault = self.set.content.borrow().fault.clone();
                fault.map_or(Ok(()), Err)
            }
        }
    }

    fn prepare(&self) -> Result<(), String> {
        if !self.set.link.may_write {
            let why = "this server does not write, because [server] roles lacks `api`: write on a \
                       server that has it";
            return Err(why.into());
        }
        self.writable(Instant::now() + WRITE_MAX)
    }

    /// The task that follows etcd tries again by itself.
    fn reload(&self) -> Result<(), String> {
        Ok(())
    }

    fn write(&self, base: &Content, name: &str, value: Option<Value>) -> Result<(), WriteError> {
        let _one_at_a_time = lock(&self.writing);
        let until = Instant::now() + WRITE_MAX;
        self.writable(until).map_err(WriteError::NotSaved)?;
        let write = self.set.planned(base, name, value);
        let (is_written, revision) = self.transact(&write, until)?;
        // The watch brings it; it is listed if the watch is late, or another server was first.
        if !is_written || !self.known_at(revision, Instant::now() + ECHO_MAX) {
            self.set.relist.notify_one();
            let is_known = self.known_at(revision, Instant::now() + WRITE_MAX);
            if !is_written && !is_known {
                let why = "another server has just changed them, and etcd does not answer";
                return Err(WriteError::NotSaved(why.into()));
            }
        }
        if !is_written {
            return Err(WriteError::Conflict);
        }
        // A start without etcd must not bring back what was deleted. A full disk is reported by the
        // task that saves.
        let mut saved = self.set.saved.subscribe();
        let saved = saved.wait_for(|saved| *saved >= revision);
        let until = Instant::now() + SAVE_MAX;
        let _ = self.set.link.runtime.block_on(async { timeout_at(until, saved).await });
        Ok(())
    }
}

impl SharedSet {
    /// The transaction that writes a document if all documents are as in `base`.
    fn planned(&self, base: &Content, name: &str, value: Option<Value>) -> Write {
        let key = format!("{}{name}", self.prefix);
        let value = value.map(|mut value| {
            value.insert("format".into(), FORMAT.into());
            serde_json::Value::Object(value).to_string().into_bytes()
        });
        let is_unchanged =
            Compare::mod_revision(key.as_str(), CompareOp::Equal, base.revision_of(name));
        let are_unchanged =
            Compare::mod_revision(self.prefix.as_str(), CompareOp::Less, base.revision + 1)
                .with_prefix();
        let op = match &value {
            Some(value) => TxnOp::put(key.as_str(), value.as_slice(), None),
            None => TxnOp::delete(key.as_str(), None),
        };
        let found = TxnOp::get(key.as_str(), Some(GetOptions::new()));
        let txn = Txn::new().when([is_unchanged, are_unchanged]).and_then([op]).or_else([found]);
        Write { key, value, txn }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
