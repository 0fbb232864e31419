//! Queries that an owner shard sends.
use cache::{CacheKey, QueryKind};
use forward::limits::{QUERIES_MAX, WHEEL_MICROS};
use forward::{ForwardEvent, Forwarder, ForwarderState, PendingQuery, QueryOutcome, UpstreamGroup};

const GROUP: UpstreamGroup = UpstreamGroup { first: 0, len: 1, mixes_case: false };
const KEY: CacheKey<'_> =
    CacheKey { hash: 7, kind: QueryKind::new(1, 1, false, false), name: b"\x01a\0" };
/// When the owner shard is late.
const UNTIL: u64 = 50_000;
/// A time that the wheel tells from another.
const BIT: u64 = 2 * WHEEL_MICROS;

struct Thread {
    state: Box<ForwarderState>,
    queries: Vec<PendingQuery>,
    thrown: u64,
}

impl Thread {
    fn new() -> Self {
        let mut queries = vec![PendingQuery::FREE; QUERIES_MAX];
        Self { state: Box::new(ForwarderState::new(&mut queries)), queries, thrown: 0 }
    }

    fn call<T>(
        &mut self,
        act: impl FnOnce(&mut Forwarder<'_>, forward::RandomSource<'_>) -> T,
    ) -> T {
        let Self { state, queries, thrown } = self;
        act(&mut Forwarder { state, queries }, &mut || {
            *thrown += 1;
            *thrown
        })
    }
}

/// What time brings that is something.
fn expire(
    forwarder: &mut Forwarder<'_>,
    now: u64,
    random: forward::RandomSource<'_>,
) -> Vec<ForwardEvent> {
    let events = std::iter::from_fn(|| forwarder.expire(now, random));
    events.filter(|event| *event != ForwardEvent::Nothing).collect()
}

#[test]
fn delegated_query_is_not_sent_until_urged() {
    let mut thread = Thread::new();
    thread.call(|forwarder, random| {
        assert!(!forwarder.is_asked(&KEY, GROUP));
        let query_id = forwarder.delegate(&KEY, GROUP, Some(1), UNTIL, 0).expect("room");
        assert!(forwarder.is_asked(&KEY, GROUP));
        assert!(forwarder.get(query_id).is_some_and(PendingQuery::is_delegated));
        // Who asks the same waits for the same.
        assert_eq!(forwarder.query(&KEY, GROUP, Some(2), 1, random), QueryOutcome::Pending);
        assert_eq!((forwarder.len(), forwarder.transmission()), (1, None));
        assert_eq!(expire(forwarder, UNTIL - BIT, random), []);
        assert_eq!(expire(forwarder, UNTIL + BIT, random), [ForwardEvent::Late(query_id)]);
        forwarder.wait(query_id, 2 * UNTIL);
        assert_eq!(expire(forwarder, 2 * UNTIL - BIT, random), []);
        assert_eq!(expire(forwarder, 2 * UNTIL + BIT, random), [ForwardEvent::Late(query_id)]);
        assert_eq!(forwarder.transmission(), None);
        assert_eq!(forwarder.send_now(query_id, 3 * UNTIL, random), ForwardEvent::Nothing);
        assert_eq!(forwarder.transmission().map(|transmission| transmission.upstream), Some(0));
        assert!(
            forwarder
                .get(query_id)
                .is_some_and(|query| !query.is_delegated() && query.was_delegated())
        );
        assert_eq!(forwarder.send_now(query_id, 3 * UNTIL, random), ForwardEvent::Nothing);
        assert_eq!(forwarder.transmission(), None, "once is enough");
        let mut waiters: Vec<_> = std::iter::from_fn(|| forwarder.take_waiter(query_id)).collect();
        waiters.sort_unstable();
        assert_eq!(waiters, [1, 2]);
        forwarder.end(query_id);
        assert!(forwarder.is_empty());
        assert_eq!(
            forwarder.send_now(query_id, 3 * UNTIL, random),
            ForwardEvent::Nothing,
            "it has ended"
        );
    });
}

#[test]
fn query_without_a_server_is_not_delegated() {
    Thread::new().call(|forwarder, _| {
        assert_eq!(
            forwarder.delegate(&KEY, UpstreamGroup { len: 0, ..GROUP }, Some(1), UNTIL, 0),
            None
        );
        assert!(forwarder.is_empty() && forwarder.next_micros().is_none());
    });
}

#[test]
fn query_that_ends_in_time_is_never_late() {
    let mut thread = Thread::new();
    thread.call(|forwarder, random| {
        let query_id = forwarder.delegate(&KEY, GROUP, None, UNTIL, 0).expect("room");
        assert_eq!(forward::QueryId::from_bits(query_id.to_bits()), query_id);
        forwarder.end(query_id);
        assert!(forwarder.is_empty() && forwarder.get(query_id).is_none());
        assert_eq!(expire(forwarder, 2 * UNTIL, random), []);
        // No client waits for a cut-off query: no upstream is queried for it.
        let query_id = forwarder.delegate(&KEY, GROUP, None, 3 * UNTIL, 2 * UNTIL).expect("room");
        assert_eq!(forwarder.cut_off(|_| true), 1);
        assert!(!forwarder.is_asked(&KEY, GROUP));
        assert_eq!(
            forwarder.send_now(query_id, 3 * UNTIL, random),
            ForwardEvent::Failure(query_id)
        );
        forwarder.end(query_id);
        for hash in 0..QUERIES_MAX as u64 {
            let left = forwarder.delegate(&CacheKey { hash, ..KEY }, GROUP, None, UNTIL, 0);
            assert!(left.is_some(), "{hash}");
        }
        assert_eq!(forwarder.delegate(&KEY, GROUP, None, UNTIL, 0), None);
    });
}
