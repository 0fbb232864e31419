//! What may change while the server runs, as its threads read it. Each state is published as a
//! whole and never changed.
use crate::{AccessList, Forwarding, NetworkList, OwnQuery};
use answer::{CookieSecret, KeyNames, Limiter, Limits, Policy};
use image::{Forwards, RewriteRule, Rewrites};
use limit::{DebtSet, Networks, Rate, RateTable, TableKey};
use std::sync::Arc;
use wire::NameBuf;

/// The debts of clients under one rate limit, for all threads.
#[derive(Debug)]
pub struct DebtTable {
    sets: Box<[DebtSet]>,
    key: TableKey,
}

/// A configured rate limit.
#[derive(Debug)]
pub struct RateLimit {
    /// The debts. They outlive a change of the rate.
    pub table: Arc<DebtTable>,
    /// How fast debts are paid back.
    pub rate: Rate,
    /// Which clients count as one.
    pub networks: Networks,
}

/// One state of the settings.
#[derive(Debug)]
pub struct Settings {
    /// Bytes of a UDP response, at most.
    pub udp_size_max: u16,
    /// Secrets of server cookies. The first signs; without any, cookies are off.
    pub cookie_secrets: Vec<CookieSecret>,
    /// The NSID option's content (RFC 5001).
    pub nsid: String,
    /// The answer to `version.bind` and `version.server`.
    pub version: String,
    /// The answer to `id.server` and `hostname.bind`.
    pub id: String,
    /// The idle timeout that stream clients receive (RFC 7828), in units of 100 ms.
    pub keepalive: u16,
    /// Clients that may send queries.
    pub query: AccessList,
    /// Clients whose queries may be forwarded.
    pub recursion: AccessList,
    /// Clients whose NOTIFY is obeyed.
    pub notify_from: AccessList,
    /// Bit n: a handler outside the data plane decides messages of opcode n.
    pub handled_opcodes: u16,
    /// Bit n: of those, only messages that are signed with one of the keys.
    pub signed_opcodes: u16,
    /// The names of the keys that sign messages, as [`KeyNames::sort`] sorts them.
    pub keys: Vec<NameBuf>,
    /// Whether queries of clients that may not query are dropped instead of refused.
    pub silent: bool,
    /// Clients that no rate limit concerns.
    pub exempt: AccessList,
    /// The limit of queries.
    pub clients: Option<RateLimit>,
    /// The limit of responses to clients that did not prove their address.
    pub replies: Option<RateLimit>,
    /// Whether any access list or limit keeps any client out, or any network is configured.
    pub limited: bool,
    /// The networks of clients.
    pub networks: NetworkList,
    /// Peers that put a PROXY header in front of each query.
    pub proxies: AccessList,
    /// Names that are answered as other names.
    pub rewrites: Vec<RewriteRule>,
    /// The query of the server to itself through its announced addresses; `None`: it has none.
    pub own_query: Option<OwnQuery>,
    /// Names that are forwarded; `None`: none was since the start.
    pub forwarding: Option<Forwarding>,
}

impl DebtTable {
    /// A table of about this many bytes. `words` are random: they decide which clients share a set.
    pub fn new(len: usize, words: [u64; 4]) -> Self {
        let sets = (len / size_of::<DebtSet>()).max(1);
        Self { sets: (0..sets).map(|_| DebtSet::new()).collect(), key: TableKey::new(words) }
    }
}

impl RateLimit {
    fn limiter(&self) -> Limiter<'_> {
        let table = RateTable::new(&self.table.sets, self.table.key);
        Limiter { table, rate: self.rate, networks: self.networks }
    }
}

impl Settings {
    /// The same, for a server that is about to close its streams (RFC 7828 §3.4).
    pub fn closing(self) -> Self {
        Self { keepalive: 0, ..self }
    }

    /// The settings as `answer` reads them, without forward rules.
    pub fn policy(&self) -> Policy<'_> {
        Policy {
            udp_size_max: self.udp_size_max,
            cookie_secrets: &self.cookie_secrets,
            nsid: self.nsid.as_bytes(),
            version: self.version.as_bytes(),
            id: self.id.as_bytes(),
            keepalive: Some(self.keepalive),
            limits: self.limited.then(|| Limits {
                access: self.query.acl(),
                silent: self.silent,
                exempt: self.exempt.acl(),
                clients: self.clients.as_ref().map(RateLimit::limiter),
                replies: self.replies.as_ref().map(RateLimit::limiter),
                networks: self.networks.networks(),
            }),
            forwards: Forwards::default(),
            rewrites: Rewrites::new(&self.rewrites),
            recursion: self.recursion.acl(),
            notify_from: self.notify_from.acl(),
            handled_opcodes: self.handled_opcodes,
            signed_opcodes: self.signed_opcodes,
            keys: KeyNames::new(&self.keys),
            locations: self.networks.locations(),
        }
    }
}
