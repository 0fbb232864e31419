//! Permits to withdraw announced addresses: how many servers of a fleet may be without them.
//!
//! A server with addresses has a key under a lease of ten minutes, so that it counts for as long
//! after its end. One that is withdrawn has a permit under the same lease. A server reads all keys,
//! and takes a permit only if no other server has taken one since.
mod view;

use crate::limits::{PERMIT_INTERVAL, PERMIT_RENEW, PERMIT_TIME_MAX, PERMIT_TRIES, PRESENCE_TTL};
use anycast::{PermitRequest, PermitState, Permits};
use etcd_client::{Compare, CompareOp, GetOptions, TxnOp};
use etcd_link::{RequestError, put_under};
use keyspace::{EtcdLink, Task};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use view::{AnnouncedValue, FleetView, PermitValue};

/// This server's requests for permits. Dropping it ends them; a permit that it has stays until its
/// lease ends.
pub struct EtcdPermits {
    shared: Arc<Shared>,
    _task: Task,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    wanted: Wanted,
    answer: PermitState,
}

/// What the server wants.
#[derive(Clone, Default, PartialEq, Eq)]
enum Wanted {
    /// It has not said so yet.
    #[default]
    Unknown,
    Nothing,
    Permit(PermitRequest),
}

impl Wanted {
    /// Whether both are answered alike: the reason may have changed.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Permit(one), Self::Permit(other)) => one.is_forced == other.is_forced,
            (one, other) => one == other,
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers what was wanted, unless the server wants something else by now.
    fn answer(&self, wanted: &Wanted, answer: PermitState) {
        let mut state = self.state();
        if state.wanted.is_like(wanted) {
            state.answer = answer;
        }
    }
}

impl EtcdPermits {
    /// Begins to count this server among those with these addresses.
    pub fn start(link: &Arc<EtcdLink>, addresses: Vec<String>) -> Self {
        let shared = Arc::new(Shared::default());
        let (own_link, of_task) = (Arc::clone(link), Arc::clone(&shared));
        let (lease, has_permit) = (None, None);
        let task = PermitTask { link: own_link, shared: of_task, addresses, lease, has_permit };
        Self { shared, _task: link.spawn(task.run()) }
    }
}

impl Permits for EtcdPermits {
    fn request(&self, wanted: Option<PermitRequest>) {
        let wanted = wanted.map_or(Wanted::Nothing, Wanted::Permit);
        let mut state = self.shared.state();
        if state.wanted.is_like(&wanted) {
            return;
        }
        // A permit that it has is good for any reason.
        state.answer = match (&wanted, &state.answer) {
            (Wanted::Permit(_), PermitState::Granted) => PermitState::Granted,
            (Wanted::Permit(_), _) => PermitState::Waiting,
            _ => PermitState::Unneeded,
        };
        state.wanted = wanted;
        self.shared.changed.notify_one();
    }

    fn state(&self) -> PermitState {
        self.shared.state().answer.clone()
    }
}

/// The task.
struct PermitTask {
    link: Arc<EtcdLink>,
    shared: Arc<Shared>,
    addresses: Vec<String>,
    /// The lease of its keys, and when it was last renewed.
    lease: Option<(i64, Instant)>,
    /// `None`: an earlier process of this server may have left one.
    has_permit: Option<bool>,
}

impl PermitTask {
    async fn run(mut self) {
        loop {
            let wanted = self.shared.state().wanted.clone();
            let step = timeout(PERMIT_TIME_MAX, self.step(&wanted)).await;
            let answer = match step {
                Ok(Ok(answer)) => answer,
                // What it has, it has until the lease ends.
                _ if self.has_permit == Some(true) => PermitState::Granted,
                Ok(Err(error)) => unasked(error.why()),
                Err(_) => unasked("etcd does not answer"),
            };
            self.shared.answer(&wanted, answer);
            tokio::select! {
                () = self.shared.changed.notified() => (),
                () = sleep(PERMIT_INTERVAL) => (),
            }
        }
    }

    /// Does once what is wanted.
    async fn step(&mut self, wanted: &Wanted) -> Result<PermitState, RequestError> {
        let lease = self.stay_present().await?;
        match wanted {
            Wanted::Unknown => Ok(PermitState::Unneeded),
            Wanted::Nothing => {
                if self.has_permit != Some(false) {
                    let key = self.link.keys.permit(&self.link.server.0);
                    self.link.connection.write([], [TxnOp::delete(key, None)]).await?;
                    self.has_permit = Some(false);
                }
                Ok(PermitState::Unneeded)
            }
            Wanted::Permit(_) if self.has_permit == Some(true) => Ok(PermitState::Granted),
            Wanted::Permit(request) => self.take(request, lease).await,
        }
    }

    /// Has the key of this server under a lease, which it returns.
    async fn stay_present(&mut self) -> Result<i64, RequestError> {
        let connection = &self.link.connection;
        if let Some((lease, renewed)) = self.lease {
            if renewed.elapsed() < PERMIT_RENEW {
                return Ok(lease);
            }
            if connection.renew(lease).await? {
                self.lease = Some((lease, Instant::now()));
                return Ok(lease);
            }
            // With it, the permit is gone.
            (self.lease, self.has_permit) = (None, None);
        }
        let lease = connection.grant(PRESENCE_TTL).await?;
        let key = self.link.keys.announcing_server(&self.link.server.0);
        let value = AnnouncedValue { addresses: self.addresses.clone() }.to_bytes();
        connection.write([], [put_under(lease, key, value)]).await?;
        self.lease = Some((lease, Instant::now()));
        Ok(lease)
    }

    /// Takes a permit, if the others leave one.
    async fn take(
        &mut self,
        request: &PermitRequest,
        lease: i64,
    ) -> Result<PermitState, RequestError> {
        let (connection, keys, own) = (&self.link.connection, &self.link.keys, &self.link.server.0);
        let turn = keys.permit_turn();
        for _ in 0..PERMIT_TRIES {
            let got = connection.get(keys.announcing(), GetOptions::new().with_prefix()).await?;
            let options = GetOptions::new().with_prefix().with_keys_only();
            let members = connection.get(keys.members(), options).await?;
            let view = FleetView::read(keys, got.kvs(), members.kvs());
            if !request.is_forced
                && let Err(why) = view.check(own, &self.addresses)
            {
                return Ok(PermitState::Refused(why));
            }
            let last = got.kvs().iter().find(|kv| kv.key() == turn.as_bytes());
            let last = last.map_or(0, |kv| kv.mod_revision());
            let is_turn = Compare::mod_revision(turn.as_str(), CompareOp::Equal, last);
            let value = PermitValue { reason: request.reason.clone() }.to_bytes();
            let ops = [
                TxnOp::put(turn.as_str(), own.as_str(), None),
                put_under(lease, keys.permit(own), value),
            ];
            if connection.write([is_turn], ops).await? {
                self.has_permit = Some(true);
                return Ok(PermitState::Granted);
            }
        }
        Ok(PermitState::Refused("other servers take permits at the same time".into()))
    }
}

/// Without etcd it is not known how many others are withdrawn.
fn unasked(why: &str) -> PermitState {
    PermitState::Refused(format!("etcd, which has the permits of the fleet, gives none: {why}"))
}
