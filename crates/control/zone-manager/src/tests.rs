mod aliases;
mod fleet;
mod health;
mod ramps;
mod simulation;
mod sources;
mod views;

use super::*;
use compile::{Loader, Zone};
use image::HashKey;
use model::SetValue;
use packet::View;
use wire::Name;
use wire::{NameBuf, Rtype};

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
}

/// A zone with SOA and NS only.
fn zone(image: &Image, origin: &str) -> Zone {
    let origin = name(origin);
    let mut loader = Loader::new(Arc::clone(image.key()), origin.as_name(), None);
    loader.add(origin.as_name(), Rtype::SOA, 60, &soa(), 0).unwrap();
    loader.add(origin.as_name(), Rtype::NS, 60, b"\x02ns\0", 0).unwrap();
    loader.finish().unwrap()
}

fn soa() -> Vec<u8> {
    let mut soa = b"\x02ns\0\x04root\0".to_vec();
    soa.extend([0; 20]);
    soa
}

fn settings(kind: SourceKind) -> SourceSettings {
    SourceSettings { name: "test".into(), kind, lane: Lane::Normal, hold: HoldPolicy::Operator }
}

struct Fixture {
    publisher: ZonePublisher,
    updates: UpdateSender,
    running: PublisherThread,
}

/// A zone manager with the zone example.org of one source.
fn start() -> Fixture {
    start_with(ZonePublisher::start)
}

fn start_with(
    start: impl FnOnce(Image) -> io::Result<(ZonePublisher, PublisherThread)>,
) -> Fixture {
    let image = Image::new(Arc::new(HashKey::new(std::array::from_fn(|n| n as u64 * 77 + 5))));
    let (publisher, running) = start(image).unwrap();
    let zone = zone(&publisher.image(), "example.org.");
    let updates = publisher.start_source(settings(SourceKind::Kubernetes));
    updates.sync_zone(zone, None).wait().unwrap();
    Fixture { publisher, updates, running }
}

fn of_zone() -> Target {
    Target::Zone(name("example.org."))
}

fn put(at: &str, rtype: Rtype, records: &[&[u8]]) -> Change {
    let data = records.iter().map(|data| Box::from(*data)).collect();
    Edit::put(name(at), rtype, SetValue::new(30, data)).into()
}

fn address(at: &str, address: [u8; 4]) -> Change {
    put(at, Rtype::A, &[&address])
}

impl Fixture {
    fn apply(&self, target: Target, changes: Vec<Change>) -> Vec<Result<(), Refusal>> {
        self.updates.apply_blocking(target, changes).unwrap().wait().unwrap().results
    }

    /// Serves held content; `None`: the zone manager has none.
    fn accept(&self, held: &str) -> Option<server_status::HeldZone> {
        match self.publisher.accept(held).wait().unwrap() {
            hold::Acceptance::Served(held) => Some(held),
            _ => None,
        }
    }

    /// The first record of a set in the image.
    fn served(&self, at: &str, rtype: Rtype) -> Option<Vec<u8>> {
        let image = self.publisher.image();
        let set = image.zone(name("example.org.").as_name())?.set(name(at).as_name(), rtype)?;
        set.records().next().map(<[u8]>::to_vec)
    }

    /// Whether a name exists in the image.
    fn exists(&self, at: &str) -> bool {
        let image = self.publisher.image();
        let zone = image.zone(name("example.org.").as_name()).unwrap();
        zone.names().get(&zone.relative(name(at).as_name()).unwrap()).is_some()
    }
}

