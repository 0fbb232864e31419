//! Which clients the endpoints of headless services are for.
use super::*;

/// A slice whose endpoints are for clients at these locations.
fn hinted(service: &str, endpoints: &[(&str, &str)]) -> Option<SliceOf> {
    let addresses: Vec<&str> = endpoints.iter().map(|(address, _)| *address).collect();
    let hint = |(address, path): &(&str, &str)| (address.parse().unwrap(), (*path).into());
    let hints = endpoints.iter().map(hint).collect();
    slice(service, &addresses).map(|slice| SliceOf { hints: Some(hints), ..slice })
}

fn in_frankfurt() -> Cluster {
    let mut cluster = cluster_with(Naming { location: "eu/fra1".into(), ..naming() });
    cluster.put_namespace("shop", true);
    cluster
}

const WEB: &str = "= web.shop.svc.cluster.local. A";

fn of_service(changes: &[RecordChange]) -> Vec<String> {
    text::changes(changes).into_iter().filter(|line| line.starts_with(WEB)).collect()
}

#[test]
fn endpoints_with_hints_are_answered_to_their_clients() {
    let mut cluster = in_frankfurt();
    cluster.put_service(key("web"), Some(headless()));
    let both = hinted("web", &[("10.1.0.1", "a"), ("10.1.0.2", "b/n7")]);
    let changed = cluster.put_slice(object("web-1"), both.clone());
    let located = format!("{WEB} 10.1.0.1, 10.1.0.2 at eu/fra1/a, eu/fra1/b/n7");
    assert_eq!(of_service(&changed), [located.as_str()]);
    // As in kube-proxy, one endpoint without a hint makes all of them for all clients.
    let changed = cluster.put_slice(object("web-2"), slice("web", &["10.1.0.3"]));
    assert_eq!(of_service(&changed), [format!("{WEB} 10.1.0.1, 10.1.0.2, 10.1.0.3")]);
    // An empty slice has no endpoint that lacks one.
    let changed = cluster.put_slice(object("web-2"), slice("web", &[]));
    assert_eq!(of_service(&changed), [located.as_str()]);
    let moved = hinted("web", &[("10.1.0.1", "b"), ("10.1.0.2", "a")]);
    let changed = cluster.put_slice(object("web-1"), moved);
    assert_eq!(of_service(&changed), [format!("{WEB} 10.1.0.1, 10.1.0.2 at eu/fra1/b, eu/fra1/a")]);
    cluster.put_slice(object("web-1"), None);
    assert_eq!(cluster.checks.hints.len(), 0);
}

#[test]
fn address_in_two_slices_has_the_same_location_in_whatever_order_they_came() {
    let slices = [
        ("web-1", hinted("web", &[("10.1.0.1", "b"), ("10.1.0.2", "c")])),
        ("web-2", hinted("web", &[("10.1.0.1", "a")])),
    ];
    for order in [[0, 1], [1, 0]] {
        let mut cluster = in_frankfurt();
        cluster.put_service(key("web"), Some(headless()));
        let put = |at: usize| cluster.put_slice(object(slices[at].0), slices[at].1.clone());
        let changed = order.map(put);
        let located = format!("{WEB} 10.1.0.1, 10.1.0.2 at eu/fra1/a, eu/fra1/c");
        assert_eq!(of_service(&changed[1]), [located], "{order:?}");
    }
}

#[test]
fn srv_records_of_all_endpoints_have_the_hints_and_those_of_one_have_none() {
    let mut cluster = in_frankfurt();
    cluster.put_service(key("web"), Some(headless()));
    let mut of = hinted("web", &[("10.1.0.1", "a"), ("10.1.0.2", "b")]).expect("a slice");
    of.slice.ports = [Port { name: "http".into(), protocol: "tcp".into(), number: 80 }].into();
    let changed = text::changes(&cluster.put_slice(object("web-1"), Some(of)));
    let located = |line: &&String| line.contains(" at ");
    let names = changed.iter().filter(located).map(|line| line.split(' ').nth(1).expect("a name"));
    let names: Vec<&str> = names.collect();
    assert_eq!(names, ["web.shop.svc.cluster.local.", "_http._tcp.web.shop.svc.cluster.local."]);
}

#[test]
fn hints_count_only_where_they_can_decide() {
    let mut cluster = in_frankfurt();
    let of = |cluster: &mut Cluster, path: &str| {
        let both = hinted("web", &[("10.1.0.1", path), ("10.1.0.2", "b")]);
        let changed = cluster.put_slice(object("web-1"), both);
        of_service(&changed).iter().any(|line| line.contains(" at "))
    };
    cluster.put_service(key("web"), Some(with_address("10.96.0.1")));
    assert!(!of(&mut cluster, "a"));
    assert_eq!(cluster.checks.hints.len(), 0, "it has an address of its own");
    cluster.put_service(key("web"), Some(headless()));
    assert!(of(&mut cluster, "a"));
    assert!(!of(&mut cluster, "a zone"), "that is no location");
    assert!(of(&mut cluster, "a"));
    assert!(!of(&mut cluster, "b"), "all are for the same clients, so they are for all");
}
