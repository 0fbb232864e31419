//! Fast path for most queries: type A or AAAA, answered by records or by the zone's SOA. It
//! writes the same bytes as `solve`, `reply` and `finish`. A property test compares both.
//!
//! The name is looked up before its labels are checked: bytes that match a name of the zone are a
//! valid name. All other queries take the full path, with the message unchanged.
use crate::choose::{Chooser, nearest};
use crate::cookies::COOKIE_LEN;
use crate::finish::{PlainOpt, put_header};
use crate::limits::SOA_LEN_MAX;
use crate::reply::{negative_soa, under};
use crate::reply_room::OPT_LEN;
use crate::rrl::{RrlClass, RrlContent, RrlReply};
use crate::solve::ZoneRef;
use crate::{Policy, SmallRng};
use core::net::{IpAddr, Ipv4Addr};
use core::ptr;
use image::{DepthMask, HashKey, Leaf, Location, Order, RecordSet, RelName, Zone, same};
use packet::Packet;
use wire::limits::{PADDED_LEN, UDP_LEN_MIN};
use wire::{FastParse, Flags, HEADER_LEN, Name, Rcode, Rtype};

const COOKIE_OPTION_LEN: usize = 4 + COOKIE_LEN;
/// Bytes of a record before its data if the owner is a pointer.
const HEAD_LEN: usize = 12;
/// Bytes that a fast reply may write behind the question. The question has at most 271 bytes, so
/// the reply fits 512 bytes.
const ROOM_LEN: usize = SOA_LEN_MAX + OPT_LEN + COOKIE_OPTION_LEN;
const POINTER: u16 = 0xc000;
/// The response code of an answer, and counts of the answer and authority section.
const ANSWER: (Rcode, [u16; 2]) = (Rcode::NoError, [1, 0]);
/// Where several records end at most, so that every client has room for the reply.
const RECORDS_END: usize = UDP_LEN_MIN - OPT_LEN - COOKIE_OPTION_LEN;

/// The lookup of a plain query's name in its zone.
#[derive(Clone, Copy)]
pub(crate) struct FastPath<'w> {
    pub(crate) zone: &'w dyn Zone,
    pub(crate) hash: u64,
    pub(crate) leaf: &'w [u8],
    /// Bytes of the name below the zone's origin.
    len: u8,
    content: RrlContent,
    pub(crate) question_end: u16,
}

impl<'w> FastPath<'w> {
    /// Accepts a query for an address of a name below the origin of a plain zone of its view.
    #[inline(always)]
    pub(crate) fn new(
        key: &HashKey,
        zone_ref: &Option<ZoneRef<'w>>,
        fast_parse: &mut FastParse,
        packet: &Packet<'_>,
    ) -> Option<Self> {
        let Some(zone_ref @ ZoneRef { plain: true, .. }) = zone_ref else { return None };
        if zone_ref.view != packet.context.view {
            return None;
        }
        let name_len = fast_parse.read(packet.buf, packet.len)?;
        Self::at(key, zone_ref, fast_parse, name_len)
    }

    /// The same for a message with a cookie.
    #[inline(always)]
    pub(crate) fn with_cookie(
        key: &HashKey,
        zone_ref: &Option<ZoneRef<'w>>,
        fast_parse: &mut FastParse,
        packet: &Packet<'_>,
    ) -> Option<Self> {
        let Some(zone_ref @ ZoneRef { plain: true, .. }) = zone_ref else { return None };
        if zone_ref.view != packet.context.view {
            return None;
        }
        let name_len = fast_parse.read_with_cookie(packet.buf, packet.len)?;
        Self::at(key, zone_ref, fast_parse, name_len)
    }

    #[inline(always)]
    fn at(
        key: &HashKey,
        zone_ref: &ZoneRef<'w>,
        fast_parse: &FastParse,
        name_len: usize,
    ) -> Option<Self> {
        let len = name_len.checked_sub(zone_ref.origin.len())?;
        if !matches!(fast_parse.rtype, Rtype::A | Rtype::AAAA)
            || !same(fast_parse.padded().get(len..name_len)?, zone_ref.origin)
        {
            return None;
        }
        let hash = key.hash(fast_parse.padded(), 0, len);
        let (len, question_end) = (len as u8, (HEADER_LEN + name_len + 4) as u16);
        let (zone, leaf) = (zone_ref.zone, zone_ref.zone.leaf(hash));
        Some(Self { zone, hash, leaf, len, content: RrlContent::Records, question_end })
    }
}

