//! The messages of a transfer: each is filled with the records that have room.
use crate::limits::MESSAGE_LEN_MAX;
use crate::request::Request;
use crate::source::RecordSource;
use compile::WalkedRecord;
use std::fmt;
use wire::{Class, Composer, Flags, HEADER_LEN, Name, NameBuf, NoSpace, Rcode, Rtype, Suffixes};

/// Bytes of an OPT record without options.
const OPT_LEN: usize = 11;
/// Bytes of the option with the seconds until the zone expires (RFC 7314).
const EXPIRE_LEN: usize = 8;
/// The extended error "Not Supported" (RFC 8914 §4.22).
const NOT_SUPPORTED: u16 = 21;
/// The payload size that this server receives over UDP.
const UDP_SIZE: u16 = 1_232;

/// Composes the messages of one response.
pub struct MessageWriter {
    origin: NameBuf,
    head: Box<[u8]>,
    opt: Vec<u8>,
    /// Bytes of a message, without its signature.
    room: usize,
    suffixes: Box<Suffixes>,
    /// Records put so far.
    records: u64,
}

/// A record is longer than a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// Its owner.
    pub name: NameBuf,
    /// Its type.
    pub rtype: Rtype,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, rtype } = self;
        write!(f, "the record {rtype} of {name} is longer than a message")
    }
}

impl MessageWriter {
    /// For the response to a request. `signature_len`: bytes of the signature of each message;
    /// `len_max`: of a whole one; `expire`: the seconds until the zone expires.
    pub fn new(request: &Request, signature_len: usize, len_max: usize, expire: u32) -> Self {
        let opt =
            if request.has_edns { opt(request.wants_expire.then_some(expire)) } else { vec![] };
        let room = len_max.min(MESSAGE_LEN_MAX).saturating_sub(signature_len);
        Self {
            origin: request.zone.clone(),
            head: request.head.clone(),
            opt,
            room,
            suffixes: Box::default(),
            records: 0,
        }
    }

    /// Records put so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Composes the next message. Returns it with whether any record is left.
    ///
    /// # Errors
    /// A record has no room in any message.
    pub fn next_message(
        &mut self,
        source: &mut dyn RecordSource,
    ) -> Result<(Vec<u8>, bool), Box<TooLong>> {
        let Self { origin, head, opt, room, suffixes, .. } = self;
        let mut buf = vec![0; *room];
        let limit = room.saturating_sub(opt.len());
        let end = head.len().min(limit);
        buf[..end].copy_from_slice(&head[..end]);
        let mut composer = Composer::new(&mut buf, end, limit, suffixes);
        let (mut count, mut left_out) = (0_u16, None);
        let is_left = source.advance(&mut |record| {
            let mark = composer.mark();
            let is_put = count < u16::MAX && put(&mut composer, origin.as_name(), &record).is_ok();
            if is_put {
                count += 1;
            } else {
                composer.rewind(mark);
                left_out = Some((NameBuf::joined(record.name, origin.as_name()), record.rtype));
            }
            is_put
        });
        if let (0, Some((name, rtype))) = (count, left_out) {
            let name = name.unwrap_or_else(|_| NameBuf::root());
            return Err(Box::new(TooLong { name, rtype }));
        }
        let len = composer.len();
        buf.truncate(len);
        buf.extend_from_slice(opt);
        put_header(&mut buf, [1, count, 0, u16::from(!opt.is_empty())], Rcode::NoError);
        self.records += u64::from(count);
        Ok((buf, is_left))
    }
}

/// The response that has no records, with a code.
pub fn refusal(head: &[u8], has_edns: bool, rcode: Rcode) -> Vec<u8> {
    refuse(head, has_edns.then(|| opt(None)).as_deref(), rcode)
}

/// The response to a query that is none for a connection of transfers (RFC 9103 §6.5).
pub fn unsupported(head: &[u8], has_edns: bool) -> Vec<u8> {
    let opt = has_edns.then(|| {
        let mut opt = opt(None);
        let [high, low] = NOT_SUPPORTED.to_be_bytes();
        opt[OPT_LEN - 1] = 6;
        opt.extend([0, 15, 0, 2, high, low]);
        opt
    });
    refuse(head, opt.as_deref(), Rcode::Refused)
}

fn refuse(head: &[u8], opt: Option<&[u8]>, rcode: Rcode) -> Vec<u8> {
    let mut response = head.to_vec();
    let has_edns = opt.is_some();
    response.extend(opt.unwrap_or_default());
    let questions = u16::from(head.len() > HEADER_LEN);
    put_header(&mut response, [questions, 0, 0, has_edns.into()], rcode);
    if rcode != Rcode::NoError {
        response[2] &= !((Flags::AA >> 8) as u8);
    }
    response
}

/// Makes a response of the header of a query.
fn put_header(message: &mut [u8], counts: [u16; 4], rcode: Rcode) {
    let query = Flags(u16::from_be_bytes([message[2], message[3]]));
    let flags = query.reply().0 | Flags::AA | rcode as u16;
    message[2..4].copy_from_slice(&flags.to_be_bytes());
    for (at, count) in counts.into_iter().enumerate() {
        message[4 + 2 * at..][..2].copy_from_slice(&count.to_be_bytes());
    }
}

fn put(
    composer: &mut Composer<'_>,
    origin: Name<'_>,
    record: &WalkedRecord<'_>,
) -> Result<(), NoSpace> {
    let WalkedRecord { name, rtype, ttl, data } = record;
    let owner = NameBuf::joined(name, origin).map_err(|_| NoSpace)?;
    composer.put_name(owner.as_name())?;
    let [(t0, t1), (c0, c1)] = [rtype.0, Class::IN.0].map(|number| {
        let [high, low] = number.to_be_bytes();
        (high, low)
    });
    let [l0, l1, l2, l3] = ttl.to_be_bytes();
    composer.put_array([t0, t1, c0, c1, l0, l1, l2, l3])?;
    composer.put_rdata(*rtype, data)
}

/// An OPT record (RFC 6891 §6.1.2).
fn opt(expire: Option<u32>) -> Vec<u8> {
    let mut opt = Vec::with_capacity(OPT_LEN + EXPIRE_LEN);
    opt.push(0);
    opt.extend(Rtype::OPT.0.to_be_bytes());
    opt.extend(UDP_SIZE.to_be_bytes());
    opt.extend([0; 4]);
    match expire {
        None => opt.extend([0, 0]),
        Some(seconds) => {
            opt.extend([0, EXPIRE_LEN as u8, 0, 9, 0, 4]);
            opt.extend(seconds.to_be_bytes());
        }
    }
    opt
}
