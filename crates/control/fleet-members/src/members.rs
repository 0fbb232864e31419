//! This server as a member of the fleet: a key under a lease, with the revision that it serves.
mod interface;

use crate::digests::{self, Comparison};
use crate::limits::{
    LEAVE_MAX, MEMBER_TTL, REFRESH_INTERVAL, REPORT_INTERVAL, REPORT_SHARE, WAITERS_MAX,
};
use crate::waits::{self, Waiter};
use etcd_client::{Compare, CompareOp, GetOptions, KeyValue, TxnOp};
use etcd_link::{Mirror, RequestError, is_absent, put_under};
use keyspace::keys::read_member;
use keyspace::limits::RENEW_INTERVAL;
use keyspace::{EtcdLink, LinkReport};
use records::{Form, Revision, ZoneDigests};
use server_status::{FleetStatus, Member};
use std::convert::Infallible;
use std::future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// How often to look whether etcd is followed.
const FOLLOW_POLL: Duration = Duration::from_millis(50);

/// How long to wait before a membership is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The fleet, as this server sees it.
pub struct EtcdFleet {
    pub(crate) link: Arc<EtcdLink>,
    /// Whether records are followed.
    report: Arc<LinkReport>,
    /// What this server says of itself.
    member: Member,
    add_copy: AddCopyStatus,
    /// The newest revision that it serves; `None`: none yet.
    pub served: watch::Sender<Option<Revision>>,
    status: Mutex<MemberStatus>,
    digests: ZoneDigests,
    /// Sends clients to the task that answers them; `None` before it joins, and after the end.
    waits: Mutex<Option<mpsc::Sender<Waiter>>>,
}

#[derive(Default)]
struct MemberStatus {
    /// The lease of this server's key; `None`: it is not a member.
    lease: Option<i64>,
    fault: Option<String>,
    /// Which other members have other content, and what to do.
    difference: Option<String>,
    /// Since when it is not a member.
    outside: Option<Instant>,
    /// Since when the name is another server's.
    taken: Option<Instant>,
}

/// Adds the state of the copy of the records to the status.
pub type AddCopyStatus = Box<dyn Fn(&mut FleetStatus) + Send + Sync>;

/// Keeps a server a member. Dropping it ends the membership.
pub struct Membership {
    link: Arc<EtcdLink>,
    end: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

/// Why a membership ended.
enum Ended {
    Request(RequestError),
    /// Another server has the name.
    Taken(Member),
    Expired,
}

impl From<RequestError> for Ended {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

/// Milliseconds since 1970.
fn now() -> u64 {
    store::codec::milliseconds(SystemTime::now())
}

impl EtcdFleet {
    /// The fleet of a server, which has not joined it yet.
    pub fn new(
        link: Arc<EtcdLink>,
        report: Arc<LinkReport>,
        member: Member,
        add_copy: AddCopyStatus,
    ) -> Arc<Self> {
        let (status, waits) = (Mutex::default(), Mutex::default());
        let (served, digests) = (watch::Sender::new(None), ZoneDigests::default());
        Arc::new(Self { link, report, member, add_copy, served, status, digests, waits })
    }

    fn waits(&self) -> MutexGuard<'_, Option<mpsc::Sender<Waiter>>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, MemberStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lease of this server's key.
    ///
    /// # Errors
    /// It is not a member, and why.
    pub fn lease(&self) -> Result<i64, String> {
        let state = self.state();
        let why = || state.fault.clone().unwrap_or_else(|| "it is joining".into());
        state.lease.ok_or_else(|| format!("this server is not a member of the fleet: {}", why()))
    }

    /// Whether it has been no member for a while.
    pub fn has_fault(&self) -> bool {
        self.state().fault.is_some()
    }

    pub(crate) fn name(&self) -> &str {
        &self.member.name
    }

    /// Joins the fleet once this server serves something.
    pub fn join(self: &Arc<Self>) -> Membership {
        let (end, ended) = oneshot::channel();
        let (fleet, link) = (Arc::clone(self), Arc::clone(&self.link));
        let (waits, requests) = mpsc::channel(WAITERS_MAX);
        *self.waits() = Some(waits);
        link.runtime.spawn(waits::run(Arc::clone(self), requests));
        let task = link.runtime.spawn(async move { fleet.run(ended).await });
        Membership { link, end: Some(end), task: Some(task) }
    }

    async fn run(self: Arc<Self>, mut end: oneshot::Receiver<()>) {
        let mut served = self.served.subscribe();
        loop {
            let ended = tokio::select! {
                _ = &mut end => break,
                Err(ended) = self.be_member(&mut served) => ended,
            };
            self.note(ended);
            tokio::select! {
                _ = &mut end => break,
                () = sleep(RETRY) => (),
            }
        }
        self.waits().take();
        let lease = self.state().lease.take();
        if let Some(lease) = lease {
            // Otherwise the lease expires.
            let _ = timeout(LEAVE_MAX, self.link.connection.revoke(lease)).await;
        }
    }

