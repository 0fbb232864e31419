//! A map that one server at a time writes.
use crate::node::{Node, eventually};
use documents::{MapEvent, MapRequest, MapWriter};
use fleet_state::EtcdMap;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use test_support::etcd::Etcd;
use test_support::operator::Operator;
use tokio::sync::mpsc;

type Written = Arc<Mutex<Option<Vec<(String, Vec<u8>)>>>>;
type Values = Arc<Mutex<BTreeMap<String, String>>>;

/// A server that would write the map, with what it knows.
struct Writer {
    node: Node,
    values: Values,
    map: Option<EtcdMap>,
    shared: Arc<documents::ReplicatedMap>,
    /// Answers wait while this is locked.
    held: Arc<Mutex<()>>,
    /// Questions so far.
    asked: Arc<AtomicU64>,
    /// What was written before its last election, if that was all.
    written: Written,
    /// What it follows while it is refused.
    seen: Arc<Mutex<Seen>>,
    _answering: JoinHandle<()>,
}

impl Writer {
    fn start(etcd: &Etcd, name: &str, known: &[(&str, &str)]) -> Self {
        Self::start_of(etcd, name, "things", known)
    }

    fn start_of(etcd: &Etcd, name: &str, map: &str, known: &[(&str, &str)]) -> Self {
        let node = Node::start_prober(etcd, name);
        let (map, writer) = node.lead(map);
        let values: Values = Arc::default();
        let shared = Arc::clone(&writer.map);
        let (held, asked) = (Arc::<Mutex<()>>::default(), Arc::<AtomicU64>::default());
        let written = Written::default();
        let seen = Arc::<Mutex<Seen>>::default();
        let MapWriter { map: own, requests, leader, events } = writer;
        let (_, unused) = mpsc::channel(1);
        let writer = MapWriter { map: own, requests, leader, events: unused };
        let taking = Arc::clone(&seen);
        thread::spawn(move || take(events, &taking));
        let answering = {
            let (values, written) = (values.clone(), written.clone());
            let (held, asked) = (held.clone(), asked.clone());
            thread::spawn(move || answer(writer, &values, &held, &asked, &written))
        };
        let (map, _answering) = (Some(map), answering);
        let writer = Self { node, values, map, shared, held, asked, written, seen, _answering };
        known.iter().for_each(|(key, value)| writer.know(key, value));
        writer.shared.set_origin(Some("the cluster 1".into()));
        writer.shared.set_ready(true);
        writer
    }

    fn know(&self, key: &str, value: &str) {
        self.values.lock().unwrap().insert(key.into(), value.into());
        self.touch(key);
    }

    fn touch(&self, key: &str) {
        if self.leads() {
            self.shared.touch([key.to_owned()]);
        }
    }

    fn leads(&self) -> bool {
        self.shared.leader().is_own
    }
}

/// Does what a source does.
fn answer(
    mut writer: MapWriter,
    values: &Values,
    held: &Mutex<()>,
    asked: &AtomicU64,
    written: &Written,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        loop {
            let Some(request) = writer.requests.recv().await else { return };
            let known = || values.lock().unwrap().clone();
            match request {
                MapRequest::Elected(before) => {
                    *written.lock().unwrap() = before;
                    writer.map.touch(known().keys().cloned());
                }
                MapRequest::Values { keys, answer } => {
                    asked.fetch_add(1, Ordering::Relaxed);
                    drop(held.lock().unwrap());
                    let known = known();
                    let value = |key: String| {
                        let value = known.get(&key).map(|value| value.clone().into_bytes());
                        (key, value)
                    };
                    let _ = answer.send(keys.into_iter().map(value).collect());
                }
            }
        }
    });
}

/// A server that follows the map.
#[derive(Default)]
struct Seen {
    values: BTreeMap<String, String>,
    listed: BTreeMap<String, String>,
    is_listing: bool,
    lists: usize,
    is_retired: bool,
}

fn follow(node: &Node) -> (EtcdMap, Arc<Mutex<Seen>>) {
    follow_map(node, "things")
}

fn follow_map(node: &Node, map: &str) -> (EtcdMap, Arc<Mutex<Seen>>) {
    let (map, events) = node.follow(map);
    let seen = Arc::<Mutex<Seen>>::default();
    let taking = Arc::clone(&seen);
    thread::spawn(move || take(events, &taking));
    (map, seen)
}

