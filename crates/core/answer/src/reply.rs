//! Composes record sets into the reply, section by section, each whole or not at all. Only of the
//! set that the query asks for, a truncated reply has as many records as fit.
use crate::SmallRng;
use crate::choose::Chooser;
use crate::ede::Ede;
use crate::reply_room::ReplyRoom;
use crate::subnet_reply::{Dependence, SubnetReply};
use image::{Location, Node, Order, RecordSet, Selection, same};
use packet::QueryContext;
use wire::{Composer, Flags, HEADER_LEN, Name, NameBuf, NoSpace, Query, Rcode, Rtype, Suffixes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplySection {
    Answer,
    Authority,
    Additional,
}

/// The owner name of a record set.
#[derive(Clone, Copy)]
pub(crate) enum OwnerName<'n> {
    /// A pointer to this offset in the question's name.
    Question(usize),
    /// A name to write.
    Name(Name<'n>),
}

const POINTER: u16 = 0xc000;

/// A reply while it is composed.
pub(crate) struct ReplyWriter<'r> {
    pub(crate) query: &'r Query,
    pub(crate) context: &'r QueryContext,
    pub(crate) out: Composer<'r>,
    /// AA and TC.
    pub(crate) flags: u16,
    pub(crate) rcode: Rcode,
    pub(crate) ede: Option<Ede>,
    /// Records in answer, authority and additional section.
    pub(crate) counts: [u16; 3],
    /// Whether a wildcard or a DNAME synthesized the answer.
    pub(crate) is_synthesized: bool,
    /// What of the client the answer depends on.
    pub(crate) depends: Dependence,
    /// The client subnet option of the reply.
    pub(crate) subnet: Option<&'r SubnetReply>,
    random: &'r mut SmallRng,
    /// Where the client is.
    location: Location,
    /// The random number that selected from the last set.
    draw: u64,
}

