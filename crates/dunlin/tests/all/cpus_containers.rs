//! `dunlin cpus manage --nri` beside a real containerd and runc, on a machine of its own: the CPUs
//! of the whole machine are given out. Needs root and cgroup v2.
mod node;
mod page;
mod trace;

use cpu::CpuList;
use node::{BUSY, IDLE, Node, Pod};
use std::fs;
use std::time::{Duration, Instant};
use trace::Trace;

/// What a container writes first: the CPUs that it may run on.
const TELL: &str = "grep Cpus_allowed_list /proc/self/status";

fn told(node: &Node, pod: &str, container: &str) -> CpuList {
    let text = node.containerd.output(pod, container);
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    CpuList::from_kernel(list.expect("a list")).expect("a list")
}

#[test]
#[ignore = "kernel: it needs a machine of its own with cgroup v2"]
fn a_guaranteed_container_starts_alone_on_its_cpus() {
    let Some(mut node) = Node::new("start") else { return };
    let shared = node.pod("shared", "/kubepods/burstable/podshared", &[]);
    node.containerd.run(&shared, "busy", 500, false, BUSY);
    let before = node.files();
    node.manage();
    node.wait("the runtime is connected", |node| node.log().contains("tells of its containers"));

    let pod = node.pod("own", "/kubepods/podown", &[]);
    // An init container, which ends before the container begins.
    let init = node.containerd.run(&pod, "init", 1_000, true, TELL);
    let of_init = told(&node, "own", "init");
    node.wait_for_end(&init);
    let id = node.containerd.run(&pod, "app", 1_000, true, &format!("{TELL}; {IDLE}"));
    let own = told(&node, "own", "app");
    assert_eq!((own.len(), &own), (1, &of_init), "its first instruction; those of init again");
    let group = format!("kubepods/podown/{id}");
    node.assert_alone(&group, &own);
    assert_eq!(node.read(&group, "cpu.max"), "max 100000");
    if node.has_partitions() {
        assert_eq!(node.read(&group, "cpuset.cpus.partition"), "root");
    }
    // A container of the same pod that requests a part of a CPU shares.
    node.containerd.run(&pod, "part", 100, true, &format!("{TELL}; {IDLE}"));
    assert!(told(&node, "own", "part").intersection(&own).is_empty());
    // What a kubelet changes of its resources takes no CPU from it.
    node.containerd.must(&["update", &id, "1024", "100000", "100000"]);
    node.assert_alone(&group, &own);
    assert_eq!(node.read(&group, "cpu.max"), "max 100000");

    // While the manager is away a container starts shared, and what is exclusive stays so.
    node.kill();
    let late = node.pod("late", "/kubepods/podlate", &[]);
    let late = node.containerd.run(&late, "late", 1_000, true, &format!("{TELL}; {IDLE}"));
    let late_cpus = told(&node, "late", "late");
    if node.has_partitions() {
        assert!(late_cpus.intersection(&own).is_empty(), "{late_cpus} and {own}");
    }
    let has_room = node.online().len() > 2;
    let begin = Instant::now();
    node.manage();
    // What the time goes to: the start of the process, the runtime's list, the pass, the partition.
    node.wait("its containers are known again", |node| node.logged("tells of its containers") > 1);
    println!("the containers were known {:?} after the manager's start", begin.elapsed());
    if has_room {
        node.wait("CPUs are chosen", |node| node.logged(&format!("{late} has CPUs")) > 0);
        println!("CPUs were chosen {:?} after the manager's start", begin.elapsed());
        let group = format!("kubepods/podlate/{late}");
        node.wait("a late container", |node| node.is_alone(&group, 1));
        println!("a late container was alone {:?} after the manager's start", begin.elapsed());
    }
    node.wait("no other group is there", |node| node.is_alone(&group, 1));
    node.kill();
    node.uninstall();
    assert_eq!(node.read(&group, "cpu.max"), "100000 100000");
    assert_eq!(node.effective(&group), node.online());
    node.containerd.must(&["stop-pod", &pod]);
    node.wait("it is gone", |node| !node.exists(&group));
    let after = node.files();
    for (file, text) in &before {
        let now = after.get(file).cloned().unwrap_or_default();
        // The kernel refuses to empty the set of a group with processes: all CPUs are the same.
        assert!(now == *text || now == node.online().to_string(), "{file}: {now}, not {text}");
    }
}

