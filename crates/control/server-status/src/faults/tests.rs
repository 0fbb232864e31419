//! One row for each kind of fault: a status that shows it.
use super::*;
use crate::{
    AnycastStatus, ApiStatus, CertificateStatus, DpdkDeviceStatus, DpdkStatus, FleetStatus,
    HostsStatus, KubernetesStream, PanicStatus, ServerState, SignatureSpan, StoreZoneFault,
    TapStatus, UpstreamStatus, XdpStatus, ZoneStatus,
};
use crate::{HeldZone, PartsStatus};

/// A server of which every part is configured and works.
fn healthy() -> Status {
    let name = || "a.test.".to_owned();
    let stream = KubernetesStream { open_seconds: Some(1.0), ..KubernetesStream::new("pods") };
    Status {
        gathered_seconds: 1_000_000.0,
        zones: vec![ZoneStatus {
            state: ZoneState::Current,
            name: name(),
            signatures: span(8 * 86_400),
            ..Default::default()
        }],
        hosts: vec![HostsStatus { state: ZoneState::Current, file: name(), ..Default::default() }],
        store: Some(StoreStatus { fleet: Some(FleetStatus::default()), ..Default::default() }),
        documents: vec![DocumentsStatus { name: "tokens".into(), ..Default::default() }],
        api: Some(ApiStatus::default()),
        certificates: vec![CertificateStatus {
            key: "[api.tls] cert".into(),
            end_seconds: 100_000_000.0,
            ..Default::default()
        }],
        upstreams: vec![UpstreamStatus { suffix: name(), ..Default::default() }],
        kubernetes: Some(KubernetesStatus {
            is_synced: true,
            streams: vec![stream],
            parts: Some(PartsStatus::default()),
            ..Default::default()
        }),
        health: Some(HealthStatus {
            up: 2,
            down: 1,
            probers: 1,
            is_saved: true,
            ..Default::default()
        }),
        anycast: Some(AnycastStatus {
            addresses: vec!["192.0.2.53".into()],
            is_announced: true,
            ..Default::default()
        }),
        xdp: Some(XdpStatus { interface: "eth0".into(), ..Default::default() }),
        sites: vec![SiteStatus { name: "b".into(), etcd_quota_bytes: 100, ..Default::default() }],
        secondaries: vec![SecondaryStatus { name: "c.test.".into(), ..Default::default() }],
        dpdk: Some(DpdkStatus {
            devices: vec![DpdkDeviceStatus { name: "net_memif0".into(), ..Default::default() }],
            ..Default::default()
        }),
        tap: TapStatus { dnstap_wanted: true, dnstap_connected: true, ..Default::default() },
        ..Status::default()
    }
}

type Change = fn(&mut Status);

