//! What must hold for any message taken as a query.
use wire::{HEADER_LEN, Name, Query, QueryFault};

/// Parses the bytes as a query: what stands behind them must not count, nor what the buffer held
/// before, and what is read must be what a slower reader reads.
pub fn check(message: &[u8]) {
    let mut window = message.to_vec();
    let mut query = Query::new();
    let result = query.parse(&window, message.len());
    window.resize(message.len() + 64, 0xc0);
    let mut again = Query::new();
    // Any other name, so that the buffer is not fresh.
    again.name.set(Name::parse(b"\x03ABC\x02de\0").expect("a name"));
    assert_eq!(again.parse(&window, message.len()), result);
    assert_eq!((again.question_end, again.flags), (query.question_end, query.flags));
    assert_eq!(query.edns.is_some(), again.edns.is_some());
    assert!(query.question_end >= HEADER_LEN);
    if query.question_end > HEADER_LEN {
        question(message, &query);
        question(message, &again);
    }
    match result {
        Err(QueryFault::Short) => assert!(message.len() < HEADER_LEN),
        Err(QueryFault::Response) => assert_ne!(message[2] & 0x80, 0),
        Err(QueryFault::CookieOnly) => assert_eq!(message[5], 0),
        Ok(()) => assert!(matches!(message[2] & 0xf8, 0 | 0x20) && message[5] == 1),
        Err(_) => {}
    }
}

/// The question against a plain reading of it.
fn question(message: &[u8], query: &Query) {
    let name = Name::parse(&message[HEADER_LEN..]).expect("the question's name");
    let end = HEADER_LEN + name.len();
    assert_eq!(query.question_end, end + 4);
    assert_eq!(query.name.as_bytes(), name.as_bytes().to_ascii_lowercase());
    assert_eq!(query.name.labels(), name.labels().count());
    assert_eq!(query.rtype.0.to_be_bytes(), message[end..end + 2]);
    assert_eq!(query.class.0.to_be_bytes(), message[end + 2..end + 4]);
    let mut rest = Some(name);
    for labels in (0..=query.name.labels()).rev() {
        let suffix = rest.expect("as many parents as labels");
        assert_eq!(query.name.start_of_last(labels), name.len() - suffix.len());
        rest = suffix.parent();
    }
}
