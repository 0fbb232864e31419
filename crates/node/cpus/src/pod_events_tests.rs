//! Events of Pods at an API server that fails as a test wants it to.
use super::*;
use cpu::CpuList;
use kube_api::lying::{LyingServer, Reply, block};
use nri::{LinuxContainer, LinuxPod};
use std::sync::atomic::AtomicUsize;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(60);

const FAST: Pace =
    Pace { repeat: SOON, retry: Duration::from_millis(20), patience: Duration::from_secs(600) };

fn container(pod: &str, name: &str) -> (Pod, Container) {
    let parent = format!("/kubepods/pod{pod}");
    let linux = LinuxContainer { cgroups_path: format!("{parent}/{name}"), resources: None };
    let container = Container { name: name.into(), linux: Some(linux), ..Container::default() };
    let linux = Some(LinuxPod { cgroup_parent: parent });
    let (id, name) = (pod.to_owned(), format!("{pod}-0"));
    let uid = format!("uid-{pod}");
    (Pod { id, name, uid, namespace: "shop".into(), linux, ..Pod::default() }, container)
}

/// Both ends of the queue, with one container `web/app`.
fn ends() -> (PodEvents, Receiver<(Timestamp, Key)>) {
    let (queue, receiver) = channel(EVENTS_QUEUED_MAX);
    let (owners, counts) = (BTreeMap::new(), Arc::default());
    let mut events = PodEvents { queue, owners, counts };
    let (pod, container) = container("web", "app");
    events.note(&Request::Create(pod, container));
    (events, receiver)
}

fn assigned(group: &str, cpus: &str) -> Event {
    Event::Assigned(group.into(), CpuList::from_kernel(cpus).expect("a list"), "near".into())
}

/// Waits until it is so.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, wait).await.unwrap_or_else(|_| panic!("{what}: not so"));
}

fn failure(code: u16, message: &str) -> Reply {
    let status = format!(
        "{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\
         \"message\":\"{message}\",\"reason\":\"x\",\"code\":{code}}}"
    );
    Reply::Status(code, status)
}

/// Runs the writer beside what a test does.
async fn beside(
    events: &PodEvents,
    receiver: Receiver<(Timestamp, Key)>,
    api: Api,
    test: impl Future<Output = ()>,
) {
    let writer = Writer::new("node-1".into(), FAST, Arc::clone(&events.counts));
    tokio::select! {
        () = writer.run(receiver, async || Ok(api.clone())) => panic!("the writer ended"),
        () = test => {}
    }
}

#[test]
fn each_event_has_its_pod_and_groups_of_no_pod_have_none() {
    let (mut events, _receiver) = ends();
    let list = CpuList::from_kernel("3").expect("a list");
    let group = "kubepods/podweb/app".to_owned();
    for (event, reason, text) in [
        (assigned(&group, "2-3"), "ExclusiveCPUs", "Container app has CPUs 2-3 for itself: near"),
        (Event::Lost(group.clone(), list.clone()), "CPUsLost", "Container app has lost CPUs 3"),
        (
            Event::Repaired(group.clone(), "0-7".into(), "2-3".into()),
            "CPUDriftRepaired",
            "Another program had set CPUs \"0-7\" for Container app, which has 2-3 again",
        ),
        (
            Event::Repaired("kubepods/podweb".into(), "0".into(), "0-3".into()),
            "CPUDriftRepaired",
            "for The Pod, which has 0-3 again",
        ),
        (
            Event::Failed(group.clone(), "9 CPUs are requested and 3 are free; it shares".into()),
            "FailedCPUs",
            "Container app: 9 CPUs are requested and 3 are free; it shares",
        ),
    ] {
        let key = events.key(&event).expect("an Event of a Pod");
        assert_eq!((key.subject.name.as_str(), key.subject.uid.as_str()), ("web-0", "uid-web"));
        assert_eq!(key.reason, reason);
        assert_eq!(key.is_warning, reason != "ExclusiveCPUs");
        assert!(key.text.contains(text), "{}", key.text);
    }
    assert_eq!(events.key(&assigned("system.slice/db.service", "1")), None);
    assert_eq!(events.key(&Event::Released(group.clone(), list)), None);
    // After a return of the runtime only what it has is known, and what is removed is not.
    let (pod, other) = container("db", "x");
    let (gone, app) = container("web", "app");
    let listed = Container { pod_id: "db".into(), ..other.clone() };
    events.note(&Request::Synchronize(vec![pod.clone()], vec![listed]));
    assert_eq!(events.key(&assigned(&group, "2")), None);
    assert!(events.key(&assigned("kubepods/poddb/x", "2")).is_some());
    events.note(&Request::Remove(pod, other));
    events.note(&Request::Remove(gone, app));
    assert!(events.owners.is_empty());
}