/// Containers come and go while the manager is killed and a CPU goes offline; meanwhile the kernel
/// tells which threads run where.
#[test]
#[ignore = "kernel: it needs a machine of its own with cgroup v2"]
fn exclusive_cpus_stay_so_while_containers_come_and_go_and_the_manager_is_killed() {
    let Some(mut node) = Node::new("churn") else { return };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (total, seed) = (number("DUNLIN_CONTAINERS").unwrap_or(4), number("DUNLIN_SEED"));
    let seed = seed.unwrap_or(1);
    println!("DUNLIN_SEED={seed} DUNLIN_CONTAINERS={total}");
    let mut random = fastrand::Rng::with_seed(seed);
    let trace = Trace::start();
    let mut pods: Vec<Pod> = Vec::new();
    let room = node.online().len() as u64 - 1;
    node.manage();
    node.wait("the runtime is connected", |node| node.log().contains("tells of its containers"));
    for number in 0..total {
        let used: u64 = pods.iter().map(|pod| pod.cpus).sum();
        let cpus = random.u64(0..=2.min(room.saturating_sub(1)));
        while pods.len() >= 6 || pods.iter().map(|pod| pod.cpus).sum::<u64>() + cpus > room.min(6) {
            let mut pod = pods.swap_remove(random.usize(..pods.len()));
            pod.close();
            node.end(&pod);
            trace.check(&node, &pod);
            trace.forget(&pods);
        }
        // Before, at some moment of, or after the start; or not at all.
        let kill_after = random.bool().then(|| Duration::from_millis(random.u64(0..3_000)));
        let killer = kill_after.map(|after| node.kill_after(after));
        if killer.is_some() && !node.has_partitions() {
            // Without partitions a group that comes meanwhile may run anywhere.
            pods.iter_mut().for_each(|pod| trace.check_and_pause(&node, pod));
        }
        let mut pod = node.start(number, cpus);
        println!("container {number}: {cpus} CPUs, {used} used before, killed {kill_after:?}");
        if let Some(killer) = killer {
            killer.join().expect("killed");
            node.kill();
            node.manage();
        }
        let all: Vec<(String, u64)> = pods.iter().map(|p| (p.group.clone(), p.cpus)).collect();
        let all = [all, vec![(pod.group.clone(), pod.cpus)]].concat();
        let is_plan = |node: &Node| all.iter().all(|(group, cpus)| node.is_alone(group, *cpus));
        node.wait("the cgroups equal the plan", is_plan);
        assert!(!node.effective(node::SYSTEM).is_empty(), "the shared CPUs ran out");
        pod.open(&node);
        pods.push(pod);
        for pod in &mut pods {
            pod.open(&node);
        }
    }
    offline_and_back(&mut node, &trace, &mut pods);
    for mut pod in pods {
        pod.close();
        node.end(&pod);
        trace.check(&node, &pod);
    }
    let (all, own) = trace.events();
    println!("{all} switches, {own} on exclusive CPUs, none of these to a thread of another group");
    assert!(all > 0, "the trace saw nothing");
    node.kill();
    node.uninstall();
}

/// A CPU goes offline and comes back: the last one that the kernel lets go. It keeps the only CPU
/// of a partition, because the processes there would have none.
fn offline_and_back(node: &mut Node, trace: &Trace, pods: &mut [Pod]) {
    let online = node.online();
    let file = |cpu: usize| format!("/sys/devices/system/cpu/cpu{cpu}/online");
    pods.iter_mut().for_each(|pod| trace.check_and_pause(node, pod));
    let gone = online.iter().rev().find(|cpu| {
        let refused = fs::write(file(*cpu), "0").err();
        let is_only = |pod: &Pod| pod.cpus == 1 && node.effective(&pod.group).contains(*cpu);
        if let Some(error) = &refused {
            println!("CPU {cpu} cannot go offline: {error}");
            assert!(pods.iter().any(is_only), "CPU {cpu} is not the only one of a partition");
        }
        refused.is_none()
    });
    let file = file(gone.expect("a CPU that can go offline"));
    let room = online.len() as u64 - 2;
    let groups: Vec<(String, u64)> = pods.iter().map(|p| (p.group.clone(), p.cpus)).collect();
    if groups.iter().map(|(_, cpus)| cpus).sum::<u64>() <= room {
        let is_plan = |node: &Node| groups.iter().all(|(group, cpus)| node.is_alone(group, *cpus));
        node.wait("all have CPUs without the one that went offline", is_plan);
    }
    fs::write(&file, "1").expect("it comes back");
    let groups = &groups;
    node.wait("all have CPUs, and the one that came back is used", |node| {
        let all_alone = groups.iter().all(|(group, cpus)| node.is_alone(group, *cpus));
        let exclusive = groups.iter().filter(|(_, cpus)| *cpus > 0);
        let exclusive =
            exclusive.fold(CpuList::default(), |all, (group, _)| all.union(&node.effective(group)));
        let shared = node.effective(node::SYSTEM);
        all_alone && exclusive.union(&shared) == online
    });
}
