//! Admission: access lists, a query rate for each client, and names denied by network.
//!
//! A whole burst is admitted before it is parsed. The table entries of all its clients are
//! prefetched before the first client is charged.
use crate::networks::ClientNetworks;
use crate::{Disposition, Now, Policy, cookies};
use limit::{Acl, Charge, ClientAccount, Networks, Rate, RateTable};
use packet::{BURST_MAX, DropReason, Packet, Transport, prefetch};
use wire::Query;

/// The limits that the operator configured.
#[derive(Clone, Debug)]
pub struct Limits<'p> {
    /// Clients that may send queries. A NOTIFY is not one.
    pub access: Acl<'p>,
    /// Drops queries of other clients instead of answering REFUSED.
    pub silent: bool,
    /// Clients to which neither rate applies.
    pub exempt: Acl<'p>,
    /// Query rate of a client. A client that proved its address, by a stream or a valid cookie, has
    /// an account that no spoofer can charge.
    pub clients: Option<Limiter<'p>>,
    /// Rate of replies of one class to one network, over UDP and to clients without a valid cookie.
    pub replies: Option<Limiter<'p>>,
    /// The networks of clients; `None`: none is configured, or they are found already.
    pub networks: Option<ClientNetworks<'p>>,
}

impl Default for Limits<'_> {
    /// All clients may send any number of queries.
    fn default() -> Self {
        let (access, exempt) = (Acl::ALL, Acl::NONE);
        Self { access, silent: false, exempt, clients: None, replies: None, networks: None }
    }
}

/// A rate, and the table with its state.
#[derive(Clone, Copy, Debug)]
pub struct Limiter<'p> {
    /// Debt of each account; shared by all workers of a server.
    pub table: RateTable<'p>,
    /// The limit, and how many queries above it slip through.
    pub rate: Rate,
    /// The prefix lengths that count as one client.
    pub networks: Networks,
}

/// The check before the first pass. It is generic, so that a server without limits pays nothing for
/// it.
pub(crate) trait Admission<'w> {
    /// Admits a packet (`None`), or returns its disposition.
    fn admit(&self, at: usize, query: &mut Query, packet: &Packet<'_>) -> Option<Disposition<'w>>;
}

/// Admits every packet.
pub(crate) struct OpenAdmission;

impl<'w> Admission<'w> for OpenAdmission {
    #[inline(always)]
    fn admit(
        &self,
        _at: usize,
        _query: &mut Query,
        _packet: &Packet<'_>,
    ) -> Option<Disposition<'w>> {
        None
    }
}

/// The result of the admission pass for one packet.
#[derive(Clone, Copy, PartialEq)]
enum BurstFinding {
    Admitted,
    /// The access list does not contain the client.
    Denied,
    /// The client exceeds its rate, or this query slips through. The access list is not checked
    /// yet.
    Charged(Charge),
    /// The network of the client denies names.
    Ruled,
}

/// Accounts of a client: one for queries that a spoofer can send, one for queries that only the
/// client can send.
const SPOOFABLE: u64 = 0;
const PROVEN: u64 = 1;

/// Applies the limits to one burst.
pub(crate) struct ClientLimiter<'k, 'p> {
    limits: &'k Limits<'p>,
    policy: &'k Policy<'p>,
    now: Now,
    findings: [BurstFinding; BURST_MAX],
}

