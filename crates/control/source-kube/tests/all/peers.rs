//! API servers, and what stands before them, that lie, are slow or cut streams off.
use crate::world::{
    PATIENCE, Watched, World, line, list_end, service, short, write_kubeconfig, zone,
};
use kube_api::lying::Reply;
use serde_json::json;
use source_kube::client::{Access, Connection};
use source_kube::failure::{Cause, Failure};
use source_kube::limits::{Bounds, OBJECT_LEN_MAX};
use source_kube::names::ClusterZone;
use source_kube::saved::path as saved_path;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use test_support::folder::Folder;
use zone_manager::hold::Acceptance;

const SERVICES: u8 = 60;

fn status(code: u16, body: &str) -> Reply {
    Reply::Status(code, body.into())
}

/// What can be in the place of an API server, for each request.
fn lies() -> Vec<(&'static str, Reply)> {
    let not_found = json!({ "kind": "Status", "status": "Failure", "code": 404 }).to_string();
    let error = |code: u16| line("ERROR", &json!({ "code": code, "message": "no" }));
    let empty = json!({ "kind": "List", "metadata": {}, "items": [] }).to_string();
    vec![
        ("a proxy knows no such host", status(404, "<html>404 page not found</html>")),
        ("404 in the form of an API server", status(404, &not_found)),
        ("the same as a success", status(200, &not_found)),
        ("the page of a login", status(200, "<html>\n<body>sign in</body>\n</html>\n")),
        ("an empty object", status(200, "{}\n")),
        ("nothing", status(200, "")),
        ("a list of nothing", status(200, &empty)),
        ("an error of the server", status(500, "etcd")),
        ("overload", status(429, "busy")),
        ("a redirection", status(302, "")),
        ("no answer", Reply::Close),
        ("a head without a body", Reply::Cut(String::new())),
        ("an error 404 in a stream", Reply::Stream(error(404))),
        ("an error in a stream", Reply::Stream(error(500))),
        ("an error without a code", Reply::Stream(line("ERROR", &json!({})))),
        ("half a line", Reply::Cut("{\"type\":\"ADD".into())),
        ("an unknown type", Reply::Stream(line("GONE", &service("x", "10.0.0.1")))),
        ("an object without a name", Reply::Stream(line("ADDED", &json!({ "metadata": {} })))),
        ("a bookmark without a revision", Reply::Stream(line("BOOKMARK", &json!({})))),
    ]
}

/// The lie as an answer to each request; one that is a stream, to each that opens one.
fn told(lie: Reply) -> impl Fn(&str) -> Option<Reply> + Send {
    move |request| {
        let fits = !matches!(lie, Reply::Stream(_)) || request.contains("watch=true");
        fits.then(|| lie.clone())
    }
}

#[test]
fn nothing_that_stands_in_for_an_api_server_changes_an_answer_or_the_saved_state() {
    let world = World::start(SERVICES);
    let first = Watched::open(&world);
    first.stop();
    for (what, reply) in lies() {
        world.state().instead = Box::new(|_| None);
        let watched = Watched::open(&world);
        let saved = watched.saved().expect("it is saved");
        world.answer(told(reply));
        watched.until_failed(3);
        assert_eq!(watched.answer("web-59"), Some(1), "{what}");
        watched.until(what, |status| {
            status.streams.iter().all(|it| it.open_seconds.is_none() && it.error.is_some())
        });
        watched.stop();
        let again = std::fs::read(saved_path(&world.folder)).expect("it is saved");
        assert_eq!(again.len(), saved.len(), "{what}");
        let saved = again;

        // A start from the saved state answers, and keeps it.
        let again = Watched::start(&world, |_| {});
        again.until_failed(2);
        assert_eq!(again.answer("web-59"), Some(1), "{what}");
        assert!(again.saved().as_ref() == Some(&saved), "{what}: the saved state is as it was");
        again.stop();
    }
}

#[test]
fn first_start_before_something_else_than_an_api_server_is_not_synced() {
    let world = World::start(SERVICES);
    for (what, reply) in lies() {
        world.state().instead = Box::new(told(reply));
        let watched = Watched::start(&world, |_| {});
        watched.until_failed(2);
        assert!(!watched.status().is_synced && !watched.is_loaded(), "{what}");
        watched.stop();
    }
}

