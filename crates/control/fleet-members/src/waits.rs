//! Clients of this server that wait until all members serve a revision.
use crate::limits::WAIT_LINGER;
use crate::members::EtcdFleet;
use etcd_client::TxnOp;
use etcd_link::{Mirror, RequestError, put_under};
use keyspace::keys::read_member;
use records::Promise;
use records::{Refused, Revision};
use server_status::Member;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep, sleep_until};

/// How long to wait before etcd is asked again.
const RETRY: Duration = Duration::from_millis(200);

/// A client that waits.
pub struct Waiter {
    pub revision: Revision,
    /// When it gets an error.
    pub until: Instant,
    pub promise: Promise<(), Refused>,
}

/// Answers clients until no more can come.
pub async fn run(fleet: Arc<EtcdFleet>, mut requests: Receiver<Waiter>) {
    let mut waiting = Vec::new();
    while let Some(waiter) = requests.recv().await {
        waiting.push(waiter);
        while !waiting.is_empty() {
            let Err(why) = serve(&fleet, &mut requests, &mut waiting).await else { continue };
            let now = Instant::now();
            // A server that has no part in the fleet does not learn it later.
            let is_over = fleet.has_fault();
            for Waiter { revision, promise, .. } in
                waiting.extract_if(.., |waiter| is_over || waiter.until <= now)
            {
                let text = format!(
                    "written as revision {revision}, but it is not known whether all servers serve \
                     it: {why}"
                );
                promise.answer(Err(Refused::Lagging(text.into())));
            }
            sleep(RETRY).await;
        }
    }
}

/// Answers clients; returns a while after the last one.
///
/// # Errors
/// Why clients are left.
async fn serve(
    fleet: &EtcdFleet,
    requests: &mut Receiver<Waiter>,
    waiting: &mut Vec<Waiter>,
) -> Result<(), String> {
    let failed = |error: RequestError| error.why().to_owned();
    let (connection, keys) = (&fleet.link.connection, &fleet.link.keys);
    let (lease, key) = (fleet.lease()?, keys.wait(fleet.name()));
    let members = Mirror::start(connection, keys.members(), read_member);
    let mut members = members.await.map_err(failed)?;
    let mut announced = Revision::NONE;
    let mut idle_at = None;
    loop {
        answer(fleet, &members.values, waiting);
        let wanted = waiting.iter().map(|waiter| waiter.revision).max();
        if let Some(wanted) = wanted.filter(|wanted| *wanted > announced) {
            let put = put_under(lease, key.as_str(), wanted.to_string());
            connection.write([], [put]).await.map_err(failed)?;
            announced = wanted;
        }
        let next = match waiting.iter().map(|waiter| waiter.until).min() {
            Some(until) => {
                idle_at = None;
                until
            }
            None => *idle_at.get_or_insert_with(|| Instant::now() + WAIT_LINGER),
        };
        if idle_at.is_some_and(|at| at <= Instant::now()) {
            let delete = TxnOp::delete(key.as_str(), None);
            // Otherwise the others report more often until this server leaves.
            let _ = connection.write([], [delete]).await;
            return Ok(());
        }
        tokio::select! {
            waiter = requests.recv() => match waiter {
                Some(waiter) => waiting.push(waiter),
                // The server ends: promises that are dropped say so.
                None => {
                    waiting.clear();
                    return Ok(());
                }
            },
            changed = members.change() => changed.map_err(failed)?,
            () = sleep_until(next) => (),
        }
    }
}

/// Answers the clients whose revision all members serve, and those who waited too long.
fn answer(fleet: &EtcdFleet, members: &BTreeMap<Vec<u8>, Member>, waiting: &mut Vec<Waiter>) {
    let own = fleet.served.borrow().unwrap_or_default();
    let serves = |member: &Member| match member.name == fleet.name() {
        true => own,
        false => Revision(member.revision),
    };
    let least = members.values().map(serves).min().unwrap_or(own);
    let now = Instant::now();
    let done = |waiter: &mut Waiter| waiter.revision <= least || waiter.until <= now;
    for Waiter { revision, promise, .. } in waiting.extract_if(.., done) {
        if revision <= least {
            promise.answer(Ok(()));
            continue;
        }
        let late = members.values().filter(|member| serves(member) < revision);
        let late: Vec<&str> = late.map(|member| member.name.as_str()).collect();
        promise.answer(Err(Refused::Lagging(
            format!(
                "written as revision {revision}, but these servers do not serve it yet: {}; \
                 `dunlin fleet` shows how far they are",
                late.join(", ")
            )
            .into(),
        )));
    }
}
