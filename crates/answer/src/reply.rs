//! Composing: record sets into the reply, section by section, each whole or not at all.
use crate::Dice;
use crate::elsewhere;
use crate::finish::{Ede, Room};
use crate::ledger::{Content, Kind, has_content};
use crate::solve::Start;
use image::{HashKey, Node, RecordSet, same};
use packet::Transport;
use wire::{Composer, Flags, Full, HEADER_LEN, Name, NameBuf, Query, Rcode, Rtype, Suffixes};

/// The sections that records go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Answer,
    Authority,
    Additional,
}

/// The owner name of a record set.
#[derive(Clone, Copy)]
pub(crate) enum Owner<'n> {
    /// A place in the question's name.
    Question(usize),
    /// A name to be written.
    Name(Name<'n>),
}

const POINTER: u16 = 0xc000;

/// A reply while it is composed.
pub(crate) struct Reply<'r> {
    pub(crate) query: &'r Query,
    pub(crate) transport: Transport,
    pub(crate) out: Composer<'r>,
    /// AA and TC.
    pub(crate) flags: u16,
    pub(crate) rcode: Rcode,
    pub(crate) ede: Option<Ede>,
    /// Records in answer, authority and additional section.
    pub(crate) counts: [u16; 3],
    /// Whether a wildcard or a DNAME stands for the name asked for.
    pub(crate) made_up: bool,
    dice: &'r mut Dice,
}

impl<'r> Reply<'r> {
    /// A reply in the buffer that the question stands in.
    #[inline(always)]
    pub(crate) fn new(
        buf: &'r mut [u8],
        room: Room,
        query: &'r Query,
        transport: Transport,
        suffixes: &'r mut Suffixes,
        dice: &'r mut Dice,
    ) -> Self {
        let out = Composer::new(buf, query.question_end, room.records, suffixes);
        let (rcode, ede) = (Rcode::NoError, None);
        let (counts, made_up) = ([0; 3], false);
        Self { query, transport, out, flags: 0, rcode, ede, counts, made_up, dice }
    }

    /// An error: nothing but the question goes back.
    pub(crate) fn fail(&mut self, rcode: Rcode, ede: Option<Ede>) {
        self.rcode = rcode;
        self.ede = ede;
    }

    /// What it counts as where replies have a rate. `start` is where the question's name was looked
    /// up.
    pub(crate) fn kind<'w>(&self, key: &HashKey, start: Option<Start<'_, 'w>>) -> Kind<'w> {
        let Some(start) = start.filter(|_| has_content(self.rcode)) else {
            return Kind::error(self.rcode);
        };
        let is_empty = self.counts[Section::Answer as usize] == 0 && !self.is_truncated();
        let content = match self.rcode {
            Rcode::NoError if self.made_up => Content::MadeUp,
            Rcode::NoError if !is_empty => Content::Records,
            Rcode::NoError if self.flags & Flags::AA != 0 => Content::Empty,
            Rcode::NoError if matches!(start, Start::Theirs(_)) => Content::Empty,
            Rcode::NoError => Content::Referral,
            _ => Content::Missing,
        };
        match start {
            Start::Ours(spot) => Kind::of(spot.zone, spot.hash, self.query.rtype, content),
            Start::Hosts(host) => Kind::of(host.zone, host.hash, self.query.rtype, content),
            Start::Theirs(group) => {
                let name = elsewhere::key(key, &self.query.name, self.query).hash;
                Kind::of_others(group, name, self.query.rtype, content)
            }
        }
    }

    /// The answer is this server's own, or is not (RFC 1035 §4.1.1).
    #[inline]
    pub(crate) fn set_authoritative(&mut self, authoritative: bool) {
        self.flags = self.flags & !Flags::AA | if authoritative { Flags::AA } else { 0 };
    }

    /// Something that had to be there did not fit.
    pub(crate) fn truncate(&mut self) {
        self.flags |= Flags::TC;
    }

    /// Whether something that had to be there did not fit.
    #[inline]
    pub(crate) fn is_truncated(&self) -> bool {
        self.flags & Flags::TC != 0
    }