impl<'k, 'p> ClientLimiter<'k, 'p> {
    /// Checks a whole burst, whose clients were placed; `denies`: a network of theirs denies names.
    /// Returns `None` if all packets may pass.
    #[inline(never)]
    pub(crate) fn new(
        limits: &'k Limits<'p>,
        policy: &'k Policy<'p>,
        now: Now,
        packets: &[Packet<'_>],
        denies: bool,
    ) -> Option<Self> {
        let mut client_limiter =
            Self { limits, policy, now, findings: [BurstFinding::Admitted; BURST_MAX] };
        let mut found = false;
        if !limits.access.is_all() {
            found |= client_limiter.find_denied(packets);
        }
        if let Some(limiter) = &limits.clients {
            found |= client_limiter.charge_clients(limiter, packets);
        }
        if let Some(networks) = limits.networks.as_ref().filter(|_| denies) {
            client_limiter.find_ruled(networks, packets);
            found = true;
        }
        found.then_some(client_limiter)
    }

    /// Marks packets whose clients may not send queries; returns whether there are any.
    #[inline(always)]
    fn find_denied(&mut self, packets: &[Packet<'_>]) -> bool {
        let mut found = false;
        for (finding, packet) in self.findings.iter_mut().zip(packets) {
            if !self.limits.access.lists(packet.context.client.ip()) {
                (*finding, found) = (BurstFinding::Denied, true);
            }
        }
        found
    }

    /// Marks packets whose names are checked.
    #[inline(always)]
    fn find_ruled(&mut self, networks: &ClientNetworks<'p>, packets: &[Packet<'_>]) {
        for (finding, packet) in self.findings.iter_mut().zip(packets) {
            if *finding == BurstFinding::Admitted && networks.network(packet).denies {
                *finding = BurstFinding::Ruled;
            }
        }
    }

    /// Charges the clients and marks those above their rate. Refused queries are charged too:
    /// otherwise they would be the cheapest flood. Queries that are silently dropped are not.
    #[inline(always)]
    fn charge_clients(&mut self, limiter: &Limiter<'p>, packets: &[Packet<'_>]) -> bool {
        let mut accounts = [ClientAccount::default(); BURST_MAX];
        for (account, packet) in accounts.iter_mut().zip(packets) {
            let what =
                if packet.context.transport == Transport::Stream { PROVEN } else { SPOOFABLE };
            *account = limiter.table.account(limiter.networks.of(packet.context.client.ip()), what);
            prefetch(account.memory());
        }
        let Self { limits, now, findings, .. } = self;
        let mut found = false;
        for (finding, account) in findings.iter_mut().zip(&accounts).take(packets.len()) {
            if *finding == BurstFinding::Denied && limits.silent {
                continue;
            }
            let charge = account.charge(now.monotonic_micros, &limiter.rate);
            if charge != Charge::Within {
                (*finding, found) = (BurstFinding::Charged(charge), true);
            }
        }
        found
    }

    /// The disposition of a packet that the admission pass marked; `None` admits it.
    #[inline(never)]
    fn hold<'w>(
        &self,
        finding: BurstFinding,
        query: &mut Query,
        packet: &Packet<'_>,
    ) -> Option<Disposition<'w>> {
        if let (BurstFinding::Charged(charge), Some(limiter)) = (finding, &self.limits.clients)
            && let Some(disposition) = self.limit(limiter, charge, query, packet)
        {
            return Some(disposition);
        }
        match self.limits.access.lists(packet.context.client.ip()) {
            true => self.deny(query, packet),
            false if self.is_notify(query, packet) => None,
            false if self.limits.silent => Some(Disposition::Dropped(DropReason::Denied)),
            false => Some(refuse(Disposition::Denied, query, packet)),
        }
    }

    /// The disposition of a query for a name that is denied to its client.
    fn deny<'w>(&self, query: &mut Query, packet: &Packet<'_>) -> Option<Disposition<'w>> {
        let networks = self.limits.networks.as_ref()?;
        networks.deny(query, packet).then_some(Disposition::NameDenied(packet.network))
    }

    /// Whether it is a NOTIFY of a client that may send one, though it may send no query.
    fn is_notify(&self, query: &mut Query, packet: &Packet<'_>) -> bool {
        self.policy.notify_from.lists(packet.context.client.ip())
            && query.parse(packet.buf, packet.len).is_ok()
            && query.flags.is_notify()
    }

    /// The disposition of a query above its client's rate; `None` admits it.
    fn limit<'w>(
        &self,
        limiter: &Limiter<'p>,
        charge: Charge,
        query: &mut Query,
        packet: &Packet<'_>,
    ) -> Option<Disposition<'w>> {
        let client = packet.context.client.ip();
        if self.limits.exempt.lists(client) {
            return None;
        }
        if packet.context.transport == Transport::Stream {
            return Some(refuse(Disposition::Limited, query, packet));
        }
        let parsed = query.parse(packet.buf, packet.len);
        if parsed.is_ok() && cookies::is_proven(self.policy, self.now, query, client) {
            let account = limiter.table.account(limiter.networks.of(client), PROVEN);
            if account.charge(self.now.monotonic_micros, &limiter.rate) == Charge::Within {
                return None;
            }
        }
        Some(match (charge, parsed) {
            (Charge::Slip, Ok(())) => Disposition::Slip,
            _ => Disposition::Dropped(DropReason::RateLimited),
        })
    }
}

/// Refuses a client if its message can be parsed.
fn refuse<'w>(
    disposition: Disposition<'w>,
    query: &mut Query,
    packet: &Packet<'_>,
) -> Disposition<'w> {
    query.parse(packet.buf, packet.len).map_or_else(Disposition::Fault, |()| disposition)
}

impl<'w> Admission<'w> for ClientLimiter<'_, '_> {
    #[inline(always)]
    fn admit(&self, at: usize, query: &mut Query, packet: &Packet<'_>) -> Option<Disposition<'w>> {
        match self.findings[at] {
            BurstFinding::Admitted => None,
            finding => self.hold(finding, query, packet),
        }
    }
}