/// Each kind of request alone is answered 404, the list of groups too.
#[test]
fn a_404_of_one_kind_is_a_failure_of_that_kind() {
    let world = World::start(SERVICES);
    let watched = Watched::open(&world);
    for kind in ["namespaces?watch", "services?", "endpointslices?", "namespaces?fieldSelector"] {
        world.answer(move |request| request.contains(kind).then(|| status(404, "no such page")));
        watched.until("it is shown", |status| {
            status.streams.iter().any(|stream| {
                stream.error.as_ref().is_some_and(|why| why.contains("HTTP 404: no such page"))
            })
        });
        assert_eq!(watched.answer("web-59"), Some(1), "{kind}");
        world.answer(|_| None);
        watched.until_open();
    }
    watched.stop();
}

#[test]
fn a_failure_never_shortens_the_wait_however_much_came_before_it() {
    let world = World::start(2);
    let error = line("ERROR", &json!({ "code": 500, "message": "no" }));
    let event = line("MODIFIED", &service("web-0", "10.96.0.0"));
    for reply in [
        Reply::Stream(event.clone() + &error),
        Reply::Cut(event.clone() + "{\"type\""),
        Reply::Cut(event),
        Reply::Stream(error),
    ] {
        let wait = Duration::from_millis(10);
        let bounds = Bounds { retry: (wait, PATIENCE), ..short() };
        let watched = Watched::start(&world, |it| it.bounds = bounds);
        watched.until_open();
        let began = Instant::now();
        let reply = reply.clone();
        world.answer(move |request| {
            let follows = request.contains("services") && request.contains("watch=true");
            follows.then(|| reply.clone())
        });
        let failures = |status: &server_status::KubernetesStatus| status.streams[1].failures;
        let before = failures(&watched.status());
        watched.until("it fails again and again", |status| failures(status) >= before + 6);
        // 10, 20, 40, 80 and 160 ms, less half by jitter.
        assert!(began.elapsed() >= wait * 31 / 2, "{:?}", began.elapsed());
        watched.until("it is not open", |status| status.streams[1].open_seconds.is_none());
        watched.stop();
        world.state().instead = Box::new(|_| None);
    }
}

#[test]
fn a_slow_server_is_waited_for_longer_each_time_until_all_is_listed() {
    let world = World::start(2);
    let slow = Duration::from_millis(150);
    let world_answers = |request: &str| {
        let is_stream = request.contains("sendInitialEvents");
        let end = || Reply::Stream(list_end(9));
        match (is_stream, request.contains("fieldSelector=metadata")) {
            (true, _) if request.contains("/services") => {
                Reply::Stream(line("ADDED", &service("web-0", "10.96.0.0")) + &list_end(9))
            }
            (true, _) if request.contains("/namespaces") => {
                let meta = json!({ "name": "shop", "resourceVersion": "5" });
                Reply::Stream(line("ADDED", &json!({ "metadata": meta })) + &list_end(9))
            }
            (false, true) => {
                let meta = json!({ "resourceVersion": "9" });
                status(200, &json!({ "kind": "NamespaceList", "metadata": meta }).to_string())
            }
            _ => end(),
        }
    };
    world.state().instead =
        Box::new(move |request| Some(Reply::Late(slow, Box::new(world_answers(request)))));
    let bounds = Bounds { response: (slow / 8, PATIENCE), ..short() };
    let watched = Watched::start(&world, |it| it.bounds = bounds);
    watched.until_open();
    assert_eq!(watched.answer("web-0"), Some(1));
    watched.stop();
}

/// The failure of one request.
fn failure(kubeconfig: &Path) -> Failure {
    let access = Access { kubeconfig: Some(kubeconfig.into()), context: String::new() };
    let connection = Connection::new(access);
    kube_api::lying::block(async {
        connection.get("/api/v1/services", "list", "services").await.expect_err("it fails")
    })
}

