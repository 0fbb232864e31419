//! Who may ask, and how much: access lists, and a rate for each client.
//!
//! A burst is admitted before it is parsed, all of it at once, so that the table's memory is on its
//! way for all of its clients before the first of them is charged.
use crate::{Now, Policy, Way, guard};
use limit::{Account, Acl, Charge, Networks, Rate, RateTable};
use packet::{BURST_MAX, Drop, Packet, Transport, prefetch};
use wire::Query;

/// Who may ask, and how much.
#[derive(Clone, Debug)]
pub struct Limits<'p> {
    /// Who may ask.
    pub access: Acl<'p>,
    /// Whether who may not is not even told so.
    pub silent: bool,
    /// Whom neither rate holds for.
    pub exempt: Acl<'p>,
    /// Questions of a client. A client that proved its address, by a stream or a valid cookie, has
    /// an account that no spoofer can charge.
    pub clients: Option<Limiter<'p>>,
    /// Replies of one kind to one network, over datagrams and to clients without a valid cookie.
    pub replies: Option<Limiter<'p>>,
}

impl Default for Limits<'_> {
    /// Everybody may ask without end.
    fn default() -> Self {
        let (access, exempt) = (Acl::EVERYBODY, Acl::NOBODY);
        Self { access, silent: false, exempt, clients: None, replies: None }
    }
}

/// One rate, and where it is kept.
#[derive(Clone, Copy, Debug)]
pub struct Limiter<'p> {
    /// Who owes what; shared by all workers of a server.
    pub table: RateTable<'p>,
    /// How much is too much, and how much of that slips through.
    pub rate: Rate,
    /// Who counts as one.
    pub networks: Networks,
}

/// What stands before the first pass. Without limits, nothing does.
pub(crate) trait Gate<'w> {
    /// Lets a packet in, or says what becomes of it instead.
    fn admit(&self, at: usize, query: &mut Query, packet: &Packet<'_>) -> Option<Way<'w>>;
}

/// Everybody is let in.
pub(crate) struct Open;

impl<'w> Gate<'w> for Open {
    #[inline(always)]
    fn admit(&self, _at: usize, _query: &mut Query, _packet: &Packet<'_>) -> Option<Way<'w>> {
        None
    }
}

/// What the look at the whole burst found out about a packet.
#[derive(Clone, Copy, PartialEq)]
enum Finding {
    /// It may be answered.
    Free,
    /// Its client may not ask.
    Denied,
    /// Its client is over its rate, or just slips through; whether it may ask at all is not told.
    Charged(Charge),
}

/// What a client's questions are charged for: those that anybody can send in its name, and those
/// that only it can.
const SPOOFABLE: u64 = 0;
const PROVEN: u64 = 1;

/// Keeps the limits for one burst.
pub(crate) struct Keeper<'k, 'p> {
    limits: &'k Limits<'p>,
    policy: &'k Policy<'p>,
    now: Now,
    findings: [Finding; BURST_MAX],
}

impl<'k, 'p> Keeper<'k, 'p> {
    /// Looks at a whole burst before anything else does. Nothing stands there if all of it may
    /// pass.
    #[inline(never)]
    pub(crate) fn new(
        limits: &'k Limits<'p>,
        policy: &'k Policy<'p>,
        now: Now,
        packets: &[Packet<'_>],
    ) -> Option<Self> {
        let mut keeper = Self { limits, policy, now, findings: [Finding::Free; BURST_MAX] };
        let mut found = false;
        if !limits.access.is_everybody() {
            found |= keeper.find_denied(packets);
        }
        if let Some(limiter) = &limits.clients {
            found |= keeper.charge_clients(limiter, packets);
        }
        found.then_some(keeper)
    }

    /// Finds those whose clients may not ask.
    #[inline(always)]
    fn find_denied(&mut self, packets: &[Packet<'_>]) -> bool {
        let mut found = false;
        for (finding, packet) in self.findings.iter_mut().zip(packets) {
            if !self.limits.access.lists(packet.client.ip()) {
                (*finding, found) = (Finding::Denied, true);
            }
        }
        found
    }

    /// Charges the clients, and finds those that are over their rate. Refusals count too, or they
    /// would be the cheapest flood; what is not answered at all does not.
    #[inline(always)]
    fn charge_clients(&mut self, limiter: &Limiter<'p>, packets: &[Packet<'_>]) -> bool {
        let mut accounts = [Account::default(); BURST_MAX];
        for (account, packet) in accounts.iter_mut().zip(packets) {
            let what = if packet.transport == Transport::Stream { PROVEN } else { SPOOFABLE };
            *account = limiter.table.account(limiter.networks.of(packet.client.ip()), what);
            prefetch(account.memory());
        }
        let Self { limits, now, findings, .. } = self;
        let mut found = false;
        for (finding, account) in findings.iter_mut().zip(&accounts).take(packets.len()) {
            if *finding == Finding::Denied && limits.silent {
                continue;
            }
            let charge = account.charge(now.monotonic_micros, &limiter.rate);
            if charge != Charge::Within {
                (*finding, found) = (Finding::Charged(charge), true);
            }
        }
        found
    }

    /// What becomes of a packet that the look at the burst held up.
    #[inline(never)]
    fn hold<'w>(
        &self,
        finding: Finding,
        query: &mut Query,
        packet: &Packet<'_>,
    ) -> Option<Way<'w>> {
        if let (Finding::Charged(charge), Some(limiter)) = (finding, &self.limits.clients)
            && let Some(way) = self.limit(limiter, charge, query, packet)
        {
            return Some(way);
        }
        match self.limits.access.lists(packet.client.ip()) {
            true => None,
            false if self.limits.silent => Some(Way::Shut(Drop::Denied)),
            false => Some(refuse(Way::Denied, query, packet)),
        }
    }

    /// What becomes of a question that is over its client's rate.
    fn limit<'w>(
        &self,
        limiter: &Limiter<'p>,
        charge: Charge,
        query: &mut Query,
        packet: &Packet<'_>,
    ) -> Option<Way<'w>> {
        let client = packet.client.ip();
        if self.limits.exempt.lists(client) {
            return None;
        }
        if packet.transport == Transport::Stream {
            return Some(refuse(Way::Limited, query, packet));
        }
        let parsed = query.parse(packet.buf, packet.len);
        if parsed.is_ok() && guard::is_proven(self.policy, self.now, query, client) {
            let account = limiter.table.account(limiter.networks.of(client), PROVEN);
            if account.charge(self.now.monotonic_micros, &limiter.rate) == Charge::Within {
                return None;
            }
        }
        Some(match (charge, parsed) {
            (Charge::Slip, Ok(())) => Way::Slip,
            _ => Way::Shut(Drop::RateLimited),
        })
    }
}

/// Refuses a client, as far as what it sent can be understood.
fn refuse<'w>(way: Way<'w>, query: &mut Query, packet: &Packet<'_>) -> Way<'w> {
    query.parse(packet.buf, packet.len).map_or_else(Way::Fault, |()| way)
}

impl<'w> Gate<'w> for Keeper<'_, '_> {
    #[inline(always)]
    fn admit(&self, at: usize, query: &mut Query, packet: &Packet<'_>) -> Option<Way<'w>> {
        match self.findings[at] {
            Finding::Free => None,
            finding => self.hold(finding, query, packet),
        }
    }
}
