//! Who may ask, and how much: access lists, a rate for each client, and a rate for each kind of
//! reply that a network is sent (response rate limiting).
//!
//! A burst is admitted before it is parsed, and charged for its replies after all are made, so that
//! the tables' memory is on its way while something else is done.
use crate::{Now, Policy, Tally, Way, guard};
use core::ptr;
use image::{HashKey, Zone};
use limit::{Account, Acl, Charge, Near, Networks, Rate, RateTable};
use packet::{BURST_MAX, Drop, Packet, Transport, Verdict, prefetch};
use wire::{Flags, HEADER_LEN, Query, Rcode, Rtype};

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

/// What stands before and behind the answering of a burst. Without limits, nothing does.
pub(crate) trait Gate<'w> {
    /// Looks at the whole burst before anything else does.
    #[inline(always)]
    fn open(&mut self, _packets: &[Packet<'_>]) {}

    /// Lets a packet in, or says what becomes of it instead.
    #[inline(always)]
    fn admit(&mut self, _at: usize, _query: &mut Query, _packet: &Packet<'_>) -> Option<Way<'w>> {
        None
    }

    /// Notes a reply that was made.
    #[inline(always)]
    fn note(&mut self, _at: usize, _packet: &Packet<'_>, _made: impl FnOnce() -> Made<'w>) {}

    /// Charges for the replies of the burst.
    #[inline(always)]
    fn settle(&mut self, _packets: &mut [Packet<'_>], _tally: &mut Tally) {}
}

/// No limits.
pub(crate) struct Open;

impl Gate<'_> for Open {}

/// A reply, as far as its kind depends on it.
pub(crate) struct Made<'w> {
    /// The zone, and the hash of the name below its origin.
    pub(crate) zone: Option<(&'w dyn Zone, u64)>,
    pub(crate) rcode: Rcode,
    pub(crate) rtype: Rtype,
    /// Where it was counted.
    pub(crate) type_index: usize,
    /// Whether a wildcard or a DNAME answered: for as many names as somebody cares to ask.
    pub(crate) made_up: bool,
    /// Whether the client proved its address.
    pub(crate) proven: bool,
    /// Octets of header and question.
    pub(crate) question_end: usize,
    /// Where OPT begins, or the reply ends.
    pub(crate) records_end: usize,
}

/// What is charged for a reply.
#[derive(Clone, Copy)]
struct Note<'p> {
    account: Account<'p>,
    rcode: Rcode,
    type_index: u8,
    question_end: u16,
    records_end: u16,
}

/// What a client's questions are charged for: those that anybody can send in its name, and those
/// that only it can.
const SPOOFABLE: u64 = 0;
const PROVEN: u64 = 1;

/// The response code in the header's flags.
const RCODE: u16 = 0xf;

/// The kinds of replies that count by zone, since whoever asks chooses how many names get them.
const MISSING: u64 = 1;
const EMPTY: u64 = 2;
const REFERRAL: u64 = 3;
const MADE_UP: u64 = 4;

/// Keeps the limits for one burst.
pub(crate) struct Keeper<'k, 'p, 'w> {
    limits: &'k Limits<'p>,
    policy: &'k Policy<'p>,
    now: Now,
    key: &'w HashKey,
    near: Near,
    accounts: [Account<'p>; BURST_MAX],
    notes: [Option<Note<'p>>; BURST_MAX],
    /// The zone of the reply before, and the hash of its origin.
    origin: Option<(&'w dyn Zone, u64)>,
}

impl<'k, 'p, 'w> Keeper<'k, 'p, 'w> {
    pub(crate) fn new(
        limits: &'k Limits<'p>,
        policy: &'k Policy<'p>,
        now: Now,
        key: &'w HashKey,
    ) -> Self {
        let (accounts, notes) = ([Account::default(); BURST_MAX], [None; BURST_MAX]);
        let near = Near::NOWHERE;
        Self { limits, policy, now, key, near, accounts, notes, origin: None }
    }

    /// Refuses a client, as far as what it sent can be understood.
    fn refuse(&self, query: &mut Query, packet: &Packet<'_>) -> Way<'w> {
        query.parse(packet.buf, packet.len).map_or_else(Way::Fault, |()| Way::Denied)
    }

    /// What becomes of a question that is over its client's rate.
    #[inline(never)]
    fn limit(
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
            return Some(self.refuse(query, packet));
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

    /// A number for the kind of a reply: what is the same for two replies that count together.
    #[inline(always)]
    fn kind(&mut self, packet: &Packet<'_>, made: &Made<'w>) -> u64 {
        let Some((zone, name)) = made.zone.filter(|_| has_content(made.rcode)) else {
            return made.rcode as u64;
        };
        let origin = match self.origin {
            Some((known, hash)) if ptr::addr_eq(known, zone) => hash,
            _ => {
                let hash = self.key.hash_of(zone.origin().octets());
                self.origin = Some((zone, hash));
                hash
            }
        };
        let [_, _, f0, f1, _, _, a0, a1, ..] = *packet.buf else { return 0 };
        let flags = Flags(u16::from_be_bytes([f0, f1]));
        let is_empty = [a0, a1] == [0; 2] && !flags.has(Flags::TC);
        let by_zone = match made.rcode {
            Rcode::NoError if made.made_up => MADE_UP,
            Rcode::NoError if !is_empty => {
                // By name and type: only so many of them exist.
                return origin.rotate_left(32) ^ name.wrapping_add(made.rtype.0.into());
            }
            Rcode::NoError if flags.has(Flags::AA) => EMPTY,
            Rcode::NoError => REFERRAL,
            _ => MISSING,
        };
        origin.wrapping_add(by_zone)
    }
}

impl<'w> Gate<'w> for Keeper<'_, '_, 'w> {
    fn open(&mut self, packets: &[Packet<'_>]) {
        let Some(limiter) = &self.limits.clients else { return };
        for (account, packet) in self.accounts.iter_mut().zip(packets) {
            let what = if packet.transport == Transport::Stream { PROVEN } else { SPOOFABLE };
            *account = limiter.table.account(limiter.networks.of(packet.client.ip()), what);
            prefetch(account.memory());
        }
    }

    #[inline(always)]
    fn admit(&mut self, at: usize, query: &mut Query, packet: &Packet<'_>) -> Option<Way<'w>> {
        let listed = self.limits.access.lists_near(packet.client.ip(), &mut self.near);
        if !listed && self.limits.silent {
            return Some(Way::Shut(Drop::Denied));
        }
        // Refusals count too, or they would be the cheapest flood.
        if let Some(limiter) = &self.limits.clients {
            let charge = self.accounts[at].charge(self.now.monotonic_micros, &limiter.rate);
            if charge != Charge::Within
                && let Some(way) = self.limit(limiter, charge, query, packet)
            {
                return Some(way);
            }
        }
        if listed { None } else { Some(self.refuse(query, packet)) }
    }

    #[inline(always)]
    fn note(&mut self, at: usize, packet: &Packet<'_>, made: impl FnOnce() -> Made<'w>) {
        let Some(limiter) = &self.limits.replies else { return };
        if packet.transport == Transport::Stream {
            return;
        }
        let made = made();
        if made.proven {
            return;
        }
        let what = self.kind(packet, &made);
        let account = limiter.table.account(limiter.networks.of(packet.client.ip()), what);
        prefetch(account.memory());
        self.notes[at] = Some(Note {
            account,
            rcode: made.rcode,
            type_index: made.type_index as u8,
            question_end: made.question_end as u16,
            records_end: made.records_end as u16,
        });
    }

    fn settle(&mut self, packets: &mut [Packet<'_>], tally: &mut Tally) {
        let Some(limiter) = &self.limits.replies else { return };
        for (packet, note) in packets.iter_mut().zip(&self.notes) {
            let Some(note) = note else { continue };
            let charge = note.account.charge(self.now.monotonic_micros, &limiter.rate);
            if charge != Charge::Within && !self.limits.exempt.lists(packet.client.ip()) {
                note.withhold(charge, packet, tally);
            }
        }
    }
}

impl Note<'_> {
    /// Takes a reply back, or sends it in short. An error says no less in short: those that slip
    /// through go as they are.
    #[inline(never)]
    fn withhold(&self, charge: Charge, packet: &mut Packet<'_>, tally: &mut Tally) {
        let slips = charge == Charge::Slip;
        if slips && !has_content(self.rcode) {
            return;
        }
        let Some(header) = packet.buf.first_chunk_mut::<HEADER_LEN>() else { return };
        let flags = Flags(u16::from_be_bytes([header[2], header[3]]));
        tally.rcodes[self.rcode.index()] -= 1;
        tally.truncated -= u32::from(flags.has(Flags::TC));
        if !slips {
            tally.types[usize::from(self.type_index)] -= 1;
            packet.verdict = Verdict::Drop(Drop::ResponseLimited);
            return;
        }
        tally.rcodes[Rcode::NoError.index()] += 1;
        tally.truncated += 1;
        let (question_end, records_end) = (self.question_end.into(), self.records_end.into());
        let opts = u8::from(packet.len > records_end);
        let [f0, f1] = (flags.0 & !(Flags::AA | RCODE) | Flags::TC).to_be_bytes();
        header[2..4].copy_from_slice(&[f0, f1]);
        header[6..].copy_from_slice(&[0, 0, 0, 0, 0, opts]);
        packet.buf.copy_within(records_end..packet.len, question_end);
        packet.len -= records_end - question_end;
    }
}

/// Whether a reply of this code says something of a zone, that can be asked for over a stream.
fn has_content(rcode: Rcode) -> bool {
    matches!(rcode, Rcode::NoError | Rcode::NxDomain | Rcode::YxDomain)
}
