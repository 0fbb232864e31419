//! Commits to etcd.
use crate::commit_lock::lock_reason;
use crate::encoding::{self, CommitName, IS_SNAPSHOT};
use crate::limits::{COMMITS_STORED, LOCKED_PAUSE, PART_BYTES_MAX, RETRIES_MAX, TRIM_INTERVAL};
use crate::plan;
use crate::shared::Shared;
use crate::staged::{self, Move};
use etcd_client::{Compare, CompareOp, DeleteOptions, Txn, TxnOp, TxnOpResponse};
use etcd_link::{RequestError, has_value, is_absent, values};
use keyspace::EtcdLink;
use keyspace::keys::{Head, check_format};
use keyspace::limits::{LAST_TRY, WRITE_MAX};
use records::{CommitId, PreparedWrite, Revision};
use tokio::time::{Instant, sleep};

/// How a commit ended.
pub enum Committed {
    Done,
    /// Another writer was first. A staged commit takes longer than most, and loses more often.
    Conflict {
        newest: Revision,
        was_staged: bool,
    },
}

/// A commit, and what etcd must have for it.
struct Attempt<'a> {
    shared: &'a Shared,
    name: CommitName,
    /// The value of the commit's key.
    value: Vec<u8>,
    /// Its changes of keys, except those that are staged.
    changes: Vec<TxnOp>,
    /// The number of staged parts, as in a commit.
    parts: u32,
    /// When it is given up if another server has the lock.
    until: Instant,
    /// Whether this server has the lock.
    has_lock: bool,
}

/// What stands in the way of a commit.
enum Obstacle {
    /// A move in progress, which has to be finished.
    Move(Move),
    /// A server that locks out the commits of others, and what to do.
    Lock(String),
    /// Nothing any more, or another commit.
    None,
}

/// Commits all writes, which have their offsets, or none, if the newest revision is that of `head`.
/// `name` is that of the commit, and `content` its encoded writes. Until when it may take,
/// and whether this server has the [lock](crate::commit_lock), is passed, too.
///
/// # Errors
/// [`RequestError::Unanswered`]: it may be committed, now or later. Otherwise it is not.
pub async fn commit(
    shared: &Shared,
    (name, content): (CommitName, &[u8]),
    writes: &[PreparedWrite],
    mut head: Head,
    (until, has_lock): (std::time::Instant, bool),
) -> Result<Committed, RequestError> {
    let until = Instant::from_std(until) - LAST_TRY;
    let mut steps = plan::changes(&shared.link.keys, writes);
    let is_small = steps.len() == 1 && content.len() + steps[0].bytes() < PART_BYTES_MAX;
    let attempt = if is_small {
        let value = encoding::commit(&name, 0, content);
        let changes = steps.pop().map(|step| step.ops()).unwrap_or_default();
        Attempt { shared, name, value, changes, parts: 0, until, has_lock }
    } else {
        Attempt { until, has_lock, ..Attempt::staged(shared, name, content, 0).await? }
    };
    attempt.finish(&mut head).await
}

/// Replaces everything by a snapshot, if the newest revision is that of `head`. Its revision
/// becomes the newest one. `also` is part of the same transaction.
///
/// # Errors
/// As [`commit`].
pub async fn replace(
    shared: &Shared,
    name: CommitName,
    mut head: Head,
    snapshot: &[u8],
    also: Vec<TxnOp>,
) -> Result<Committed, RequestError> {
    let staged = Attempt::staged(shared, name, snapshot, IS_SNAPSHOT).await?;
    let attempt = Attempt { changes: also, has_lock: true, ..staged };
    attempt.finish(&mut head).await
}

fn unstaged(error: RequestError) -> RequestError {
    match error {
        RequestError::Unanswered(why) => RequestError::Refused(why),
        error => error,
    }
}

impl<'a> Attempt<'a> {
    /// Stages a commit: its name, and its content.
    async fn staged(
        shared: &'a Shared,
        name: CommitName,
        content: &[u8],
        flags: u32,
    ) -> Result<Self, RequestError> {
        let parts: Vec<&[u8]> = content.chunks(PART_BYTES_MAX).collect();
        // Nothing is committed before its parts are there, so an error means that it is not.
        let staging = staged::stage(&shared.link, name.id, &parts);
        staging.await.map_err(unstaged)?;
        let parts = parts.len() as u32 | flags;
        let value = encoding::commit(&name, parts, &[]);
        let changes = Vec::new();
        let until = Instant::now() + WRITE_MAX;
        Ok(Self { shared, name, value, changes, parts, until, has_lock: false })
    }

