//! What is saved comes back, and nothing else is taken for it.
use super::*;
use crate::cluster::Exposed;
use crate::names::tests::naming;
use crate::names::{Naming, PodNames};
use crate::objects::{Endpoint, Port, Service, ServiceKind, Slice, SliceOf};
use crate::text;
use std::path::PathBuf;
use std::sync::Arc;

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
        let of = SliceOf { service: name.into(), is_import: false, slice, terminating: None };
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

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("dunlin-saved-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

#[test]
fn a_saved_state_leads_to_the_same_records_and_changes() {
    let folder = folder("same");
    let saved = filled();
    save(&folder, &zones(), &saved).expect("it is saved");
    let mut loaded = empty();
    assert_eq!(load(&folder, &zones(), &mut loaded), Ok(true));
    assert_eq!(records(&loaded), records(&saved));
    assert_eq!(loaded.counts(), saved.counts());
    let gone = |mut cluster: Cluster| cluster.put_slice(ObjectName::new("shop", "pets-1"), None);
    assert_eq!(gone(loaded), gone(saved));
    std::fs::remove_dir_all(folder).expect("it was there");
}

/// An older version reads a state without checks, so services and endpoints take what they took.
#[test]
fn checks_are_saved_in_a_format_of_their_own() {
    let folder = folder("checks");
    let format = || std::fs::read(path(&folder)).expect("the file")[..30].to_vec();
    save(&folder, &zones(), &filled()).expect("it is saved");
    assert_eq!(format(), b"{\"dunlin_kubernetes_state\":2,\"");
    let known = || Arc::new(["http".to_owned()].into());
    let mut saved = filled();
    saved.set_checks(known());
    let service = Service { kind: ServiceKind::Headless, ports: Box::default() };
    let key = (false, ObjectName::new("shop", "pets"));
    saved.put_checked_service(key, Some(service), Some("http"));
    save(&folder, &zones(), &saved).expect("it is saved");
    assert_eq!(format(), b"{\"dunlin_kubernetes_state\":3,\"");
    let mut loaded = empty();
    assert_eq!(load(&folder, &zones(), &mut loaded), Ok(true));
    let gone = loaded.set_checks(known());
    assert!(text::changes(&gone)[0].ends_with(" by http"), "{gone:?}");
    assert_eq!(records(&loaded), records(&saved));
    std::fs::remove_dir_all(folder).expect("it was there");
}

#[test]
fn a_state_with_one_wrong_bit_or_cut_off_anywhere_is_refused() {
    let folder = folder("wrong");
    save(&folder, &zones(), &filled()).expect("it is saved");
    let whole = std::fs::read(path(&folder)).expect("the file");
    let refused = |bytes: &[u8]| {
        std::fs::write(path(&folder), bytes).expect("written");
        let mut cluster = empty();
        let why = load(&folder, &zones(), &mut cluster).expect_err("it is not whole");
        assert!(why.starts_with(&path(&folder).display().to_string()), "{why}");
        assert_eq!(records(&cluster), records(&empty()));
    };
    for at in 0..whole.len() {
        refused(&whole[..at]);
        let mut wrong = whole.clone();
        wrong[at] ^= 1 << (at % 8);
        refused(&wrong);
    }
    refused(&[&whole[..], b"x"].concat());
    let other = ["cluster.example.".to_owned()];
    std::fs::write(path(&folder), &whole).expect("written");
    let why = load(&folder, &other, &mut empty()).expect_err("of other zones");
    assert!(why.contains("other zones"), "{why}");
    std::fs::remove_dir_all(folder).expect("it was there");
}
