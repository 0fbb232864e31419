//! The protocol beside a real containerd and runc. Needs root.
use nri::{Container, LinuxCpu, Plugin, Request, Signed};
use std::time::{Duration, Instant};
use test_support::containerd::Containerd;

/// Answers calls until one is as wanted; returns all that came.
fn serve(
    plugin: &mut Plugin,
    change: impl Fn(&Request) -> Option<LinuxCpu>,
    is_last: impl Fn(&Request) -> bool,
) -> Vec<Request> {
    let (begin, mut all) = (Instant::now(), Vec::new());
    loop {
        assert!(begin.elapsed() < Duration::from_secs(120), "not among {all:?}");
        let next = plugin.next(Duration::from_millis(500)).expect("a connection");
        let Some((call, request)) = next else { continue };
        plugin.answer(call, change(&request)).expect("a connection");
        all.push(request);
        if all.last().is_some_and(&is_last) {
            return all;
        }
    }
}

fn cpu_of(container: &Container) -> LinuxCpu {
    let resources = container.linux.as_ref().and_then(|linux| linux.resources.as_ref());
    resources.and_then(|resources| resources.cpu.clone()).expect("CPU resources")
}

/// The name of a request, and of its pod or container.
fn name(request: &Request) -> String {
    match request {
        Request::Synchronize(..) => "synchronize".into(),
        Request::RunPod(pod) => format!("run {}", pod.name),
        Request::StopPod(pod) => format!("stop {}", pod.name),
        Request::RemovePod(pod) => format!("remove {}", pod.name),
        Request::Create(pod, container) => format!("create {}/{}", pod.name, container.name),
        Request::Start(pod, container) => format!("start {}/{}", pod.name, container.name),
        Request::Update(pod, container, _) => format!("update {}/{}", pod.name, container.name),
        Request::Stop(pod, container) => format!("stop {}/{}", pod.name, container.name),
        Request::Remove(pod, container) => format!("remove {}/{}", pod.name, container.name),
    }
}

#[test]
#[ignore = "cluster: it starts containerd"]
fn a_container_has_the_cpus_of_the_plugin_at_its_first_instruction() {
    let Some(mut containerd) = Containerd::start("nri") else { return };
    // There before the plugin.
    let early = containerd.pod("early", "/kubepods/podearly", &[]);
    let before = containerd.run(&early, "before", 100, false, "sleep 1000");
    let mut plugin = Plugin::connect(&containerd.nri(), "dunlin", "10").expect("connected");
    let found = serve(&mut plugin, |_| None, |request| matches!(request, Request::Synchronize(..)));
    let Some(Request::Synchronize(pods, containers)) = found.last() else { panic!("{found:?}") };
    assert_eq!((pods[0].uid.as_str(), containers[0].id.as_str()), ("early", before.as_str()));
    assert_eq!(cpu_of(&containers[0]).shares.map(|shares| shares.value), Some(102));
    assert_eq!(plugin.runtime().name, "containerd");
    assert_eq!(plugin.runtime().request_timeout, Duration::from_secs(60));

    // The last CPU of those that this test may use.
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let last = allowed.expect("a list").trim().rsplit([',', '-']).next().expect("a CPU").to_owned();
    let own = last.clone();
    let change = move |request: &Request| match request {
        Request::Create(..) | Request::Update(..) => {
            let (cpus, quota) = (own.clone(), Some(Signed { value: -1 }));
            Some(LinuxCpu { cpus, quota, ..LinuxCpu::default() })
        }
        _ => None,
    };
    let served = std::thread::spawn(move || {
        serve(&mut plugin, change, |request| name(request) == "remove p")
    });
    let pod = containerd.pod("p", "/kubepods/podp", &["cpus.dunlin/near=eth0"]);
    let script = "grep Cpus_allowed_list /proc/self/status; sleep 1000";
    let id = containerd.run(&pod, "c", 1_000, true, script);
    assert_eq!(containerd.output("p", "c"), format!("Cpus_allowed_list:\t{last}"));
    containerd.must(&["update", &id, "1024", "100000", "100000"]);
    containerd.must(&["stop", &id]);
    containerd.must(&["remove", &id]);
    containerd.must(&["stop-pod", &pod]);
    containerd.must(&["remove-pod", &pod]);
    let served = served.join().expect("a plugin");
    let names: Vec<String> = served.iter().map(name).collect();
    let wanted = ["run p", "create p/c", "start p/c", "update p/c", "stop p/c", "remove p/c"];
    let mut rest = names.iter();
    for wanted in wanted.iter().chain(&["stop p", "remove p"]) {
        assert!(rest.any(|name| name == wanted), "{wanted} in {names:?}");
    }
    let Some(Request::Create(pod, container)) =
        served.iter().find(|request| matches!(request, Request::Create(..)))
    else {
        panic!("{names:?}")
    };
    assert_eq!(pod.annotations.get("cpus.dunlin/near").map(String::as_str), Some("eth0"));
    let linux = pod.linux.as_ref().expect("a cgroup");
    assert_eq!(linux.cgroup_parent, "/kubepods/podp");
    let cpu = cpu_of(container);
    assert_eq!(
        (cpu.shares.map(|s| s.value), cpu.quota.map(|q| q.value)),
        (Some(1_024), Some(100_000))
    );
    let path = container.linux.as_ref().map(|linux| linux.cgroups_path.clone());
    assert_eq!(path, Some(format!("/kubepods/podp/{id}")));
}

#[test]
#[ignore = "cluster: it starts containerd"]
fn reconnected_plugin_receives_all_containers() {
    let Some(mut containerd) = Containerd::start("nri-again") else { return };
    let is_sync = |request: &Request| matches!(request, Request::Synchronize(..));
    let mut first = Plugin::connect(&containerd.nri(), "dunlin", "10").expect("connected");
    serve(&mut first, |_| None, is_sync);
    drop(first);
    // Without a plugin containers start all the same.
    for number in 0..5 {
        let name = format!("p{number}");
        let pod = containerd.pod(&name, &format!("/kubepods/podq{number}"), &[]);
        containerd.run(&pod, "c", 1_000, true, "echo here; sleep 1000");
        assert_eq!(containerd.output(&name, "c"), "here");
    }
    let mut second = Plugin::connect(&containerd.nri(), "dunlin", "10").expect("connected");
    let found = serve(&mut second, |_| None, is_sync);
    let Some(Request::Synchronize(pods, containers)) = found.last() else { panic!("{found:?}") };
    assert_eq!((pods.len(), containers.len()), (5, 5));
}