/// The kind of fault, what makes a healthy server have it, and a part of its text.
const ROWS: &[(&str, Change, &str)] = &[
    ("thread_ended", |status| status.failed = vec!["control".into()], "control ended"),
    ("thread_stuck", |status| status.stuck = Some("worker-0 has done".into()), "worker-0"),
    ("anycast_failed", |status| anycast(status).fault = why(), "why"),
    ("anycast_withdrawn", unannounced, "not announced: 192.0.2.53: worker-0"),
    ("anycast_no_permit", |status| anycast(status).no_permit = why(), "why"),
    ("query_panicked", |status| panicked(status, 3_599.0), "3 panics in the handling of"),
    ("query_panicked", |status| panicked(status, 0.0), "one: a.rs:1:2: why, query a. A"),
    ("zone_unanswered", |status| status.zones[0].state = ZoneState::Unloaded, "loaded: a.test."),
    ("store_unusable", |status| store(status).fault = Some("damaged".into()), "used: damaged"),
    ("store_zone_unanswered", unread_zone, "SERVFAIL answers for 1 zone of the store: b."),
    ("store_list_incomplete", |status| store(status).list_fault = why(), "incomplete: why"),
    ("store_writes_refused", |status| store(status).writes_refused = why(), "refused: why"),
    ("fleet_not_member", |status| fleet(status).fault = why(), "not a member of the fleet: why"),
    ("fleet_not_saved", |status| fleet(status).unsaved = why(), "why"),
    ("fleet_key_unreadable", |status| fleet(status).unreadable = why(), "why"),
    ("fleet_content_differs", |status| fleet(status).difference = why(), "why"),
    ("site_not_followed", |status| site(status).fault = why(), "the site b: why"),
    ("site_not_saved", |status| site(status).unsaved = why(), "the site b: why"),
    ("site_key_unreadable", |status| site(status).unreadable = why(), "the site b: why"),
    ("site_zone_refused", |status| site(status).refused = vec!["a.test.".into()], "home"),
    ("site_zone_missing", |status| site(status).missing = vec!["a.test.".into()], "a.test."),
    ("site_etcd_full", |status| site(status).etcd_full_days = Some(3.0), "full in 3.0 days"),
    ("site_etcd_full", |status| site(status).etcd_bytes = 95, "95 % of its quota"),
    ("secondary_expired", |status| secondary(status).is_expired = true, "answers for: c.test."),
    ("secondary_not_transferred", |status| secondary(status).fault = why(), "c.test.: why"),
    ("secondary_not_saved", |status| secondary(status).unsaved = why(), "c.test.: why"),
    ("secondary_superseded", |status| secondary(status).superseded = why(), "(it is of why)"),
    ("credentials_damaged", |status| api(status).fault = why(), "accepts no clients: why"),
    ("documents_damaged", |status| status.documents[0].fault = why(), "tokens: why"),
    ("documents_damaged", |status| status.documents[0].unusable = vec!["x".into()], "ignored: x"),
    ("api_ended", |status| api(status).ended = why(), "why"),
    ("certificate_broken", |status| status.certificates[0].fault = why(), "why"),
    ("certificate_expiring", |status| ends(status, 1_000_000.0 + 86_400.0), "ends in 24 h"),
    ("certificate_expiring", |status| ends(status, 1_000_000.0 - 3_700.0), "ended 1 h ago"),
    ("signatures_expired", |status| status.zones[0].signatures = span(-1), "again: a.test."),
    ("upstream_unanswered", |status| status.upstreams[0].state = UpstreamState::Down, "a.test."),
    ("kubernetes_unsynced", |status| cluster(status).is_synced = false, "is not listed"),
    ("kubernetes_stale", |status| cluster(status).is_saved = true, "the saved state"),
    ("kubernetes_unwatched", unwatched_pods, "pods are not watched, and stay as they were: why"),
    ("kubernetes_outdated", |status| cluster(status).streams[0].is_stale = true, "not current"),
    ("kubernetes_skipped", |status| cluster(status).skipped = vec!["x".into()], "not used: x"),
    ("kubernetes_not_saved", |status| cluster(status).saving = why(), "why"),
    ("kubernetes_not_shared", |status| cluster(status).fleet_fault = why(), "written: why"),
    ("kubernetes_not_shared", |status| cluster(status).unusable = vec!["x".into()], "ignored: x"),
    ("kubernetes_parts_outdated", |status| parts(status).error = why(), "not followed: why"),
    ("kubernetes_parts_outdated", |status| parts(status).saving = why(), "not saved: why"),
    ("health_no_prober", |status| health(status).probers = 0, "no server probes"),
    (
        "health_none_up",
        |status| health(status).up = 0,
        "no target of a health check is up, 1 target down",
    ),
    ("health_open_set", |status| health(status).open_sets = 3, "3 record sets with"),
    ("health_suspect", |status| health(status).suspects_itself = true, "fail at once"),
    ("health_certificate_expiring", |status| health(status).expiring = 2, "of 2 targets end soon"),
    ("health_not_saved", |status| health(status).is_saved = false, "not saved"),
    (
        "upstream_file_refused",
        |status| status.config.server_file = Some("/etc/resolv.conf names no server".into()),
        "/etc/resolv.conf",
    ),
    ("config_refused", |status| status.config.errors = vec!["f:1:1: no".into()], "f:1:1: no"),
    ("content_held", held, "b.test.; `dunlin zones accept NAME`"),
    ("zone_outdated", |status| status.zones[0].state = ZoneState::Behind, "refused: a.test."),
    ("zone_outdated", |status| status.zones[0].state = ZoneState::Saved, "refused: a.test."),
    ("hosts_outdated", |status| status.hosts[0].state = ZoneState::Behind, "a.test."),
    ("signatures_expiring", |status| status.zones[0].signatures = span(86_400), "soon: a.test."),
    ("zones_not_saved", |status| status.saving = why(), "disk: why"),
    ("xdp_missing", |status| xdp(status).failed = why(), "eth0 is served by sockets only: why"),
    ("dpdk_missing", |status| dpdk(status).failed = why(), "only sockets answer: why"),
    ("dpdk_missing", |status| dpdk(status).devices[0].failed = why(), "not served by DPDK: why"),
    ("dpdk_missing", |status| dpdk(status).devices[0].gone = true, "net_memif0 was removed"),
    ("query_log_failed", |status| status.tap.log_fault = why(), "why"),
    ("dnstap_no_reader", |status| status.tap.dnstap_connected = false, "no reader"),
];

fn panicked(status: &mut Status, seconds_ago: f64) {
    let last_seconds = Some(status.gathered_seconds - seconds_ago);
    let last = Some("a.rs:1:2: why, query a. A".into());
    status.panics = PanicStatus { count: 3, last_seconds, last };
}

/// Signatures valid for 30 days, with this left.
fn span(left: i64) -> Option<SignatureSpan> {
    let expires_seconds = 1_000_000 + left;
    Some(SignatureSpan { expires_seconds, validity_seconds: 30 * 86_400 })
}

fn why() -> Option<String> {
    Some("why".into())
}

fn store(status: &mut Status) -> &mut StoreStatus {
    status.store.as_mut().expect("a store")
}

