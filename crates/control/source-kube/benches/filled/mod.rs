//! A cluster to measure, and a source of it without an API server.
#![allow(dead_code, reason = "the bench and the test each use some of it")]
use compile::Image;
use image::{HASH_KEY_WORDS, HashKey};
use source_kube::client::Access;
use source_kube::cluster::{Cluster, Exposed, ObjectName};
use source_kube::limits::Bounds;
use source_kube::names::{ClusterZone, Compat, Naming, PodNames};
use source_kube::objects::{Endpoint, Port, Service, ServiceKind, Slice, SliceOf};
use source_kube::source;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use wire::{Name, NameBuf};
use zone_manager::{PublisherThread, ZonePublisher};

/// Endpoints of each headless service.
pub const ENDPOINTS: u32 = 100;

pub fn origin() -> NameBuf {
    NameBuf::from_text(b"cluster.local.", Name::ROOT).expect("a name")
}

/// The names that CoreDNS has, too, with `DUNLIN_COMPAT=coredns`.
fn compat() -> Compat {
    match std::env::var("DUNLIN_COMPAT").as_deref() {
        Ok("coredns") => Compat::CoreDns,
        _ => Compat::Specification,
    }
}

pub fn naming() -> Naming {
    Naming {
        zones: vec![ClusterZone { origin: origin(), is_multicluster: false, falls_through: false }],
        ttl: 5,
        negative_ttl: 5,
        pods: PodNames::Disabled,
        ignore_empty: false,
        zonal: false,
        endpoints: true,
        compat: compat(),
        location: Box::default(),
    }
}

pub fn settings(folder: &Path) -> source::Settings {
    source::Settings {
        access: Access { kubeconfig: Some("/nonexistent".into()), context: String::new() },
        naming: naming(),
        exposed: Exposed::default(),
        labels: String::new(),
        namespace_labels: String::new(),
        pod_names: false,
        check: None,
        check_cluster_ips: false,
        folder: Some(folder.to_owned()),
        clients: None,
        shared: None,
        hold: Duration::from_secs(600),
        bounds: Bounds::default(),
    }
}

/// A zone manager without zones.
pub fn publisher() -> (ZonePublisher, PublisherThread) {
    let key = HashKey::new(std::array::from_fn::<_, HASH_KEY_WORDS, _>(|n| n as u64 * 77 + 5));
    ZonePublisher::start(Image::new(Arc::new(key))).expect("a thread")
}

pub fn cluster(services: u32) -> Cluster {
    let mut cluster = Cluster::new(Arc::new(naming()), Arc::new(Exposed::default()), 1);
    cluster.is_quiet = true;
    cluster.put_namespace("shop", true);
    let port = Port { name: "http".into(), protocol: "tcp".into(), number: 8080 };
    let ports: Box<[Port]> = [port].into();
    let headless = services / 10;
    for at in 0..services {
        let (name, kind) = match at.checked_sub(headless) {
            None => (format!("web-{at}"), ServiceKind::Headless),
            Some(at) => {
                let [_, a, b, c] = at.to_be_bytes();
                let address = IpAddr::V4(Ipv4Addr::new(10, 96 + a, b, c));
                (format!("ip-{at}"), ServiceKind::ClusterIp([address].into()))
            }
        };
        let service = Service { kind, ports: ports.clone() };
        cluster.put_service((false, ObjectName::new("shop", &name)), Some(service));
    }
    for service in 0..headless {
        let each = if service % 10 == 0 { ENDPOINTS } else { 10 };
        for part in 0..ENDPOINTS / each {
            let endpoints = (0..each).map(|at| endpoint(service * ENDPOINTS + part * each + at));
            let slice = Slice {
                ports: ports.clone(),
                cluster: Box::default(),
                endpoints: endpoints.collect(),
            };
            let object = ObjectName::new("shop", &format!("web-{service}-{part}"));
            let service = format!("web-{service}").into();
            cluster.put_slice(
                object,
                Some(SliceOf { service, is_import: false, slice, terminating: None, hints: None }),
            );
        }
    }
    cluster
}

fn endpoint(number: u32) -> Endpoint {
    let [_, a, b, c] = number.to_be_bytes();
    Endpoint { address: Ipv4Addr::new(10, 16 + a, b, c).into(), host: None, zone: None }
}
