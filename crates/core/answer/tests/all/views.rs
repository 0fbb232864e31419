//! Queries of different views in one burst: zones, cache entries and reply rates are apart.

use crate::common::{Burst, NOW, RD, name, query, zones};
use answer::{CacheLookup, Limiter, Limits, Now, Policy, Resolver};
use cache::{CacheHit, CacheKey};
use compile::{Image, Loader, Zone};
use image::{ForwardRule, Forwards};
use limit::{DebtSet, Networks, Rate, RateTable, TableKey};
use packet::{DropReason, Packet, Verdict, View};
use std::sync::Arc;
use wire::{NameBuf, Rtype};

const NXDOMAIN: u8 = 3;
const OTHER: View = View(7);

/// The zone example.org. In one view `ns` has another address, and two names exist.
fn with_view() -> Image {
    let mut image = zones();
    let zone = image.zone(name("example.org.").as_name()).expect("it is there").clone();
    let mut loader = Loader::new(Arc::clone(image.key()), zone.origin(), None);
    for (owner, address) in
        [("own.example.org.", 7), ("a.b.example.org.", 8), ("ns.example.org.", 9)]
    {
        let data = [192, 0, 2, address];
        loader.add(name(owner).as_name(), Rtype::A, 60, &data, 0).expect("in the zone");
    }
    let (sets, _) = loader.finish_view(&zone).expect("a view");
    let zone = Zone::clone(&zone).with_views(vec![(OTHER, Some(sets))]).expect("a view");
    image.put_zone(Arc::new(zone));
    image
}

/// An empty cache that records the view of each lookup and request.
#[derive(Default)]
struct Recorder(Vec<u16>);

impl Resolver for Recorder {
    fn prefetch(&self, _key: &CacheKey<'_>) {}

    fn find(&mut self, key: &CacheKey<'_>) -> Option<CacheHit<'_>> {
        self.0.push(key.kind.view());
        None
    }

    fn count(&mut self, _lookup: CacheLookup) {}

    fn request(&mut self, key: &CacheKey<'_>, _group: u16, packet: &Packet<'_>) -> bool {
        assert_eq!(key.kind.view(), u16::from(packet.context.view.0));
        true
    }

    fn renew(&mut self, _key: &CacheKey<'_>, _group: u16) {}

    fn confirm(&mut self, _key: &CacheKey<'_>, _map: u32) {}
}

/// Answers one burst of the same query in these views; returns verdicts and response codes.
fn burst(
    policy: &Policy<'_>,
    resolver: &mut Recorder,
    owner: &str,
    views: &[View],
) -> Vec<(Verdict, u8)> {
    let now = Now { monotonic_micros: 1_000_000, ..NOW };
    let zones = with_view();
    let burst = Burst { now, views, ..Burst::new(&zones, policy) };
    let (sent, _) = burst.send(resolver, &vec![query(RD, owner, 1, &[]); views.len()]);
    sent.iter().map(|(verdict, bytes)| (*verdict, bytes[3] & 0xf)).collect()
}

#[test]
fn sets_of_a_view_are_not_served_in_others_whatever_the_burst_asked_before() {
    const THIRD: View = View(8);
    let views = [View::DEFAULT, OTHER, View::DEFAULT, OTHER, OTHER, THIRD, View::DEFAULT];
    for (owner, expected) in
        [("own.example.org.", 3), ("b.example.org.", 3), ("x.b.example.org.", 3)]
    {
        let rcodes = burst(&Policy::default(), &mut Recorder::default(), owner, &views);
        let in_view = if owner.starts_with('x') { 3 } else { 0 };
        let expected =
            views.map(|view| (Verdict::Reply, if view == OTHER { in_view } else { expected }));
        assert_eq!(rcodes, expected, "{owner}");
    }
    let all = burst(&Policy::default(), &mut Recorder::default(), "ns.example.org.", &views);
    assert!(all.iter().all(|reply| *reply == (Verdict::Reply, 0)));
}

#[test]
fn cache_is_read_and_filled_by_view() {
    let rules = [ForwardRule { suffix: NameBuf::root(), group: 0 }];
    let policy = Policy { forwards: Forwards::new(&rules), ..Policy::default() };
    let mut recorder = Recorder::default();
    let views = [View::DEFAULT, OTHER, View::DEFAULT, OTHER];
    let verdicts = burst(&policy, &mut recorder, "www.elsewhere.test.", &views);
    assert!(verdicts.iter().all(|(verdict, _)| *verdict == Verdict::Deferred), "{verdicts:?}");
    // The first is looked up on the full path, the others on both.
    assert!(
        recorder.0.iter().filter(|view| **view == u16::from(OTHER.0)).count() >= 2,
        "{recorder:?}",
        recorder = recorder.0
    );
    assert!(recorder.0.iter().all(|view| [0, u16::from(OTHER.0)].contains(view)));
}

#[test]
fn replies_of_one_view_do_not_use_up_the_rate_of_another() {
    let sets: Vec<_> = (0..64).map(|_| DebtSet::new()).collect();
    let table = RateTable::new(&sets, TableKey::new([1, 2, 3, 4]));
    let rate = Rate::new(1, 1, 0).unwrap();
    let replies = Some(Limiter { table, rate, networks: Networks::HOSTS });
    let limits = Some(Limits { replies, ..Limits::default() });
    let policy = Policy { limits, ..Policy::default() };
    let dropped = (Verdict::Drop(DropReason::ResponseLimited), NXDOMAIN);
    let views = [View(1), View(1), View(2), View(2)];
    let sent = burst(&policy, &mut Recorder::default(), "www.example.org.", &views);
    let replied = (Verdict::Reply, NXDOMAIN);
    assert_eq!(sent, [replied, dropped, replied, dropped]);
}