    async fn finish(&self, head: &mut Head) -> Result<Committed, RequestError> {
        let done = self.run(head).await;
        if self.parts > 0 {
            self.clean_up(&done).await;
        }
        done
    }

    async fn run(&self, head: &mut Head) -> Result<Committed, RequestError> {
        let mut tries = 0;
        while tries < RETRIES_MAX {
            if head.revision != self.name.base {
                let was_staged = self.parts > 0;
                return Ok(Committed::Conflict { newest: head.revision, was_staged });
            }
            match self.transact(head).await? {
                None => return Ok(Committed::Done),
                Some(Obstacle::Move(moving)) => {
                    staged::finish(&self.shared.link, moving).await.map_err(unstaged)?;
                }
                Some(Obstacle::Lock(why)) if Instant::now() >= self.until => {
                    return Err(RequestError::Refused(why));
                }
                Some(Obstacle::Lock(_)) => sleep(LOCKED_PAUSE.mul_f64(0.5 + fastrand::f64())).await,
                Some(Obstacle::None) => tries += 1,
            }
        }
        Err(RequestError::Refused("other servers write continuously: try again".into()))
    }

    /// The value of the key `revision` after it.
    fn new_head(&self) -> String {
        Head::new(self.name.newest, self.name.id).value.unwrap_or_default()
    }

    /// The value of the key `format`.
    fn format(&self) -> String {
        self.shared.form().of_keys().to_string()
    }

    /// Whether it replaces everything. Then it has read the format, and writes it.
    fn is_replacement(&self) -> bool {
        self.parts & IS_SNAPSHOT != 0
    }

    /// What etcd must have for it.
    fn compares(&self, head: &Head) -> Vec<Compare> {
        let keys = &self.shared.link.keys;
        let mut compares = vec![is_head(&keys.revision(), head), is_absent(keys.moving())];
        if !self.has_lock {
            compares.push(is_absent(keys.hold()));
        }
        match self.name.base {
            _ if self.is_replacement() => (),
            Revision::NONE => compares.push(is_absent(keys.format())),
            _ => compares.push(has_value(keys.format(), Some(self.format()))),
        }
        if self.parts > 0 {
            let header = keys.staged_header(self.name.id);
            compares.push(Compare::version(header, CompareOp::Greater, 0));
        }
        compares
    }

    fn ops(&self) -> Vec<TxnOp> {
        let keys = &self.shared.link.keys;
        let CommitName { id, base, newest, .. } = self.name;
        let mut ops = self.changes.clone();
        ops.push(TxnOp::put(keys.revision(), self.new_head(), None));
        ops.push(TxnOp::put(keys.commit(newest), self.value.clone(), None));
        if base == Revision::NONE || self.is_replacement() {
            ops.push(TxnOp::put(keys.format(), self.format(), None));
        }
        if newest.0 / TRIM_INTERVAL != base.0 / TRIM_INTERVAL {
            let end = keys.commit(Revision(newest.0.saturating_sub(COMMITS_STORED)));
            let old = DeleteOptions::new().with_range(end);
            ops.push(TxnOp::delete(keys.commits(), Some(old)));
        }
        if self.parts > 0 {
            ops.push(TxnOp::put(keys.moving(), Move::new(id, self.parts).value(), None));
        }
        ops
    }