#[test]
fn repeats_are_one_event_and_failures_are_tried_again() {
    let (events, receiver) = ends();
    let tries = Arc::new(AtomicUsize::new(0));
    block(async {
        let counted = Arc::clone(&tries);
        let server = LyingServer::start(SOON, move |_, body| {
            let object: serde_json::Value = serde_json::from_str(body).expect("JSON");
            assert_eq!(object["involvedObject"]["name"], "web-0");
            assert_eq!(object["source"]["host"], "node-1");
            match counted.fetch_add(1, Ordering::Relaxed) {
                0 => failure(500, "it is away"),
                1 => Reply::Close,
                _ => Reply::Status(201, body.to_owned()),
            }
        })
        .await;
        let counts = Arc::clone(&events.counts);
        let is_written = |number| counts.written.load(Ordering::Relaxed) == number;
        beside(&events, receiver, server.api.clone(), async {
            for _ in 0..100 {
                events.offer(&assigned("kubepods/podweb/app", "2-3"));
            }
            until("it is written", || is_written(1)).await;
            events.offer(&assigned("kubepods/podweb/app", "2-3"));
            events.offer(&assigned("kubepods/podweb/app", "4-5"));
            until("another one is written", || is_written(2)).await;
        })
        .await;
        assert_eq!(server.requests(), ["POST /api/v1/namespaces/shop/events"; 4]);
        assert_eq!(events.counts.dropped.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn without_the_right_one_request_is_made_and_the_rest_is_dropped() {
    for (code, message, requests) in [
        (403, "events is forbidden: User cannot create resource", 1),
        // A namespace that ends says nothing of the right.
        (403, "forbidden: because it is being terminated", 8),
        (404, "namespaces not found", 8),
    ] {
        let (events, receiver) = ends();
        block(async {
            let server = LyingServer::start(SOON, move |_, _| failure(code, message)).await;
            let counts = Arc::clone(&events.counts);
            beside(&events, receiver, server.api.clone(), async {
                for number in 0..8 {
                    events.offer(&assigned("kubepods/podweb/app", &number.to_string()));
                }
                until("all are dropped", || counts.dropped.load(Ordering::Relaxed) == 8).await;
            })
            .await;
            assert_eq!(server.requests().len(), requests, "{message}");
            assert_eq!(events.counts.written.load(Ordering::Relaxed), 0);
        });
    }
}

#[test]
fn an_api_server_that_is_silent_or_unknown_never_makes_the_manager_wait() {
    let (events, receiver) = ends();
    block(async {
        let server = LyingServer::start(SOON, |_, _| Reply::Silence).await;
        let counts = Arc::clone(&events.counts);
        beside(&events, receiver, server.api.clone(), async {
            events.offer(&assigned("kubepods/podweb/app", "0"));
            until("it is asked", || server.requests().len() == 1).await;
            // `offer` is not an async function: it cannot wait for the thread.
            for number in 1..=2 * EVENTS_QUEUED_MAX {
                events.offer(&assigned("kubepods/podweb/app", &number.to_string()));
            }
            let dropped = counts.dropped.load(Ordering::Relaxed);
            assert_eq!(dropped, EVENTS_QUEUED_MAX as u64, "what finds no room is counted");
        })
        .await;
    });
    // No kubeconfig: it is looked for again, and what ends the manager ends the thread.
    let events = PodEvents::start(Some("/nonexistent/kubeconfig".into()), "n".into());
    events.expect("a thread").offer(&assigned("kubepods/podweb/app", "0"));
}
