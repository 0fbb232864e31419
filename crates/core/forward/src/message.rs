//! Composes queries, and matches replies with them.
use crate::case_mask::CaseMask;
use crate::limits::{PADDING_BLOCK, UDP_LEN_MAX};
use crate::pending::{Attempt, PendingQuery};
use crate::upstream::UpstreamTransport;
use cache::QueryKind;
use wire::{Class, Flags, HEADER_LEN, OptionCode, Rcode, Records, Rtype, skip_name};

/// The result of reading a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParsedResponse {
    /// Not a reply to this query.
    Other,
    /// A reply whose question has letters in another case than the query.
    OtherCase,
    /// A reply that is longer than a datagram.
    Truncated,
    /// The server cannot answer.
    Failure,
    /// The server does not understand the query: FORMERR, NOTIMP, or an error without a question.
    Misunderstood,
    /// An answer, positive or negative.
    Answer,
}

const OPT_LEN: usize = 11;
/// Bytes of an option's code and length.
const OPTION_LEN: usize = 4;
/// Bytes of the longest query: three blocks if it is padded.
pub const QUERY_LEN_MAX: usize =
    (HEADER_LEN + 255 + 4 + OPT_LEN + 2 * OPTION_LEN).next_multiple_of(PADDING_BLOCK);

/// The type of a probe: NS. A server answers it for names that it serves, and refuses others.
const PROBE_KIND: QueryKind = QueryKind::new(Rtype::NS.0, Class::IN.0, false, false);

/// The bytes of a question: name, type and class.
pub(crate) fn question_bytes(
    name: &[u8],
    kind: QueryKind,
    casing: CaseMask,
) -> impl Iterator<Item = u8> {
    let [t0, t1] = kind.rtype().to_be_bytes();
    let [c0, c1] = kind.class().to_be_bytes();
    casing.of(name).chain([t0, t1, c0, c1])
}

/// The bytes of a probe's question.
pub(crate) fn probe_question(name: &[u8]) -> impl Iterator<Item = u8> {
    question_bytes(name, PROBE_KIND, CaseMask::LOWER)
}

/// Writes the query of a try for this transport; returns its length.
pub(crate) fn compose(
    query: &PendingQuery,
    sent: &Attempt,
    transport: UpstreamTransport,
    buf: &mut [u8; QUERY_LEN_MAX],
) -> usize {
    let key = query.key();
    let edns = sent.has_edns.then_some(transport);
    compose_query(sent.id, (key.name, query.kind, sent.casing), edns, buf)
}

/// Writes a probe for a name with this ID; returns its length.
pub(crate) fn compose_probe(
    id: u16,
    name: &[u8],
    transport: UpstreamTransport,
    buf: &mut [u8; QUERY_LEN_MAX],
) -> usize {
    compose_query(id, (name, PROBE_KIND, CaseMask::LOWER), Some(transport), buf)
}

