//! The short way of most questions: plain ones for an address, that one record answers, or that
//! the zone's SOA does. It writes what `solve`, `reply` and `finish` would, in one go.
//!
//! No label is looked at before the name is looked up: octets that are found among a zone's names
//! are a name. Whatever is not as plain as that takes the long way, from its first octet on.
use crate::Policy;
use crate::finish::{OPT_LEN, PlainOpt, put_header};
use crate::guard::COOKIE_LEN;
use crate::ledger::{Content, Kind, Made};
use crate::limits::SOA_LEN_MAX;
use crate::reply::{negative_soa, under};
use crate::solve::Site;
use core::ptr;
use image::{DepthMask, HashKey, Leaf, RecordSet, RelName, Zone, same};
use packet::Packet;
use wire::limits::PADDED_LEN;
use wire::{Flags, Glance, HEADER_LEN, Name, Rcode, Rtype};

const COOKIE_OPTION_LEN: usize = 4 + COOKIE_LEN;
/// Octets of a record in front of its data, its owner a pointer.
const HEAD_LEN: usize = 12;
/// Octets that a short reply may write behind its question. The question is at most 271 octets
/// long, so that all of it fits into what every client can receive.
const ROOM_LEN: usize = SOA_LEN_MAX + OPT_LEN + COOKIE_OPTION_LEN;
const POINTER: u16 = 0xc000;
/// Counts of a reply's answer and authority section.
const ANSWER: [u16; 2] = [1, 0];
const AUTHORITY: [u16; 2] = [0, 1];

/// Where the name of a plain question would lie.
#[derive(Clone, Copy)]
pub(crate) struct Lead<'w> {
    pub(crate) zone: &'w dyn Zone,
    pub(crate) hash: u64,
    /// The leaf of that hash.
    pub(crate) leaf: &'w [u8],
    /// Octets of the name below the zone's origin.
    len: u8,
    /// What the reply says of the name.
    content: Content,
    /// Octets of header and question.
    pub(crate) question_end: u16,
}

impl<'w> Lead<'w> {
    /// Takes a message that asks for an address of a name below the origin of a plain site.
    #[inline(always)]
    pub(crate) fn new(
        key: &HashKey,
        site: &Option<Site<'w>>,
        glance: &mut Glance,
        packet: &Packet<'_>,
    ) -> Option<Self> {
        let Some(site @ Site { plain: true, .. }) = site else { return None };
        let name_len = glance.read(packet.buf, packet.len)?;
        Self::at(key, site, glance, name_len)
    }

    /// Takes one that has a cookie too.
    #[inline(always)]
    pub(crate) fn with_cookie(
        key: &HashKey,
        site: &Option<Site<'w>>,
        glance: &mut Glance,
        packet: &Packet<'_>,
    ) -> Option<Self> {
        let Some(site @ Site { plain: true, .. }) = site else { return None };
        let name_len = glance.read_with_cookie(packet.buf, packet.len)?;
        Self::at(key, site, glance, name_len)
    }

    #[inline(always)]
    fn at(key: &HashKey, site: &Site<'w>, glance: &Glance, name_len: usize) -> Option<Self> {
        let len = name_len.checked_sub(site.origin.len())?;
        if !matches!(glance.rtype, Rtype::A | Rtype::AAAA)
            || !same(glance.padded().get(len..name_len)?, site.origin)
        {
            return None;
        }
        let hash = key.hash(glance.padded(), 0, len);
        let (len, question_end) = (len as u8, (HEADER_LEN + name_len + 4) as u16);
        let (zone, leaf) = (site.zone, site.zone.leaf(hash));
        Some(Self { zone, hash, leaf, len, content: Content::Records, question_end })
    }
}

impl<'w> Lead<'w> {
    /// The reply of `len` octets that [`Desk::answer`] made.
    #[inline(always)]
    pub(crate) fn made(&self, glance: &Glance, len: usize) -> Made<'w> {
        let missing = self.content == Content::Missing;
        Made {
            kind: Kind::of(self.zone, self.hash, glance.rtype, self.content),
            rcode: if missing { Rcode::NxDomain } else { Rcode::NoError },
            type_index: (glance.rtype == Rtype::AAAA).into(),
            question_end: self.question_end,
            records_end: (len - if glance.has_opt { OPT_LEN } else { 0 }) as u16,
        }
    }
}

/// What short replies are written with.
pub(crate) struct Desk<'w> {
    key: &'w HashKey,
    /// QR and AA, and RA where it is offered; in network order.
    flags: u16,
    opt: PlainOpt,
    /// The zone that was last asked for what it does not have.
    soa: Option<(&'w dyn Zone, Option<Soa>)>,
}

impl<'w> Desk<'w> {
    pub(crate) fn new(key: &'w HashKey, policy: &Policy<'_>) -> Self {
        let flags = (Flags::QR | Flags::AA | policy.offers()).to_be();
        Self { key, flags, opt: PlainOpt::new(policy.udp_size_max), soa: None }
    }

