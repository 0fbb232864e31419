//! What is saved comes back, and nothing else is taken for it.
use super::*;
use crate::cluster::Exposed;
use crate::names::tests::naming;
use crate::names::{Naming, PodNames};
use crate::objects::{Endpoint, Port, Service, ServiceKind, Slice, SliceOf};
use crate::text;
use std::sync::Arc;
use test_support::folder::Folder;

fn zones() -> Vec<String> {
    vec!["cluster.local.".to_owned()]
}

fn empty() -> Cluster {
    let naming = Naming { pods: PodNames::Verified, zonal: true, ..naming() };
    Cluster::new(Arc::new(naming), Arc::new(Exposed::default()), 1)
}

fn filled() -> Cluster {
    let mut cluster = empty();
    let address = |text: &str| text.parse::<IpAddr>().expect("an address");
    let object = |name: &str| ObjectName::new("shop", name);
    let ports: Box<[Port]> =
        [Port { name: "http".into(), protocol: "tcp".into(), number: 80 }].into();
    cluster.put_namespace("shop", true);
    cluster.put_namespace("empty", true);
    let kinds = [
        ("ip", ServiceKind::ClusterIp([address("10.96.0.1"), address("fd00::1")].into())),
        ("pets", ServiceKind::Headless),
        ("out", ServiceKind::External("www.example.com".into())),
    ];
    for (name, kind) in kinds {
        cluster.put_service((false, object(name)), Some(Service { kind, ports: ports.clone() }));
        let pet = Endpoint {
            address: address("10.3.0.1"),
            host: Some("pet-0".into()),
            zone: Some("eu-1a".into()),
        };
        let plain = Endpoint { address: address("fd01::9"), host: None, zone: None };
        let endpoints = [pet, plain].into();
        let slice = Slice { ports: ports.clone(), cluster: Box::default(), endpoints };
        let of = SliceOf {
            service: name.into(),
            is_import: false,
            slice,
            terminating: None,
            hints: None,
        };
        cluster.put_slice(object(&format!("{name}-1")), Some(of));
    }
    cluster.put_pod(object("pod"), Some([address("10.3.0.1")].into()));
    cluster
}

fn records(cluster: &Cluster) -> Vec<String> {
    let mut lines: Vec<String> =
        cluster.all(None).flat_map(|records| text::all(&records)).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_saved_state_leads_to_the_same_records_and_changes() {
    let folder = Folder::new("same");
    let saved = filled();
    save(&folder, &zones(), &saved).expect("it is saved");
    let mut loaded = empty();
    assert_eq!(load(&folder, &zones(), &mut loaded), Ok(true));
    assert_eq!(records(&loaded), records(&saved));
    assert_eq!(loaded.counts(), saved.counts());
    let gone = |mut cluster: Cluster| cluster.put_slice(ObjectName::new("shop", "pets-1"), None);
    assert_eq!(gone(loaded), gone(saved));
}

fn with_check() -> Cluster {
    let mut saved = filled();
    saved.set_checks(Arc::new(["http".to_owned()].into()));
    let service = Service { kind: ServiceKind::Headless, ports: Box::default() };
    let key = (false, ObjectName::new("shop", "pets"));
    saved.put_checked_service(key, Some(service), Some("http"));
    saved
}

#[test]
fn checks_are_saved() {
    let folder = Folder::new("checks");
    let saved = with_check();
    save(&folder, &zones(), &saved).expect("it is saved");
    let mut loaded = empty();
    assert_eq!(load(&folder, &zones(), &mut loaded), Ok(true));
    let gone = loaded.set_checks(Arc::new(["http".to_owned()].into()));
    assert!(text::changes(&gone)[0].ends_with(" by http"), "{gone:?}");
    assert_eq!(records(&loaded), records(&saved));
}

/// As older versions wrote it: form 2, and form 3 with checks.
#[test]
fn states_of_older_versions_are_read() {
    use std::hash::Hasher;
    let folder = Folder::new("old");
    for (form, saved) in [(2, filled()), (3, with_check())] {
        let zones = zones();
        let head = format!("{{\"dunlin_kubernetes_state\":{form},\"zones\":[\"{}\"]}}\n", zones[0]);
        let mut file = head.into_bytes();
        write(&mut file, &saved).expect("memory");
        // The end, and a number of objects, which is not needed.
        file.extend([0; 12]);
        let mut sum = siphasher::sip::SipHasher13::new();
        sum.write(&file);
        file.extend(sum.finish().to_le_bytes());
        std::fs::write(path(&folder), &file).expect("written");
        let mut loaded = empty();
        assert_eq!(load(&folder, &zones, &mut loaded), Ok(true));
        assert_eq!(records(&loaded), records(&saved));
    }
}

#[test]
fn damaged_state_and_one_of_other_zones_are_named_and_stay() {
    let folder = Folder::new("wrong");
    save(&folder, &zones(), &filled()).expect("it is saved");
    let whole = std::fs::read(path(&folder)).expect("the file");
    let other = ["cluster.example.".to_owned()];
    let cases = [
        (&whole[..whole.len() - 1], &zones()[..], "is cut off or damaged: it is not used"),
        (&whole, &other, "belongs to another one: cluster.local."),
    ];
    for (bytes, zones, why) in cases {
        std::fs::write(path(&folder), bytes).expect("written");
        let mut cluster = empty();
        let found = load(&folder, zones, &mut cluster).expect_err(why);
        assert!(found.starts_with(&path(&folder).display().to_string()), "{found}");
        assert!(found.contains(why), "{found}");
        assert_eq!(records(&cluster), records(&empty()));
        assert_eq!(std::fs::read(path(&folder)).expect("it stays"), bytes);
    }
}
