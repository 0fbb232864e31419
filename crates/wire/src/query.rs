//! A query, parsed: the question with its name in lower case, and what EDNS says.
use crate::header::{Flags, HEADER_LEN};
use crate::limits::{PADDED_LEN, QUERY_RECORDS_MAX};
use crate::{Class, Cookie, Edns, Malformed, Name, Rtype, skip_name};

/// Why a message is not a query that can be answered as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Shorter than a header: nobody to answer to.
    Short,
    /// A response: never answered, or two servers could talk to each other for ever.
    Response,
    /// An opcode other than QUERY.
    Opcode,
    /// Not to be understood, or more than one question (RFC 9619).
    Format,
    /// An EDNS version other than 0.
    Version,
    /// No question, but a COOKIE option: the client wants a server cookie (RFC 7873 §5.4).
    CookieOnly,
}

/// The question's name: lower case, with its labels' places.
#[derive(Clone, Debug)]
pub struct QName {
    lower: [u8; PADDED_LEN],
    starts: [u8; Name::LABELS_MAX + 1],
    len: u8,
    labels: u8,
}

impl QName {
    /// The root.
    pub const fn new() -> Self {
        Self { lower: [0; PADDED_LEN], starts: [0; Name::LABELS_MAX + 1], len: 1, labels: 0 }
    }

    /// The wire form in lower case, the root label included.
    #[inline]
    pub fn octets(&self) -> &[u8] {
        &self.lower[..usize::from(self.len)]
    }

    /// The name itself, in lower case.
    pub fn as_name(&self) -> Name<'_> {
        Name::parse(self.octets()).unwrap_or(Name::ROOT)
    }

    /// The octets from an offset on, which must not lie behind the root label.
    #[inline]
    pub fn from(&self, start: usize) -> &[u8] {
        self.lower.get(start..self.len.into()).unwrap_or_default()
    }

    /// The whole buffer; octets behind [`QName::octets`] mean nothing.
    #[inline]
    pub fn padded(&self) -> &[u8; PADDED_LEN] {
        &self.lower
    }

    /// How many labels it has, the root not counted.
    #[inline]
    pub fn labels(&self) -> usize {
        self.labels.into()
    }

    /// Where the name of the last `labels` labels starts, as an offset into the octets.
    /// `labels` must be at most [`QName::labels`].
    #[inline]
    pub fn start_of_last(&self, labels: usize) -> usize {
        self.starts[(self.labels() - labels) & Name::LABELS_MAX].into()
    }

    /// Takes another name, as when an alias is followed.
    pub fn set(&mut self, name: Name<'_>) {
        let octets = name.octets();
        self.lower[..octets.len()].copy_from_slice(octets);
        self.lower[..octets.len()].make_ascii_lowercase();
        let (mut at, mut labels) = (0, 0);
        while octets[at] != 0 {
            self.starts[labels] = at as u8;
            labels += 1;
            at += 1 + usize::from(octets[at]);
        }
        self.starts[labels & Name::LABELS_MAX] = at as u8;
        self.labels = labels as u8;
        self.len = at as u8 + 1;
    }

    /// Reads the name at the start of the question, where no pointer can be right: there is
    /// nothing but the header to point to. `message` is cut to its length, `window` is the
    /// same octets with the room behind them. Returns where the name ends.
    #[inline]
    fn read(&mut self, message: &[u8], window: &[u8]) -> Option<usize> {
        let room = message.len().min(HEADER_LEN + Name::LEN_MAX);
        let octets = message.get(HEADER_LEN..room)?;
        let (mut at, mut labels) = (0, 0);
        loop {
            let len = usize::from(*octets.get(at)?);
            self.starts[labels & Name::LABELS_MAX] = at as u8;
            if len == 0 {
                break;
            }
            if len > Name::LABEL_MAX {
                return None;
            }
            labels += 1;
            at += 1 + len;
        }
        self.labels = labels as u8;
        self.len = at as u8 + 1;
        match window[HEADER_LEN..].first_chunk() {
            Some(from) => lower(&mut self.lower, from, at + 1),
            // Too little room behind the question to read whole blocks.
            None => {
                self.lower[..=at].copy_from_slice(&octets[..=at]);
                self.lower[..=at].make_ascii_lowercase();
            }
        }
        Some(HEADER_LEN + at + 1)
    }
}

