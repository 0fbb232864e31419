//! A rate for each kind of reply that a network is sent (response rate limiting).
//!
//! Replies are charged for after all of a burst are made, and looked up before the first of them is
//! charged for, so that the table's memory is on its way for all.
use crate::gate::Limiter;
use crate::{Now, Tally, Way};
use core::ptr;
use image::{HashKey, Zone};
use limit::{Account, Acl, Charge};
use packet::{BURST_MAX, Drop, Packet, Transport, Verdict, prefetch};
use wire::{Flags, Glance, HEADER_LEN, Rcode, Rtype};

/// A reply to a client that did not prove its address.
#[derive(Clone, Copy)]
pub(crate) struct Made<'w> {
    pub(crate) kind: Kind<'w>,
    pub(crate) rcode: Rcode,
    /// Where it was counted.
    pub(crate) type_index: u8,
    /// Octets of header and question.
    pub(crate) question_end: u16,
    /// Where OPT begins, or the reply ends.
    pub(crate) records_end: u16,
}

/// What is the same for two replies that count together.
#[derive(Clone, Copy)]
pub(crate) struct Kind<'w> {
    /// The zone that the reply says something of.
    zone: Option<&'w dyn Zone>,
    number: u64,
}

impl<'w> Kind<'w> {
    /// What a zone says of a name, whose hash this is.
    #[inline(always)]
    pub(crate) fn of(zone: &'w dyn Zone, name: u64, rtype: Rtype, what: Content) -> Self {
        let number = match what {
            Content::Records => name.wrapping_add(rtype.0.into()),
            _ => what as u64,
        };
        Self { zone: Some(zone), number }
    }

    /// What the servers of a group say of a name, whose hash this is.
    pub(crate) fn of_others(group: u16, name: u64, rtype: Rtype, what: Content) -> Self {
        let number = match what {
            Content::Records => name.wrapping_add(rtype.0.into()),
            _ => OTHERS | u64::from(group) << 8 | what as u64,
        };
        Self { zone: None, number }
    }

    /// An error.
    pub(crate) fn error(rcode: Rcode) -> Self {
        Self { zone: None, number: rcode as u64 }
    }
}

/// What a reply says of a zone. All but records count by zone, since whoever asks chooses how many
/// names get them.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Content {
    /// Records of the name and type: only so many of them exist.
    Records,
    /// The name does not exist.
    Missing,
    /// It has no such records.
    Empty,
    Referral,
    /// A wildcard or a DNAME answers.
    MadeUp,
}

/// Keeps what others say apart from errors.
const OTHERS: u64 = 1 << 32;

/// The response code in the header's flags.
const RCODE: u16 = 0xf;

/// A rate for replies at work on a burst.
pub(crate) struct Ledger<'k, 'p, 'w> {
    pub(crate) limiter: &'k Limiter<'p>,
    pub(crate) exempt: &'k Acl<'p>,
    pub(crate) key: &'k HashKey,
    /// How each question of the burst went.
    pub(crate) ways: &'k [Way<'w>; BURST_MAX],
    /// What a glance saw of it.
    pub(crate) glances: &'k [Glance; BURST_MAX],
}

impl<'p> Ledger<'_, 'p, '_> {
    /// Charges for the replies of a burst.
    pub(crate) fn settle(&self, now: Now, packets: &mut [Packet<'_>], tally: &mut Tally) {
        let mut accounts = [Account::default(); BURST_MAX];
        self.look_up(&mut accounts, packets);
        self.charge(&accounts, now, packets, tally);
    }

    /// Finds the accounts of the replies.
    #[inline(never)]
    fn look_up(&self, accounts: &mut [Account<'p>; BURST_MAX], packets: &[Packet<'_>]) {
        let Limiter { table, networks, .. } = self.limiter;
        let mut origins = Origins { key: self.key, last: None };
        for (((account, packet), way), glance) in
            accounts.iter_mut().zip(packets).zip(self.ways).zip(self.glances)
        {
            if packet.transport == Transport::Datagram
                && let Some(Made { kind, .. }) = way.made(glance, packet)
            {
                let origin = kind.zone.map_or(0, |zone| origins.hash(zone));
                let what = origin.rotate_left(32) ^ kind.number;
                *account = table.account(networks.of(packet.client.ip()), what);
                prefetch(account.memory());
            }
        }
    }

    #[inline(never)]
    fn charge(
        &self,
        accounts: &[Account<'_>; BURST_MAX],
        now: Now,
        packets: &mut [Packet<'_>],
        tally: &mut Tally,
    ) {
        let rate = self.limiter.rate;
        let accounts = accounts.get(..packets.len()).unwrap_or(accounts);
        for (at, account) in accounts.iter().enumerate() {
            let charge = account.charge(now.monotonic_micros, &rate);
            if charge != Charge::Within {
                self.withhold(at, charge, packets, tally);
            }
        }
    }

    /// Withholds a reply that is too much, unless its client is exempt.
    #[inline(never)]
    fn withhold(&self, at: usize, charge: Charge, packets: &mut [Packet<'_>], tally: &mut Tally) {
        let packet = &mut packets[at];
        if !self.exempt.lists(packet.client.ip())
            && let Some(made) = self.ways[at].made(&self.glances[at], packet)
        {
            made.withhold(charge, packet, tally);
        }
    }
}

/// The hash of the origin of the zone that was asked for last.
struct Origins<'k, 'w> {
    key: &'k HashKey,
    last: Option<(&'w dyn Zone, u64)>,
}

impl<'w> Origins<'_, 'w> {
    #[inline(always)]
    fn hash(&mut self, zone: &'w dyn Zone) -> u64 {
        match self.last {
            Some((known, hash)) if ptr::addr_eq(known, zone) => hash,
            _ => {
                let hash = self.key.hash_of(zone.origin().octets());
                self.last = Some((zone, hash));
                hash
            }
        }
    }
}

impl<'w> Way<'w> {
    /// The reply that a question on this way got, where it may be charged for.
    #[inline(always)]
    fn made(&self, glance: &Glance, packet: &Packet<'_>) -> Option<Made<'w>> {
        match self {
            Way::Plain(lead) => Some(lead.made(glance, packet.len)),
            Way::Known(hint) => Some(hint.made(glance, packet)),
            Way::Made(made) => Some(*made),
            _ => None,
        }
    }
}

impl Made<'_> {
    /// Takes a reply back, or sends it in short. An error says no less in short: those that slip
    /// through go as they are.
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
pub(crate) fn has_content(rcode: Rcode) -> bool {
    matches!(rcode, Rcode::NoError | Rcode::NxDomain | Rcode::YxDomain)
}
