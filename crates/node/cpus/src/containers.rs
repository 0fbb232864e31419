//! Containers of a runtime, as NRI tells of them.
use cpu::CpuList;
use cpu_manager::{Claim, Event, LiveGroups, Manager, Rules, exclusive_cpus, group_path};
use cpu_topology::Topology;
use nri::{Container, ContainerState, LinuxCpu, Plugin, Pod, Request, Signed};
use std::collections::BTreeMap;

/// The name that the runtime knows this plugin by.
pub(crate) const NAME: &str = "dunlin-cpus";

/// When it is called among other plugins: late, so that it sees what they have set.
pub(crate) const INDEX: &str = "90";

/// The annotation of a pod that names the device its containers are to be near.
const NEAR: &str = "cpus.dunlin/near";

/// The annotation of a pod whose containers get whole cores only.
const FULL_CORES: &str = "cpus.dunlin/full-cores";

/// The annotation of a pod to whose CPUs the interrupts of the device `near` come.
const INTERRUPTS: &str = "cpus.dunlin/interrupts";

/// The period of a quota where the runtime names none, in microseconds.
const PERIOD_US: u64 = 100_000;

type Groups = Manager<LiveGroups>;

/// Notes what a call says; the pass after it does what follows.
pub(crate) fn note(
    manager: &mut Groups,
    topology: &Topology,
    rules: &Rules,
    request: &Request,
) -> Vec<Event> {
    match request {
        Request::Synchronize(pods, containers) => {
            let running = containers.iter().map(|one| (one.id.clone(), is_running(one))).collect();
            manager.keep_only(&running);
            let pods: BTreeMap<&str, &Pod> =
                pods.iter().map(|pod| (pod.id.as_str(), pod)).collect();
            let running = containers.iter().filter(|container| is_running(container));
            let known = running.filter_map(|one| Some((*pods.get(one.pod_id.as_str())?, one)));
            let claims = known.filter_map(|(pod, one)| Some((one.id.as_str(), claim(pod, one)?)));
            claims.flat_map(|(id, claim)| manager.claim(topology, rules, id, claim)).collect()
        }
        Request::Create(pod, container) => match claim(pod, container) {
            Some(claim) => manager.claim(topology, rules, &container.id, claim),
            None => Vec::new(),
        },
        Request::Stop(_, container) => {
            manager.stopped(&container.id);
            Vec::new()
        }
        Request::Remove(_, container) => {
            manager.removed(&container.id);
            Vec::new()
        }
        Request::StopPod(pod) | Request::RemovePod(pod) => {
            manager.pod_ended(pod_key(pod));
            Vec::new()
        }
        Request::RunPod(_) | Request::Start(..) | Request::Update(..) => Vec::new(),
    }
}

/// What a container that is created or updated gets, after a pass that went well.
pub(crate) fn adjustment(manager: &Groups, request: &Request) -> Option<LinuxCpu> {
    let (Request::Create(_, container) | Request::Update(_, container, _)) = request else {
        return None;
    };
    let summary = manager.summary();
    match manager.own_cpus(&container.id) {
        Some(own) => Some(LinuxCpu { quota: Some(Signed { value: -1 }), ..set(&own) }),
        // Those who share start on the shared CPUs, not on all of the groups above them.
        None if !summary.exclusive.is_empty() => Some(set(&summary.shared)),
        None => None,
    }
}

fn set(cpus: &CpuList) -> LinuxCpu {
    LinuxCpu { cpus: cpus.to_string(), ..LinuxCpu::default() }
}

/// What is logged of a runtime once it has told of its containers.
pub(crate) fn greeting(plugin: &Plugin, request: &Request) -> Option<String> {
    let Request::Synchronize(pods, containers) = request else { return None };
    let runtime = plugin.runtime();
    Some(format!(
        "{} {} tells of its containers: {} in {} pods",
        runtime.name,
        runtime.version,
        containers.len(),
        pods.len(),
    ))
}

fn is_running(container: &Container) -> bool {
    container.state != ContainerState::Stopped as i32
}

fn pod_key(pod: &Pod) -> &str {
    if pod.uid.is_empty() { &pod.id } else { &pod.uid }
}

/// The claim of a container that has CPUs of its own by the kubelet's rule.
fn claim(pod: &Pod, container: &Container) -> Option<Claim> {
    let linux = container.linux.as_ref()?;
    let cpu = linux.resources.as_ref()?.cpu.as_ref()?;
    let parent = pod.linux.as_ref()?.cgroup_parent.as_str();
    let shares = cpu.shares.map_or(0, |shares| shares.value);
    let quota = cpu.quota.map_or(0, |quota| quota.value);
    let period = cpu.period.map_or(PERIOD_US, |period| period.value);
    let is_on = |key| pod.annotations.get(key).is_some_and(|value| value == "true");
    Some(Claim {
        pod: pod_key(pod).to_owned(),
        name: container.name.clone(),
        path: group_path(&linux.cgroups_path)?,
        cpus: exclusive_cpus(parent, shares, quota, period)?,
        near: pod.annotations.get(NEAR).cloned(),
        full_cores: is_on(FULL_CORES),
        interrupts: is_on(INTERRUPTS),
        quota: match quota {
            ..=0 => format!("max {period}"),
            quota => format!("{quota} {period}"),
        },
        is_running: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri::{LinuxContainer, LinuxPod, LinuxResources, Unsigned};

    fn claimed(parent: &str, cpus: u64, annotations: &[(&str, &str)]) -> Option<Claim> {
        let linux = Some(LinuxPod { cgroup_parent: parent.into() });
        let annotations = annotations.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        let pod = Pod { id: "p".into(), uid: "u".into(), annotations, linux, ..Pod::default() };
        let cpu = LinuxCpu {
            shares: Some(Unsigned { value: cpus * 1_024 }),
            quota: Some(Signed { value: cpus as i64 * 100_000 }),
            period: Some(Unsigned { value: 100_000 }),
            cpus: String::new(),
        };
        let resources = Some(LinuxResources { cpu: Some(cpu) });
        let linux = Some(LinuxContainer { resources, cgroups_path: format!("{parent}/c") });
        claim(&pod, &Container { name: "n".into(), linux, ..Container::default() })
    }

    #[test]
    fn a_claim_is_what_the_pod_says() {
        let annotations = [(NEAR, "eth0"), (FULL_CORES, "true"), (INTERRUPTS, "no")];
        let claim = claimed("/kubepods/pod1", 2, &annotations).expect("a claim");
        assert_eq!((claim.pod.as_str(), claim.name.as_str(), claim.cpus), ("u", "n", 2));
        assert_eq!(
            (claim.path.as_str(), claim.quota.as_str()),
            ("kubepods/pod1/c", "200000 100000")
        );
        assert_eq!(claim.near.as_deref(), Some("eth0"));
        assert!(claim.full_cores && !claim.interrupts && claim.is_running);
        assert_eq!(claimed("/kubepods/burstable/pod1", 2, &[]), None);
        assert_eq!(claim_without_linux(), None);
    }

    fn claim_without_linux() -> Option<Claim> {
        claim(&Pod::default(), &Container::default())
    }
}
