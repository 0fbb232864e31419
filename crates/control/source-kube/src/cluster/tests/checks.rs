//! Checks of services.
use super::*;

/// A cluster with the namespace `shop`, in which these checks exist.
fn with_checks(checks: &[&str]) -> Cluster {
    let mut cluster = cluster(PodNames::Disabled);
    cluster.put_namespace("shop", true);
    cluster.set_checks(known(checks));
    cluster
}

fn known(checks: &[&str]) -> CheckNames {
    Arc::new(checks.iter().copied().map(str::to_owned).collect())
}

fn put(cluster: &mut Cluster, check: Option<&str>) -> Vec<String> {
    text::changes(&cluster.put_checked_service(key("web"), Some(headless()), check))
}

/// Replaces the slice of `web`; the changes of the service's own name.
fn put_endpoints(cluster: &mut Cluster, ready: &[&str], ending: &[&str]) -> Vec<String> {
    let mut of = slice("web", ready);
    let endings = slice("web", ending).filter(|of| !of.slice.endpoints.is_empty());
    if let Some(of) = &mut of {
        of.terminating = endings.map(|of| of.slice.into());
    }
    let changes = text::changes(&cluster.put_slice(object("web-1"), of));
    changes.into_iter().filter(|line| line.starts_with("= web.shop")).collect()
}

fn unused(cluster: &mut Cluster) -> Vec<String> {
    let (unused, count) = cluster.unused_checks().expect("something changed");
    assert_eq!(unused.len(), count);
    unused.iter().map(ToString::to_string).collect()
}

const BOTH: [&str; 2] = ["10.3.0.1", "10.3.0.2"];

#[test]
fn annotation_gives_the_name_of_the_service_a_check_until_it_is_removed() {
    let mut cluster = with_checks(&["http", "tcp"]);
    put(&mut cluster, Some("http"));
    let come = text::changes(&cluster.put_slice(object("web-1"), slice("web", &BOTH)));
    assert_eq!(come[0], "= web.shop.svc.cluster.local. A 10.3.0.1, 10.3.0.2 by http");
    assert!(come[1..].iter().all(|line| !line.contains(" by ")), "{come:#?}");
    let by = |check: &str| format!("= web.shop.svc.cluster.local. A 10.3.0.1, 10.3.0.2{check}");
    assert_eq!(put(&mut cluster, Some("tcp")), [by(" by tcp")]);
    assert_eq!(put(&mut cluster, Some("tcp")), [""; 0]);
    assert_eq!(put(&mut cluster, None), [by("")]);
    assert!(cluster.checks.named().next().is_none());
    assert_eq!(unused(&mut cluster), [""; 0]);
}

#[test]
fn unknown_check_is_named_and_the_service_is_served_as_without_one() {
    let mut cluster = with_checks(&["tcp"]);
    put(&mut cluster, Some("http"));
    let plain = "= web.shop.svc.cluster.local. A 10.3.0.1";
    assert_eq!(put_endpoints(&mut cluster, &BOTH[..1], &BOTH[1..]), [plain]);
    let why = "shop/web: dunlin.io/check \"http\": there is no such check";
    assert_eq!(unused(&mut cluster), [why]);
    assert_eq!(cluster.unused_checks(), None, "nothing has changed");
    let checked = format!("{plain} by http");
    assert_eq!(text::changes(&cluster.set_checks(known(&["http", "tcp"]))), [checked]);
    assert_eq!(unused(&mut cluster), [""; 0]);
    assert_eq!(text::changes(&cluster.set_checks(known(&["tcp"]))), [plain]);
    assert_eq!(unused(&mut cluster), [why]);
    cluster.put_service(key("web"), None);
    assert_eq!(unused(&mut cluster), [""; 0], "the service is gone");
}

#[test]
fn check_of_a_service_with_an_address_is_named_as_unused() {
    let mut cluster = with_checks(&["http"]);
    let service = || Some(with_address("10.96.0.1"));
    let come = cluster.put_checked_service(key("web"), service(), Some("http"));
    assert_eq!(text::changes(&come)[0], "= web.shop.svc.cluster.local. A 10.96.0.1");
    let why = "shop/web: dunlin.io/check \"http\": only headless services have checks";
    assert_eq!(unused(&mut cluster), [why]);
    cluster.put_checked_service(key("web"), service(), Some(&"x".repeat(1_000)));
    assert!(unused(&mut cluster)[0].len() < 200, "it is cut");
}

#[test]
fn check_of_the_config_is_that_of_services_that_name_none() {
    let mut cluster = with_checks(&["tcp"]);
    cluster.configure_checks(Some("http".into()), false);
    put(&mut cluster, None);
    let set = |rest: &str| format!("= web.shop.svc.cluster.local. A 10.3.0.1{rest}");
    assert_eq!(put_endpoints(&mut cluster, &BOTH[..1], &[]), [set("")]);
    assert_eq!(unused(&mut cluster), ["[kubernetes] check \"http\": there is no such check"]);
    assert_eq!(text::changes(&cluster.set_checks(known(&["http", "tcp"]))), [set(" by http")]);
    assert_eq!(unused(&mut cluster), [""; 0]);
    assert_eq!(put(&mut cluster, Some("tcp")), [set(" by tcp")]);
    assert_eq!(put(&mut cluster, Some("off")), [set("")]);
    assert_eq!(unused(&mut cluster), [""; 0]);
    assert_eq!(put(&mut cluster, None), [set(" by http")]);
    let service = with_address("10.96.0.1");
    let come = text::changes(&cluster.put_service(key("other"), Some(service)));
    assert_eq!(come[0], "= other.shop.svc.cluster.local. A 10.96.0.1", "it was not asked for");
}