fn site(status: &mut Status) -> &mut SiteStatus {
    &mut status.sites[0]
}

fn secondary(status: &mut Status) -> &mut SecondaryStatus {
    &mut status.secondaries[0]
}

fn fleet(status: &mut Status) -> &mut FleetStatus {
    store(status).fleet.as_mut().expect("a fleet")
}

fn api(status: &mut Status) -> &mut ApiStatus {
    status.api.as_mut().expect("an API")
}

fn cluster(status: &mut Status) -> &mut KubernetesStatus {
    status.kubernetes.as_mut().expect("a cluster")
}

fn parts(status: &mut Status) -> &mut PartsStatus {
    cluster(status).parts.as_mut().expect("parts")
}

fn health(status: &mut Status) -> &mut HealthStatus {
    status.health.as_mut().expect("checks")
}

fn dpdk(status: &mut Status) -> &mut DpdkStatus {
    status.dpdk.as_mut().expect("devices")
}

fn xdp(status: &mut Status) -> &mut XdpStatus {
    status.xdp.as_mut().expect("an interface")
}

fn ends(status: &mut Status, end: f64) {
    status.certificates[0].end_seconds = end;
    status.certificates[0].begin_seconds = -1e8;
}

fn unread_zone(status: &mut Status) {
    let zone = StoreZoneFault { name: "b.test.".into(), reason: "a checksum".into() };
    (store(status).servfail, store(status).servfail_zones) = (1, vec![zone]);
}

fn unwatched_pods(status: &mut Status) {
    let stream = &mut cluster(status).streams[0];
    (stream.open_seconds, stream.error) = (None, why());
}

fn anycast(status: &mut Status) -> &mut AnycastStatus {
    status.anycast.as_mut().expect("configured")
}

fn unannounced(status: &mut Status) {
    status.state = ServerState::Serving;
    anycast(status).reason = Some("worker-0 hangs".into());
}

fn held(status: &mut Status) {
    status.held.insert("b.test.".into(), HeldZone::default());
}

#[test]
fn each_fault_is_found_and_has_a_row() {
    assert_eq!(find_faults(&healthy()), [], "nothing is wrong");
    for (kind, change, text) in ROWS {
        let mut status = healthy();
        change(&mut status);
        let found = find_faults(&status);
        let [fault] = &found[..] else { panic!("{kind}: {found:?}") };
        assert!(fault.kind == *kind && fault.text.contains(text), "{kind}: {fault:?}");
    }
    for kind in fault_kinds() {
        assert!(ROWS.iter().any(|row| row.0 == kind), "{kind} has no row");
    }
}

#[test]
fn server_is_not_ready_until_it_knows_the_pods_that_are_its_clients() {
    let mut status = Status { state: ServerState::Serving, ..healthy() };
    assert_eq!(crate::hindrance(&status), None);
    cluster(&mut status).is_without_clients = true;
    let told = crate::hindrance(&status).expect("it is not ready");
    assert!(told.contains("Pods and nodes are not listed"), "{told}");
    status.was_ready = true;
    assert_eq!(crate::hindrance(&status), None, "all servers may have lost the API server");
}

#[test]
fn kinds_are_distinct_and_fit_a_label() {
    let kinds: BTreeSet<_> = fault_kinds().collect();
    assert_eq!(kinds.len(), fault_kinds().count());
    assert!(kinds.iter().all(|kind| kind.chars().all(|c| c.is_ascii_lowercase() || c == '_')));
}

#[test]
fn parts_that_are_not_configured_have_no_faults() {
    assert_eq!(find_faults(&Status::default()), []);
}

#[test]
fn text_of_a_fault_names_few_of_many_zones() {
    let mut status = Status::default();
    let zone = |n: u32| ZoneStatus { name: format!("{n}.test."), ..ZoneStatus::default() };
    status.zones = (0..70_000).map(zone).collect();
    let faults = find_faults(&status);
    assert_eq!(faults.len(), 1);
    let text = &faults[0].text;
    assert!(text.ends_with("0.test., 1.test., 2.test. and 69997 more"), "{text}");
}

#[test]
fn short_lived_certificate_is_warned_of_in_its_last_fifth() {
    let of = |begin_seconds, end_seconds, now| {
        let status = CertificateStatus { begin_seconds, end_seconds, ..Default::default() };
        status.expiry(now).is_some()
    };
    let (hour, day) = (3_600.0, 86_400.0);
    assert!(!of(1.0, day, 18.0 * hour) && of(1.0, day, 20.0 * hour));
    assert!(!of(1.0, 90.0 * day, 75.0 * day) && of(1.0, 90.0 * day, 77.0 * day));
    assert!(!of(0.0, 0.0, 5.0), "its end is not known");
}

#[test]
fn panic_is_a_fault_for_an_hour() {
    let mut status = healthy();
    panicked(&mut status, 3_601.0);
    assert_eq!(find_faults(&status), []);
}