    /// Notes why the membership ended.
    fn note(&self, ended: Ended) {
        let mut state = self.state();
        // It expires, or has expired.
        state.lease = None;
        let outside = *state.outside.get_or_insert_with(Instant::now);
        // The key of a server that was killed, or of this one before etcd was away, stays a while,
        // and etcd may be busy.
        let since = match &ended {
            Ended::Taken(_) => *state.taken.get_or_insert_with(Instant::now),
            _ => {
                state.taken = None;
                outside
            }
        };
        if since.elapsed() < MEMBER_TTL + RENEW_INTERVAL {
            return;
        }
        let fault = match ended {
            Ended::Request(error) => error.why().to_owned(),
            Ended::Expired => "etcd has dropped it again and again".to_owned(),
            Ended::Taken(other) => {
                let at = match &other.addresses[..] {
                    [] => String::new(),
                    all => format!(", on {},", all.join(" ")),
                };
                let name = other.name;
                format!("another server{at} has the name {name:?}: give each its own [server] name")
            }
        };
        if state.fault.as_ref() != Some(&fault) {
            tracing::error!("this server is not a member of the fleet: {fault}");
        }
        state.fault = Some(fault);
    }

    /// Is a member until something ends it.
    async fn be_member(
        &self,
        served: &mut watch::Receiver<Option<Revision>>,
    ) -> Result<Infallible, Ended> {
        let connection = &self.link.connection;
        // The sender is in `self`.
        let _ = served.wait_for(Option::is_some).await;
        // An etcd that this server does not follow is left alone; the status of the store says why.
        while !self.report.is_following() {
            sleep(FOLLOW_POLL).await;
        }
        let lease = connection.grant(MEMBER_TTL).await?;
        // Before others see the key.
        self.link.server.1.set(lease);
        let since = now();
        if let Err(ended) = self.create(lease, since).await {
            let _ = connection.revoke(lease).await;
            return Err(ended);
        }
        {
            let mut state = self.state();
            (state.lease, state.outside, state.taken) = (Some(lease), None, None);
            if state.fault.take().is_some() {
                tracing::info!("this server is a member of the fleet again");
            }
        }
        let Err(ended) = self.report_while(lease, since, served).await;
        let _ = timeout(LEAVE_MAX, connection.revoke(lease)).await;
        Err(ended)
    }

    /// Whether this server has what etcd has, or will have it: no operator is asked which is right.
    fn is_bound(&self) -> bool {
        self.report.fault().is_none()
    }

    /// The key of a member that serves this revision.
    fn put(&self, lease: i64, since: u64, revision: Revision) -> TxnOp {
        // What an operator is to decide about is not damage of a copy.
        let digest = self.digests.at(revision).filter(|_| self.is_bound());
        let digest = digests::text(digest);
        let (form, reported, member) = (Form::NEWEST.0, now(), self.member.clone());
        let own = Member { revision: revision.0, digest, since, reported, form, ..member };
        let value = serde_json::to_vec(&own).expect("a member is JSON");
        put_under(lease, self.link.keys.member(self.name()), value)
    }

    async fn create(&self, lease: i64, since: u64) -> Result<(), Ended> {
        let key = self.link.keys.member(self.name());
        let revision = self.served.borrow().unwrap_or_default();
        let put = self.put(lease, since, revision);
        if self.link.connection.write([is_absent(key.as_str())], [put]).await? {
            return self.compare_clocks().await;
        }
        let connection = &self.link.connection;
        let found = connection.find(key.as_str(), 0).await?;
        if let Some(kv) = found.as_ref().filter(|kv| kv.lease() == 0) {
            // No server stands behind it.
            let is_same = Compare::mod_revision(key, CompareOp::Equal, kv.mod_revision());
            let gone = TxnOp::delete(self.link.keys.member(self.name()), None);
            connection.write([is_same], [gone]).await?;
            return Err(Ended::Expired);
        }
        let other = found.as_ref().and_then(read_member);
        Err(Ended::Taken(other.unwrap_or_else(|| self.member.clone())))
    }

    /// Notes which members have other content.
    fn note_difference(&self, difference: Option<String>) {
        let mut state = self.state();
        if state.difference == difference {
            return;
        }
        match &difference {
            Some(why) => tracing::error!("{why}"),
            None => tracing::info!("this server has the same content as all others again"),
        }
        state.difference = difference;
    }

    /// Warns of members whose clocks differ: journals and signatures have times.
    async fn compare_clocks(&self) -> Result<(), Ended> {
        for other in read_members(&self.link, self.link.keys.members()).await? {
            if let Some(seconds) = other.clock_difference(now()) {
                let name = &other.name;
                tracing::warn!(
                    seconds,
                    "the clocks of {name} and this server differ: synchronize them, for example by \
                     chrony"
                );
            }
        }
        Ok(())
    }

