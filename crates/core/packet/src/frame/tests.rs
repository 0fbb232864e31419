extern crate std;

use super::*;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];
const THEIRS: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// The way of the reply to a client's frame.
fn way(local: &str, tags: &[u16]) -> ReplyPath {
    let link =
        tags.iter().fold(LinkHeader::new(THEIRS, OURS, 4_660), |link, tag| link.behind(*tag));
    assert_eq!(usize::from(link.len), ADDRESSES + tags.len() * TAG);
    ReplyPath { link, local: local.parse().unwrap() }
}

fn frame(from: &str, to: &str, tags: &[u16], payload: &[u8]) -> Vec<u8> {
    let way = way(from, tags);
    let mut head = vec![0; headers_len(&way)];
    assert!(compose(&mut head, payload, &way, to.parse().unwrap()));
    [&head, payload].concat()
}

fn v4() -> Vec<u8> {
    frame("192.0.2.1", "198.51.100.2:53", &[], b"a question")
}

fn v6() -> Vec<u8> {
    frame("2001:db8::1", "[2001:db8::2]:53", &[], b"a question")
}

/// Updates the header checksum of a frame without tags.
fn update_checksum(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let checksum = !fold(sum(&frame[14..34]));
    frame[24..26].copy_from_slice(&checksum.to_ne_bytes());
}

fn with(mut frame: Vec<u8>, at: usize, byte: u8) -> Vec<u8> {
    frame[at] = byte;
    if frame[12..14] == TYPE_V4 && (14..34).contains(&at) {
        update_checksum(&mut frame);
    }
    frame
}

#[test]
fn both_families_are_read_behind_up_to_two_tags() {
    for tags in [&[][..], &[100], &[100, 0x2007]] {
        for (from, to) in [("192.0.2.1", "198.51.100.2:53"), ("2001:db8::1", "[2001:db8::2]:53")] {
            let frame = frame(from, to, tags, b"odd");
            let datagram = read(&frame).unwrap();
            assert_eq!(&frame[datagram.at..], b"odd");
            assert_eq!((datagram.peer.ip(), datagram.peer.port()), (from.parse().unwrap(), 4_660));
            assert_eq!(SocketAddr::new(datagram.way.local, 53), to.parse().unwrap());
        }
    }
    assert_eq!(read(&frame("192.0.2.1", "198.51.100.2:53", &[1, 2], b"")).unwrap().len, 0);
}

#[test]
fn reply_has_the_reversed_addresses_of_the_query() {
    let question = frame("192.0.2.1", "198.51.100.2:53", &[7], b"a question");
    let datagram = read(&question).unwrap();
    let mut head = vec![0; headers_len(&datagram.way)];
    assert_eq!(head.len(), datagram.at, "a reply begins where its question does");
    assert!(compose(&mut head, b"an answer", &datagram.way, datagram.peer));
    assert_eq!([&head[6..12], &head[..6]], [&question[..6], &question[6..12]]);
    assert_eq!(head[12..18], question[12..18]);
    let back = read(&[&head[..], b"an answer"].concat()).unwrap();
    assert_eq!((back.peer, back.len), ("198.51.100.2:53".parse().unwrap(), 9));
    assert_eq!(SocketAddr::new(back.way.local, back.local_port()), datagram.peer);
}

#[test]
fn what_is_no_plain_datagram_is_not_read() {
    // Version and length, fragments, protocol; total length.
    for (at, byte) in [(14, 0x46), (14, 0x65), (20, 0x20), (21, 1), (23, 6), (17, 255), (17, 27)] {
        assert_eq!(read(&with(v4(), at, byte)), Err(DropReason::Malformed), "{at} {byte}");
    }
    // Version, next header, payload length.
    for (at, byte) in [(14, 0x40), (20, 44), (19, 255), (19, 7)] {
        assert_eq!(read(&with(v6(), at, byte)), Err(DropReason::Malformed), "{at} {byte}");
    }
    // The datagram's own length: less than its header, or more than the packet.
    for (frame, at) in [(v4(), 39), (v6(), 59)] {
        for byte in [7, 19] {
            assert_eq!(read(&with(frame.clone(), at, byte)), Err(DropReason::Malformed));
        }
    }
    assert_eq!(read(&with(v4(), 13, 6)), Err(DropReason::Malformed), "ARP");
    let three = frame("192.0.2.1", "198.51.100.2:53", &[1, 0x8100], b"");
    assert!(read(&three).is_ok(), "a tag's number is not a type");
    for frame in [v4(), v6()] {
        for len in 0..frame.len() {
            assert_eq!(read(&frame[..len]), Err(DropReason::Malformed), "{len} bytes");
        }
    }
}

#[test]
fn padding_is_no_part_of_the_datagram() {
    let mut frame = frame("192.0.2.1", "198.51.100.2:53", &[], b"q");
    frame.resize(60, 0xaa);
    assert_eq!(read(&frame).unwrap().len, 1);
}