    /// Answers in the question's buffer; returns the code and the reply's length, or nothing where
    /// the long way has to be taken. The message is still the question then.
    #[inline(always)]
    pub(crate) fn answer(
        &mut self,
        lead: &mut Lead<'w>,
        glance: &Glance,
        buf: &mut [u8],
    ) -> Option<(Rcode, usize)> {
        let question_end = usize::from(lead.question_end);
        let room = buf.get_mut(question_end..question_end + ROOM_LEN)?.first_chunk_mut()?;
        let name = &glance.padded()[..usize::from(lead.len)];
        let (rcode, counts, len) = match Leaf::new(lead.leaf).find(lead.hash, name) {
            Some(node) => match node.set(glance.rtype) {
                Some(set) if glance.rtype == Rtype::A => {
                    (Rcode::NoError, ANSWER, put_only::<4>(room, &set)?)
                }
                Some(set) => (Rcode::NoError, ANSWER, put_only::<16>(room, &set)?),
                None if node.set(Rtype::CNAME).is_some() => return None,
                None => (Rcode::NoError, AUTHORITY, self.put_soa(lead, Content::Empty, room)?),
            },
            None if is_missing(lead.zone, name) => {
                (Rcode::NxDomain, AUTHORITY, self.put_soa(lead, Content::Missing, room)?)
            }
            None => return None,
        };
        self.opt.put(room.get_mut(len..len + OPT_LEN)?.first_chunk_mut()?);
        let set = self.flags | (rcode as u16).to_be();
        put_header(buf, Flags::RD, set, [counts[0], counts[1], glance.has_opt.into()]);
        let opt_len = if glance.has_opt { OPT_LEN } else { 0 };
        Some((rcode, question_end + len + opt_len))
    }

    /// Puts the SOA of the zone, as one that says what there is not.
    #[inline(never)]
    fn put_soa(
        &mut self,
        lead: &mut Lead<'w>,
        content: Content,
        room: &mut [u8; ROOM_LEN],
    ) -> Option<usize> {
        lead.content = content;
        let known = self.soa.as_ref().is_some_and(|(zone, _)| ptr::addr_eq(*zone, lead.zone));
        if !known {
            self.soa = Some((lead.zone, Soa::new(self.key, lead.zone)));
        }
        let (_, soa) = self.soa.as_ref()?;
        soa.as_ref().map(|soa| soa.put(HEADER_LEN as u16 + u16::from(lead.len), room))
    }
}

/// Puts a cookie behind an OPT record that ends a reply of `len` octets; returns where it ends.
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

/// Puts the only record of a set, whose data has N octets, at the question's name; nothing where
/// there are several.
#[inline(always)]
fn put_only<const N: usize>(room: &mut [u8; ROOM_LEN], set: &RecordSet<'_>) -> Option<usize> {
    let data: [u8; N] = set.data().try_into().ok()?;
    let [t0, t1, l0, l1, l2, l3, ..] = *set.head();
    let head = [0xc0, HEADER_LEN as u8, t0, t1, 0, 1, l0, l1, l2, l3, 0, N as u8];
    *room.first_chunk_mut()? = head;
    *room[HEAD_LEN..].first_chunk_mut()? = data;
    Some(HEAD_LEN + N)
}

/// Whether octets that are found nowhere in the zone are a name that does not exist, and that no
/// wildcard can stand for.
#[inline(always)]
fn is_missing(zone: &dyn Zone, octets: &[u8]) -> bool {
    zone.facts().wildcards == DepthMask::default() && are_labels(octets)
}

/// Whether octets are whole labels, one behind another.
#[inline(always)]
fn are_labels(mut octets: &[u8]) -> bool {
    while let [len, behind @ ..] = octets {
        let len = usize::from(*len);
        match behind.get(len..) {
            Some(rest) if (1..=Name::LABEL_MAX).contains(&len) => octets = rest,
            _ => return false,
        }
    }
    true
}

/// The SOA record of a negative answer, whose names all point into the question.
struct Soa {
    octets: [u8; SOA_LEN_MAX],
    len: usize,
    /// Where MNAME and RNAME go on with a pointer.
    pointers: [u8; 2],
}

impl Soa {
    /// That of a zone, when both names lie below its origin and are not very long.
    fn new(key: &HashKey, zone: &dyn Zone) -> Option<Self> {
        let apex = zone.find(key, RelName::new(&[0; PADDED_LEN], 0, 0))?;
        let (ttl, data) = negative_soa(apex)?;
        let (mname, rest) = under(zone.origin(), data)?;
        let (rname, numbers) = under(zone.origin(), rest)?;
        let len = HEAD_LEN + mname.len() + 2 + rname.len() + 2 + numbers.len();
        let pointers = [HEAD_LEN + mname.len(), len - numbers.len() - 2].map(|at| at as u8);
        let ttl = ttl.to_be_bytes();
        let head = [0, 0, 0, 6, 0, 1, ttl[0], ttl[1], ttl[2], ttl[3], 0, (len - HEAD_LEN) as u8];
        let mut soa = Self { octets: [0; SOA_LEN_MAX], len, pointers };
        let mut rest = soa.octets.get_mut(..len)?;
        for part in [&head, mname, &[0; 2], rname, &[0; 2], numbers] {
            let (into, behind) = rest.split_at_mut(part.len());
            into.copy_from_slice(part);
            rest = behind;
        }
        Some(soa)
    }

    /// Puts it, for an origin that stands at `origin_at` in the message; returns its length.
    #[inline(always)]
    fn put(&self, origin_at: u16, room: &mut [u8; ROOM_LEN]) -> usize {
        let (into, _) = room.split_at_mut(SOA_LEN_MAX);
        into.copy_from_slice(&self.octets);
        let pointer = (POINTER | origin_at).to_be_bytes();
        into[..2].copy_from_slice(&pointer);
        for at in self.pointers {
            into[usize::from(at)..][..2].copy_from_slice(&pointer);
        }
        self.len
    }
}
