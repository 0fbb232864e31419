//! Interprets what a runtime reports about a container.

/// The path of a container's control group below the root, from the runtime's name for it: a path,
/// or `slice:prefix:name` with systemd. `None`: it has none, or is not below the root.
pub fn group_path(cgroups_path: &str) -> Option<String> {
    let path = match cgroups_path.split(':').collect::<Vec<_>>()[..] {
        [slice, prefix, name] => {
            let slice = if slice.is_empty() { "system.slice" } else { slice };
            let unit = match (name.ends_with(".slice"), prefix) {
                (true, _) => name.to_owned(),
                (false, "") => format!("{name}.scope"),
                (false, prefix) => format!("{prefix}-{name}.scope"),
            };
            format!("{}{unit}", slice_path(slice)?)
        }
        [path] => path.trim_matches('/').to_owned(),
        _ => return None,
    };
    let is_name = |name: &str| !name.is_empty() && name != "." && name != "..";
    path.split('/').all(is_name).then_some(path)
}

/// The folders of a slice, the last one with its slash: `a-b.slice` is in `a.slice`.
fn slice_path(slice: &str) -> Option<String> {
    let name = slice.strip_suffix(".slice")?;
    // The root of all slices.
    if name == "-" {
        return Some(String::new());
    }
    if name.split('-').any(str::is_empty) {
        return None;
    }
    let ends = name.match_indices('-').map(|(end, _)| end).chain([name.len()]);
    Some(ends.map(|end| format!("{}.slice/", &name[..end])).collect())
}

/// The number of exclusive CPUs of a container, by the kubelet's rule: those of a pod whose quality
/// of service is Guaranteed, if they request whole CPUs. `None`: it shares.
///
/// `cgroup_parent` is the pod's control group, which tells its quality of service; a pod outside
/// of the kubelet's groups shares. `shares` are 1,024 for each CPU; a `quota` of 0 or less is none.
pub fn exclusive_cpus(cgroup_parent: &str, shares: u64, quota: i64, period: u64) -> Option<usize> {
    let is_of_kubelet = cgroup_parent.contains("kubepods");
    let is_guaranteed = !["burstable", "besteffort"].iter().any(|c| cgroup_parent.contains(c));
    let cpus = (shares / 1_024) as usize;
    let is_whole = shares.is_multiple_of(1_024) && cpus > 0;
    // A kubelet with cpuCFSQuota: false sets none; a limit above the request is not Guaranteed.
    let is_limit = quota <= 0 || u64::try_from(quota).is_ok_and(|q| q == period * cpus as u64);
    (is_of_kubelet && is_guaranteed && is_whole && is_limit).then_some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_by_both_names() {
        for (name, path) in [
            ("/kubepods/pod1/abc", Some("kubepods/pod1/abc")),
            (
                "kubepods-burstable-pod1_2.slice:cri-containerd:abc",
                Some(
                    "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/\
                     cri-containerd-abc.scope",
                ),
            ),
            ("-.slice:crio:abc", Some("crio-abc.scope")),
            (":docker:abc", Some("system.slice/docker-abc.scope")),
            ("a.slice::abc", Some("a.slice/abc.scope")),
            ("", None),
            ("/", None),
            ("/a/../../b", None),
            ("a--b.slice:x:y", None),
            ("a.slice:x/../..:y", None),
        ] {
            assert_eq!(group_path(name).as_deref(), path, "{name}");
        }
    }

    #[test]
    fn integer_cpus_of_a_guaranteed_pod_are_exclusive() {
        let guaranteed = "/kubepods/pod1";
        for (parent, shares, quota, cpus) in [
            (guaranteed, 2_048, 200_000, Some(2)),
            ("kubepods-pod1.slice", 1_024, 100_000, Some(1)),
            ("/kubelet/kubepods/pod1", 4_096, -1, Some(4)),
            // A kubelet that sets no quotas.
            (guaranteed, 2_048, 0, Some(2)),
            // A fraction, a limit above the request, other classes, no pod of a kubelet.
            (guaranteed, 1_536, 150_000, None),
            (guaranteed, 2, 0, None),
            (guaranteed, 0, 0, None),
            (guaranteed, 1_024, 200_000, None),
            ("/kubepods/burstable/pod1", 2_048, 200_000, None),
            ("kubepods-burstable-pod1.slice", 2_048, 200_000, None),
            ("/kubepods/besteffort/pod1", 1_024, 100_000, None),
            ("/docker", 1_024, 100_000, None),
        ] {
            assert_eq!(exclusive_cpus(parent, shares, quota, 100_000), cpus, "{parent} {shares}");
        }
    }
}