#[test]
fn failures_have_causes_and_a_requested_wait() {
    let folder = Folder::new("causes");
    let world = World::start(0);
    let kubeconfig = folder.join("kubeconfig");
    let server = format!("http://{}", world.server.address);
    write_kubeconfig(&kubeconfig, &server, "");
    let check = |reply: Reply, cause, retry_after: Option<u64>| {
        world.answer(move |_| Some(reply.clone()));
        let failure = failure(&kubeconfig);
        let expected = (cause, retry_after.map(Duration::from_secs));
        assert_eq!((failure.cause, failure.retry_after), expected, "{failure}");
    };
    let busy = |head| Reply::Head(429, head, "busy".into());
    check(busy("Retry-After: 7"), Cause::Status(429), Some(7));
    check(busy("Retry-After: soon"), Cause::Status(429), None);
    check(status(503, ""), Cause::Status(503), None);
    check(Reply::Close, Cause::Broken, None);
    drop(world);
    let away = failure(&kubeconfig);
    assert_eq!(away.cause, Cause::Connection, "{away}");
}

#[test]
fn a_proxy_is_refused_and_a_changed_kubeconfig_is_followed() {
    let folder = Folder::new("files");
    let (one, two) = (World::start(2), World::start(2));
    let kubeconfig = folder.join("kubeconfig");
    let url = |world: &World| format!("http://{}", world.server.address);
    write_kubeconfig(&kubeconfig, &url(&one), "    proxy-url: http://192.0.2.1:3128\n");
    let refused = failure(&kubeconfig);
    assert_eq!(refused.cause, Cause::Config);
    assert!(refused.what.contains("`proxy-url` of its cluster is not supported"), "{refused}");
    assert_eq!(one.requests("GET"), 0);

    let access = Access { kubeconfig: Some(kubeconfig.clone()), context: String::new() };
    let connection = Connection::new(access);
    kube_api::lying::block(async {
        let get = || connection.get("/api/v1/services", "list", "services");
        write_kubeconfig(&kubeconfig, &url(&one), "");
        get().await.expect("the first server");
        std::fs::write(&kubeconfig, "clusters: [").expect("written");
        get().await.expect("half a file changes nothing");
        assert_eq!((one.requests("GET"), two.requests("GET")), (2, 0));
        write_kubeconfig(&kubeconfig, &url(&two), "");
        get().await.expect("the second server");
        assert_eq!((one.requests("GET"), two.requests("GET")), (2, 1));
    });
}

#[test]
fn a_list_without_end_is_given_up() {
    let world = World::start(3);
    let watched = Watched::open(&world);
    watched.stop();
    let page = |next: usize| {
        let item = service(&format!("page-{next}"), "10.96.1.1");
        let meta = json!({ "resourceVersion": "9", "continue": format!("{next}") });
        let page = json!({ "kind": "ServiceList", "metadata": meta, "items": [item] });
        status(200, &page.to_string())
    };
    let number = |request: &str| {
        let next = request.split("continue=").nth(1).unwrap_or("0");
        next.parse::<usize>().expect("a number")
    };
    let is_list = |request: &str| request.contains("services") && request.contains("limit=");
    let is_stream = |request: &str| request.contains("services?watch");
    let event = line("ADDED", &service("same", "10.96.1.1"));
    type Answer = Box<dyn Fn(&str) -> Option<Reply> + Send>;
    let cases: [(&str, bool, Answer); 4] = [
        ("more than 9 pages", true, Box::new(move |it| is_list(it).then(|| page(number(it) + 1)))),
        ("leads back to itself", true, Box::new(move |it| is_list(it).then(|| page(3)))),
        (
            "no end",
            false,
            Box::new(move |it| is_stream(it).then(|| Reply::Endless(String::new(), event.clone()))),
        ),
        (
            "no end",
            false,
            Box::new(move |it| is_stream(it).then(|| Reply::Endless("x".into(), "x".repeat(999)))),
        ),
    ];
    for (told, is_paged, answer) in cases {
        world.state().is_paged = is_paged;
        world.state().instead = answer;
        let bounds = Bounds { pages_max: 9, objects_max: 500, list_len_max: 20 << 20, ..short() };
        let watched = Watched::start(&world, |it| it.bounds = bounds);
        watched.until(told, |status| {
            let failed = status.streams.iter().filter(|it| it.failures > 1);
            failed.filter_map(|stream| stream.error.as_ref()).any(|why| why.contains(told))
        });
        assert_eq!(watched.answer("web-1"), Some(1), "{told}: from the saved state");
        watched.stop();
        world.state().instead = Box::new(|_| None);
    }
}