impl Default for QName {
    fn default() -> Self {
        Self::new()
    }
}

/// Copies a name's `len` octets in lower case, 16 at a time. Length octets are at most 63 and so
/// are never taken for a letter.
#[inline(always)]
pub(crate) fn lower(into: &mut [u8; PADDED_LEN], from: &[u8; PADDED_LEN], len: usize) {
    // Most names are no longer than three blocks: those go without a look at the length.
    let (into, from) = (into.as_chunks_mut().0, from.as_chunks().0);
    for at in 0..3 {
        into[at] = lowercase(from[at]);
    }
    if len > 3 * 16 {
        let rest = into[3..].iter_mut().zip(&from[3..]).take(len.div_ceil(16) - 3);
        rest.for_each(|(into, from)| *into = lowercase(*from));
    }
}

/// Branch-free, so that the compiler makes vector instructions of it. Those compare with a sign:
/// letters are moved to the lower end.
#[inline(always)]
fn lowercase(block: [u8; 16]) -> [u8; 16] {
    let is_upper = |octet: u8| (octet.wrapping_sub(b'A') ^ 0x80).cast_signed() < i8::MIN + 26;
    block.map(|octet| octet | (u8::from(is_upper(octet)) << 5))
}

/// A query, parsed into a buffer that is used again and again.
#[derive(Clone, Debug)]
pub struct Query {
    /// The flags as they came.
    pub flags: Flags,
    /// Octets of header and question: where a reply's records begin. The header alone when the
    /// question could not be read.
    pub question_end: usize,
    /// The name asked for.
    pub name: QName,
    /// The type asked for.
    pub rtype: Rtype,
    /// The class asked for.
    pub class: Class,
    /// Whether the client wants the answer and nothing else: no OPT, or one of version 0 that has
    /// no options and leaves DO clear.
    pub plain: bool,
    /// What OPT says, when there is one.
    pub edns: Option<Edns>,
    /// The first COOKIE option, when OPT has one.
    pub cookie: Option<Cookie>,
}

impl Query {
    /// An empty query, to be parsed into.
    pub const fn new() -> Self {
        Self {
            flags: Flags(0),
            question_end: HEADER_LEN,
            name: QName::new(),
            rtype: Rtype(0),
            class: Class(0),
            plain: false,
            edns: None,
            cookie: None,
        }
    }

    /// Whether OPT asks for options in return.
    #[inline]
    pub fn wants_options(&self) -> bool {
        self.cookie.is_some() || self.edns.is_some_and(|edns| edns.nsid || edns.keepalive)
    }

    /// Whether DNSSEC records are wanted.
    #[inline]
    pub fn dnssec_ok(&self) -> bool {
        self.edns.as_ref().is_some_and(|edns| edns.dnssec_ok)
    }

    /// Reads the message in the first `len` octets of `window`; all of `window` may be read, but
    /// what lies behind `len` never counts.
    ///
    /// # Errors
    /// A [`Fault`]; then `flags`, `question_end` and `edns` still tell what was read before it.
    #[inline]
    pub fn parse(&mut self, window: &[u8], len: usize) -> Result<(), Fault> {
        self.question_end = HEADER_LEN;
        self.edns = None;
        self.cookie = None;
        let message = window.get(..len).ok_or(Fault::Short)?;
        let header: &[u8; HEADER_LEN] = message.first_chunk().ok_or(Fault::Short)?;
        let [_, _, f0, f1, counts @ ..] = *header;
        self.flags = Flags(u16::from_be_bytes([f0, f1]));
        if !self.flags.is_query() {
            return Err(match self.flags.has(Flags::QR) {
                true => Fault::Response,
                false => Fault::Opcode,
            });
        }
        let counts = u64::from_be_bytes(counts);
        let questions = counts >> 48;
        match questions {
            1 => self.read_question(message, window)?,
            0 => {}
            _ => return Err(Fault::Format),
        }
        self.read_records(message, counts << 16 >> 16)?;
        if questions == 0 {
            return Err(if self.cookie.is_some() { Fault::CookieOnly } else { Fault::Format });
        }
        Ok(())
    }

