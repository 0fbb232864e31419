//! A reverse name of more services than one message can carry, served from a saved state.

use crate::filled::{naming, settings};
use image::ZoneTable;
use packet::View;
use source_kube::cluster::{Cluster, Exposed, ObjectName};
use source_kube::names::reverse_name;
use source_kube::objects::{Endpoint, Service, ServiceKind, Slice, SliceOf};
use source_kube::saved;
use source_kube::source::KubernetesSource;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use test_support::folder::Folder;
use wire::Rtype;

const SHARED: [u8; 4] = [10, 3, 0, 1];
const ALONE: [u8; 4] = [10, 3, 0, 2];

/// Headless services whose only endpoint has the same address, and one with another.
fn cluster(services: usize) -> Cluster {
    let mut cluster = Cluster::new(Arc::new(naming()), Arc::new(Exposed::default()), 1);
    cluster.is_quiet = true;
    cluster.put_namespace("shop", true);
    for number in 0..=services {
        let name = format!("{}-{number}", "x".repeat(50));
        let address = if number == services { ALONE } else { SHARED };
        let endpoint = Endpoint { address: IpAddr::from(address), host: None, zone: None };
        let service = Service { kind: ServiceKind::Headless, ports: Box::default() };
        let endpoints = [endpoint].into();
        let slice = Slice { ports: Box::default(), cluster: Box::default(), endpoints };
        cluster.put_service((false, ObjectName::new("shop", &name)), Some(service));
        let of = SliceOf {
            service: name.as_str().into(),
            is_import: false,
            slice,
            terminating: None,
            hints: None,
        };
        cluster.put_slice(ObjectName::new("shop", &name), Some(of));
    }
    cluster
}

/// The numbers of PTR records of both addresses, and of the sets that are served in part.
fn served(services: usize, folder: &Path) -> (usize, usize) {
    let zones = ["cluster.local.".to_owned()];
    saved::save(folder, &zones, &cluster(services)).expect("it is saved");
    let (manager, thread) = crate::filled::publisher();
    let running = manager
        .start_source(KubernetesSource { settings: settings(folder), fleet: None })
        .expect("a thread");
    let image = manager.image();
    let layer = ZoneTable::hosts(&image, View::DEFAULT, 0).expect("the layer of reverse names");
    let count = |address: [u8; 4]| {
        let name = reverse_name(address.into());
        let bytes = name.as_name().as_bytes();
        let rank = layer.names().rank(&bytes[..bytes.len() - 1]);
        let node = layer.names().at(rank).expect("the name");
        node.set(Rtype::PTR).map_or(0, |set| set.count())
    };
    let counts = (count(SHARED), count(ALONE));
    drop(running);
    thread.stop();
    counts
}

#[test]
fn a_reverse_name_of_too_many_services_has_a_sample_of_them() {
    let folder = Folder::new("shared");
    assert_eq!(served(300, &folder), (300, 1), "they fit");
    let (shared, alone) = served(1_000, &folder);
    assert!((500..800).contains(&shared) && alone == 1, "{shared} fit one message, {alone}");
}
