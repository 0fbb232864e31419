//! A strict reader of replies, which owes nothing to the room that writes them.

/// A record, its names uncompressed and in lower case.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    pub owner: Vec<u8>,
    pub rtype: u16,
    pub class: u16,
    pub ttl: u32,
    pub rdata: Vec<u8>,
}

/// A reply in parts.
pub struct Reply {
    pub flags: u16,
    pub question_end: usize,
    /// Answer, authority, additional.
    pub sections: [Vec<Record>; 3],
}

const HEADER_LEN: usize = 12;

/// Reads a reply. Panics where it is none: records that are cut off or left over, names that are
/// too long, pointers that do not point back.
pub fn read(message: &[u8]) -> Reply {
    let mut at = HEADER_LEN;
    let questions = word(message, 4);
    assert!(questions <= 1);
    for _ in 0..questions {
        name(message, &mut at);
        at += 4;
    }
    let question_end = at;
    let sections = [6, 8, 10]
        .map(|count_at| (0..word(message, count_at)).map(|_| record(message, &mut at)).collect());
    assert_eq!(at, message.len(), "all of the reply is records");
    Reply { flags: word(message, 2), question_end, sections }
}

/// A record without a look at its data.
pub struct Frame {
    pub rtype: u16,
}

/// The end of the question, and the records of each section. Panics as [`read`] does, except for
/// data, which another server may have written.
pub fn frames(message: &[u8]) -> (usize, [Vec<Frame>; 3]) {
    let mut at = HEADER_LEN;
    for _ in 0..word(message, 4) {
        name(message, &mut at);
        at += 4;
    }
    let question_end = at;
    let mut frame = || {
        name(message, &mut at);
        let rtype = word(message, at);
        at += 10 + usize::from(word(message, at + 8));
        Frame { rtype }
    };
    let sections = [6, 8, 10].map(|count| (0..word(message, count)).map(|_| frame()).collect());
    assert_eq!(at, message.len(), "all of the reply is records");
    (question_end, sections)
}

fn word(message: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([message[at], message[at + 1]])
}

fn record(message: &[u8], at: &mut usize) -> Record {
    let owner = name(message, at);
    let (rtype, class) = (word(message, *at), word(message, *at + 2));
    let ttl = u32::from(word(message, *at + 4)) << 16 | u32::from(word(message, *at + 6));
    let len = usize::from(word(message, *at + 8));
    *at += 10;
    let rdata = rdata(&message[..*at + len], *at, rtype);
    *at += len;
    Record { owner, rtype, class, ttl, rdata }
}

/// Record data with the names in it uncompressed; they are compressed only where RFC 3597 §4
/// allows it.
fn rdata(message: &[u8], start: usize, rtype: u16) -> Vec<u8> {
    let mut at = start;
    let mut out = Vec::new();
    let (before, names) = match rtype {
        2 | 5 | 12 => (0, 1),
        6 => (0, 2),
        15 => (2, 1),
        1 => {
            assert_eq!(message.len() - start, 4);
            (0, 0)
        }
        28 => {
            assert_eq!(message.len() - start, 16);
            (0, 0)
        }
        _ => (0, 0),
    };
    out.extend_from_slice(&message[at..at + before]);
    at += before;
    for _ in 0..names {
        out.extend(name(message, &mut at));
    }
    if rtype == 6 {
        assert_eq!(message.len() - at, 20);
    } else if names > 0 {
        assert_eq!(message.len(), at);
    }
    out.extend_from_slice(&message[at..]);
    out
}

fn name(message: &[u8], at: &mut usize) -> Vec<u8> {
    let (mut here, mut end, mut out) = (*at, None, Vec::new());
    loop {
        let len = usize::from(message[here]);
        if len >= 0xc0 {
            let to = (len & 0x3f) << 8 | usize::from(message[here + 1]);
            assert!((HEADER_LEN..here).contains(&to), "a pointer points back");
            end.get_or_insert(here + 2);
            here = to;
            continue;
        }
        assert!(len <= 63);
        out.extend_from_slice(&message[here..=here + len].to_ascii_lowercase());
        here += 1 + len;
        if len == 0 {
            break;
        }
    }
    assert!(out.len() <= 255);
    *at = end.unwrap_or(here);
    out
}
