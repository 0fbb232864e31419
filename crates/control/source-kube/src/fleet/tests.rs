use super::*;
use crate::cluster::tests::{Served, cluster, cluster_of_round, event};
use crate::names::PodNames;
use crate::objects::{Endpoint, ServiceKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What etcd has.
type Kept = BTreeMap<String, Vec<u8>>;

/// Brings what is kept up to date; the keys that changed, and their values.
fn write(kept: &mut Kept, from: &Cluster) -> Vec<(String, Option<Vec<u8>>)> {
    let all: BTreeSet<String> = kept.keys().cloned().chain(keys(from)).collect();
    let mut changed = Vec::new();
    for key in all {
        let value = value(from, &key);
        if kept.get(&key) != value.as_ref() {
            match &value {
                Some(value) => drop(kept.insert(key.clone(), value.clone())),
                None => drop(kept.remove(&key)),
            }
            changed.push((key, value));
        }
    }
    changed
}

fn records(cluster: &Cluster) -> Served {
    let mut served = Served::default();
    cluster.all(None).for_each(|records| served.apply(records.all()));
    served
}

#[test]
fn servers_that_follow_have_the_records_of_the_one_that_writes() {
    // In the first, endpoints with one host name have several locations.
    for seed in [9_920_331_981_331_438_223, fastrand::u64(..)] {
        follow_from_the_start_and_late(seed);
    }
}

fn follow_from_the_start_and_late(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..30 {
        let (mut writer, mut follower) = (cluster_of_round(round), cluster_of_round(round));
        let checks = Arc::new(["tcp".to_owned(), "web".to_owned()].into());
        writer.set_checks(Arc::clone(&checks));
        follower.set_checks(Arc::clone(&checks));
        let (mut kept, mut served) = (Kept::new(), records(&follower));
        for step in 0..60 {
            event(&mut writer, &mut random);
            writer.set_checks(Arc::clone(&checks));
            let mut changed = write(&mut kept, &writer);
            random.shuffle(&mut changed);
            for (key, value) in changed {
                let shared = read(&key, value.as_deref()).expect("it was written");
                served.apply(put(&mut follower, shared));
            }
            let expected = records(&writer);
            assert_eq!(served, expected, "seed {seed}, round {round}, step {step}");
        }
        // One that begins to follow now has the same.
        let mut late = cluster_of_round(round);
        late.set_checks(checks);
        for (key, value) in &kept {
            put(&mut late, read(key, Some(value)).expect("it was written"));
        }
        assert_eq!(records(&late), served, "seed {seed}, round {round}");
    }
}

/// Writes the keys that an event of an object may change, as a server does that was elected.
fn write_affected(kept: &mut Kept, from: &Cluster, keys: &[String]) -> Vec<Shared> {
    let mut written = Vec::new();
    for key in keys {
        let value = value(from, key);
        if kept.get(key) != value.as_ref() {
            written.push(read(key, value.as_deref()).expect("it is right"));
            match value {
                Some(value) => drop(kept.insert(key.clone(), value)),
                None => drop(kept.remove(key)),
            }
        }
    }
    written
}

#[test]
fn endpoints_are_written_again_once_their_service_is_headless_again() {
    let (mut writer, mut follower) = (cluster(PodNames::Disabled), cluster(PodNames::Disabled));
    let mut kept = Kept::new();
    let mut step = |writer: &mut Cluster, kind: usize, shared: Shared| {
        let object = match &shared {
            Shared::Namespace(object, _)
            | Shared::Service(object, _)
            | Shared::Slice(object, _) => object.clone(),
            other => panic!("not of this test: {other:?}"),
        };
        let keys = affected(writer, kind, &object);
        put(writer, shared);
        for shared in write_affected(&mut kept, writer, &keys) {
            put(&mut follower, shared);
        }
        assert_eq!(records(&follower), records(writer));
    };
    let service = |kind: ServiceKind| {
        let service = Service { kind, ports: Box::default() };
        Shared::Service(ObjectName::new("shop", "pets"), Some((service, None)))
    };
    let slice = || {
        let endpoint = Endpoint { address: [10, 7, 0, 1].into(), host: None, zone: None };
        let endpoints = [endpoint].into();
        let slice = Slice { ports: Box::default(), cluster: Box::default(), endpoints };
        let kept = KeptSliceOf {
            service: "pets".into(),
            is_import: false,
            ready: 1,
            slice: Some(slice),
            terminating: None,
            hints: None,
        };
        Shared::Slice(ObjectName::new("shop", "pets-1"), Some(kept))
    };
    step(&mut writer, 0, Shared::Namespace(ObjectName::new("", "shop"), Some(())));
    step(&mut writer, 1, service(ServiceKind::Headless));
    step(&mut writer, 3, slice());
    let had = records(&writer);
    step(&mut writer, 1, service(ServiceKind::External("www.example.com".into())));
    step(&mut writer, 1, service(ServiceKind::Headless));
    // All slices are listed again, because this one was not kept.
    assert!(writer.needs_slices);
    step(&mut writer, 3, slice());
    assert_eq!(records(&writer), had);
}

#[test]
fn written_objects_have_the_names_of_the_writer() {
    let mut random = fastrand::Rng::with_seed(11);
    let (mut writer, mut kept) = (cluster(PodNames::Verified), Kept::new());
    (0..200).for_each(|_| drop(event(&mut writer, &mut random)));
    write(&mut kept, &writer);
    kept.insert("services/shop/wrong".into(), b"{}".to_vec());
    let fleet = writer.with(|cluster| fill(cluster, kept.into_iter().collect()));
    assert!(writer.names() > 0);
    assert_eq!((fleet.names(), records(&fleet)), (writer.names(), records(&writer)));
}

#[test]
fn values_are_readable_and_wrong_ones_say_why() {
    let mut cluster = cluster(PodNames::Verified);
    let service = serde_json::json!({ "kind": { "ClusterIp": ["10.96.0.1"] }, "ports": [] });
    let service = serde_json::from_value(service).expect("a service");
    let object = ObjectName::new("shop", "web");
    cluster.put_checked_service((false, object), Some(service), Some("http"));
    let value = value(&cluster, "services/shop/web").expect("it is there");
    let text = r#"{"format":1,"kind":{"ClusterIp":["10.96.0.1"]},"ports":[],"check":"http"}"#;
    assert_eq!(String::from_utf8_lossy(&value), text);
    for (key, value, why) in [
        ("services/shop/web", "{\"format\":2}", "a newer version wrote it, in format 2"),
        ("services/shop/web", "{\"format\":1}", "missing field"),
        ("services/shop/web", "", "its value is wrong"),
        ("services/shop/web", &text[..40], "its value is wrong"),
        ("services/web", "{}", "not the key of an object"),
        ("services/shop/web/b", "{}", "not the key of an object"),
        ("namespaces/", "{}", "not the key of an object"),
        ("secrets/shop/web", "{}", "not the key of an object"),
        ("", "{}", "not the key of an object"),
    ] {
        let wrong = read(key, Some(value.as_bytes())).expect_err("it is wrong");
        assert!(wrong.contains(why), "{key} {value}: {wrong}");
    }
}