#[test]
fn any_octet_that_is_damaged_is_noticed() {
    for frame in [v4(), v6()] {
        for at in 14..frame.len() {
            let mut damaged = frame.clone();
            damaged[at] ^= 0x10;
            // Traffic class, flow label and hop limit are in no checksum.
            let is_summed = frame[12..14] == TYPE_V4 || !matches!(at, 14..=17 | 21);
            assert_eq!(read(&damaged).is_err(), is_summed || damaged[14] >> 4 != 6, "{at}");
        }
    }
}

#[test]
fn a_checksum_may_be_partial_and_in_ipv4_absent() {
    for (frame, at, addresses) in [(v4(), 40, 26..34), (v6(), 60, 22..54)] {
        let udp = word((frame.len() - at + 6) as u16) + word(17);
        let partial = fold(sum(&frame[addresses]) + udp).to_ne_bytes();
        let mut frame = frame;
        frame[at..at + 2].copy_from_slice(&partial);
        assert_eq!(read(&frame).unwrap().len, 10);
        frame[at] ^= 1;
        assert_eq!(read(&frame), Err(DropReason::Checksum));
        frame[at..at + 2].fill(0);
        assert_eq!(read(&frame).is_ok(), at == 40);
    }
}

#[test]
fn nobody_is_answered_who_is_no_host() {
    for from in ["0.0.0.0", "127.0.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"] {
        assert_eq!(read(&frame(from, "192.0.2.1:53", &[], b"")), Err(DropReason::NoPeer), "{from}");
    }
    for from in ["::", "::1", "ff02::1", "::ffff:192.0.2.1"] {
        assert_eq!(
            read(&frame(from, "[2001:db8::1]:53", &[], b"")),
            Err(DropReason::NoPeer),
            "{from}"
        );
    }
    let mut way = way("192.0.2.1", &[]);
    way.link.port = 0;
    let mut head = vec![0; headers_len(&way)];
    assert!(compose(&mut head, b"", &way, "192.0.2.2:53".parse().unwrap()));
    assert_eq!(read(&head), Err(DropReason::NoPeer));
    for port in [7, 19, 123] {
        way.link.port = port;
        assert!(compose(&mut head, b"", &way, "192.0.2.2:53".parse().unwrap()));
        assert_eq!(read(&head), Err(DropReason::SourcePort), "{port}");
    }
    way.link.port = 53;
    assert!(compose(&mut head, b"", &way, "192.0.2.2:53".parse().unwrap()));
    assert!(read(&head).is_ok(), "a resolver may ask from its own port");
}

#[test]
fn a_checksum_of_zero_is_sent_as_all_ones() {
    let way = way("192.0.2.1", &[]);
    let mut head = vec![0; headers_len(&way)];
    let (found, peer) = (|head: &[u8]| [head[40], head[41]], "192.0.2.2:53".parse().unwrap());
    assert!(compose(&mut head, &[0; 2], &way, peer));
    // Only the checksum itself makes the sum zero.
    let payload = found(&head);
    assert!(compose(&mut head, &payload, &way, peer));
    assert_eq!(found(&head), [0xff; 2]);
    assert!(read(&[&head[..], &payload].concat()).is_ok());
}

#[test]
fn what_does_not_fit_together_is_not_composed() {
    let way = way("192.0.2.1", &[]);
    let (peer, mut head) = ("192.0.2.2:53".parse().unwrap(), vec![0; 42]);
    assert!(compose(&mut head, b"", &way, peer));
    assert!(!compose(&mut head[..41], b"", &way, peer), "too short");
    assert!(!compose(&mut head, b"", &way, "[2001:db8::1]:53".parse().unwrap()));
    assert!(!compose(&mut head, &[0; 65_500], &way, peer), "too long");
}

#[test]
fn links_that_differ_anywhere_have_other_numbers() {
    let link = way("192.0.2.1", &[7, 8]).link;
    assert_eq!(link.hash(), way("192.0.2.1", &[7, 8]).link.hash());
    assert_eq!(link.behind(9), link, "there is room for two");
    let mut others = std::vec![LinkHeader { port: 1, ..link }, LinkHeader { len: 16, ..link }];
    others.extend((0..link.bytes.len()).map(|at| {
        let mut other = link;
        other.bytes[at] ^= 1;
        other
    }));
    assert!(others.iter().all(|other| other.hash() != link.hash()));
}

proptest! {
    /// No panic, and no datagram beyond the frame.
    #[test]
    fn arbitrary_octets_are_read_within_their_bounds(
        noise in proptest::collection::vec(any::<u8>(), 0..40),
        at in 0..60usize,
        v4_first: bool,
        cut in 0..80usize,
    ) {
        let mut frame = if v4_first { v4() } else { v6() };
        let end = (at + noise.len()).min(frame.len());
        if at < end {
            frame[at..end].copy_from_slice(&noise[..end - at]);
        }
        frame.truncate(cut);
        if let Ok(datagram) = read(&frame) {
            prop_assert!(datagram.at + datagram.len <= frame.len());
        }
    }
}