impl<'r> ReplyWriter<'r> {
    /// A reply in the buffer of its query.
    #[inline(always)]
    pub(crate) fn new(
        buf: &'r mut [u8],
        room: ReplyRoom,
        query: &'r Query,
        (context, location): (&'r QueryContext, Location),
        suffixes: &'r mut Suffixes,
        random: &'r mut SmallRng,
    ) -> Self {
        let out = Composer::new(buf, query.question_end, room.records, suffixes);
        let (rcode, ede) = (Rcode::NoError, None);
        let (counts, is_synthesized, draw) = ([0; 3], false, 0);
        Self {
            query,
            context,
            out,
            flags: 0,
            rcode,
            ede,
            counts,
            is_synthesized,
            random,
            depends: Dependence::None,
            subnet: None,
            location,
            draw,
        }
    }

    /// Sets the response code and the extended error.
    pub(crate) fn fail(&mut self, rcode: Rcode, ede: Option<Ede>) {
        self.rcode = rcode;
        self.ede = ede;
    }

    /// Sets or clears AA (RFC 1035 §4.1.1).
    #[inline]
    pub(crate) fn set_authoritative(&mut self, authoritative: bool) {
        self.flags = self.flags & !Flags::AA | if authoritative { Flags::AA } else { 0 };
    }

    /// Sets TC: a required record set did not fit.
    pub(crate) fn truncate(&mut self) {
        self.flags |= Flags::TC;
    }

    #[inline]
    pub(crate) fn is_truncated(&self) -> bool {
        self.flags & Flags::TC != 0
    }

    /// Puts a record set, with its signatures if requested; whole or not at all.
    ///
    /// # Errors
    /// [`NoSpace`] if it does not fit.
    #[inline]
    pub(crate) fn put(
        &mut self,
        section: ReplySection,
        owner: OwnerName<'_>,
        set: &RecordSet<'_>,
        node: Node<'_>,
        ttl: u32,
    ) -> Result<(), NoSpace> {
        let mark = self.out.mark();
        let dnssec = self.query.dnssec_ok();
        let put = self.put_records(owner, set, ttl).and_then(|records| match dnssec {
            true => Ok(records + self.put_signatures(owner, set.rtype(), node, ttl)?),
            false => Ok(records),
        });
        match put {
            Ok(records) => {
                self.counts[section as usize] += records;
                Ok(())
            }
            Err(NoSpace) => {
                self.out.rewind(mark);
                Err(NoSpace)
            }
        }
    }

    /// Puts a required set: if it does not fit, the reply is truncated.
    #[inline]
    pub(crate) fn put_needed(
        &mut self,
        section: ReplySection,
        owner: OwnerName<'_>,
        set: &RecordSet<'_>,
        node: Node<'_>,
    ) {
        if self.put(section, owner, set, node, set.ttl()).is_err() {
            self.truncate();
        }
    }

    /// Puts the set that the query asks for. If it does not fit, the reply is truncated and has as
    /// many of the records as fit (RFC 2181 §9), for clients that do not use TCP.
    #[inline]
    pub(crate) fn put_answer(&mut self, owner: OwnerName<'_>, set: &RecordSet<'_>, node: Node<'_>) {
        if self.put(ReplySection::Answer, owner, set, node, set.ttl()).is_err() {
            self.put_part(owner, set, node);
        }
    }

    /// A signed set is put whole or not at all: a part of it cannot be validated.
    #[inline(never)]
    fn put_part(&mut self, owner: OwnerName<'_>, set: &RecordSet<'_>, node: Node<'_>) {
        self.truncate();
        if self.query.dnssec_ok() && node.set(Rtype::RRSIG).is_some() {
            return;
        }
        let (rtype, ttl) = (set.rtype(), set.ttl());
        let put = |reply: &mut Self, data| reply.put_single(owner, rtype, ttl, data);
        // What does not fit is left out.
        let _ = match set.selection() {
            Some(selection) => {
                let chooser = self.chooser();
                chooser.choose(set, &selection, &mut |data| put(self, data))
            }
            None => {
                let start = self.choose_start(set);
                let mut records = set.records().skip(start).chain(set.records().take(start));
                records.try_for_each(|data| put(self, data)).map(|()| 0)
            }
        };
    }

    /// Puts one record: the CNAME of a DNAME (RFC 6672 §3.1), an address, or one of a set.
    ///
    /// # Errors
    /// [`NoSpace`] if it does not fit.
    pub(crate) fn put_single(
        &mut self,
        owner: OwnerName<'_>,
        rtype: Rtype,
        ttl: u32,
        data: &[u8],
    ) -> Result<(), NoSpace> {
        let mark = self.out.mark();
        let put = self.put_record(owner, rtype, ttl, data);
        match put {
            Ok(()) => self.counts[ReplySection::Answer as usize] += 1,
            Err(NoSpace) => self.out.rewind(mark),
        }
        put
    }

    pub(crate) fn put_chaos_text(&mut self, text: &[u8]) {
        let len = text.len().min(255);
        let head = [0xc0, HEADER_LEN as u8, 0, 16, 0, 3, 0, 0, 0, 0];
        let put = self.out.put_array(head).and_then(|()| {
            self.out.put_array((len as u16 + 1).to_be_bytes())?;
            self.out.put_array([len as u8])?;
            self.out.put(&text[..len])
        });
        match put {
            Ok(()) => self.counts[ReplySection::Answer as usize] += 1,
            Err(NoSpace) => self.truncate(),
        }
    }

    /// The record that comes first. Address sets start at a random one, so that all addresses are
    /// used equally.
    fn choose_start(&mut self, set: &RecordSet<'_>) -> usize {
        let rotates = set.rtype().fixed_rdata_len().is_some() && set.count() > 1;
        if rotates { self.random.below(set.count()) } else { 0 }
    }

    /// Puts the records of a set. Returns how many there are.
    fn put_records(
        &mut self,
        owner: OwnerName<'_>,
        set: &RecordSet<'_>,
        ttl: u32,
    ) -> Result<u16, NoSpace> {
        if set.has_rules()
            && let Some(selection) = set.selection()
        {
            return self.put_selected(owner, set, &selection, ttl);
        }
        let start = self.choose_start(set);
        let mut records = set.records().skip(start).chain(set.records().take(start));
        records.try_for_each(|data| self.put_record(owner, set.rtype(), ttl, data))?;
        Ok(set.count() as u16)
    }

    #[cold]
    fn put_selected(
        &mut self,
        owner: OwnerName<'_>,
        set: &RecordSet<'_>,
        selection: &Selection<'_>,
        ttl: u32,
    ) -> Result<u16, NoSpace> {
        if selection.order == Order::Hash {
            self.depends = Dependence::Address;
        } else if selection.groups().next().is_some() {
            self.depends = self.depends.max(Dependence::Network);
        }
        let chooser = self.chooser();
        let mut put = |data: &[u8]| self.put_record(owner, set.rtype(), ttl, data);
        chooser.choose(set, selection, &mut put)
    }

    /// What selects from the next set.
    fn chooser(&mut self) -> Chooser {
        self.draw = self.random.next();
        self.last_chooser()
    }

    fn last_chooser(&self) -> Chooser {
        let client = self.subnet.and_then(SubnetReply::client);
        let client = client.unwrap_or_else(|| self.context.client.ip());
        Chooser { client, location: self.location, draw: self.draw }
    }

    /// Passes on each record of the last set that was put.
    pub(crate) fn each_of_last<'w>(&self, set: &RecordSet<'w>, each: &mut dyn FnMut(&'w [u8])) {
        match set.selection() {
            Some(selection) => {
                let mut each = |data| -> Result<(), NoSpace> {
                    each(data);
                    Ok(())
                };
                let _ = self.last_chooser().choose(set, &selection, &mut each);
            }
            None => set.records().for_each(each),
        }
    }

    fn put_head(&mut self, owner: OwnerName<'_>, rtype: Rtype, ttl: u32) -> Result<(), NoSpace> {
        match owner {
            OwnerName::Question(at) => {
                self.out.put_array((POINTER | (HEADER_LEN + at) as u16).to_be_bytes())?;
            }
            OwnerName::Name(name) => self.out.put_name(name)?,
        }
        let (rtype, ttl) = (rtype.0.to_be_bytes(), ttl.to_be_bytes());
        self.out.put_array([rtype[0], rtype[1], 0, 1, ttl[0], ttl[1], ttl[2], ttl[3]])
    }

    pub(crate) fn put_record(
        &mut self,
        owner: OwnerName<'_>,
        rtype: Rtype,
        ttl: u32,
        rdata: &[u8],
    ) -> Result<(), NoSpace> {
        self.put_head(owner, rtype, ttl)?;
        self.out.put_rdata(rtype, rdata)
    }

    /// Puts the signatures over one set of a node. Their TTL is that of the set (RFC 4034 §3).
    fn put_signatures(
        &mut self,
        owner: OwnerName<'_>,
        covered: Rtype,
        node: Node<'_>,
        ttl: u32,
    ) -> Result<u16, NoSpace> {
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

    /// Puts all signatures of a node, each with the TTL of the set that it covers.
    ///
    /// # Errors
    /// [`NoSpace`] if they do not fit.
    pub(crate) fn put_all_signatures(
        &mut self,
        owner: OwnerName<'_>,
        all: &RecordSet<'_>,
        node: Node<'_>,
    ) -> Result<(), NoSpace> {
        let mark = self.out.mark();
        for signature in all.records() {
            let covered =
                signature.first_chunk().map_or(Rtype(0), |c| Rtype(u16::from_be_bytes(*c)));
            let ttl = node.set(covered).map_or(all.ttl(), |set| set.ttl());
            if let Err(NoSpace) = self.put_record(owner, Rtype::RRSIG, ttl, signature) {
                self.out.rewind(mark);
                return Err(NoSpace);
            }
        }
        self.counts[ReplySection::Answer as usize] += all.count() as u16;
        Ok(())
    }

    /// Puts the zone's SOA into a negative answer. `in_question` is the offset of the origin in the
    /// question's name, if it is there.
    pub(crate) fn put_negative_soa(
        &mut self,
        origin: Name<'_>,
        in_question: Option<usize>,
        apex: Node<'_>,
    ) {
        let Some(set) = apex.set(Rtype::SOA) else { return };
        let Some((ttl, data)) = negative_soa(apex) else { return };
        let owner = in_question.map_or(OwnerName::Name(origin), OwnerName::Question);
        let put = match (owner, self.query.dnssec_ok()) {
            (OwnerName::Question(at), false) => self.put_soa_fast(origin, at, ttl, data),
            _ => self.put(ReplySection::Authority, owner, &set, apex, ttl),
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
    ) -> Result<(), NoSpace> {
        let mark = self.out.mark();
        let put = self.put_head(OwnerName::Question(at), Rtype::SOA, ttl).and_then(|()| {
            let length_at = self.out.len();
            self.out.put_array([0; 2])?;
            let rest = self.put_name_under(origin, at, data)?;
            let numbers = self.put_name_under(origin, at, rest)?;
            self.out.put(numbers)?;
            self.out.patch_u16(length_at, (self.out.len() - length_at - 2) as u16);
            Ok(())
        });
        match put {
            Ok(()) => self.counts[ReplySection::Authority as usize] += 1,
            Err(NoSpace) => self.out.rewind(mark),
        }
        put
    }

    /// Puts the name at the start of `data`. A name below the origin ends with a pointer to the
    /// origin, at `at` in the question's name. Returns the rest of the data.
    fn put_name_under<'d>(
        &mut self,
        origin: Name<'_>,
        at: usize,
        data: &'d [u8],
    ) -> Result<&'d [u8], NoSpace> {
        if let Some((prefix, rest)) = under(origin, data) {
            self.out.put(prefix)?;
            self.out.put_array((POINTER | (HEADER_LEN + at) as u16).to_be_bytes())?;
            return Ok(rest);
        }
        let name = Name::parse(data).map_err(|_| NoSpace)?;
        self.out.put_name(name)?;
        Ok(&data[name.len()..])
    }
}

/// The TTL of a negative answer, the lower of the SOA's TTL and MINIMUM (RFC 2308 §3), and the SOA
/// data.
pub(crate) fn negative_soa(apex: Node<'_>) -> Option<(u32, &[u8])> {
    let set = apex.set(Rtype::SOA)?;
    let data = set.records().next()?;
    let minimum = data.last_chunk().map_or(0, |minimum| u32::from_be_bytes(*minimum));
    Some((set.ttl().min(minimum), data))
}

/// Splits the name at the start of `data` if it lies below the origin in the same case: its labels
/// below the origin, and the data behind the name.
pub(crate) fn under<'d>(origin: Name<'_>, data: &'d [u8]) -> Option<(&'d [u8], &'d [u8])> {
    let mut at = 0;
    loop {
        let rest = data.get(at..)?;
        let len = usize::from(*rest.first()?);
        if at > 0
            && let Some((head, behind)) = rest.split_at_checked(origin.len())
            && same(head, origin.as_bytes())
        {
            return Some((&data[..at], behind));
        }
        if len == 0 {
            return None;
        }
        at += 1 + len;
    }
}

/// Makes a name relative to a zone's origin absolute.
pub(crate) fn absolute(relative: &[u8], origin: Name<'_>) -> NameBuf {
    NameBuf::joined(relative, origin).unwrap_or(NameBuf::root())
}