fn take(mut events: mpsc::Receiver<MapEvent>, seen: &Mutex<Seen>) {
    while let Some(event) = events.blocking_recv() {
        let mut seen = seen.lock().unwrap();
        match event {
            MapEvent::ListBegins => {
                (seen.is_listing, seen.is_retired) = (true, false);
                seen.listed.clear();
            }
            MapEvent::Put(key, value) => {
                let text = value.map(|value| String::from_utf8(value).unwrap());
                let Seen { values, listed, is_listing, .. } = &mut *seen;
                for map in [Some(values), is_listing.then_some(listed)].into_iter().flatten() {
                    match &text {
                        Some(text) => drop(map.insert(key.clone(), text.clone())),
                        None => drop(map.remove(&key)),
                    }
                }
            }
            MapEvent::ListEnds => {
                seen.values = seen.listed.clone();
                (seen.is_listing, seen.lists) = (false, seen.lists + 1);
            }
            MapEvent::Retired => {
                seen.is_retired = true;
                seen.values.clear();
                seen.listed.clear();
            }
            MapEvent::State(_) => {}
        }
    }
}

fn has(seen: &Mutex<Seen>, expected: &[(&str, &str)]) -> bool {
    let seen = seen.lock().unwrap();
    let values = seen.values.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    seen.lists > 0 && values.eq(expected.iter().copied())
}

#[test]
fn one_server_writes_the_map_and_the_next_one_writes_only_what_differs() {
    let Some(mut etcd) = Etcd::start_or_skip(1) else { return };
    let follower = Node::start_reader(&etcd);
    let (_following, seen) = follow(&follower);
    let mut first = Writer::start(&etcd, "led-first", &[("a/1", "one"), ("a/2", "two")]);
    eventually(|| first.leads() && has(&seen, &[("a/1", "one"), ("a/2", "two")]));
    let known = [("a/1", "one"), ("a/3", "three")];
    let second = Writer::start(&etcd, "led-second", &known);
    first.know("a/2", "changed");
    eventually(|| has(&seen, &[("a/1", "one"), ("a/2", "changed")]));
    assert!(!second.leads());
    let client = Operator::of(&etcd);
    assert_eq!(client.get("/dunlin/leaders/things").as_deref(), Some("led-first"));
    let written = client.revisions_of("/dunlin/things/a/1");

    // The first one is gone, as a killed one is once its lease has ended.
    first.map = None;
    first.node.stop();
    eventually(|| second.leads() && has(&seen, &known));
    let pair = |key: &str, value: &str| (key.to_owned(), value.as_bytes().to_vec());
    let before = vec![pair("a/1", "one"), pair("a/2", "changed")];
    assert_eq!(*second.written.lock().unwrap(), Some(before), "what the first one had written");
    assert_eq!(*first.written.lock().unwrap(), None, "there was nothing");
    assert_eq!(client.revisions_of("/dunlin/things/a/1"), written, "it was right already");

    // A restart of etcd loses nothing.
    second.know("a/4", "four");
    etcd.kill(0);
    second.know("a/5", "five");
    etcd.start(0);
    let all = [("a/1", "one"), ("a/3", "three"), ("a/4", "four"), ("a/5", "five")];
    eventually(|| has(&seen, &all));
}

#[test]
fn writer_that_was_replaced_writes_nothing() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let follower = Node::start_reader(&etcd);
    let (_following, seen) = follow(&follower);
    let first = Writer::start(&etcd, "led-fenced", &[("a/1", "one")]);
    eventually(|| has(&seen, &[("a/1", "one")]));
    let client = Operator::of(&etcd);
    for round in 0..5 {
        // Another one is elected while this server prepares a write, which it does not learn of.
        let held = first.held.lock().unwrap();
        let asked = first.asked.load(Ordering::Relaxed);
        first.know("a/1", &format!("round {round}"));
        eventually(|| first.asked.load(Ordering::Relaxed) > asked);
        client.delete("/dunlin/leaders/things");
        client.put("/dunlin/leaders/things", "another");
        let (_, elected) = client.revisions_of("/dunlin/leaders/things");
        drop(held);
        eventually(|| !first.leads());
        let (written, _) = client.revisions_of("/dunlin/things/a/1");
        assert!(written < elected, "round {round}: written at {written}, after {elected}");
        client.delete("/dunlin/leaders/things");
        // What it knows is written once it is elected again.
        eventually(|| has(&seen, &[("a/1", &format!("round {round}"))]));
    }
}

#[test]
fn writer_that_does_not_know_all_values_does_not_stand_for_election() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let blind = Writer::start(&etcd, "led-blind", &[]);
    blind.shared.set_ready(false);
    let follower = Node::start_reader(&etcd);
    let (_following, seen) = follow(&follower);
    let knowing = Writer::start(&etcd, "led-knowing", &[("a/1", "one")]);
    // The first may have been elected before it was blind: then it gives that up.
    eventually(|| has(&seen, &[("a/1", "one")]));
    assert!(knowing.leads() && !blind.leads());
}