    #[inline]
    fn read_question(&mut self, message: &[u8], window: &[u8]) -> Result<(), Fault> {
        let at = self.name.read(message, window).ok_or(Fault::Format)?;
        let tail: &[u8; 4] =
            message.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Fault::Format)?;
        self.rtype = Rtype(u16::from_be_bytes([tail[0], tail[1]]));
        self.class = Class(u16::from_be_bytes([tail[2], tail[3]]));
        self.question_end = at + 4;
        Ok(())
    }

    /// Passes over the records behind the question and takes the OPT. Nothing may follow them.
    /// `counts` are those of the three sections, 16 bits each.
    #[inline]
    fn read_records(&mut self, message: &[u8], counts: u64) -> Result<(), Fault> {
        let rest = &message[self.question_end..];
        // Nearly every query has nothing here, or an OPT of version 0 without options.
        if counts == 0 && rest.is_empty() {
            self.plain = true;
            return Ok(());
        }
        if counts == 1
            && let Ok(opt) = <[u8; 11]>::try_from(rest)
        {
            let [owner, r0, r1, s0, s1, rcode, version, flags, unused, l0, l1] = opt;
            let fixed = u64::from_be_bytes([owner, r0, r1, 0, version, l0, l1, 0]);
            if fixed == u64::from(Rtype::OPT.0) << 40 {
                let edns = Edns::parse([s0, s1], [rcode, version, flags, unused]);
                self.plain = !edns.dnssec_ok;
                self.edns = Some(edns);
                return Ok(());
            }
        }
        let count = |shift: u32| usize::from((counts >> shift) as u16);
        self.read_any_records(message, count(32) + count(16), count(0))
    }

    #[inline(never)]
    fn read_any_records(
        &mut self,
        message: &[u8],
        others: usize,
        additional: usize,
    ) -> Result<(), Fault> {
        self.plain = false;
        if others + additional > QUERY_RECORDS_MAX {
            return Err(Fault::Format);
        }
        let mut at = self.question_end;
        for index in 0..others + additional {
            let start = at;
            at = skip_name(message, at).map_err(|Malformed| Fault::Format)?;
            let head: &[u8; 10] =
                message.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Fault::Format)?;
            let data_len = usize::from(u16::from_be_bytes([head[8], head[9]]));
            let data = message.get(at + 10..at + 10 + data_len).ok_or(Fault::Format)?;
            at += 10 + data_len;
            if u16::from_be_bytes([head[0], head[1]]) != Rtype::OPT.0 {
                continue;
            }
            // RFC 6891 §6.1.1: in the additional section, at the root, and only once.
            if index < others || message[start] != 0 || self.edns.is_some() {
                return Err(Fault::Format);
            }
            let mut edns = Edns::parse([head[2], head[3]], [head[4], head[5], head[6], head[7]]);
            // Another version's options may mean anything.
            if edns.version == 0 {
                edns.read_options(data, &mut self.cookie).ok_or(Fault::Format)?;
            }
            self.edns = Some(edns);
        }
        match self.edns {
            _ if at != message.len() => Err(Fault::Format),
            Some(edns) if edns.version != 0 => Err(Fault::Version),
            _ => Ok(()),
        }
    }
}

impl Default for Query {
    fn default() -> Self {
        Self::new()
    }
}
