//! The origin of a map, such as the ID of a cluster: a key beside that of the election, without a
//! lease. The first writer writes it, and one of another origin is refused.
use super::Leadership;
use super::follow::MapFollower;
use super::retire::Retirement;
use documents::Leader;
use etcd_client::{Compare, TxnOp};
use etcd_link::{RequestError, has_value};

impl Leadership {
    pub(super) fn origin_key(&self) -> String {
        self.link.keys.origin(&self.name)
    }

    /// The condition that etcd still has the origin that this server has read.
    pub(super) fn has_same_origin(&self) -> Compare {
        has_value(self.origin_key(), self.found_origin.as_deref())
    }

    /// Why this server must not write; `None`: it may.
    pub(super) fn refusal(&self) -> Option<String> {
        if let Some(Retirement { server, .. }) = &self.retired {
            return Some(format!(
                "{} was retired on {server}, by `dunlin fleet retire`: this server writes none of \
                 its objects, and answers none of its names. If it is back for good, delete the \
                 key {} in etcd",
                self.name,
                self.link.keys.retired(&self.name)
            ));
        }
        let (found, own) = (self.found_origin.as_ref()?, self.own_origin.borrow().clone()?);
        (*found != own).then(|| {
            format!(
                "the {} of the fleet come from {found}, and those that this server knows from \
                 {own}: it writes none, and serves those of the fleet. If {found} is no more, stop \
                 what still writes for it, and delete the key {} in etcd",
                self.name,
                self.origin_key()
            )
        })
    }

    /// Resigns, and follows the map instead of writing it.
    pub(super) async fn refuse(&mut self, why: String) -> Result<(), RequestError> {
        let own = self.elected.as_ref().filter(|elected| self.link.server.1.is(elected.lease));
        if let Some(epoch) = own.map(|own| own.epoch) {
            self.resign(epoch).await?;
        }
        (self.term, self.write_at) = (None, None);
        self.map.clear();
        if self.following.is_none() {
            tracing::error!("{why}");
            let follower = MapFollower::new(&self.link.keys, &self.name, self.events.clone());
            self.following = Some(follower.spawn(&self.link, &self.folder));
        }
        let name = self.elected.as_ref().map(|elected| elected.server.clone());
        let (fault, is_refused, is_retired) = (Some(why), true, self.retired.is_some());
        let leader = Leader { name, fault, is_refused, is_retired, ..Leader::default() };
        self.map.set_leader(leader);
        Ok(())
    }

    /// Ends to follow the map: this server may write it again.
    pub(super) fn allow(&mut self) {
        if self.following.take().is_some() {
            tracing::info!("this server may write {} for the fleet again", self.name);
        }
    }

    /// Writes the origin, which etcd lacks: an older version wrote the map, or an operator has
    /// deleted the key. The watch reports it.
    pub(super) async fn claim(&self, epoch: i64) -> Result<(), RequestError> {
        let Some(own) = self.own_origin.borrow().clone() else { return Ok(()) };
        let when = [self.is_elected(epoch), self.has_same_origin()];
        let put = TxnOp::put(self.origin_key(), own, None);
        self.link.connection.write(when, [put]).await.map(drop)
    }
}