    /// Puts a record set with its signatures if those are asked for; it is whole or not there.
    ///
    /// # Errors
    /// When it does not fit.
    #[inline]
    pub(crate) fn put(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        set: &RecordSet<'_>,
        node: Node<'_>,
        ttl: u32,
    ) -> Result<(), Full> {
        let mark = self.out.mark();
        let dnssec = self.query.dnssec_ok();
        let put = self.put_records(owner, set, ttl).and_then(|()| match dnssec {
            true => self.put_signatures(owner, set.rtype(), node, ttl),
            false => Ok(0),
        });
        match put {
            Ok(signatures) => {
                self.counts[section as usize] += set.count() as u16 + signatures;
                Ok(())
            }
            Err(Full) => {
                self.out.rewind(mark);
                Err(Full)
            }
        }
    }

    /// Puts what must be there: if it does not fit, the reply is truncated.
    #[inline]
    pub(crate) fn put_needed(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        set: &RecordSet<'_>,
        node: Node<'_>,
    ) {
        if self.put(section, owner, set, node, set.ttl()).is_err() {
            self.truncate();
        }
    }

    /// Puts a made-up CNAME (RFC 6672 §3.1).
    ///
    /// # Errors
    /// When it does not fit.
    pub(crate) fn put_cname(
        &mut self,
        owner: Owner<'_>,
        ttl: u32,
        target: Name<'_>,
    ) -> Result<(), Full> {
        let mark = self.out.mark();
        let put = self
            .put_head(owner, Rtype::CNAME, ttl)
            .and_then(|()| self.out.put_rdata(Rtype::CNAME, target.octets()));
        match put {
            Ok(()) => self.counts[Section::Answer as usize] += 1,
            Err(Full) => self.out.rewind(mark),
        }
        put
    }

    /// Puts a CH TXT record at the question's name.
    pub(crate) fn put_chaos_text(&mut self, text: &[u8]) {
        let len = text.len().min(255);
        let head = [0xc0, HEADER_LEN as u8, 0, 16, 0, 3, 0, 0, 0, 0];
        let put = self.out.put_array(head).and_then(|()| {
            self.out.put_array((len as u16 + 1).to_be_bytes())?;
            self.out.put_array([len as u8])?;
            self.out.put(&text[..len])
        });
        match put {
            Ok(()) => self.counts[Section::Answer as usize] += 1,
            Err(Full) => self.truncate(),
        }
    }

    /// Address sets start anywhere, so that each record is the first as often as any other.
    fn put_records(&mut self, owner: Owner<'_>, set: &RecordSet<'_>, ttl: u32) -> Result<(), Full> {
        let (rtype, count) = (set.rtype(), set.count());
        let rotates = rtype.fixed_rdata_len().is_some() && count > 1;
        let start = if rotates { self.dice.below(count) } else { 0 };
        let mut records = set.records().skip(start).chain(set.records().take(start));
        records.try_for_each(|data| self.put_record(owner, rtype, ttl, data))
    }

    fn put_head(&mut self, owner: Owner<'_>, rtype: Rtype, ttl: u32) -> Result<(), Full> {
        match owner {
            Owner::Question(at) => {
                self.out.put_array((POINTER | (HEADER_LEN + at) as u16).to_be_bytes())?;
            }
            Owner::Name(name) => self.out.put_name(name)?,
        }
        let (rtype, ttl) = (rtype.0.to_be_bytes(), ttl.to_be_bytes());
        self.out.put_array([rtype[0], rtype[1], 0, 1, ttl[0], ttl[1], ttl[2], ttl[3]])
    }

    pub(crate) fn put_record(
        &mut self,
        owner: Owner<'_>,
        rtype: Rtype,
        ttl: u32,
        rdata: &[u8],
    ) -> Result<(), Full> {
        self.put_head(owner, rtype, ttl)?;
        self.out.put_rdata(rtype, rdata)
    }

