use super::*;
use packet::{DropReason, Transport};

const UNIX: Duration = Duration::from_secs(1_795_272_080);

/// The messages of some queries, each with room behind it.
fn buffers(queries: &[&[u8]]) -> Vec<Vec<u8>> {
    let buffer = |query: &&[u8]| [*query, &[0; 32][..]].concat();
    queries.iter().map(buffer).collect()
}

/// Shows a burst of these queries to the tap. Each is answered by its own bytes, doubled; an empty
/// one is dropped.
fn burst(tap: &mut QueryTap, queries: &[&[u8]]) {
    let mut buffers = buffers(queries);
    let peer = "192.0.2.1:53".parse().unwrap();
    let mut packets: Vec<Packet<'_>> = buffers
        .iter_mut()
        .zip(queries)
        .map(|(buffer, query)| Packet::new(buffer, query.len(), peer, Transport::Datagram))
        .collect();
    tap.begin(&packets, UNIX, Duration::ZERO);
    for packet in &mut packets {
        let len = packet.len;
        packet.verdict = Verdict::Drop(DropReason::Short);
        if len > 0 {
            packet.buf.copy_within(..len, len);
            packet.buf[..len].reverse();
            packet.len = 2 * len;
            packet.verdict = Verdict::Reply;
        }
    }
    tap.end(&packets);
}

fn tap(one_in: u32) -> (QueryTap, EventReader, Arc<SharedRate>) {
    let rate = Arc::new(SharedRate::default());
    rate.set(one_in);
    let (tap, reader) = QueryTap::new(rate.clone(), 1);
    (tap, reader, rate)
}

/// The first byte of each query that was picked.
fn picked(reader: &mut EventReader) -> Vec<u8> {
    let mut seen = Vec::new();
    reader.drain(|event| seen.push(Sample::read(event).expect("a sample").query[0]));
    seen
}

#[test]
fn the_query_is_as_it_came_and_the_reply_as_it_went() {
    let (mut tap, mut reader, _rate) = tap(1);
    burst(&mut tap, &[b"abc", b"", b"defg"]);
    let mut seen = Vec::new();
    reader.drain(|event| {
        let sample = Sample::read(event).expect("a sample");
        assert_eq!((sample.one_in, sample.unix), (1, UNIX));
        assert!(sample.took > Duration::ZERO);
        seen.push(match sample.outcome {
            QueryOutcome::Reply(reply) => (sample.query.to_vec(), reply.to_vec()),
            QueryOutcome::Dropped(reason) => (sample.query.to_vec(), reason.name().into()),
        });
    });
    let wanted = [(&b"abc"[..], &b"cbaabc"[..]), (b"", b"short"), (b"defg", b"gfeddefg")];
    assert_eq!(seen, wanted.map(|(query, reply)| (query.to_vec(), reply.to_vec())));
}

#[test]
fn nothing_is_picked_while_it_is_off() {
    let (mut tap, mut reader, rate) = tap(0);
    burst(&mut tap, &[b"a", b"b"]);
    assert_eq!(picked(&mut reader), b"");
    rate.set(1);
    burst(&mut tap, &[b"c", b"d"]);
    rate.set(0);
    burst(&mut tap, &[b"e"]);
    assert_eq!(picked(&mut reader), b"cd");
}

#[test]
fn one_in_so_many_is_picked_and_not_always_the_same() {
    let (mut tap, mut reader, _rate) = tap(16);
    // Clients that ask for A and AAAA in turns, in bursts of all sizes.
    let pairs: Vec<&[u8]> = [&b"4"[..], b"6"].repeat(32);
    let (mut v4, mut v6, mut asked) = (0, 0, 0);
    for turn in 0..4_000 {
        let queries = &pairs[..2 * (1 + turn % 32)];
        burst(&mut tap, queries);
        asked += queries.len();
        for query in picked(&mut reader) {
            *(if query == b'4' { &mut v4 } else { &mut v6 }) += 1;
        }
    }
    let half = asked as f64 / 32.0;
    for seen in [v4, v6] {
        assert!((f64::from(seen) / half - 1.0).abs() < 0.1, "{v4} and {v6} of {asked}");
    }
}

#[test]
fn another_rate_holds_from_the_next_burst_on() {
    let (mut tap, mut reader, rate) = tap(crate::limits::ONE_IN_MAX);
    burst(&mut tap, &[b"a"]);
    rate.set(1);
    burst(&mut tap, &[b"b", b"c"]);
    let seen = picked(&mut reader);
    assert!(seen.ends_with(b"bc"), "{seen:?}");
}

#[test]
fn sample_without_room_is_lost_and_counted() {
    let (mut tap, mut reader, _rate) = tap(1);
    let query = [7u8; 512];
    let mut bursts = 0;
    while reader.lost() == 0 {
        burst_of_drops(&mut tap, &query, 10);
        bursts += 1;
    }
    let room = RING_OCTETS / (8 + crate::HEAD_LEN + query.len());
    assert_eq!(reader.lost(), bursts * 10 - room as u64);
    assert_eq!(picked(&mut reader).len(), room);
    burst(&mut tap, &[b"b"]);
    assert_eq!(picked(&mut reader), b"b", "room again");
}

#[test]
fn oversized_burst_is_lost_in_part() {
    let (mut tap, mut reader, _rate) = tap(1);
    burst_of_drops(&mut tap, &[7; u16::MAX as usize], BURST_MAX);
    let kept = STAGED_OCTETS / usize::from(u16::MAX);
    assert_eq!(picked(&mut reader).len(), kept);
    assert_eq!(reader.lost(), (BURST_MAX - kept) as u64);
}

/// A burst of so many copies of a query, all dropped.
fn burst_of_drops(tap: &mut QueryTap, query: &[u8], packets: usize) {
    let mut buffers = buffers(&vec![query; packets]);
    let peer = "192.0.2.1:53".parse().unwrap();
    let packets: Vec<Packet<'_>> = buffers
        .iter_mut()
        .map(|buffer| Packet::new(buffer, query.len(), peer, Transport::Datagram))
        .collect();
    tap.begin(&packets, UNIX, Duration::ZERO);
    tap.end(&packets);
}