#[test]
fn service_with_an_address_has_a_check_where_the_config_asks_for_it() {
    let mut cluster = with_checks(&["http", "tcp"]);
    cluster.configure_checks(Some("http".into()), true);
    let put = |cluster: &mut Cluster, check| {
        let service = Some(with_address("10.96.0.1"));
        text::changes(&cluster.put_checked_service(key("web"), service, check))[0].clone()
    };
    let set = |rest: &str| format!("= web.shop.svc.cluster.local. A 10.96.0.1{rest}");
    assert_eq!(put(&mut cluster, None), set(" by http"));
    assert_eq!(put(&mut cluster, Some("tcp")), set(" by tcp"));
    assert_eq!(put(&mut cluster, Some("off")), set(""));
    assert_eq!(unused(&mut cluster), [""; 0]);
}

#[test]
fn zone_with_fallthrough_has_no_checks() {
    let mut naming = naming();
    naming.zones[0].falls_through = true;
    let mut cluster = Cluster::new(Arc::new(naming), Arc::new(Exposed::default()), 1);
    cluster.put_namespace("shop", true);
    cluster.set_checks(known(&["http"]));
    put(&mut cluster, Some("http"));
    let plain = "= web.shop.svc.cluster.local. A 10.3.0.1";
    assert_eq!(put_endpoints(&mut cluster, &BOTH[..1], &[]), [plain]);
    assert!(unused(&mut cluster)[0].ends_with("zones with fallthrough have no checks"));
}

#[test]
fn terminating_endpoints_return_only_where_nothing_is_ready_and_only_with_a_check() {
    let mut cluster = with_checks(&["http"]);
    put(&mut cluster, Some("http"));
    let set = |rest: &str| format!("= web.shop.svc.cluster.local. A{rest}");
    let one = put_endpoints(&mut cluster, &BOTH[..1], &BOTH[1..]);
    assert_eq!(one, [set(" 10.3.0.1 by http")]);
    assert_eq!(put_endpoints(&mut cluster, &[], &BOTH), [set(" 10.3.0.1, 10.3.0.2 by http")]);
    // A slice of its own that has a ready one.
    let other = cluster.put_slice(object("web-2"), slice("web", &["10.3.0.9"]));
    assert!(text::changes(&other).contains(&set(" 10.3.0.9 by http")));
    let gone = cluster.put_slice(object("web-2"), None);
    assert!(text::changes(&gone).contains(&set(" 10.3.0.1, 10.3.0.2 by http")));
    assert!(put(&mut cluster, None).contains(&set("")), "a plain service has only ready ones");
    assert!(put(&mut cluster, Some("http")).contains(&set(" 10.3.0.1, 10.3.0.2 by http")));
    assert_eq!(put_endpoints(&mut cluster, &[], &[]), [set("")]);
}

#[test]
fn names_of_topology_zones_have_the_check_of_their_service() {
    let naming = Naming { zonal: true, ..naming() };
    let mut cluster = Cluster::new(Arc::new(naming), Arc::new(Exposed::default()), 1);
    cluster.put_namespace("shop", true);
    cluster.set_checks(known(&["http"]));
    put(&mut cluster, Some("http"));
    let mut of = slice("web", &BOTH).expect("a slice");
    of.slice.endpoints[0].zone = Some("eu-1a".into());
    let changes = text::changes(&cluster.put_slice(object("web-1"), Some(of)));
    let checked = changes.iter().filter_map(|line| line.strip_suffix(" by http"));
    let checked: Vec<&str> = checked.collect();
    assert_eq!(
        checked,
        [
            "= *.prefer._zone.web.shop.svc.cluster.local. A 10.3.0.1, 10.3.0.2",
            "= web.shop.svc.cluster.local. A 10.3.0.1, 10.3.0.2",
            "= eu-1a.pin._zone.web.shop.svc.cluster.local. A 10.3.0.1",
            "= eu-1a.prefer._zone.web.shop.svc.cluster.local. A 10.3.0.1",
        ]
    );
}

/// What few services need is kept beside the others, and goes with them.
#[test]
fn nothing_is_left_of_checks_when_their_services_are_gone() {
    let mut cluster = with_checks(&["http"]);
    put(&mut cluster, Some("http"));
    put_endpoints(&mut cluster, &BOTH[..1], &BOTH[1..]);
    assert_eq!(cluster.checks.terminating.len(), 1);
    cluster.put_service(key("web"), Some(with_address("10.96.0.1")));
    assert_eq!(cluster.checks.terminating.len(), 0, "its endpoints are not needed");
    cluster.put_service(key("web"), Some(headless()));
    put_endpoints(&mut cluster, &[], &BOTH);
    cluster.put_slice(object("web-1"), None);
    cluster.put_service(key("web"), None);
    assert_eq!(
        (cluster.checks.terminating.len(), cluster.checks.named().next().is_none()),
        (0, true)
    );
}
