//! A parsed query: the question with its name in lower case, and EDNS.
use crate::header::{Flags, HEADER_LEN};
use crate::limits::{PADDED_LEN, QUERY_RECORDS_MAX};
use crate::{Class, ClientSubnet, Cookie, Edns, Malformed, Name, Rtype, Tsig, skip_name};

/// Why a message is not a query that can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryFault {
    /// Shorter than a header: there is no one to reply to.
    Short,
    /// A response. It is never answered: otherwise two servers could exchange messages forever.
    Response,
    /// An opcode other than QUERY and NOTIFY. Only its flags and its OPT are read.
    Opcode,
    /// Malformed, or more than one question (RFC 9619).
    Format,
    /// An EDNS version other than 0.
    Version,
    /// No question, but a COOKIE option: the client requests a server cookie (RFC 7873 §5.4).
    CookieOnly,
}

/// The question's name in lower case, with the offsets of its labels.
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

    /// The wire format in lower case with the root label.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.lower[..usize::from(self.len)]
    }

    /// The name in lower case.
    pub fn as_name(&self) -> Name<'_> {
        Name::parse(self.as_bytes()).unwrap_or(Name::ROOT)
    }

    /// The bytes from an offset on, which must not lie behind the root label.
    #[inline]
    pub fn from(&self, start: usize) -> &[u8] {
        self.lower.get(start..self.len.into()).unwrap_or_default()
    }

    /// The whole buffer; bytes behind [`QName::as_bytes`] have no meaning.
    #[inline]
    pub fn padded(&self) -> &[u8; PADDED_LEN] {
        &self.lower
    }

    /// The number of labels, without the root.
    #[inline]
    pub fn labels(&self) -> usize {
        self.labels.into()
    }

    /// The offset of the last `labels` labels, at most [`QName::labels`].
    #[inline]
    pub fn start_of_last(&self, labels: usize) -> usize {
        self.starts[(self.labels() - labels) & Name::LABELS_MAX].into()
    }

    /// Sets another name, such as the target of an alias.
    pub fn set(&mut self, name: Name<'_>) {
        let bytes = name.as_bytes();
        self.lower[..bytes.len()].copy_from_slice(bytes);
        self.lower[..bytes.len()].make_ascii_lowercase();
        let (mut at, mut labels) = (0, 0);
        while bytes[at] != 0 {
            self.starts[labels] = at as u8;
            labels += 1;
            at += 1 + usize::from(bytes[at]);
        }
        self.starts[labels & Name::LABELS_MAX] = at as u8;
        self.labels = labels as u8;
        self.len = at as u8 + 1;
    }

    /// Reads the name at the start of the question. No compression pointer is valid there, since
    /// only the header precedes it. `message` is cut to its length; `window` is the same with the
    /// room behind it. Returns the end of the name.
    #[inline]
    fn read(&mut self, message: &[u8], window: &[u8]) -> Option<usize> {
        let room = message.len().min(HEADER_LEN + Name::LEN_MAX);
        let bytes = message.get(HEADER_LEN..room)?;
        let (mut at, mut labels) = (0, 0);
        loop {
            let len = usize::from(*bytes.get(at)?);
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
                self.lower[..=at].copy_from_slice(&bytes[..=at]);
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

/// Copies the `len` bytes of a name in lower case, 16 at a time. Length bytes are at most 63, so
/// they are never taken for letters.
#[inline(always)]
pub(crate) fn lower(into: &mut [u8; PADDED_LEN], from: &[u8; PADDED_LEN], len: usize) {
    // Most names have at most three blocks, which are copied without a look at the length.
    let (into, from) = (into.as_chunks_mut().0, from.as_chunks().0);
    for at in 0..3 {
        into[at] = lowercase(from[at]);
    }
    if len > 3 * 16 {
        let rest = into[3..].iter_mut().zip(&from[3..]).take(len.div_ceil(16) - 3);
        rest.for_each(|(into, from)| *into = lowercase(*from));
    }
}

/// Without branches, so that the compiler vectorizes it. Vector comparisons are signed: letters are
/// moved to the lower end.
#[inline(always)]
fn lowercase(block: [u8; 16]) -> [u8; 16] {
    let is_upper = |byte: u8| (byte.wrapping_sub(b'A') ^ 0x80).cast_signed() < i8::MIN + 26;
    block.map(|byte| byte | (u8::from(is_upper(byte)) << 5))
}

/// A query, parsed into a buffer that is reused.
#[derive(Clone, Debug)]
pub struct Query {
    /// The flags as received.
    pub flags: Flags,
    /// Bytes of header and question, where a reply's records begin. The header alone if the
    /// question could not be parsed.
    pub question_end: usize,
    /// The query name.
    pub name: QName,
    /// The query type.
    pub rtype: Rtype,
    /// The query class.
    pub class: Class,
    /// Whether the client requests nothing but the answer: no OPT, or one of version 0 without
    /// options and DO.
    pub plain: bool,
    /// EDNS, if there is an OPT record.
    pub edns: Option<Edns>,
    /// The first COOKIE option.
    pub cookie: Option<Cookie>,
    /// The offset of the TSIG record, which is the last one and well formed (RFC 8945 §4.2).
    pub tsig_at: Option<u16>,
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
            tsig_at: None,
        }
    }

    /// Whether the reply needs options.
    #[inline]
    pub fn wants_options(&self) -> bool {
        self.cookie.is_some()
            || self.edns.is_some_and(|edns| edns.nsid || edns.keepalive || edns.subnet_at > 0)
    }

    /// The client subnet option of the message that was parsed; `None`: it has none.
    ///
    /// # Errors
    /// The option is malformed.
    pub fn client_subnet(&self, message: &[u8]) -> Option<Result<ClientSubnet, Malformed>> {
        let at = usize::from(self.edns.as_ref()?.subnet_at);
        let len = message.get(at.checked_sub(2)?..at)?;
        let len = usize::from(u16::from_be_bytes([len[0], len[1]]));
        let data = message.get(at..at + len);
        (at > 0).then(|| data.and_then(ClientSubnet::parse).ok_or(Malformed))
    }

    /// Whether DNSSEC records are requested.
    #[inline]
    pub fn dnssec_ok(&self) -> bool {
        self.edns.as_ref().is_some_and(|edns| edns.dnssec_ok)
    }

    /// Parses the query, or the NOTIFY, in the first `len` bytes of `window`. All of `window` may
    /// be read, but bytes behind `len` have no effect.
    ///
    /// # Errors
    /// A [`QueryFault`]; `flags`, `question_end` and `edns` then hold what was parsed before it.
    #[inline]
    pub fn parse(&mut self, window: &[u8], len: usize) -> Result<(), QueryFault> {
        self.question_end = HEADER_LEN;
        self.edns = None;
        self.cookie = None;
        self.tsig_at = None;
        let message = window.get(..len).ok_or(QueryFault::Short)?;
        let header: &[u8; HEADER_LEN] = message.first_chunk().ok_or(QueryFault::Short)?;
        let [_, _, f0, f1, counts @ ..] = *header;
        self.flags = Flags(u16::from_be_bytes([f0, f1]));
        let counts = u64::from_be_bytes(counts);
        if !self.flags.is_query() && !self.flags.is_notify() {
            if self.flags.has(Flags::QR) {
                return Err(QueryFault::Response);
            }
            return Err(self.find_opt(message, window, counts));
        }
        let questions = counts >> 48;
        match questions {
            1 => self.read_question(message, window)?,
            0 => {}
            _ => return Err(QueryFault::Format),
        }
        self.read_records(message, counts << 16 >> 16)?;
        if questions == 0 {
            return Err(if self.cookie.is_some() {
                QueryFault::CookieOnly
            } else {
                QueryFault::Format
            });
        }
        Ok(())
    }

    /// Finds the OPT of a message with another opcode. The response has an OPT if the message does
    /// (RFC 6891 §6.1.1), and the version is checked before the opcode (§6.1.3). A message that
    /// cannot be parsed has none.
    #[inline(never)]
    fn find_opt(&mut self, message: &[u8], window: &[u8], counts: u64) -> QueryFault {
        let is_read = match counts >> 48 {
            0 => Ok(()),
            1 => self.read_question(message, window),
            _ => Err(QueryFault::Opcode),
        };
        let is_read = is_read.and_then(|()| self.read_records(message, counts << 16 >> 16));
        self.question_end = HEADER_LEN;
        self.cookie = None;
        self.tsig_at = None;
        if let Some(edns) = &mut self.edns {
            (edns.nsid, edns.keepalive, edns.subnet_at) = (false, false, 0);
        }
        match is_read {
            Err(QueryFault::Version) => QueryFault::Version,
            _ => QueryFault::Opcode,
        }
    }

    #[inline]
    fn read_question(&mut self, message: &[u8], window: &[u8]) -> Result<(), QueryFault> {
        let at = self.name.read(message, window).ok_or(QueryFault::Format)?;
        let tail: &[u8; 4] =
            message.get(at..).and_then(|rest| rest.first_chunk()).ok_or(QueryFault::Format)?;
        self.rtype = Rtype(u16::from_be_bytes([tail[0], tail[1]]));
        self.class = Class(u16::from_be_bytes([tail[2], tail[3]]));
        self.question_end = at + 4;
        Ok(())
    }

    /// Skips the records behind the question and reads the OPT. Nothing may follow them. `counts`
    /// are those of the three sections, 16 bits each.
    #[inline]
    fn read_records(&mut self, message: &[u8], counts: u64) -> Result<(), QueryFault> {
        let rest = &message[self.question_end..];
        // Almost every query has nothing here, or an OPT of version 0 without options.
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
    ) -> Result<(), QueryFault> {
        self.plain = false;
        if others + additional > QUERY_RECORDS_MAX {
            return Err(QueryFault::Format);
        }
        let mut at = self.question_end;
        for index in 0..others + additional {
            let start = at;
            at = skip_name(message, at).map_err(|Malformed| QueryFault::Format)?;
            let head: &[u8; 10] =
                message.get(at..).and_then(|rest| rest.first_chunk()).ok_or(QueryFault::Format)?;
            let data_len = usize::from(u16::from_be_bytes([head[8], head[9]]));
            let data = message.get(at + 10..at + 10 + data_len).ok_or(QueryFault::Format);
            at += 10 + data_len;
            let rtype = Rtype(u16::from_be_bytes([head[0], head[1]]));
            if rtype == Rtype::TSIG {
                // RFC 8945 §5.1: only the last record of the additional section.
                let is_last = index >= others && index + 1 == others + additional;
                let class = Class(u16::from_be_bytes([head[2], head[3]]));
                Tsig::parse(class, data?).filter(|_| is_last).ok_or(QueryFault::Format)?;
                self.tsig_at = Some(start as u16);
                continue;
            }
            if rtype != Rtype::OPT {
                data?;
                continue;
            }
            let mut edns = Edns::parse([head[2], head[3]], [head[4], head[5], head[6], head[7]]);
            // RFC 6891 §7: the response to a malformed OPT has an OPT too, so that the client does
            // not take this server for one without EDNS.
            let is_first = self.edns.is_none();
            self.edns.get_or_insert(edns);
            // RFC 6891 §6.1.1: in the additional section, at the root, and only once.
            if index < others || message[start] != 0 || !is_first {
                return Err(QueryFault::Format);
            }
            // Options of other versions are unknown.
            if edns.version == 0 {
                edns.read_options(data?, at, &mut self.cookie).ok_or(QueryFault::Format)?;
            }
            self.edns = Some(edns);
        }
        match self.edns {
            _ if at != message.len() => Err(QueryFault::Format),
            Some(edns) if edns.version != 0 => Err(QueryFault::Version),
            _ => Ok(()),
        }
    }
}

impl Default for Query {
    fn default() -> Self {
        Self::new()
    }
}