    async fn report_while(
        &self,
        lease: i64,
        since: u64,
        served: &mut watch::Receiver<Option<Revision>>,
    ) -> Result<Infallible, Ended> {
        let connection = &self.link.connection;
        let mut wanted = Wanted::default();
        wanted.watch(&self.link).await;
        let mut comparison = Comparison::default();
        comparison.watch(&self.link).await;
        // What is served may have changed since `create`.
        let (mut reported, mut was_bound) = (None, true);
        let mut state = self.report.subscribe();
        let mut pause = REPORT_INTERVAL;
        let (mut report_at, mut renewed) = (Instant::now(), Instant::now());
        let mut renew_at = renewed + RENEW_INTERVAL;
        let mut refresh_at = Instant::now();
        loop {
            let newest = *served.borrow_and_update();
            let now = Instant::now();
            state.mark_unchanged();
            let is_bound = self.is_bound();
            let is_news = is_bound != was_bound
                || newest > reported && (now >= report_at || wanted.is_met(reported, newest));
            if is_news || now >= refresh_at {
                if now >= refresh_at {
                    refresh_at = now + REFRESH_INTERVAL;
                    pause = self.interval().await?;
                }
                if self.report(lease, since, newest.unwrap_or_default()).await? {
                    (reported, was_bound) = (newest, is_bound);
                }
                report_at = Instant::now() + pause;
            }
            let compared = match is_bound {
                true => comparison.compare(&self.link, &self.digests, lease).await,
                false => None,
            };
            self.note_difference(compared);
            if now >= renew_at {
                match connection.renew(lease).await {
                    Ok(false) => return Err(Ended::Expired),
                    Ok(true) => renewed = now,
                    Err(error) if renewed.elapsed() > MEMBER_TTL => return Err(error.into()),
                    // The next member of etcd is asked soon.
                    Err(_) => (),
                }
                renew_at = now + if renewed == now { RENEW_INTERVAL } else { RETRY / 4 };
                wanted.watch(&self.link).await;
                comparison.watch(&self.link).await;
            }
            let report_at = if newest > reported { report_at } else { refresh_at };
            tokio::select! {
                // The sender is in `self`.
                _ = served.changed() => (),
                _ = state.changed() => (),
                () = wanted.change() => (),
                () = comparison.change() => (),
                () = sleep_until(report_at.min(renew_at)) => (),
            }
        }
    }

    /// The time between reports in a fleet of this size.
    async fn interval(&self) -> Result<Duration, RequestError> {
        let options = GetOptions::new().with_prefix().with_count_only();
        let got = self.link.connection.get(self.link.keys.members(), options).await?;
        let members = u32::try_from(got.count()).unwrap_or(u32::MAX);
        Ok(REPORT_INTERVAL.max(REPORT_SHARE.saturating_mul(members)))
    }

    /// Returns whether it is known to be reported.
    async fn report(&self, lease: i64, since: u64, revision: Revision) -> Result<bool, Ended> {
        let key = self.link.keys.member(self.name());
        let is_own = Compare::lease(key, CompareOp::Equal, lease);
        let put = self.put(lease, since, revision);
        match self.link.connection.write([is_own], [put]).await {
            Ok(true) => Ok(true),
            Ok(false) => Err(Ended::Expired),
            // A lost lease is noticed at its renewal.
            Err(RequestError::Unanswered(_) | RequestError::Unsent(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// The revisions that clients of all members wait for; `None`: not watched, because that failed.
#[derive(Default)]
struct Wanted(Option<Mirror<Revision>>);

impl Wanted {
    /// Whether a client waits for a revision that was not reported and is served.
    fn is_met(&self, reported: Option<Revision>, served: Option<Revision>) -> bool {
        let is_met = |wanted: &Revision| reported < Some(*wanted) && Some(*wanted) <= served;
        self.0.as_ref().is_some_and(|mirror| mirror.values.values().any(is_met))
    }

    /// Watches the keys, if they are not watched.
    async fn watch(&mut self, link: &EtcdLink) {
        if self.0.is_none() {
            self.0 = Mirror::start(&link.connection, link.keys.waits(), read_wait).await.ok();
        }
    }

    /// Returns after a change.
    async fn change(&mut self) {
        let Some(mirror) = &mut self.0 else { return future::pending().await };
        if mirror.change().await.is_err() {
            self.0 = None;
        }
    }
}

/// Reads all members. Values that are none are left out.
async fn read_members(link: &EtcdLink, prefix: String) -> Result<Vec<Member>, RequestError> {
    let got = link.connection.get(prefix, GetOptions::new().with_prefix()).await?;
    Ok(got.kvs().iter().filter_map(read_member).collect())
}

/// The key of a server whose client waits: a revision in decimal.
fn read_wait(kv: &KeyValue) -> Option<Revision> {
    str::from_utf8(kv.value()).ok()?.parse().ok().map(Revision)
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.end.take();
        if let Some(task) = self.task.take() {
            let ended = async { timeout(2 * LEAVE_MAX, task).await };
            // An error means that it has ended.
            let _ = self.link.runtime.block_on(ended);
        }
    }
}
