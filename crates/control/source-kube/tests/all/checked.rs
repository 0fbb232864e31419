//! A service with a check, from a saved state to answers, without an API server.

use crate::filled::{naming, origin, publisher, settings};
use source_kube::cluster::{Cluster, Exposed, ObjectName};
use source_kube::objects::{Endpoint, Service, ServiceKind, Slice, SliceOf};
use source_kube::saved;
use source_kube::source::KubernetesSource;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use test_support::folder::Folder;
use test_support::wait::until_true;
use wire::{Name, NameBuf, Rtype};
use zone_manager::{HealthTarget, MemberClass, ZonePublisher};

/// Two headless services with the same endpoints; one names the check `http`.
fn save(folder: &Path) {
    let mut cluster = Cluster::new(Arc::new(naming()), Arc::new(Exposed::default()), 1);
    cluster.is_quiet = true;
    cluster.put_namespace("shop", true);
    for (name, check) in [("plain", None), ("web", Some("http"))] {
        let service = Service { kind: ServiceKind::Headless, ports: Box::default() };
        let key = (false, ObjectName::new("shop", name));
        cluster.put_checked_service(key, Some(service), check);
        let endpoint =
            |last| Endpoint { address: IpAddr::from([10, 3, 0, last]), host: None, zone: None };
        let endpoints = [endpoint(1), endpoint(2)].into();
        let slice = Slice { ports: Box::default(), cluster: Box::default(), endpoints };
        let service = name.into();
        let of = SliceOf { service, is_import: false, slice, terminating: None, hints: None };
        cluster.put_slice(ObjectName::new("shop", name), Some(of));
    }
    saved::save(folder, &["cluster.local.".to_owned()], &cluster).expect("it is saved");
}

/// The last bytes of the answered addresses of a name.
fn answered(manager: &ZonePublisher, name: &str) -> Vec<u8> {
    let name = format!("{name}.shop.svc.cluster.local.");
    let name = NameBuf::from_text(name.as_bytes(), Name::ROOT).expect("a name");
    let image = manager.image();
    let zone = image.zone(origin().as_name()).expect("the zone");
    let set = zone.set(name.as_name(), Rtype::A);
    set.map(|set| set.records().map(|data| data[3]).collect()).unwrap_or_default()
}

fn judge(manager: &ZonePublisher, last: u8, class: MemberClass) {
    let target = HealthTarget { check: "http".into(), address: [10, 3, 0, last].into() };
    manager.report_health(vec![(target, Some(class))]).wait().expect("it runs");
}

#[test]
fn verdicts_change_answers_of_a_service_with_a_check_and_of_no_other() {
    let folder = Folder::new("checked");
    save(&folder);
    let (manager, thread) = publisher();
    let (http, none) = (["http".to_owned()].into(), [].into());
    manager.health().set_checks(http);
    // What was known before the start holds for the first answer.
    judge(&manager, 1, MemberClass::DownOnceUp);
    judge(&manager, 2, MemberClass::Up);
    let running = manager
        .start_source(KubernetesSource { settings: settings(&folder), fleet: None })
        .expect("a thread");
    assert_eq!((answered(&manager, "web"), answered(&manager, "plain")), (vec![2], vec![1, 2]));
    assert_eq!(answered(&manager, "10-3-0-1.web"), [1], "the name of one endpoint");
    judge(&manager, 2, MemberClass::DownOnceUp);
    assert_eq!(answered(&manager, "web"), [1, 2], "fail-open, among what is ready");
    judge(&manager, 1, MemberClass::Up);
    assert_eq!(answered(&manager, "web"), [1]);
    // The check is deleted: the service is served as without it.
    manager.health().set_checks(none);
    until_true("all endpoints are answered", || answered(&manager, "web") == [1, 2]);
    until_true("the status names the service", || {
        let status = running.status();
        status.unused_check_count == 1 && status.unused_checks[0].starts_with("shop/web")
    });
    manager.health().set_checks(["http".to_owned()].into());
    until_true("the check holds again", || answered(&manager, "web") == [1]);
    until_true("the status names no service", || running.status().unused_check_count == 0);
    drop(running);
    thread.stop();
}