impl<'w> FastPath<'w> {
    /// The reply of `len` bytes that [`ShortReplies::answer`] wrote.
    #[inline(always)]
    pub(crate) fn answered(&self, fast_parse: &FastParse, len: usize) -> RrlReply<'w> {
        let missing = self.content == RrlContent::Missing;
        RrlReply {
            kind: RrlClass::of(self.zone, self.hash, fast_parse.rtype, self.content),
            rcode: if missing { Rcode::NxDomain } else { Rcode::NoError },
            type_index: (fast_parse.rtype == Rtype::AAAA).into(),
            question_end: self.question_end,
            records_end: (len - if fast_parse.has_opt { OPT_LEN } else { 0 }) as u16,
        }
    }
}

/// What all fast replies of a burst have in common.
pub(crate) struct ShortReplies<'b, 'w> {
    policy: &'b Policy<'b>,
    key: &'w HashKey,
    /// QR and AA, and RA if recursion is offered; in network order.
    flags: u16,
    opt: PlainOpt,
    /// The SOA of the zone that had the last negative answer.
    soa: Option<(&'w dyn Zone, Option<Soa>)>,
}

impl<'b, 'w> ShortReplies<'b, 'w> {
    pub(crate) fn new(key: &'w HashKey, policy: &'b Policy<'b>) -> Self {
        let flags = (Flags::QR | Flags::AA | policy.ra_flag()).to_be();
        let opt = PlainOpt::new(policy.udp_size_max);
        Self { policy, key, flags, opt, soa: None }
    }

    /// Answers in the query's buffer. Returns the response code and the length.
    ///
    /// # Errors
    /// The set that answers, if it may have several records, or `None` if the full path is needed;
    /// the message is then unchanged.
    #[inline(always)]
    pub(crate) fn answer(
        &mut self,
        fast_path: &mut FastPath<'w>,
        fast_parse: &FastParse,
        buf: &mut [u8],
    ) -> Result<(Rcode, usize), Option<RecordSet<'w>>> {
        let question_end = usize::from(fast_path.question_end);
        let room = buf.get_mut(question_end..question_end + ROOM_LEN).ok_or(None)?;
        let room: &mut [u8; ROOM_LEN] = room.first_chunk_mut().ok_or(None)?;
        let name = &fast_parse.padded()[..usize::from(fast_path.len)];
        let (rcode, content) = match Leaf::new(fast_path.leaf).find(fast_path.hash, name) {
            Some(node) => match node.set(fast_parse.rtype) {
                // Both have an end of their own, without variables.
                Some(set) if fast_parse.rtype == Rtype::A => {
                    let len = put_only::<4>(room, &set).ok_or(Some(set))?;
                    let end = self.end(buf, (fast_path, fast_parse), len, ANSWER);
                    return Ok((Rcode::NoError, end.ok_or(None)?));
                }
                Some(set) => {
                    let len = put_only::<16>(room, &set).ok_or(Some(set))?;
                    let end = self.end(buf, (fast_path, fast_parse), len, ANSWER);
                    return Ok((Rcode::NoError, end.ok_or(None)?));
                }
                None if node.set(Rtype::CNAME).is_some() => return Err(None),
                None => (Rcode::NoError, RrlContent::Empty),
            },
            None if is_missing(fast_path.zone, name) => (Rcode::NxDomain, RrlContent::Missing),
            None => return Err(None),
        };
        let len = self.put_soa(fast_path, content, room).ok_or(None)?;
        let end = self.end(buf, (fast_path, fast_parse), len, (rcode, [0, 1]));
        Ok((rcode, end.ok_or(None)?))
    }