#[test]
fn objects_of_a_lying_server_have_a_maximum() {
    let world = World::start(40);
    let bounds = Bounds { objects_max: 25, ..short() };
    world.state().is_paged = true;
    let watched = Watched::start(&world, |it| it.bounds = bounds);
    watched.until("it is given up", |status| status.streams[1].failures > 0);
    assert!(!watched.status().is_synced);
    world.state().services = (0..20).map(|at| (format!("a-{at}"), "10.96.2.1".into())).collect();
    watched.until_open();
    // Events come one by one, after the list.
    let more: String =
        (0..40).map(|at| line("ADDED", &service(&format!("b-{at}"), "10.96.3.1"))).collect();
    world.answer(move |request| {
        let follows = request.contains("/services?watch") && !request.contains("sendInitial");
        follows.then(|| Reply::Stream(more.clone()))
    });
    watched.until("the rest is skipped", |status| status.skipped_count == 35);
    assert_eq!(watched.status().services, 25);
    watched.stop();
}

#[test]
fn an_object_that_is_too_large_is_named_and_stays_as_it_was() {
    let world = World::start(3);
    let watched = Watched::open(&world);
    let mut large = service("web-1", "10.96.9.9");
    large["metadata"]["managedFields"] = "x".repeat(OBJECT_LEN_MAX).into();
    // Metadata begins with the name, as that of an API server does.
    let large = line("ADDED", &large).replacen(
        "\"metadata\":{",
        "\"metadata\":{\"name\":\"web-1\",\"namespace\":\"shop\",",
        1,
    );
    let all = large + &line("ADDED", &service("web-2", "10.96.0.2")) + &list_end(9);
    world.forget_revisions();
    world.answer(move |request| {
        let is_list = request.contains("/services?") && request.contains("sendInitialEvents");
        let gone = json!({ "code": 410, "message": "too old resource version" });
        let is_old = request.contains("/services?") && request.ends_with("resourceVersion=7");
        match (is_list, is_old) {
            (true, _) => Some(Reply::Stream(all.clone())),
            (_, true) => Some(Reply::Stream(line("ERROR", &gone))),
            _ => None,
        }
    });
    watched.until("it is shown", |status| status.skipped_count == 1);
    watched.until("the others are listed", |_| watched.answer("web-0").is_none());
    let told = &watched.status().skipped[0];
    assert!(told.starts_with("services shop/web-1: it has more than 8388608 bytes"), "{told}");
    assert_eq!((watched.answer("web-1"), watched.answer("web-2")), (Some(1), Some(1)));
    watched.stop();
}

#[test]
fn a_service_that_is_named_like_a_wildcard_is_none_and_digits_begin_names() {
    let world = World::start(1);
    for name in ["*", "1web", "0", "-web", "a_b", "x.y"] {
        world.state().services.insert(name.into(), "10.96.4.1".into());
    }
    let watched = Watched::open(&world);
    watched.until("the others are shown", |status| status.skipped_count == 4);
    let told = watched.status().skipped.join("; ");
    assert!(told.contains("services shop/*: its name is not a label"), "{told}");
    for (name, expected) in [("1web", Some(1)), ("0", Some(1)), ("web-0", Some(1)), ("*", None)] {
        assert_eq!(watched.answer(name), expected, "{name}");
    }
    watched.stop();
}