    /// The signatures over one set of a node. They live as long as what they sign (RFC 4034 §3).
    fn put_signatures(
        &mut self,
        owner: Owner<'_>,
        covered: Rtype,
        node: Node<'_>,
        ttl: u32,
    ) -> Result<u16, Full> {
        let Some(all) = node.set(Rtype::RRSIG).filter(|_| covered != Rtype::RRSIG) else {
            return Ok(0);
        };
        let mut count = 0;
        for signature in all.records() {
            if signature.starts_with(&covered.0.to_be_bytes()) {
                self.put_record(owner, Rtype::RRSIG, ttl, signature)?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Puts all signatures of a node, each with the TTL of what it signs.
    ///
    /// # Errors
    /// When they do not fit.
    pub(crate) fn put_all_signatures(
        &mut self,
        owner: Owner<'_>,
        all: &RecordSet<'_>,
        node: Node<'_>,
    ) -> Result<(), Full> {
        let mark = self.out.mark();
        for signature in all.records() {
            let covered =
                signature.first_chunk().map_or(Rtype(0), |c| Rtype(u16::from_be_bytes(*c)));
            let ttl = node.set(covered).map_or(all.ttl(), |set| set.ttl());
            if let Err(Full) = self.put_record(owner, Rtype::RRSIG, ttl, signature) {
                self.out.rewind(mark);
                return Err(Full);
            }
        }
        self.counts[Section::Answer as usize] += all.count() as u16;
        Ok(())
    }

    /// Puts the zone's SOA where it says how long what is not there may be remembered.
    /// `in_question` is where the origin stands in the question's name, if it does.
    pub(crate) fn put_negative_soa(
        &mut self,
        origin: Name<'_>,
        in_question: Option<usize>,
        apex: Node<'_>,
    ) {
        let Some(set) = apex.set(Rtype::SOA) else { return };
        let Some((ttl, data)) = negative_soa(apex) else { return };
        let owner = in_question.map_or(Owner::Name(origin), Owner::Question);
        let put = match (owner, self.query.dnssec_ok()) {
            (Owner::Question(at), false) => self.put_soa_fast(origin, at, ttl, data),
            _ => self.put(Section::Authority, owner, &set, apex, ttl),
        };
        if put.is_err() {
            self.truncate();
        }
    }

    /// The most frequent negative answer: owner, MNAME and RNAME all point into the question.
    fn put_soa_fast(
        &mut self,
        origin: Name<'_>,
        at: usize,
        ttl: u32,
        data: &[u8],
    ) -> Result<(), Full> {
        let mark = self.out.mark();
        let put = self.put_head(Owner::Question(at), Rtype::SOA, ttl).and_then(|()| {
            let length_at = self.out.len();
            self.out.put_array([0; 2])?;
            let rest = self.put_name_under(origin, at, data)?;
            let numbers = self.put_name_under(origin, at, rest)?;
            self.out.put(numbers)?;
            self.out.patch_u16(length_at, (self.out.len() - length_at - 2) as u16);
            Ok(())
        });
        match put {
            Ok(()) => self.counts[Section::Authority as usize] += 1,
            Err(Full) => self.out.rewind(mark),
        }
        put
    }

    /// Puts the name that `data` begins with; where it lies under the origin, which stands at
    /// `at` in the question's name, by pointing there. Returns what follows it.
    fn put_name_under<'d>(
        &mut self,
        origin: Name<'_>,
        at: usize,
        data: &'d [u8],
    ) -> Result<&'d [u8], Full> {
        if let Some((prefix, rest)) = under(origin, data) {
            self.out.put(prefix)?;
            self.out.put_array((POINTER | (HEADER_LEN + at) as u16).to_be_bytes())?;
            return Ok(rest);
        }
        let name = Name::parse(data).map_err(|_| Full)?;
        self.out.put_name(name)?;
        Ok(&data[name.len()..])
    }
}

/// The SOA of an apex as a negative answer needs it: the lower of its TTL and its MINIMUM (RFC 2308
/// §3), and its data.
pub(crate) fn negative_soa(apex: Node<'_>) -> Option<(u32, &[u8])> {
    let set = apex.set(Rtype::SOA)?;
    let data = set.records().next()?;
    let minimum = data.last_chunk().map_or(0, |minimum| u32::from_be_bytes(*minimum));
    Some((set.ttl().min(minimum), data))
}

/// The labels that the name at the start of `data` has below the origin, if it lies there, written
/// in the same case; and what follows the name.
pub(crate) fn under<'d>(origin: Name<'_>, data: &'d [u8]) -> Option<(&'d [u8], &'d [u8])> {
    let mut at = 0;
    loop {
        let rest = data.get(at..)?;
        let len = usize::from(*rest.first()?);
        if at > 0
            && let Some((head, behind)) = rest.split_at_checked(origin.len())
            && same(head, origin.octets())
        {
            return Some((&data[..at], behind));
        }
        if len == 0 {
            return None;
        }
        at += 1 + len;
    }
}

/// A name relative to a zone's origin, made absolute.
pub(crate) fn absolute(relative: &[u8], origin: Name<'_>) -> NameBuf {
    NameBuf::joined(relative, origin).unwrap_or(NameBuf::root())
}
