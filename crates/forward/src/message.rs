//! The question as it is sent, and whether what comes is a reply to it.
use crate::ask::{Ask, Try};
use crate::limits::{PADDING_BLOCK, UDP_LEN_MAX};
use crate::upstream::Means;
use wire::{Flags, HEADER_LEN, OptionCode, Rcode};

/// What a message turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// No reply to this question.
    Other,
    /// A reply that is longer than a datagram.
    Truncated,
    /// A reply that says that the server cannot answer.
    Failure,
    /// An answer, or that there is none.
    Answer,
}

const OPT_LEN: usize = 11;
/// Octets of an option's code and length.
const OPTION_LEN: usize = 4;
/// Octets of the longest question: three blocks, where it is padded.
pub const QUESTION_LEN_MAX: usize =
    (HEADER_LEN + 255 + 4 + OPT_LEN + 2 * OPTION_LEN).next_multiple_of(PADDING_BLOCK);

/// Writes the question of a try to a server that is asked by these means; returns its length.
pub(crate) fn compose(
    ask: &Ask,
    sent: &Try,
    means: Means,
    buf: &mut [u8; QUESTION_LEN_MAX],
) -> usize {
    let (key, kind) = (ask.key(), ask.kind);
    // Whoever sets AD in a question understands it in a reply (RFC 6840 §5.7).
    let disabled = if kind.checking_disabled() { Flags::CD } else { 0 };
    let flags = Flags::RD | Flags::AD | disabled;
    let mut at = 0;
    let mut put = |octets: &[u8]| {
        buf[at..at + octets.len()].copy_from_slice(octets);
        at += octets.len();
    };
    put(&sent.id.to_be_bytes());
    put(&flags.to_be_bytes());
    put(&[0, 1, 0, 0, 0, 0, 0, 1]);
    sent.casing.of(key.name).for_each(|octet| put(&[octet]));
    put(&kind.rtype().to_be_bytes());
    put(&kind.class().to_be_bytes());
    let [s0, s1] = UDP_LEN_MAX.to_be_bytes();
    put(&[0, 0, 41, s0, s1, 0, 0, u8::from(kind.dnssec_ok()) << 7, 0]);
    let len = HEADER_LEN + key.name.len() + 4 + OPT_LEN;
    let options_len = match means {
        Means::Datagrams => 0,
        Means::Streams => OPTION_LEN,
        Means::Enciphered => (len + 2 * OPTION_LEN).next_multiple_of(PADDING_BLOCK) - len,
    };
    put(&(options_len as u16).to_be_bytes());
    if means != Means::Datagrams {
        // How long the stream may be idle is for the server to say (RFC 7828 §3.2.1).
        let [c0, c1] = OptionCode::TCP_KEEPALIVE.0.to_be_bytes();
        put(&[c0, c1, 0, 0]);
    }
    if means == Means::Enciphered {
        let padding = options_len - 2 * OPTION_LEN;
        let [c0, c1] = OptionCode::PADDING.0.to_be_bytes();
        put(&[c0, c1, 0, padding as u8]);
        put(&[0; PADDING_BLOCK][..padding]);
    }
    at
}