/// A second cluster writes to the same prefix, and later replaces the first one.
#[test]
fn writer_of_another_cluster_is_refused_and_follows_until_the_first_one_is_given_up() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let client = Operator::of(&etcd);
    const ORIGIN: &str = "/dunlin/leaders/things/origin";
    let mut first = Writer::start(&etcd, "of-first", &[("a/1", "one")]);
    let follower = Node::start_reader(&etcd);
    let (_following, seen) = follow(&follower);
    eventually(|| has(&seen, &[("a/1", "one")]));
    assert_eq!(client.get(ORIGIN).as_deref(), Some("the cluster 1"));
    // A version that knew no origin has written everything.
    client.delete(ORIGIN);
    eventually(|| client.get(ORIGIN).as_deref() == Some("the cluster 1"));
    first.know("a/2", "two");
    eventually(|| has(&seen, &[("a/1", "one"), ("a/2", "two")]));

    let second = Writer::start(&etcd, "of-second", &[("a/1", "another")]);
    second.shared.set_origin(Some("the cluster 2".into()));
    eventually(|| second.shared.leader().is_refused);
    let why = second.shared.leader().fault.unwrap();
    assert!(why.contains("come from the cluster 1, and those"), "{why}");
    assert!(why.contains("delete the key /dunlin/leaders/things/origin"), "{why}");
    eventually(|| has(&second.seen, &[("a/1", "one"), ("a/2", "two")]));
    // Nor does it write when the first one is gone.
    first.map = None;
    first.node.stop();
    eventually(|| client.count("/dunlin/leaders/things") == 1);
    second.touch("a/1");
    assert!(!second.leads() && client.count("/dunlin/leaders/things") == 1);
    client.delete(ORIGIN);
    eventually(|| second.leads() && !second.shared.leader().is_refused);
    eventually(|| has(&seen, &[("a/1", "another")]));
    assert_eq!(client.get(ORIGIN).as_deref(), Some("the cluster 2"));
}

#[test]
fn writer_that_does_not_know_its_cluster_is_not_elected() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let writer = Writer::start(&etcd, "of-none", &[("a/1", "one")]);
    eventually(|| writer.leads());
    // It may become another one: nothing is written until that is known.
    writer.shared.set_origin(None);
    writer.know("a/2", "two");
    let second = Writer::start(&etcd, "of-known", &[("a/3", "three")]);
    eventually(|| second.leads());
    eventually(|| Operator::of(&etcd).get("/dunlin/things/a/3").is_some());
    assert_eq!(Operator::of(&etcd).get("/dunlin/things/a/2"), None);
}

/// All of a cluster is removed once no server writes it, and servers that were away learn of it.
#[test]
fn retired_cluster_is_gone_for_all_servers_and_its_writer_says_so_when_it_comes_back() {
    const MAP: &str = "clusters/fra1";
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let client = Operator::of(&etcd);
    let known = [("services/a/1", "one"), ("slices/a/1", "two")];
    let mut writer = Writer::start_of(&etcd, "re-writer", MAP, &known);
    let node = Node::start_named(&etcd, "re-api");
    let (_following, seen) = follow_map(&node, MAP);
    eventually(|| has(&seen, &known));
    let retire = |name: &str| node.fleet().retire(name).wait().unwrap();

    // While it is written, and of another name.
    let why = retire("fra1").unwrap_err();
    assert!(why.contains("the server re-writer writes its objects"), "{why}");
    let why = retire("fra2").unwrap_err();
    assert_eq!(why, "etcd has no cluster fra2");
    assert!(has(&seen, &known) && client.count("/dunlin/clusters/fra1/objects/") == 3);

    writer.map = None;
    writer.node.stop();
    eventually(|| node.fleet().cluster("fra1").wait().unwrap().leader.is_none());
    // Beside it, a cluster whose name begins with the same letters.
    client.put("/dunlin/clusters/fra10/objects/services/a/1", "other");
    let part = retire("fra1").unwrap();
    assert_eq!((part.services, part.slices, part.objects), (1, 1, 2));
    eventually(|| seen.lock().unwrap().is_retired && has(&seen, &[]));
    assert_eq!(client.count("/dunlin/clusters/fra1/"), 1, "what says so stays");
    assert_eq!(client.count("/dunlin/clusters/fra10/"), 1);
    let why = retire("fra1").unwrap_err();
    assert_eq!(why, "the cluster fra1 is retired already");

    // One that follows from now on, and one that writes.
    let (_late, late) = follow_map(&node, MAP);
    eventually(|| late.lock().unwrap().is_retired && has(&late, &[]));
    let back = Writer::start_of(&etcd, "re-back", MAP, &known);
    eventually(|| back.shared.leader().is_retired);
    let leader = back.shared.leader();
    let why = leader.fault.unwrap();
    assert!(leader.is_refused && why.contains("was retired on re-api"), "{why}");
    let key = "/dunlin/clusters/fra1/leader/retired";
    assert!(why.contains(&format!("delete the key {key}")), "{why}");
    eventually(|| back.seen.lock().unwrap().is_retired);
    assert_eq!(client.count("/dunlin/clusters/fra1/"), 1, "it writes nothing");
    client.delete(key);
    eventually(|| back.leads() && has(&seen, &known) && has(&late, &known));
}
