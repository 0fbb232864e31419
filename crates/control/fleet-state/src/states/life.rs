//! Signs of life of servers that probe: each writes its key as a member again, with the same value,
//! as often as its fastest check probes. Before others take it for silent, they ask etcd.
use super::Exchange;
use crate::limits::LIFE_INTERVAL;
use etcd_client::{PutOptions, Txn, TxnOp, TxnOpResponse};
use etcd_link::RequestError;
use etcd_link::limits::OPS_MAX;
use health::FleetStates;
use tokio::time::Instant;

/// When signs of life are due.
pub struct Life {
    look_at: Instant,
    shown: Instant,
    /// When the others were looked at last.
    looked: Instant,
}

impl Default for Life {
    fn default() -> Self {
        let now = Instant::now();
        Self { look_at: now, shown: now, looked: now }
    }
}

impl Life {
    /// At the next look, or once another server is late: that is not left to the next look.
    pub fn due_at(&self, states: &FleetStates) -> Instant {
        states.late_after(self.looked).map_or(self.look_at, |late| self.look_at.min(late))
    }
}

impl Exchange {
    /// Shows that this server lives, and asks for those that have not shown it in time.
    pub(super) async fn show_life(&mut self) -> Result<(), RequestError> {
        let now = Instant::now();
        let timing = self.shared.states.timing();
        let period = timing.as_ref().map_or(LIFE_INTERVAL, |timing| timing.period);
        (self.life.looked, self.life.look_at) = (now, now + period.min(LIFE_INTERVAL));
        let Some(epoch) = self.epoch.filter(|_| timing.is_some()) else {
            return self.ask_for_late().await;
        };
        if now < self.life.shown + period {
            self.life.look_at = self.life.look_at.min(self.life.shown + period);
        } else {
            self.life.shown = now;
            let key = self.link.keys.member(self.shared.states.name());
            let as_it_is = PutOptions::new().with_ignore_value().with_ignore_lease();
            let put = TxnOp::put(key, "", Some(as_it_is));
            self.link.connection.write([self.is_member(epoch)], [put]).await?;
        }
        self.ask_for_late().await
    }

    /// Reads the keys of servers that may be silent. etcd answers only if it could have taken a
    /// sign of life.
    async fn ask_for_late(&mut self) -> Result<(), RequestError> {
        let (link, shared) = (&self.link, &self.shared);
        let Some(late) = shared.states.late() else { return Ok(()) };
        let asked = Instant::now();
        let keys = late.iter().take(OPS_MAX - 1).map(|name| link.keys.member(name));
        let gets = keys.chain([link.keys.format()]).map(|key| TxnOp::get(key, None));
        let answer =
            link.connection.transact(Txn::new().and_then(gets.collect::<Vec<_>>())).await?;
        let prefix = link.keys.members();
        for response in answer.op_responses() {
            let TxnOpResponse::Get(got) = response else { continue };
            for kv in got.kvs().iter().filter(|kv| kv.key().starts_with(prefix.as_bytes())) {
                shared.take_member(&mut self.members, &prefix, kv, true);
            }
        }
        shared.states.reach(asked);
        self.set_vantages();
        Ok(())
    }
}