/// Reads a message that has the id of a try and came where its reply is waited for.
pub(crate) fn read(ask: &Ask, sent: &Try, message: &[u8]) -> Said {
    let Some((header, rest)) = message.split_first_chunk::<HEADER_LEN>() else {
        return Said::Other;
    };
    let flags = Flags(u16::from_be_bytes([header[2], header[3]]));
    let opcode = header[2] >> 3 & 0xf;
    let (key, kind) = (ask.key(), ask.kind);
    let [t0, t1] = kind.rtype().to_be_bytes();
    let [c0, c1] = kind.class().to_be_bytes();
    let question = sent.casing.of(key.name).chain([t0, t1, c0, c1]);
    let is_asked = header[4..6] == [0, 1]
        && rest.len() >= key.name.len() + 4
        && question.eq(rest.iter().copied().take(key.name.len() + 4));
    if !flags.has(Flags::QR) || opcode != 0 || !is_asked {
        return Said::Other;
    }
    match header[3] & 0xf {
        code if code == Rcode::NoError as u8 || code == Rcode::NxDomain as u8 => {}
        code if code == Rcode::YxDomain as u8 => {}
        _ => return Said::Failure,
    }
    if flags.has(Flags::TC) { Said::Truncated } else { Said::Answer }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::Group;
    use crate::casing::Casing;
    use cache::{Key, Kind};

    fn asked() -> (Ask, Try) {
        let mut ask = Ask::FREE;
        let kind = Kind::new(28, 1, true, false);
        ask.begin(&Key { hash: 7, kind, name: b"\x03www\x00" }, Group::default(), 0);
        (ask.clone(), Try { id: 0x1234, casing: Casing::new(0b101), ..ask.tries[0] })
    }

    #[test]
    fn a_question_says_what_is_asked_and_what_fits() {
        let (ask, sent) = asked();
        let mut buf = [0; QUESTION_LEN_MAX];
        let len = compose(&ask, &sent, Means::Datagrams, &mut buf);
        assert_eq!(
            buf[..len],
            *b"\x12\x34\x01\x20\x00\x01\x00\x00\x00\x00\x00\x01\x03WwW\x00\x00\x1c\x00\x01\
               \x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00"
        );
    }

    #[test]
    fn the_longest_question_fits() {
        let mut name = [b'x'; 255];
        for start in [0, 64, 128, 192] {
            name[start] = 63;
        }
        (name[192], name[254]) = (61, 0);
        let mut ask = Ask::FREE;
        let kind = Kind::new(1, 1, false, true);
        ask.begin(&Key { hash: 7, kind, name: &name }, Group::default(), 0);
        let mut buf = [0; QUESTION_LEN_MAX];
        let len = |means, buf: &mut _| compose(&ask, &ask.tries[0], means, buf);
        assert_eq!(len(Means::Datagrams, &mut buf), HEADER_LEN + 255 + 4 + OPT_LEN);
        assert_eq!(buf[2..4], [0x01, 0x30], "CD is passed on");
        assert_eq!(len(Means::Enciphered, &mut buf), QUESTION_LEN_MAX);
    }

    /// RFC 7830, RFC 8467 §4.1.
    #[test]
    fn what_is_enciphered_is_padded_to_blocks() {
        let (mut ask, sent) = asked();
        let mut buf = [0; QUESTION_LEN_MAX];
        for len in 1..=254 {
            let mut name = [b'x'; 255];
            // Labels as they come: only lengths count here.
            (name[0], name[len]) = (len as u8 - 1, 0);
            let kind = Kind::new(28, 1, true, false);
            ask.begin(&Key { hash: 7, kind, name: &name[..=len] }, Group::default(), 0);
            let plain = compose(&ask, &sent, Means::Datagrams, &mut buf);
            let long = compose(&ask, &sent, Means::Streams, &mut buf);
            assert_eq!(buf[plain - 2..long], [0, 4, 0, 11, 0, 0]);
            let padded = compose(&ask, &sent, Means::Enciphered, &mut buf);
            assert!(padded.is_multiple_of(128) && (plain + 8..plain + 136).contains(&padded));
            let options = (padded - plain) as u16;
            assert_eq!(buf[plain - 2..plain], options.to_be_bytes());
            assert_eq!(buf[plain..plain + 8], [0, 11, 0, 0, 0, 12, 0, options as u8 - 8]);
            assert!(buf[plain + 8..padded].iter().all(|octet| *octet == 0));
        }
    }

    #[test]
    fn only_a_reply_to_the_very_question_is_one() {
        let (ask, sent) = asked();
        let reply = *b"\x12\x34\x81\x80\x00\x01\x00\x00\x00\x00\x00\x00\x03WwW\x00\x00\x1c\x00\x01";
        assert_eq!(read(&ask, &sent, &reply), Said::Answer);
        for len in 0..reply.len() {
            assert_eq!(read(&ask, &sent, &reply[..len]), Said::Other, "{len}");
        }
        let changed = |at: usize, to: u8| {
            let mut reply = reply;
            reply[at] = to;
            read(&ask, &sent, &reply)
        };
        assert_eq!(changed(2, 0x01), Said::Other, "a query");
        assert_eq!(changed(2, 0xa1), Said::Other, "another opcode");
        assert_eq!(changed(5, 2), Said::Other, "two questions");
        assert_eq!(changed(13, b'w'), Said::Other, "another case");
        assert_eq!(changed(13, b'x'), Said::Other, "another name");
        assert_eq!(changed(18, 1), Said::Other, "another type");
        assert_eq!(changed(20, 3), Said::Other, "another class");
        assert_eq!(changed(2, 0x83), Said::Truncated);
        assert_eq!(changed(3, 0x83), Said::Answer, "NXDOMAIN");
        for code in [1, 2, 4, 5, 9] {
            assert_eq!(changed(3, 0x80 | code), Said::Failure, "{code}");
        }
    }
}