    /// Ends a reply behind records of this length: OPT, flags, and counts of the answer and of the
    /// authority section. Returns its length.
    #[inline(always)]
    fn end(
        &self,
        buf: &mut [u8],
        (fast_path, fast_parse): (&FastPath<'w>, &FastParse),
        len: usize,
        (rcode, [answers, authority]): (Rcode, [u16; 2]),
    ) -> Option<usize> {
        let end = usize::from(fast_path.question_end) + len;
        self.opt.put(buf.get_mut(end..end + PlainOpt::ROOM_LEN)?.first_chunk_mut()?);
        let set = self.flags | (rcode as u16).to_be();
        put_header(buf, Flags::RD, set, [answers, authority, fast_parse.has_opt.into()]);
        Some(end + if fast_parse.has_opt { OPT_LEN } else { 0 })
    }

    /// Answers with records of a set that has several, or of which some are selected. Returns the
    /// length; `None`: the full path is needed, and the message is unchanged.
    #[inline(never)]
    pub(crate) fn answer_set(
        &self,
        set: &RecordSet<'w>,
        parsed: (&FastPath<'w>, &FastParse),
        packet: &mut Packet<'_>,
        random: &mut SmallRng,
    ) -> Option<usize> {
        match (set.has_rules(), parsed.1.rtype) {
            (false, Rtype::A) => self.put_all::<4, 16>(set, parsed, packet, random),
            (false, _) => self.put_all::<16, 28>(set, parsed, packet, random),
            (true, Rtype::A) => self.put_selected::<4, 16>(set, parsed, packet, random),
            (true, _) => self.put_selected::<16, 28>(set, parsed, packet, random),
        }
    }

    /// Answers with all records, of N bytes of data and R in all, from a random one on.
    #[inline(never)]
    fn put_all<const N: usize, const R: usize>(
        &self,
        set: &RecordSet<'w>,
        parsed: (&FastPath<'w>, &FastParse),
        packet: &mut Packet<'_>,
        random: &mut SmallRng,
    ) -> Option<usize> {
        // The full path draws the same number.
        let mut draws = random.clone();
        let start = N * draws.below(set.count());
        let (before, from) = set.plain_data().split_at_checked(start)?;
        let answers = put_runs::<N, R>(packet.buf, parsed.0, set, [from, before])?;
        *random = draws;
        self.end(packet.buf, parsed, R * answers, (Rcode::NoError, [answers as u16, 0]))
    }

    /// The same with records that are selected for the client.
    #[inline(never)]
    fn put_selected<const N: usize, const R: usize>(
        &self,
        set: &RecordSet<'w>,
        parsed: (&FastPath<'w>, &FastParse),
        packet: &mut Packet<'_>,
        random: &mut SmallRng,
    ) -> Option<usize> {
        let (data, selection) = set.selected().filter(|(_, selection)| selection.first == 0)?;
        let mut draws = random.clone();
        let client = match selection.order {
            Order::Hash => packet.context.client.ip(),
            _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        let location = match selection.has_groups() {
            true => self.policy.location(packet.context.location),
            false => Location::UNKNOWN,
        };
        let chooser = Chooser { client, location, draw: draws.next() };
        let numbers = nearest(&selection, location, set.count());
        if selection.others == 1 {
            let number = chooser.one(&selection, &numbers)?;
            let run = data.get(N * number..N * number + N)?;
            put_runs::<N, R>(packet.buf, parsed.0, set, [run, &[]])?;
            *random = draws;
            return self.end(packet.buf, parsed, R, ANSWER);
        }
        let skipped = N * chooser.rotation(&selection, &numbers)?;
        let taken = N * numbers.len().min(selection.others.into());
        let near = data.get(N * numbers.start..N * numbers.end)?;
        let (before, from) = near.split_at_checked(skipped)?;
        let first = from.len().min(taken);
        let runs = [from.get(..first)?, before.get(..taken - first)?];
        let answers = put_runs::<N, R>(packet.buf, parsed.0, set, runs)?;
        *random = draws;
        self.end(packet.buf, parsed, R * answers, (Rcode::NoError, [answers as u16, 0]))
    }

    /// Puts the SOA of a negative answer.
    #[inline(never)]
    fn put_soa(
        &mut self,
        fast_path: &mut FastPath<'w>,
        content: RrlContent,
        room: &mut [u8; ROOM_LEN],
    ) -> Option<usize> {
        fast_path.content = content;
        let known = self.soa.as_ref().is_some_and(|(zone, _)| ptr::addr_eq(*zone, fast_path.zone));
        if !known {
            self.soa = Some((fast_path.zone, Soa::new(self.key, fast_path.zone)));
        }
        let (_, soa) = self.soa.as_ref()?;
        soa.as_ref().map(|soa| soa.put(HEADER_LEN as u16 + u16::from(fast_path.len), room))
    }
}

/// Puts a cookie into the OPT record that ends a reply of `len` bytes. Returns the new length.
#[inline(always)]
pub(crate) fn put_cookie(buf: &mut [u8], len: usize, cookie: &[u8; COOKIE_LEN]) -> usize {
    let rest = buf.get_mut(len - 2..);
    let Some(room) = rest.and_then(|rest| rest.first_chunk_mut::<{ 2 + COOKIE_OPTION_LEN }>())
    else {
        return len;
    };
    let (head, data) = room.split_at_mut(6);
    head.copy_from_slice(&[0, COOKIE_OPTION_LEN as u8, 0, 10, 0, COOKIE_LEN as u8]);
    data.copy_from_slice(cookie);
    len + COOKIE_OPTION_LEN
}

/// Puts the single record of a set with N bytes of data at the question's name; `None` if there are
/// several.
#[inline(always)]
fn put_only<const N: usize>(room: &mut [u8; ROOM_LEN], set: &RecordSet<'_>) -> Option<usize> {
    let data: [u8; N] = set.plain_data().try_into().ok()?;
    let (first, last) = record_head::<N>(set);
    *room.first_chunk_mut()? = first.to_ne_bytes();
    *room[8..].first_chunk_mut()? = last.to_ne_bytes();
    *room[HEAD_LEN..].first_chunk_mut()? = data;
    Some(HEAD_LEN + N)
}

/// Puts the records of two runs, with N bytes of data and R in all, at the question's name. Returns
/// how many there are; `None`: they do not fit, and nothing is changed.
#[inline(always)]
fn put_runs<const N: usize, const R: usize>(
    buf: &mut [u8],
    fast_path: &FastPath<'_>,
    set: &RecordSet<'_>,
    runs: [&[u8]; 2],
) -> Option<usize> {
    let buf: &mut [u8; UDP_LEN_MIN] = buf.first_chunk_mut()?;
    let room = buf.get_mut(usize::from(fast_path.question_end)..RECORDS_END)?;
    let answers = (runs[0].len() + runs[1].len()) / N;
    let mut records = room.get_mut(..R * answers)?.as_chunks_mut::<R>().0.iter_mut();
    let head = record_head::<N>(set);
    for run in runs {
        for data in run.as_chunks::<N>().0 {
            put_record(records.next()?, head, data);
        }
    }
    Some(answers)
}

/// Puts a record: what stands before its data, and these.
#[inline(always)]
fn put_record<const N: usize, const R: usize>(
    record: &mut [u8; R],
    head: (u64, u32),
    data: &[u8; N],
) {
    record[..8].copy_from_slice(&head.0.to_ne_bytes());
    record[8..HEAD_LEN].copy_from_slice(&head.1.to_ne_bytes());
    record[HEAD_LEN..].copy_from_slice(data);
}

/// What stands before an address of N bytes at the question's name, in two words.
#[inline(always)]
fn record_head<const N: usize>(set: &RecordSet<'_>) -> (u64, u32) {
    let [_, rtype] = if N == 4 { Rtype::A.0.to_be_bytes() } else { Rtype::AAAA.0.to_be_bytes() };
    let [_, _, l0, l1, l2, l3, ..] = *set.head();
    let first = u64::from_ne_bytes([0xc0, HEADER_LEN as u8, 0, rtype, 0, 1, l0, l1]);
    (first, u32::from_ne_bytes([l2, l3, 0, N as u8]))
}

/// Whether bytes that the zone does not contain are a name that does not exist and that no wildcard
/// matches.
#[inline(always)]
fn is_missing(zone: &dyn Zone, bytes: &[u8]) -> bool {
    zone.facts().wildcards == DepthMask::default() && are_labels(bytes)
}

/// Whether bytes are a sequence of whole labels.
#[inline(always)]
fn are_labels(mut bytes: &[u8]) -> bool {
    while let [len, behind @ ..] = bytes {
        let len = usize::from(*len);
        match behind.get(len..) {
            Some(rest) if (1..=Name::LABEL_MAX).contains(&len) => bytes = rest,
            _ => return false,
        }
    }
    true
}

/// The SOA record of a negative answer. All its names end with a pointer into the question.
struct Soa {
    bytes: [u8; SOA_LEN_MAX],
    len: usize,
    /// Offsets of the pointers that end MNAME and RNAME.
    pointers: [u8; 2],
}

impl Soa {
    /// `None` if a name is not below the origin, or the record is too long.
    fn new(key: &HashKey, zone: &dyn Zone) -> Option<Self> {
        let apex = zone.find(key, RelName::new(&[0; PADDED_LEN], 0, 0))?;
        let (ttl, data) = negative_soa(apex)?;
        let (mname, rest) = under(zone.origin(), data)?;
        let (rname, numbers) = under(zone.origin(), rest)?;
        let len = HEAD_LEN + mname.len() + 2 + rname.len() + 2 + numbers.len();
        let pointers = [HEAD_LEN + mname.len(), len - numbers.len() - 2].map(|at| at as u8);
        let ttl = ttl.to_be_bytes();
        let head = [0, 0, 0, 6, 0, 1, ttl[0], ttl[1], ttl[2], ttl[3], 0, (len - HEAD_LEN) as u8];
        let mut soa = Self { bytes: [0; SOA_LEN_MAX], len, pointers };
        let mut rest = soa.bytes.get_mut(..len)?;
        for part in [&head, mname, &[0; 2], rname, &[0; 2], numbers] {
            let (into, behind) = rest.split_at_mut(part.len());
            into.copy_from_slice(part);
            rest = behind;
        }
        Some(soa)
    }

    /// Puts the record for an origin at `origin_at` in the message; returns its length.
    #[inline(always)]
    fn put(&self, origin_at: u16, room: &mut [u8; ROOM_LEN]) -> usize {
        let (into, _) = room.split_at_mut(SOA_LEN_MAX);
        into.copy_from_slice(&self.bytes);
        let pointer = (POINTER | origin_at).to_be_bytes();
        into[..2].copy_from_slice(&pointer);
        for at in self.pointers {
            into[usize::from(at)..][..2].copy_from_slice(&pointer);
        }
        self.len
    }
}
