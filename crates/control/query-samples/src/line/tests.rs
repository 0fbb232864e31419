use super::*;
use packet::DropReason;
use proptest::prelude::*;

/// A query for `www.Example.org. A` with these bytes after its question.
fn query(flags: [u8; 2], additional: u8, behind: &[u8]) -> Vec<u8> {
    let mut query = vec![0x12, 0x34, flags[0], flags[1], 0, 1, 0, 0, 0, 0, 0, additional];
    query.extend(b"\x03www\x07Example\x03org\0\0\x01\0\x01");
    query.extend(behind);
    query
}

/// OPT: 1232 bytes, extended rcode, version 0, DO.
fn opt(extended: u8) -> [u8; 11] {
    [0, 0, 41, 0x04, 0xd0, extended, 0, 0x80, 0, 0, 0]
}

fn sample<'a>(query: &'a [u8], outcome: QueryOutcome<'a>) -> Sample<'a> {
    Sample {
        one_in: 1,
        unix: Duration::new(1_795_272_080, 123_456_789),
        took: Duration::from_nanos(12_345),
        client: "192.0.2.1:5353".parse().unwrap(),
        peer: "192.0.2.1:5353".parse().unwrap(),
        transport: Transport::Datagram,
        query,
        outcome,
    }
}

fn line(sample: &Sample<'_>) -> LogLine {
    LogLine::new(sample, &mut Query::new())
}

#[test]
fn reply_is_logged_as_text_and_json() {
    let query = query([0x01, 0x10], 1, &opt(0));
    let mut reply = query.clone();
    (reply[2], reply[3]) = (0x87, 0x03);
    let sample = sample(&query, QueryOutcome::Reply(&reply));
    assert_eq!(
        line(&sample).text().to_string(),
        "time=2026-11-21T14:41:20.123456Z client=192.0.2.1:5353 transport=udp id=4660 \
         flags=rd,cd name=www.Example.org. type=A class=IN edns=0 bufsize=1232 do=true \
         rcode=NXDOMAIN bytes=44 truncated=true micros=12"
    );
    let json: serde_json::Value = serde_json::from_str(&line(&sample).json().to_string()).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "time": "2026-11-21T14:41:20.123456Z", "client": "192.0.2.1:5353",
            "transport": "udp", "id": 4660, "flags": "rd,cd", "name": "www.Example.org.",
            "type": "A", "class": "IN", "edns": 0, "bufsize": 1232, "do": true,
            "rcode": "NXDOMAIN", "bytes": 44, "truncated": true, "micros": 12,
        })
    );
}

#[test]
fn drop_proxy_and_opcode_are_logged() {
    let query = query([0x20, 0], 0, b"");
    let sample = Sample {
        peer: "[2001:db8::1]:9".parse().unwrap(),
        transport: Transport::Stream,
        ..sample(&query, QueryOutcome::Dropped(DropReason::RateLimited))
    };
    assert_eq!(
        line(&sample).text().to_string(),
        "time=2026-11-21T14:41:20.123456Z client=192.0.2.1:5353 proxy=[2001:db8::1]:9 \
         transport=tcp id=4660 opcode=4 name=www.Example.org. \
         type=A class=IN dropped=rate_limited micros=12"
    );
}

#[test]
fn extended_rcode_is_logged() {
    let query = query([0, 0], 1, &opt(0));
    // An answer of a pointer and four bytes before the OPT.
    let mut reply = query.clone();
    reply.truncate(reply.len() - 11);
    (reply[2], reply[7]) = (0x80, 1);
    reply.extend(b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01");
    reply.extend(opt(1));
    let told = line(&sample(&query, QueryOutcome::Reply(&reply)));
    assert_eq!(told.rcode.as_deref(), Some("BADVERS"));
    reply[3] = 9;
    let told = line(&sample(&query, QueryOutcome::Reply(&reply)));
    assert_eq!(told.rcode.as_deref(), Some("RCODE25"));
    // In a truncated record, only the part in the header is readable.
    let told = line(&sample(&query, QueryOutcome::Reply(&reply[..40])));
    assert_eq!(told.rcode.as_deref(), Some("NOTAUTH"));
}

#[test]
fn name_cannot_forge_a_line() {
    let mut query = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend(b"\x11a\nb\r\x1b[31m c\"d\\e=\x7f\x02\xff\0\0\0\x01\0\x01");
    let told = line(&sample(&query, QueryOutcome::Dropped(DropReason::Denied)));
    let name = r#"a\010b\013\027[31m\032c\"d\\e=\127.\255\000."#;
    assert_eq!(told.name.as_deref(), Some(name));
    assert!(told.text().to_string().contains(&format!(" name={name} type=A ")));
}

#[test]
fn timestamps_are_calendar_dates() {
    for (seconds, text) in [
        (0, "1970-01-01T00:00:00.000000Z"),
        (951_782_399, "2000-02-28T23:59:59.000000Z"),
        (951_782_400, "2000-02-29T00:00:00.000000Z"),
        (951_868_800, "2000-03-01T00:00:00.000000Z"),
        (1_735_689_599, "2024-12-31T23:59:59.000000Z"),
        (1_772_323_199, "2026-02-28T23:59:59.000000Z"),
        (1_772_323_200, "2026-03-01T00:00:00.000000Z"),
        (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
    ] {
        assert_eq!(timestamp(Duration::from_secs(seconds)), text);
    }
}

proptest! {
    /// Any message gives one line of visible characters with one field a space.
    #[test]
    fn no_message_breaks_a_line(
        query in prop::collection::vec(any::<u8>(), 0..80),
        reply in prop::collection::vec(any::<u8>(), 0..80),
        question in 0u8..3,
    ) {
        let mut query = query;
        if let Some(count) = query.get_mut(5) {
            *count = question;
        }
        let told = line(&sample(&query, QueryOutcome::Reply(&reply)));
        let text = told.text().to_string();
        prop_assert!(text.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{text:?}");
        prop_assert!(text.split(' ').all(|field| field.contains('=')), "{text:?}");
        let json = told.json().to_string();
        prop_assert!(json.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{json:?}");
        prop_assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{json}");
    }
}
