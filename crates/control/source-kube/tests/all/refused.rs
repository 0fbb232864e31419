//! A server that watches another cluster than the fleet's.
use crate::world::{Watched, World};
use documents::{Leader, MapEvent, MapRequest, MapTask, MapValue, ReplicatedMap};
use source_kube::source::FleetPart;
use test_support::wait::until_true;
use tokio::sync::oneshot;

/// A source that takes part in a fleet, and the side of the task that writes.
fn start(world: &World) -> (Watched, MapTask) {
    let (task, writer) = ReplicatedMap::channel(64);
    let part = Some(FleetPart::Writes(writer));
    (Watched::start_in(part, world, |_| {}), task)
}

/// What an elected server writes.
fn written(task: &MapTask) -> Vec<MapValue> {
    task.map.set_leader(Leader { is_own: true, ..Leader::default() });
    task.requests.blocking_send(MapRequest::Elected(None)).expect("the source runs");
    until_true("keys are named", || !task.map.is_clean());
    let (answer, values) = oneshot::channel();
    let keys = task.map.take(1_000);
    task.requests.blocking_send(MapRequest::Values { keys, answer }).expect("the source runs");
    values.blocking_recv().expect("it knows them")
}

/// So many services that their loss would be held, if a list lacked them.
#[test]
fn names_of_a_retired_cluster_are_gone_at_once_also_on_a_server_that_watches_it() {
    let own = World::start(50);
    let (source, task) = start(&own);
    source.until_open();
    assert_eq!(source.answer("web-49"), Some(1));
    let leader = Leader { is_refused: true, is_retired: true, ..Leader::default() };
    task.map.set_leader(leader);
    for event in
        [MapEvent::State(Ok(())), MapEvent::ListBegins, MapEvent::Retired, MapEvent::ListEnds]
    {
        task.events.blocking_send(event).expect("the source follows");
    }
    until_true("its names are gone", || source.answer("web-49").is_none());
    until_true("all are", || source.status().services == 0);
    assert_eq!(source.answer("web-0"), None);

    // The key that says so was deleted.
    task.map.set_leader(Leader::default());
    until_true("it is served again", || source.answer("web-49") == Some(1));
    until_true("it may be elected", || *task.map.ready().borrow());
}

#[test]
fn server_of_another_cluster_serves_the_map_of_the_fleet_until_it_may_write() {
    let (fleets, own) = (World::start(2), World::start(3));
    let (first, writer) = start(&fleets);
    first.until_open();
    until_true("it knows its cluster", || {
        writer.map.origin().borrow().as_deref() == Some("the cluster u")
    });
    let all = written(&writer);
    drop(first);

    let (second, task) = start(&own);
    second.until_open();
    assert_eq!(second.answer("web-2"), Some(1));
    let why = Some("another cluster".to_owned());
    let refused = Leader { is_refused: true, fault: why.clone(), ..Leader::default() };
    task.map.set_leader(refused);
    let events = [MapEvent::State(Ok(())), MapEvent::ListBegins].into_iter();
    let puts = all.into_iter().map(|(key, value)| MapEvent::Put(key, value));
    for event in events.chain(puts).chain([MapEvent::ListEnds]) {
        task.events.blocking_send(event).expect("the source follows");
    }
    until_true("only what the fleet has is served", || second.answer("web-2").is_none());
    assert_eq!([0, 1].map(|n| second.answer(&format!("web-{n}"))), [Some(1); 2]);
    until_true("it does not stand for election", || !*task.map.ready().borrow());
    assert_eq!(second.status().fleet_fault, why);
    let gone = MapEvent::Put("services/shop/web-1".into(), None);
    task.events.blocking_send(gone).expect("the source follows");
    until_true("it follows changes", || second.answer("web-1").is_none());

    // The key of the other cluster was deleted.
    task.map.set_leader(Leader::default());
    until_true("its own cluster is served", || second.answer("web-2") == Some(1));
    until_true("it may be elected", || *task.map.ready().borrow());
    assert_eq!(second.answer("web-1"), Some(1));
}
