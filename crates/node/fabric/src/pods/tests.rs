use super::*;
use crate::tests::container;
use kube_api::lying::{LyingServer, Reply, block};
use serde_json::{Value, json};
use std::time::Duration;

fn object(namespace: &str, name: &str, labels: Value, selector: Value) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": name, "uid": format!("{namespace}-{name}"),
            "labels": labels, "resourceVersion": "8"},
        "spec": {"podSelector": selector}
    })
}

fn pod(name: &str, labels: Value) -> Value {
    object("shop", name, labels, json!({}))
}

fn rules(pods: &[Value], policies: &[Value]) -> PodRules {
    let read = |all: &[Value]| {
        all.iter().map(|one| serde_json::from_value(one.clone()).unwrap()).collect::<Vec<Object>>()
    };
    let rules = PodRules::default();
    rules.replace(Kind::Pods, read(pods));
    rules.replace(Kind::Policies, read(policies));
    rules
}

fn on() -> Value {
    json!({"dunlin.io/switch": "true", "app": "web", "tier": "front"})
}

#[test]
fn pod_opts_in_by_its_label_unless_a_policy_of_its_namespace_selects_it() {
    let expression = |operator: &str, values: &[&str]| {
        let one = json!({"key": "app", "operator": operator, "values": values});
        json!({"matchExpressions": [one]})
    };
    for (labels, policy, expected) in [
        (on(), None, true),
        (json!({"dunlin.io/switch": "false"}), None, false),
        (json!({}), None, false),
        (on(), Some(("shop", json!({}))), false),
        (on(), Some(("other", json!({}))), true),
        (on(), Some(("shop", json!({"matchLabels": {"app": "web", "tier": "front"}}))), false),
        (on(), Some(("shop", json!({"matchLabels": {"app": "web", "tier": "back"}}))), true),
        (on(), Some(("shop", expression("In", &["db", "web"]))), false),
        (on(), Some(("shop", expression("In", &["db"]))), true),
        (on(), Some(("shop", expression("NotIn", &["db"]))), false),
        (on(), Some(("shop", expression("NotIn", &["web"]))), true),
        (on(), Some(("shop", expression("Exists", &[]))), false),
        (on(), Some(("shop", expression("DoesNotExist", &[]))), true),
        (on(), Some(("shop", expression("Like", &["none"]))), false),
    ] {
        let policies: Vec<Value> = policy
            .iter()
            .map(|(namespace, selector)| object(namespace, "p", json!({}), selector.clone()))
            .collect();
        let of = |uid: &str| Container { pod: Some(uid.into()), ..container("c", 2, "0") };
        let mut found = [of("shop-a"), of("other-a"), container("c", 3, "0")];
        rules(&[pod("a", labels.clone())], &policies).mark(&mut found);
        let found = found.map(|one| one.is_permitted);
        assert_eq!(found, [expected, false, false], "{labels} {policies:?}");
    }
}

#[test]
fn nothing_is_permitted_until_both_kinds_are_listed_and_while_one_is_unsure() {
    let rules = PodRules::default();
    let pods = vec![serde_json::from_value(pod("a", on())).unwrap()];
    rules.replace(Kind::Pods, pods);
    assert!(rules.permitted().is_empty());
    rules.replace(Kind::Policies, Vec::new());
    assert_eq!(rules.permitted().len(), 1);
    rules.forget(Kind::Policies);
    assert!(rules.permitted().is_empty());
}

fn list(items: &[Value]) -> Reply {
    let metadata = json!({"resourceVersion": "7"});
    Reply::Status(200, json!({"kind": "L", "metadata": metadata, "items": items}).to_string())
}

fn event(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

/// Follows until it ends, or for a while: what was permitted then.
async fn followed(
    answer: impl Fn(&str) -> Reply + Send + Sync + 'static,
) -> (Result<(), String>, usize) {
    let server = LyingServer::start(Duration::from_secs(5), move |line, _| answer(line)).await;
    let rules = rules(&[pod("a", on())], &[]);
    rules.forget(Kind::Policies);
    let silence = Duration::from_millis(300);
    let ended = rules.follow(&server.api, Kind::Policies, "n", silence).await;
    (ended.map_err(|error| error.to_string()), rules.permitted().len())
}

#[test]
fn policy_that_appears_takes_its_pods_out_and_one_that_goes_gives_them_back() {
    let all = object("shop", "p", json!({}), json!({}));
    let begun = |events: String| {
        move |line: &str| match line {
            _ if line.contains("watch=1") => Reply::Stream(events.clone()),
            _ if line.ends_with("/apis") => {
                Reply::Status(200, json!({"groups": [{"name": "apps"}]}).to_string())
            }
            _ => list(&[]),
        }
    };
    block(async {
        let (ended, permitted) = followed(begun(String::new())).await;
        assert!(ended.unwrap_err().contains("silent"));
        assert_eq!(permitted, 1);
        let (_, permitted) = followed(begun(event("ADDED", &all))).await;
        assert_eq!(permitted, 0);
        let gone = event("ADDED", &all) + &event("DELETED", &all);
        assert_eq!(followed(begun(gone)).await.1, 1);
    });
}

#[test]
fn cluster_with_policies_that_are_not_followed_permits_nothing() {
    block(async {
        let (ended, permitted) = followed(|line| match line.ends_with("/apis") {
            true => Reply::Status(200, json!({"groups": [{"name": "cilium.io"}]}).to_string()),
            false => list(&[]),
        })
        .await;
        assert!(ended.unwrap_err().contains("policies of cilium.io, which are not followed"));
        assert_eq!(permitted, 0);
        let (ended, permitted) = followed(|_| Reply::Status(403, "{}".into())).await;
        assert!(ended.is_err());
        assert_eq!(permitted, 0);
    });
}
