//! The short way of plain questions for a name that is somebody else's, and known: what was kept
//! is put behind the question as it lies there.
//!
//! Nobody is asked whose the name is. What is kept says by which map of names it was somebody
//! else's, and while that is the world's map, it still is. All else takes the long way, where what
//! is found is [confirmed](Elsewhere::confirm) by the map of today.
use crate::elsewhere::{Elsewhere, Lookup, is_due};
use crate::finish::{OPT_LEN, PlainOpt, put_header};
use crate::ledger::{Content, Kind, Made};
use crate::relay::Note;
use crate::tally::{Tally, type_index};
use crate::{Policy, Way};
use cache::Key;
use image::HashKey;
use packet::{BURST_MAX, Packet, Verdict};
use wire::limits::UDP_LEN_MIN;
use wire::{Class, Flags, Glance, HEADER_LEN, Rcode, age_records};

/// A name that may be known.
#[derive(Clone, Copy)]
pub(crate) struct Hint {
    hash: u64,
    /// Octets of the name.
    name_len: u8,
}

impl Hint {
    /// Takes a message that asks for a name, and wants others to be asked for it.
    #[inline(always)]
    pub(crate) fn new(key: &HashKey, glance: &mut Glance, packet: &Packet<'_>) -> Option<Self> {
        let name_len = glance.read(packet.buf, packet.len)?;
        let hash = key.hash(glance.padded(), 0, name_len - 1);
        // From 128 on there are types that no record has (RFC 6895 §3.1): what is asked for them is
        // refused, whatever there is.
        let is_plain = flags(packet.buf).has(Flags::RD) && glance.rtype.0 < 128;
        is_plain.then_some(Self { hash, name_len: name_len as u8 })
    }

    /// What is looked for.
    #[inline(always)]
    pub(crate) fn key<'g>(&self, glance: &'g Glance, buf: &[u8]) -> Key<'g> {
        let name = &glance.padded()[..usize::from(self.name_len)];
        let checks_itself = flags(buf).has(Flags::CD);
        let kind = cache::Kind::new(glance.rtype.0, Class::IN.0, false, checks_itself);
        Key { hash: self.hash, kind, name }
    }

    /// The reply that [`Shelf::answer`] made.
    #[inline(always)]
    pub(crate) fn made<'w>(&self, glance: &Glance, packet: &Packet<'_>) -> Made<'w> {
        let opt_len = if glance.has_opt { OPT_LEN } else { 0 };
        Made {
            kind: Kind::of_others(0, self.hash, glance.rtype, Content::Records),
            rcode: Rcode::NoError,
            type_index: type_index(glance.rtype) as u8,
            question_end: self.question_end() as u16,
            records_end: (packet.len - opt_len) as u16,
        }
    }

    /// Octets of header and question.
    fn question_end(&self) -> usize {
        HEADER_LEN + usize::from(self.name_len) + 4
    }
}

/// What is put behind questions, and what is said with it.
pub(crate) struct Shelf {
    /// The number of the world's map.
    map: u32,
    /// QR and RA, in network order.
    flags: u16,
    opt: PlainOpt,
    /// Whether replies have a rate: those without records are charged for by whose names they are,
    /// which only the long way tells.
    tells_whose: bool,
}

impl Shelf {
    pub(crate) fn new(map: u32, policy: &Policy<'_>) -> Self {
        let tells_whose = policy.limits.as_ref().is_some_and(|limits| limits.replies.is_some());
        let flags = (Flags::QR | policy.offers()).to_be();
        Self { map, flags, opt: PlainOpt::new(policy.udp_size_max), tells_whose }
    }

    /// Answers, of a burst, all that takes this way, and marks what cannot.
    #[inline(never)]
    pub(crate) fn answer_all(
        &self,
        elsewhere: &mut dyn Elsewhere,
        glances: &[Glance; BURST_MAX],
        ways: &mut [Way<'_>; BURST_MAX],
        packets: &mut [Packet<'_>],
        tally: &mut Tally,
    ) {
        for ((packet, glance), way) in packets.iter().zip(glances).zip(&*ways) {
            if let Way::Known(hint) = way {
                elsewhere.prefetch(&hint.key(glance, packet.buf));
            }
        }
        for ((packet, glance), way) in packets.iter_mut().zip(glances).zip(ways) {
            let Way::Known(hint) = way else { continue };
            match self.answer(*hint, glance, elsewhere, packet) {
                Some(rcode) => {
                    packet.verdict = Verdict::Reply;
                    tally.count(rcode, type_index(glance.rtype));
                }
                None => *way = Way::Unknown,
            }
        }
    }

    /// Answers in the question's buffer; nothing where the long way has to be taken. The message is
    /// still the question then.
    #[inline(always)]
    pub(crate) fn answer(
        &self,
        hint: Hint,
        glance: &Glance,
        elsewhere: &mut dyn Elsewhere,
        packet: &mut Packet<'_>,
    ) -> Option<Rcode> {
        let found = elsewhere.find(&hint.key(glance, packet.buf))?;
        let (note, records_at) = Note::read(found.message, hint.name_len.into())?;
        let records = found.message.get(records_at..)?;
        let question_end = hint.question_end();
        let records_end = question_end + records.len();
        // What every client can receive.
        let buf = packet.buf.get_mut(..UDP_LEN_MIN)?;
        let is_as_new = found.map == self.map && found.is_fresh() && !is_due(&found);
        let is_whole = !note.unfinished && note.rcode != Rcode::ServFail;
        if !is_as_new
            || !is_whole
            || self.tells_whose && note.answers == 0
            || records_end + OPT_LEN > buf.len()
        {
            return None;
        }
        let age = found.age;
        let (head, behind) = buf.split_at_mut(question_end);
        let (room, behind) = behind.split_at_mut(records.len());
        room.copy_from_slice(records);
        age_records(room, |ttl| ttl.saturating_sub(age));
        self.opt.put(behind.first_chunk_mut()?);
        // RFC 6840 §5.8: AD for who asks for it. RFC 4035 §3.2.2: CD is copied.
        let kept = Flags::RD | Flags::CD | if note.authentic { Flags::AD } else { 0 };
        let set = self.flags | (note.rcode as u16).to_be();
        put_header(head, kept, set, [note.answers, note.authorities, glance.has_opt.into()]);
        packet.len = records_end + if glance.has_opt { OPT_LEN } else { 0 };
        elsewhere.count(Lookup::Hit);
        Some(note.rcode)
    }
}

/// The flags of a message.
#[inline(always)]
fn flags(buf: &[u8]) -> Flags {
    Flags(buf.get(2..4).and_then(<[u8]>::first_chunk).map_or(0, |f| u16::from_be_bytes(*f)))
}