/// Writes a query, with the OPT record for this transport, or without one.
fn compose_query(
    id: u16,
    (name, kind, casing): (&[u8], QueryKind, CaseMask),
    edns: Option<UpstreamTransport>,
    buf: &mut [u8; QUERY_LEN_MAX],
) -> usize {
    // A client that sets AD in a query understands it in a reply (RFC 6840 §5.7).
    let disabled = if kind.checking_disabled() { Flags::CD } else { 0 };
    let flags = Flags::RD | Flags::AD | disabled;
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        buf[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(&id.to_be_bytes());
    put(&flags.to_be_bytes());
    put(&[0, 1, 0, 0, 0, 0, 0, edns.is_some().into()]);
    question_bytes(name, kind, casing).for_each(|byte| put(&[byte]));
    let Some(transport) = edns else { return at };
    let [s0, s1] = UDP_LEN_MAX.to_be_bytes();
    put(&[0, 0, 41, s0, s1, 0, 0, u8::from(kind.dnssec_ok()) << 7, 0]);
    let len = HEADER_LEN + name.len() + 4 + OPT_LEN;
    let options_len = match transport {
        UpstreamTransport::Datagrams => 0,
        UpstreamTransport::Streams => OPTION_LEN,
        UpstreamTransport::Enciphered => {
            (len + 2 * OPTION_LEN).next_multiple_of(PADDING_BLOCK) - len
        }
    };
    put(&(options_len as u16).to_be_bytes());
    if transport != UpstreamTransport::Datagrams {
        // The server sets the idle timeout (RFC 7828 §3.2.1).
        let [c0, c1] = OptionCode::TCP_KEEPALIVE.0.to_be_bytes();
        put(&[c0, c1, 0, 0]);
    }
    if transport == UpstreamTransport::Enciphered {
        let padding = options_len - 2 * OPTION_LEN;
        let [c0, c1] = OptionCode::PADDING.0.to_be_bytes();
        put(&[c0, c1, 0, padding as u8]);
        put(&[0; PADDING_BLOCK][..padding]);
    }
    at
}

/// Reads a message that has the ID of a try and came to its socket.
pub(crate) fn read_response(
    query: &PendingQuery,
    sent: &Attempt,
    message: &[u8],
) -> ParsedResponse {
    let Some(question) = question_of(message) else {
        let is_error = is_bare_error(message);
        return if is_error { ParsedResponse::Misunderstood } else { ParsedResponse::Other };
    };
    let name = query.key().name;
    if question_bytes(name, query.kind, sent.casing).eq(question.iter().copied()) {
        return read_matching(message);
    }
    let lower = question_bytes(name, query.kind, CaseMask::LOWER);
    match read_matching(message) {
        _ if !has_same_query(lower, question, name.len()) => ParsedResponse::Other,
        // The case of a question in lower case protects nothing.
        parsed if sent.casing == CaseMask::LOWER => parsed,
        ParsedResponse::Other => ParsedResponse::Other,
        _ => ParsedResponse::OtherCase,
    }
}

/// Whether a question is the expected one, whose name is in lower case. Type and class have no
/// case.
fn has_same_query(expected: impl Iterator<Item = u8>, question: &[u8], name_len: usize) -> bool {
    question.len() == name_len + 4
        && expected.zip(question).enumerate().all(|(at, (expected, byte))| match at < name_len {
            true => expected == byte.to_ascii_lowercase(),
            false => expected == *byte,
        })
}

/// Whether a message is an error without a question. A server that cannot parse a query sends one.
pub(crate) fn is_bare_error(message: &[u8]) -> bool {
    let Some(header) = message.first_chunk::<HEADER_LEN>() else { return false };
    let is_bare = message.len() == HEADER_LEN || header[4..6] == [0, 0];
    let is_error = response_code(message) != Rcode::NoError as u8
        && response_code(message) != Rcode::NxDomain as u8;
    is_bare && is_error && read_matching(message) != ParsedResponse::Other
}

/// The response code in the header.
pub(crate) fn response_code(message: &[u8]) -> u8 {
    message.get(3).map_or(0, |byte| byte & 0xf)
}

/// Whether a response code says that the server does not have the name.
pub(crate) const fn is_denial(code: u8) -> bool {
    code == Rcode::NxDomain as u8 || code == Rcode::Refused as u8
}

/// The question of a message, if it has exactly one.
pub(crate) fn question_of(message: &[u8]) -> Option<&[u8]> {
    let (header, rest) = message.split_first_chunk::<HEADER_LEN>()?;
    let mut len = 0;
    loop {
        match *rest.get(len)? {
            0 => break,
            label @ 1..64 => len += 1 + usize::from(label),
            _ => return None,
        }
    }
    (header[4..6] == [0, 1]).then_some(rest.get(..len + 5)?)
}

/// Reads the header of a message whose question matches.
pub(crate) fn read_matching(message: &[u8]) -> ParsedResponse {
    let Some((header, _)) = message.split_first_chunk::<HEADER_LEN>() else {
        return ParsedResponse::Other;
    };
    let flags = Flags(u16::from_be_bytes([header[2], header[3]]));
    let opcode = header[2] >> 3 & 0xf;
    if !flags.has(Flags::QR) || opcode != 0 {
        return ParsedResponse::Other;
    }
    match u16::from(header[3] & 0xf) | extended_code(message, header) {
        code if code == Rcode::NoError as u16 || code == Rcode::NxDomain as u16 => {}
        code if code == Rcode::YxDomain as u16 => {}
        code if code == Rcode::FormErr as u16 || code == Rcode::NotImp as u16 => {
            return ParsedResponse::Misunderstood;
        }
        _ => return ParsedResponse::Failure,
    }
    if flags.has(Flags::TC) { ParsedResponse::Truncated } else { ParsedResponse::Answer }
}

/// The upper bits of the response code in the OPT record (RFC 6891 §6.1.3), which may turn NOERROR
/// into another code. Malformed messages are detected later.
fn extended_code(message: &[u8], header: &[u8; HEADER_LEN]) -> u16 {
    let count = |at: usize| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
    let (before, additional) = (count(6) + count(8), count(10));
    let Ok(name_end) = skip_name(message, HEADER_LEN) else { return 0 };
    if additional == 0 {
        return 0;
    }
    let records = Records::new(message, name_end + 4, before + additional);
    let mut additional = records.map_while(Result::ok).skip(before);
    let opt = additional.find(|record| record.rtype == Rtype::OPT);
    opt.map_or(0, |opt| (opt.ttl >> 24 << 4) as u16)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::pending::UpstreamGroup;
    use cache::CacheKey;

    fn asked() -> (PendingQuery, Attempt) {
        let mut query = PendingQuery::FREE;
        let kind = QueryKind::new(28, 1, true, false);
        query.begin(&CacheKey { hash: 7, kind, name: b"\x03www\x00" }, UpstreamGroup::default(), 0);
        (query.clone(), Attempt { id: 0x1234, casing: CaseMask::new(0b101), ..query.tries[0] })
    }

    #[test]
    fn query_has_the_name_type_and_payload_size() {
        let (query, sent) = asked();
        let mut buf = [0; QUERY_LEN_MAX];
        let len = compose(&query, &sent, UpstreamTransport::Datagrams, &mut buf);
        assert_eq!(
            buf[..len],
            *b"\x12\x34\x01\x20\x00\x01\x00\x00\x00\x00\x00\x01\x03WwW\x00\x00\x1c\x00\x01\
               \x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00"
        );
    }

    #[test]
    fn longest_query_fits() {
        let mut name = [b'x'; 255];
        for start in [0, 64, 128, 192] {
            name[start] = 63;
        }
        (name[192], name[254]) = (61, 0);
        let mut query = PendingQuery::FREE;
        let kind = QueryKind::new(1, 1, false, true);
        query.begin(&CacheKey { hash: 7, kind, name: &name }, UpstreamGroup::default(), 0);
        let mut buf = [0; QUERY_LEN_MAX];
        let len = |transport, buf: &mut _| compose(&query, &query.tries[0], transport, buf);
        assert_eq!(len(UpstreamTransport::Datagrams, &mut buf), HEADER_LEN + 255 + 4 + OPT_LEN);
        assert_eq!(buf[2..4], [0x01, 0x30], "CD is passed on");
        assert_eq!(len(UpstreamTransport::Enciphered, &mut buf), QUERY_LEN_MAX);
    }

    /// RFC 7830, RFC 8467 §4.1.
    #[test]
    fn what_is_enciphered_is_padded_to_blocks() {
        let (mut query, sent) = asked();
        let mut buf = [0; QUERY_LEN_MAX];
        for len in 1..=254 {
            let mut name = [b'x'; 255];
            // Only the lengths of labels count here.
            (name[0], name[len]) = (len as u8 - 1, 0);
            let kind = QueryKind::new(28, 1, true, false);
            query.begin(
                &CacheKey { hash: 7, kind, name: &name[..=len] },
                UpstreamGroup::default(),
                0,
            );
            let plain = compose(&query, &sent, UpstreamTransport::Datagrams, &mut buf);
            let long = compose(&query, &sent, UpstreamTransport::Streams, &mut buf);
            assert_eq!(buf[plain - 2..long], [0, 4, 0, 11, 0, 0]);
            let padded = compose(&query, &sent, UpstreamTransport::Enciphered, &mut buf);
            assert!(padded.is_multiple_of(128) && (plain + 8..plain + 136).contains(&padded));
            let options = (padded - plain) as u16;
            assert_eq!(buf[plain - 2..plain], options.to_be_bytes());
            assert_eq!(buf[plain..plain + 8], [0, 11, 0, 0, 0, 12, 0, options as u8 - 8]);
            assert!(buf[plain + 8..padded].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn only_a_reply_to_the_very_question_is_one() {
        let (query, sent) = asked();
        let reply = *b"\x12\x34\x81\x80\x00\x01\x00\x00\x00\x00\x00\x00\x03WwW\x00\x00\x1c\x00\x01";
        assert_eq!(read_response(&query, &sent, &reply), ParsedResponse::Answer);
        for len in 0..reply.len() {
            assert_eq!(read_response(&query, &sent, &reply[..len]), ParsedResponse::Other, "{len}");
        }
        let changed = |at: usize, to: u8| {
            let mut reply = reply;
            reply[at] = to;
            read_response(&query, &sent, &reply)
        };
        assert_eq!(changed(2, 0x01), ParsedResponse::Other, "a query");
        assert_eq!(changed(2, 0xa1), ParsedResponse::Other, "another opcode");
        assert_eq!(changed(5, 2), ParsedResponse::Other, "two questions");
        assert_eq!(changed(13, b'w'), ParsedResponse::OtherCase);
        assert_eq!(changed(13, b'x'), ParsedResponse::Other, "another name");
        assert_eq!(changed(18, 1), ParsedResponse::Other, "another type");
        assert_eq!(changed(20, 3), ParsedResponse::Other, "another class");
        assert_eq!(changed(2, 0x83), ParsedResponse::Truncated);
        assert_eq!(changed(3, 0x83), ParsedResponse::Answer, "NXDOMAIN");
        for code in [2, 5, 9] {
            assert_eq!(changed(3, 0x80 | code), ParsedResponse::Failure, "{code}");
        }
        for code in [1, 4] {
            assert_eq!(changed(3, 0x80 | code), ParsedResponse::Misunderstood, "{code}");
        }
    }

    #[test]
    fn case_of_a_question_in_lower_case_is_ignored() {
        let (query, sent) = asked();
        let sent = Attempt { casing: CaseMask::LOWER, ..sent };
        let reply = b"\x12\x34\x81\x80\0\x01\0\0\0\0\0\0\x03WWw\0\0\x1c\0\x01";
        assert_eq!(read_response(&query, &sent, reply), ParsedResponse::Answer);
    }

    #[test]
    fn error_without_a_question_is_a_reply_and_nothing_else_without_one_is() {
        let (query, sent) = asked();
        for code in 0..16 {
            let bare = [0x12, 0x34, 0x81, 0x80 | code, 0, 1, 0, 0, 0, 0, 0, 1];
            let expected = match code {
                0 | 3 => ParsedResponse::Other,
                _ => ParsedResponse::Misunderstood,
            };
            assert_eq!(read_response(&query, &sent, &bare), expected, "{code}");
            assert_eq!(read_response(&query, &sent, &bare[..11]), ParsedResponse::Other);
            let without = [&bare[..4], &[0; 8], &[7; 4]].concat();
            assert_eq!(read_response(&query, &sent, &without), expected, "{code}");
            let of_query = [&[0x12, 0x34, 0x01, 0x80 | code][..], &[0; 8]].concat();
            assert_eq!(read_response(&query, &sent, &of_query), ParsedResponse::Other);
        }
    }

    #[test]
    fn query_without_edns_has_no_opt_record() {
        let (query, sent) = asked();
        let mut buf = [0; QUERY_LEN_MAX];
        let sent = Attempt { has_edns: false, ..sent };
        for transport in [UpstreamTransport::Datagrams, UpstreamTransport::Enciphered] {
            let len = compose(&query, &sent, transport, &mut buf);
            assert_eq!(buf[..len], *b"\x12\x34\x01\x20\0\x01\0\0\0\0\0\0\x03WwW\0\0\x1c\0\x01");
        }
    }

    /// RFC 6891 §6.1.3: BADVERS is 16, BADCOOKIE 23.
    #[test]
    fn extended_code_is_no_answer() {
        let (query, sent) = asked();
        let with = |code: u16| {
            let mut reply = b"\x12\x34\x81\x80\x00\x01\x00\x00\x00\x01\x00\x02".to_vec();
            reply[3] |= code as u8 & 0xf;
            reply.extend(b"\x03WwW\x00\x00\x1c\x00\x01");
            reply.extend(b"\x00\x00\x06\x00\x01\x80\x00\x00\x05\x00\x00");
            reply.extend(b"\xc0\x0c\x00\x01\x00\x01\x80\x00\x00\x05\x00\x00");
            reply.extend([0, 0, 41, 4, 208, (code >> 4) as u8, 0, 0, 0, 0, 0]);
            read_response(&query, &sent, &reply)
        };
        assert_eq!(with(0), ParsedResponse::Answer, "the TTL of another record is not a code");
        assert_eq!(with(3), ParsedResponse::Answer);
        for code in [16, 19, 22, 23, 0xff0, 2] {
            assert_eq!(with(code), ParsedResponse::Failure, "{code}");
        }
    }
}