#[test]
fn change_is_applied_and_reaches_readers() {
    let fixture = start();
    let mut reader = fixture.publisher.reader().unwrap();
    let origin = name("example.org.");
    let before = reader.refresh().zone(origin.as_name()).unwrap().count().0;
    let changes = vec![address("www.example.org.", [10, 0, 0, 1])];
    let applied = fixture.updates.apply_blocking(of_zone(), changes).unwrap().wait().unwrap();
    let generation = fixture.publisher.wait(applied.sequence).unwrap();
    assert!(!fixture.publisher.is_live(generation), "the reader still holds the older image");
    let live = fixture.publisher.wait_live(applied.sequence);
    let after = reader.refresh().zone(origin.as_name()).unwrap().count().0;
    live.wait().unwrap();
    assert!(fixture.publisher.is_live(generation));
    assert_eq!((before, after), (1, 2));
    assert_eq!(fixture.served("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 1]));
    fixture.running.stop();
}

#[test]
fn refused_change_does_not_affect_others() {
    let fixture = start();
    let results = fixture.apply(
        of_zone(),
        vec![
            address("www.example.com.", [10, 0, 0, 1]),
            address("a.example.org.", [10, 0, 0, 2]),
            put("a.example.org.", Rtype::CNAME, &[b"\x01b\0"]),
            address("b.example.org.", [10, 0, 0, 3]),
            Edit::remove(name("example.org."), Rtype::SOA).into(),
        ],
    );
    let rules: Vec<_> = results
        .iter()
        .map(|result| match result {
            Err(Refusal::Invalid { rule, .. }) => rule.id,
            Err(why) => panic!("{why}"),
            Ok(()) => "",
        })
        .collect();
    assert_eq!(rules, ["out-of-zone", "", "cname-alone", "", "soa"]);
    assert_eq!(fixture.served("a.example.org.", Rtype::A), Some(vec![10, 0, 0, 2]));
    assert_eq!(fixture.served("b.example.org.", Rtype::A), Some(vec![10, 0, 0, 3]));
    let elsewhere = Target::Zone(name("example.net."));
    let results = fixture.apply(elsewhere, vec![address("www.example.net.", [10, 0, 0, 1])]);
    assert_eq!(results, [Err(Refusal::NoSuchTarget)]);
}

#[test]
fn alias_replaces_other_sets_in_any_order() {
    let fixture = start();
    let www = "www.example.org.";
    let alias = || put(www, Rtype::CNAME, &[b"\x01b\0"]);
    let removal = |rtype| Change::from(Edit::remove(name(www), rtype));
    assert_eq!(fixture.apply(of_zone(), vec![address(www, [10, 0, 0, 1])]), [Ok(())]);
    assert_eq!(fixture.apply(of_zone(), vec![alias(), removal(Rtype::A)]), [Ok(()), Ok(())]);
    assert!(fixture.served(www, Rtype::CNAME).is_some());
    let back = vec![removal(Rtype::CNAME), address(www, [10, 0, 0, 2])];
    assert_eq!(fixture.apply(of_zone(), back), [Ok(()), Ok(())]);
    assert_eq!(fixture.served(www, Rtype::A), Some(vec![10, 0, 0, 2]));
}

#[test]
fn members_are_added_and_taken() {
    let fixture = start();
    let www = "www.example.org.";
    let members = |records: &[[u8; 4]]| {
        let data = records.iter().map(|data| Box::from(&data[..])).collect();
        Edit::put(name(www), Rtype::A, SetValue::new(60, data))
    };
    let (one, two) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let add = vec![Change::Add(members(&[one])), Change::Add(members(&[two, one]))];
    assert_eq!(fixture.apply(of_zone(), add), [Ok(()), Ok(())]);
    let count = || {
        let image = fixture.publisher.image();
        let zone = image.zone(name("example.org.").as_name()).unwrap();
        zone.set(name(www).as_name(), Rtype::A).map(|set| set.count())
    };
    assert_eq!(count(), Some(2));
    assert_eq!(fixture.apply(of_zone(), vec![Change::Take(members(&[one]))]), [Ok(())]);
    assert_eq!((count(), fixture.served(www, Rtype::A)), (Some(1), Some(two.to_vec())));
    assert_eq!(fixture.apply(of_zone(), vec![Change::Take(members(&[two, one]))]), [Ok(())]);
    assert!(!fixture.exists(www), "the set and its name are gone");
}

#[test]
fn preconditions_see_the_changes_before() {
    let fixture = start();
    let when = |expect, last| {
        let data = vec![Box::from(&[10, 0, 0, last][..])];
        let edit = Edit::put(name("www.example.org."), Rtype::A, SetValue::new(30, data));
        Change::Set(Edit { expect, ..edit })
    };
    let equal = |last: u8| {
        let data = vec![Box::from(&[10, 0, 0, last][..])];
        Precondition::Equal(Box::new(SetValue::new(30, data)))
    };
    let changes = vec![
        when(Precondition::Present, 1),
        when(Precondition::Absent, 2),
        when(Precondition::Absent, 3),
        when(equal(2), 4),
        when(equal(2), 5),
    ];
    let unmet = || Err(Refusal::Unmet);
    let expected = [unmet(), Ok(()), unmet(), Ok(()), unmet()];
    assert_eq!(fixture.apply(of_zone(), changes), expected);
    assert_eq!(fixture.served("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 4]));
    // The first change sees what is served.
    assert_eq!(fixture.apply(of_zone(), vec![when(equal(2), 5)]), [unmet()]);
    assert_eq!(fixture.apply(of_zone(), vec![when(equal(4), 5)]), [Ok(())]);
}

#[test]
fn declared_name_exists_without_records_until_it_is_taken_back() {
    let fixture = start();
    let at = "x.svc.example.org.";
    let (add, gone) = (Change::AddName(name(at)), Change::RemoveName(name(at)));
    assert_eq!(fixture.apply(of_zone(), vec![add]), [Ok(())]);
    assert!(fixture.exists(at) && fixture.exists("svc.example.org."));
    fixture.apply(of_zone(), vec![address(at, [10, 0, 0, 1])]);
    fixture.apply(of_zone(), vec![Edit::remove(name(at), Rtype::A).into()]);
    assert!(fixture.exists(at), "its records came and went");
    fixture.apply(of_zone(), vec![address("y.x.svc.example.org.", [10, 0, 0, 1])]);
    fixture.apply(of_zone(), vec![gone]);
    assert!(fixture.exists(at), "a name below it makes it exist");
    let below = Edit::remove(name("y.x.svc.example.org."), Rtype::A);
    fixture.apply(of_zone(), vec![below.into()]);
    assert!(!fixture.exists(at) && !fixture.exists("svc.example.org."));
}

#[test]
fn full_queue_refuses_and_other_senders_have_their_own_room() {
    let fixture = start();
    let guard = fixture.publisher.0.publisher();
    let many = |count: usize| (0..count).map(|_| address("a.example.org.", [1; 4])).collect();
    let first = fixture.updates.try_apply(of_zone(), many(limits::NORMAL_ROOM as usize)).unwrap();
    assert_eq!(fixture.updates.try_apply(of_zone(), many(1)).err(), Some(QueueFull));
    let urgent = fixture.updates.urgent();
    let overtaking = urgent.try_apply(of_zone(), many(1)).unwrap();
    drop(guard);
    assert_eq!(overtaking.wait().unwrap().results, [Ok(())]);
    assert_eq!(first.wait().unwrap().results.len(), limits::NORMAL_ROOM as usize);
    let more = fixture.updates.apply_blocking(of_zone(), many(1)).unwrap().wait().unwrap();
    assert_eq!(more.results, [Ok(())]);
}

#[test]
fn urgent_updates_overtake_normal_ones() {
    let fixture = start();
    let urgent = fixture.updates.urgent();
    let guard = fixture.publisher.0.publisher();
    let change = |n: usize| vec![address(&format!("n{n}.example.org."), [1; 4])];
    let last = 4 * limits::ROUND_CHANGES_MAX;
    let normal: Vec<_> =
        (0..=last).map(|n| fixture.updates.try_apply(of_zone(), change(n)).unwrap()).collect();
    let data = vec![Box::from([2; 4])];
    let before = Edit {
        expect: Precondition::Absent,
        ..Edit::put(name(&format!("n{last}.example.org.")), Rtype::A, SetValue::new(1, data))
    };
    let answer = urgent.try_apply(of_zone(), vec![before.into()]).unwrap();
    drop(guard);
    assert_eq!(answer.wait().unwrap().results, [Ok(())], "the last one was not there yet");
    normal.into_iter().for_each(|answer| assert!(answer.wait().is_ok()));
}

#[test]
fn waiters_return_when_the_thread_stops() {
    let Fixture { publisher, updates, running } = start();
    let change = || vec![address("www.example.org.", [10, 0, 0, 1])];
    let answer = updates.apply_blocking(of_zone(), change()).unwrap();
    running.stop();
    assert!(answer.wait().is_ok(), "what was in the queue is applied first");
    let late = updates.apply_blocking(of_zone(), change()).unwrap();
    assert_eq!(late.wait().err(), Some(Stopped));
    assert_eq!(publisher.wait_live(publisher.last()).wait(), Err(Stopped));
    assert_eq!(publisher.wait(publisher.last()), None);
    assert!(!publisher.has_failed(), "it was asked to");
}

#[test]
fn waiters_return_when_the_thread_panics() {
    let (queue, receiver) = UpdateQueue::new();
    let ended = thread::scope(|scope| {
        let body = || {
            let _end = EndGuard(&queue);
            panic!("on purpose");
        };
        scope.spawn(body).join()
    });
    drop(receiver);
    assert!(ended.is_err() && queue.progress.borrow().has_ended && !queue.is_closed());
    let action = Action::Layers(Vec::new());
    let sequence = queue.put((SourceId(0), Lane::Normal), action, None);
    assert_eq!(block_on(queue.published(sequence)), None);
}

#[test]
fn latest_layers_win_and_change_the_map() {
    use image::ZoneTable;
    let Fixture { publisher, updates, running } = start();
    let put_layers = |count: u32| {
        let last =
            updates.set_layers((0..count).map(|n| format!("/etc/hosts{n}").into()).collect());
        let layers = (0..count).map(|number| {
            let zone = zone(&publisher.image(), ".");
            updates.sync(Target::Layer(number), zone, None).wait().unwrap().sequence
        });
        layers.fold(last, Sequence::max)
    };
    let count = || {
        (0..).take_while(|number| publisher.image().hosts(View::DEFAULT, *number).is_some()).count()
    };
    let mut maps = vec![publisher.image().map()];
    for (put, there) in [(vec![2, 1], 1), (vec![1, 3, 2], 2), (vec![0], 0), (vec![0], 0)] {
        let sequences = put.into_iter().map(put_layers);
        publisher.wait(sequences.max().unwrap()).unwrap();
        assert_eq!(count(), there);
        maps.push(publisher.image().map());
    }
    assert!(maps.windows(2).all(|pair| pair[0] != pair[1]), "{maps:?}");
    assert!(publisher.image().zone(name("example.org.").as_name()).is_some(), "zones stay");
    running.stop();
}
