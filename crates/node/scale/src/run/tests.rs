//! A scaler and an API server that keeps one Deployment.
use super::*;
use kube_api::lying::{LyingServer, Reply, block};
use scale_rules::Nodes;
use serde_json::{Value, json};

fn failure(code: u16) -> Reply {
    let reason = if code == 404 { "NotFound" } else { "Forbidden" };
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": "it is so", "reason": reason, "code": code});
    Reply::Status(code, status.to_string())
}

/// A server with the Deployment `dns`, whose replicas are these.
async fn serve(replicas: &Arc<Mutex<u64>>) -> LyingServer {
    let replicas = Arc::clone(replicas);
    LyingServer::start(Duration::from_secs(60), move |request, body| {
        if !request.contains("/dns/scale") {
            return failure(403);
        }
        let mut replicas = replicas.lock().expect("no panic");
        if request.starts_with("PUT") {
            let object: Value = serde_json::from_str(body).expect("JSON");
            *replicas = object["spec"]["replicas"].as_u64().expect("a number");
        }
        Reply::Status(200, json!({"spec": {"replicas": *replicas}}).to_string())
    })
    .await
}

fn context(server: &LyingServer, is_dry: bool) -> Context {
    Context {
        api: server.api.clone(),
        namespace: "kube-system".into(),
        nodes: NodeTable::new(),
        rights: Rights::default(),
        messages: Messages::new("test"),
        is_dry,
        period: Duration::ZERO,
        begun: Instant::now(),
    }
}

/// The lines about a change of the scale, after the target had each of these counts of replicas.
async fn lines(is_dry: bool, counts: &[u64]) -> (Vec<String>, LyingServer) {
    let replicas = Arc::new(Mutex::new(0));
    let server = serve(&replicas).await;
    let context = context(&server, is_dry);
    let params = Params::from_file(r#"{"linear": {"nodesPerReplica": 1}}"#, Dialect::Strict);
    let target = parse("deployment/dns", Dialect::Strict).expect("a target").remove(0);
    let mut scaler = TargetScaler::new(target);
    scaler.set_params(&params.expect("parameters"));
    let nodes = Nodes { total: 3, ready: 3, schedulable: 3, ..Nodes::default() };
    let found = Counts { nodes, largest_zone: 0.0 };
    for count in counts {
        *replicas.lock().expect("no panic") = *count;
        scaler.poll(&context, None, &found).await.expect("a decision");
    }
    let mut lines = context.messages.written();
    let starts = ["scaled deployment/dns from", "would scale deployment/dns from"];
    lines.retain(|line| starts.iter().any(|start| line.starts_with(start)));
    (lines, server)
}

#[test]
fn change_that_is_made_again_is_logged_again() {
    block(async {
        let (lines, server) = lines(false, &[2, 2]).await;
        let writes = server.requests().iter().filter(|line| line.starts_with("PUT")).count();
        assert_eq!((writes, lines.len()), (2, 2), "{lines:?}");
        assert_eq!(lines[0], lines[1]);
    });
}

#[test]
fn dry_run_names_a_change_when_it_is_new_and_not_with_each_poll() {
    block(async {
        let (lines, server) = lines(true, &[2, 2, 2, 3, 2]).await;
        assert!(server.requests().iter().all(|line| line.starts_with("GET")));
        assert_eq!(lines.len(), 2, "{lines:?}");
    });
}

#[test]
fn two_deployments_with_the_label_are_refused_by_their_names() {
    block(async {
        let server = LyingServer::start(Duration::from_secs(60), |request, _| {
            let named = |name: &str| json!({"metadata": {"name": name}});
            match request.contains("labelSelector") {
                true => Reply::Status(
                    200,
                    json!({"items": [named("dunlin-dns"), named("coredns")]}).to_string(),
                ),
                false => failure(403),
            }
        })
        .await;
        let error = find_dns(&context(&server, false)).await.expect_err("there are two");
        let expected = "deployment/coredns and deployment/dunlin-dns have the label \
                        k8s-app=kube-dns: name with --target which of them is scaled";
        assert_eq!(error.to_string(), expected);
        let status = Status { target_error: Some(error.to_string()), ..Status::default() };
        assert_eq!(status.last_poll(), Err(expected.to_owned()));
    });
}
