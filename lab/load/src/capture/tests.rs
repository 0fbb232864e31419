use super::*;
use crate::query::QueryFormat as Composed;
use proptest::prelude::*;
use wire::NameBuf;

fn query(name: &str, rtype: Rtype) -> Vec<u8> {
    let form = Composed { recursion: true, edns: true, ..Composed::default() };
    let name = NameBuf::from_text(name.as_bytes(), Name::ROOT).unwrap();
    let mut room = [0; crate::limits::QUERY_MAX];
    let len = form.compose(name.as_name().as_bytes(), rtype, &mut room);
    room[..len].to_vec()
}

fn udp(payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u16 + 8).to_be_bytes();
    [&[0xc0, 0, 0, 53], &len[..], &[0, 0], payload].concat()
}

fn over_ipv4(payload: &[u8]) -> Vec<u8> {
    let mut head = [0u8; 24];
    (head[0], head[8], head[9]) = (0x46, 64, UDP); // 24 bytes: an option
    [&head[..], &udp(payload)].concat()
}

fn over_ipv6(payload: &[u8]) -> Vec<u8> {
    let mut head = [0u8; 48];
    (head[0], head[6], head[40]) = (0x60, 0, UDP); // options for hops first
    [&head[..], &udp(payload)].concat()
}

/// A file of packets: seconds, parts of them, and bytes.
fn file(form: QueryFormat, link: u32, packets: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
    let word = |number: u32| match form.big_endian {
        true => number.to_be_bytes(),
        false => number.to_le_bytes(),
    };
    let magic = if form.unit_ns == 1 { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    let mut file: Vec<u8> = [magic, 0x0002_0004, 0, 0, 262_144, link].map(word).concat();
    for (seconds, part, packet) in packets {
        let len = packet.len() as u32;
        file.extend([*seconds, *part, len, len].map(word).concat());
        file.extend(packet);
    }
    file
}

const MICRO: QueryFormat = QueryFormat { big_endian: false, unit_ns: 1_000 };

/// Times, names and types.
fn found(file: &[u8]) -> Result<Vec<(u64, String, Rtype)>, String> {
    let mut found = Vec::new();
    queries(file, &mut |at, name, rtype| {
        found.push((at, name.to_string(), rtype));
        Ok(())
    })?;
    Ok(found)
}

#[test]
fn every_form_and_link_is_read() {
    let asked = query("svc-1.example", Rtype::AAAA);
    let (v4, v6) = (over_ipv4(&asked), over_ipv6(&asked));
    let behind = |len: usize, packet: &[u8]| [&vec![0xfe; len], packet].concat();
    let tagged = [&[1; 12], &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 8, 0][..], &v4].concat();
    for (link, packet) in [
        (Link::ETHERNET, behind(14, &v4)),
        (Link::ETHERNET, tagged),
        (Link::RAW, v6.clone()),
        (Link::IPV4, v4.clone()),
        (Link::IPV6, v6.clone()),
        (Link::NULL, behind(4, &v4)),
        (Link::LOOP, behind(4, &v6)),
        (Link::LINUX_SLL, behind(16, &v4)),
        (Link::LINUX_SLL2, behind(20, &v6)),
    ] {
        for (big_endian, unit_ns) in [(true, 1), (false, 1), (true, 1_000), (false, 1_000)] {
            let form = QueryFormat { big_endian, unit_ns };
            let file = file(form, link, &[(7, 250, packet.clone())]);
            let at = 7_000_000_000 + 250 * unit_ns;
            let wanted = vec![(at, "svc-1.example.".to_owned(), Rtype::AAAA)];
            assert_eq!(found(&file).as_ref(), Ok(&wanted), "{link} {form:?}");
        }
    }
}

#[test]
fn packets_without_a_query_are_skipped() {
    let asked = query("svc-1.example", Rtype::A);
    let change = |at: usize, to: u8| {
        let mut changed = asked.clone();
        changed[at] = to;
        over_ipv4(&changed)
    };
    let outer = |at: usize, to: u8| {
        let mut changed = over_ipv4(&asked);
        changed[at] = to;
        changed
    };
    let others = [
        change(2, 0x80),                           // a response
        change(2, 0x28),                           // an update
        change(5, 0),                              // no question
        change(HEADER_LEN, 0xc0),                  // a name that points
        change(HEADER_LEN + 15 + 3, 3),            // class CHAOS
        outer(9, 6),                               // TCP
        outer(6, 0x20),                            // a fragment
        outer(7, 1),                               // a later one
        outer(0, 0x56),                            // no IP
        over_ipv4(&asked)[..24 + 8 + 20].to_vec(), // the rest was not captured
        Vec::new(),
    ];
    let packets: Vec<_> = others.into_iter().map(|packet| (1, 0, packet)).collect();
    assert_eq!(found(&file(MICRO, Link::RAW, &packets)), Ok(Vec::new()));
}

#[test]
fn damaged_captures_are_refused_with_the_position() {
    let packet = over_ipv4(&query("a.example", Rtype::A));
    let whole = file(MICRO, Link::RAW, &[(1, 0, packet.clone()), (1, 1, packet.clone())]);
    let error = |file: &[u8]| found(file).unwrap_err();
    assert!(error(&whole[..20]).contains("within its header"));
    assert!(error(&whole[..whole.len() - 1]).contains("within packet 2"));
    assert!(error(&whole[..24 + 16 + packet.len() + 3]).contains("within packet 2"));
    let late = file(MICRO, Link::RAW, &[(1, 1_000_000, packet)]);
    assert!(error(&late).contains("packet 1 is damaged"));
    let mut long = whole.clone();
    long[24 + 8..24 + 12].copy_from_slice(&(PACKET_MAX as u32 + 1).to_le_bytes());
    assert!(error(&long).contains("packet 1 is damaged"));
    assert!(error(&file(MICRO, 195, &[])).contains("link type 195"));
    let stop = queries(&whole[..], &mut |_, _, _| Err("enough".into())).unwrap_err();
    assert_eq!(stop, "packet 1: enough");
}

#[test]
fn a_capture_is_recognized_by_its_first_bytes() {
    let path = std::env::temp_dir().join(format!("dunlin-capture-{}", std::process::id()));
    let is = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        is_capture(&path)
    };
    assert_eq!(is(&file(MICRO, 1, &[])), Ok(true));
    assert_eq!(is(b"1.5\n2.0\n"), Ok(false));
    assert_eq!(is(b"1"), Ok(false));
    assert!(is(&[0x0a, 0x0d, 0x0d, 0x0a, 0]).unwrap_err().contains("pcapng"));
    std::fs::remove_file(&path).unwrap();
    assert!(is_capture(&path).is_err());
}

proptest! {
    #[test]
    fn nothing_in_a_file_makes_it_panic(
        link in prop::sample::select(vec![0u32, 1, 101, 113, 276]),
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 0..8),
        rest in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let packets: Vec<_> = packets.into_iter().map(|packet| (1, 1, packet)).collect();
        let mut bytes = file(MICRO, link, &packets);
        bytes.extend(rest);
        let _ = found(&bytes);
    }

    #[test]
    fn a_query_that_is_cut_anywhere_makes_no_panic(len in 0usize..80, flip in 0usize..80) {
        let mut packet = over_ipv6(&query("a.example", Rtype::A));
        packet.truncate(len);
        if let Some(byte) = packet.get_mut(flip) {
            *byte = !*byte;
        }
        let bytes = file(MICRO, Link::RAW, &[(1, 1, packet)]);
        prop_assert!(found(&bytes).unwrap().len() <= 1);
    }
}