    /// Tries once. If it is not done, sets `head` to what etcd has, and returns what stands in the
    /// way.
    async fn transact(&self, head: &mut Head) -> Result<Option<Obstacle>, RequestError> {
        let (connection, keys) = (&self.shared.link.connection, &self.shared.link.keys);
        let asked = [keys.revision(), keys.moving(), keys.hold(), keys.format()];
        let otherwise = asked.map(|key| TxnOp::get(key, None));
        let txn = Txn::new().when(self.compares(head)).and_then(self.ops()).or_else(otherwise);
        let answer = match connection.transact(txn).await {
            // etcd may report the full disk of a transaction that it has applied.
            Err(RequestError::NoSpace(why)) => {
                let found = connection.value(&keys.revision()).await;
                let found = found.map_err(|_| RequestError::Unanswered(why.clone()))?;
                let is_done = found.as_deref() == Some(self.new_head().as_bytes());
                return if is_done { Ok(None) } else { Err(RequestError::NoSpace(why)) };
            }
            answer => answer?,
        };
        if answer.succeeded() {
            return Ok(None);
        }
        let [found, moving, _, format] = values(&answer);
        let lock = match answer.op_responses().get(2) {
            Some(TxnOpResponse::Get(got)) if !self.has_lock => {
                got.kvs().first().map(|kv| lock_reason(keys, kv))
            }
            _ => None,
        };
        // The form may have been raised since.
        self.shared.has_form(check_format(format.as_deref()).map_err(RequestError::Unusable)?);
        let is_same = found.as_deref() == head.value.as_ref().map(String::as_bytes);
        if is_same && moving.is_none() && lock.is_none() {
            self.check_refusal(format.is_some())?;
        }
        *head = keys.read_head(found.as_deref())?;
        Ok(Some(match moving.as_deref().and_then(Move::read) {
            Some(moving) => Obstacle::Move(moving),
            None => lock.map_or(Obstacle::None, Obstacle::Lock),
        }))
    }

    /// Nothing stands in the way but what only an operator, or the sweep, does.
    fn check_refusal(&self, has_format: bool) -> Result<(), RequestError> {
        let keys = &self.shared.link.keys;
        if !self.is_replacement() && has_format != (self.name.base != Revision::NONE) {
            let (format, revision) = (keys.format(), keys.revision());
            return Err(RequestError::Unusable(format!(
                "etcd has one of the keys {format} and {revision} without the other: an operator \
                 has deleted that. If etcd is right, run `dunlin fleet adopt`"
            )));
        }
        if self.parts > 0 {
            return Err(RequestError::Refused("the staged batch was swept meanwhile".into()));
        }
        Ok(())
    }

    /// Moves the sets of a staged batch that is committed, or deletes it. An error is left to the
    /// next writer, or to the sweep.
    async fn clean_up(&self, done: &Result<Committed, RequestError>) {
        let (link, id) = (&self.shared.link, self.name.id);
        let cleaned = match done {
            Ok(Committed::Done) => staged::finish(link, Move::new(id, self.parts)).await,
            // It may be committed yet.
            Err(RequestError::Unanswered(_)) => Ok(()),
            _ => staged::discard(link, id).await,
        };
        if let Err(why) = cleaned {
            tracing::debug!("a staged batch is left to the sweep: {}", why.why());
        }
    }
}

/// Whether the key `revision` still has this value.
fn is_head(key: &str, head: &Head) -> Compare {
    has_value(key, head.value.as_deref())
}

/// The newest revision in etcd now.
pub async fn head(link: &EtcdLink) -> Result<Head, RequestError> {
    let found = link.connection.value(&link.keys.revision()).await?;
    link.keys.read_head(found.as_deref())
}

/// The revision after a commit whose outcome is unknown; `None`: it was not committed, and never
/// will be.
pub async fn outcome(
    shared: &Shared,
    CommitName { id, base, newest, .. }: CommitName,
) -> Result<Option<Revision>, RequestError> {
    let keys = &shared.link.keys;
    let key = keys.revision();
    let connection = &shared.link.connection;
    for _ in 0..RETRIES_MAX {
        let head = head(&shared.link).await?;
        if head.revision != base {
            let commit = connection.value(&keys.commit(newest)).await?;
            let commit = commit.as_deref().map(encoding::read_commit);
            return match commit {
                Some(Ok(commit)) => Ok((commit.id == id).then_some(newest)),
                // Deleted with old ones.
                _ if head.revision.0 > newest.0 + COMMITS_STORED => {
                    Err(RequestError::Unanswered("etcd no longer has the commit".into()))
                }
                _ => Ok(None),
            };
        }
        // A request that is still on its way must not succeed after this answer: another value of
        // the same revision prevents it.
        let fence = Head::new(base, CommitId(fastrand::u128(..))).value.unwrap_or_default();
        let put = TxnOp::put(key.as_str(), fence, None);
        if connection.write([is_head(&key, &head)], [put]).await? {
            return Ok(None);
        }
    }
    Err(RequestError::Unanswered("other servers write all the time".into()))
}