#[test]
fn a_restart_does_not_end_a_hold_and_the_printed_name_accepts_all_of_it() {
    let world = World::start(SERVICES);
    let watched = Watched::open(&world);
    watched.stop();
    let saved = std::fs::read(saved_path(&world.folder)).expect("a saved state");
    world.state().services.retain(|name, _| name == "web-7");
    for _ in 0..2 {
        let watched = Watched::open(&world);
        watched.until("it is held", |_| watched.manager.holds().all().len() == 2);
        let held: Vec<String> = watched.manager.holds().all().into_keys().collect();
        assert_eq!(held, ["cluster.local.", "kubernetes/0."]);
        assert_eq!(watched.answer("web-59"), Some(1));
        watched.stop();
        let now = std::fs::read(saved_path(&world.folder)).expect("a saved state");
        assert!(now == saved, "the saved state is as it was");
    }
    let watched = Watched::open(&world);
    watched.until("it is held", |_| watched.manager.holds().all().len() == 2);
    // The name of the layer has the form of a name, as the command wants it.
    assert_eq!(zone("kubernetes/0").to_string(), "kubernetes/0.");
    let accepted = watched.manager.accept("cluster.local.").wait().expect("it runs");
    assert!(matches!(accepted, Acceptance::Served(_)) && watched.manager.holds().all().is_empty());
    assert_eq!((watched.answer("web-7"), watched.answer("web-59")), (Some(1), None));
    watched.stop();
    let now = std::fs::read(saved_path(&world.folder)).expect("a saved state");
    assert!(now != saved, "what is accepted is saved");
}

#[test]
fn imports_are_read_in_their_best_version_and_only_their_definition_may_be_absent() {
    let world = World::start(1);
    let clusterset = zone("clusterset.local.");
    let edit = |settings: &mut source_kube::source::Settings| {
        let origin = clusterset.clone();
        let imported = ClusterZone { origin, is_multicluster: true, falls_through: false };
        settings.naming.zones.push(imported);
        settings.folder = None;
    };
    for (version, expected) in [("v1beta1", "v1beta1"), ("v1alpha1", "v1alpha1")] {
        world.state().imports = Some((version, vec!["api"]));
        let before = world.requests(&format!("{expected}/serviceimports?"));
        let watched = Watched::start(&world, edit);
        watched.until_open();
        assert_eq!(watched.answer_in(&clusterset, "api"), Some(1), "{version}");
        assert!(world.requests(&format!("{expected}/serviceimports?")) > before, "{version}");
        watched.stop();
    }
    // A server that starts does not know its definitions yet.
    let watched = Watched::start(&world, edit);
    watched.until_open();
    let (before, asked) = (watched.status().streams[2].failures, AtomicUsize::new(0));
    world.answer(move |request| {
        let is_list = request.contains("serviceimports?watch") && request.contains("Version=7");
        let gone = json!({ "code": 410, "message": "too old resource version" });
        let first = request == "GET /apis" && asked.fetch_add(1, Ordering::Relaxed) == 0;
        let none = json!({ "kind": "APIGroupList", "groups": [] });
        match first {
            true => Some(status(200, &none.to_string())),
            false => is_list.then(|| Reply::Stream(line("ERROR", &gone))),
        }
    });
    watched.until("it is looked for again, and found", |status| {
        assert_eq!(watched.answer_in(&clusterset, "api"), Some(1), "the names stay");
        let stream = &status.streams[2];
        stream.failures >= before + 2 && stream.open_seconds.is_some()
    });
    watched.stop();
    // No definition: the cluster says what it has, so there are none.
    world.state().imports = None;
    let watched = Watched::start(&world, edit);
    watched.until("the names are served", |status| status.is_synced);
    assert_eq!((watched.answer("web-0"), watched.answer_in(&clusterset, "api")), (Some(1), None));
    let told = watched.status().streams[2].error.clone().unwrap_or_default();
    assert!(told.contains("is its definition installed?"), "{told}");
    watched.stop();

    // 404 for all of it: nothing is known of it.
    world.state().imports = Some(("v1beta1", vec!["api"]));
    let watched = Watched::start(&world, edit);
    watched.until_open();
    for of in ["GET /apis", "serviceimports"] {
        world.answer(move |request| {
            let is_of =
                request == of || request.contains("serviceimports") && of == "serviceimports";
            let is_lost = request.contains("serviceimports?watch") && request.contains("Version=7");
            (is_of || is_lost).then(|| status(404, "404 page not found"))
        });
        let before = watched.status().streams[2].failures;
        watched.until("it fails", |status| status.streams[2].failures > before + 2);
        assert_eq!(watched.answer_in(&clusterset, "api"), Some(1), "{of}");
    }
    watched.stop();
}
