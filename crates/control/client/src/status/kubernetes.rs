//! The status of a Kubernetes cluster.
use command_line::{plain, plural, utc};
use server_status::{ClusterParts, KubernetesStatus, KubernetesStream};

/// The content of the cluster, and where it is from.
pub(super) fn text(kubernetes: &KubernetesStatus) -> String {
    let KubernetesStatus { services, endpoints, namespaces, pods, sampled, .. } = kubernetes;
    let mut text = format!(
        "{}, {}, {}",
        plural(*namespaces as usize, "namespace"),
        plural(*services as usize, "service"),
        plural(*endpoints as usize, "named endpoint"),
    );
    if *pods > 0 {
        text += &format!(", {}", plural(*pods as usize, "pod"));
    }
    if *sampled > 0 {
        let sets = plural(*sampled as usize, "record set");
        text += &format!("; {sets} too large for a message, served in part");
    }
    let leader = match &kubernetes.leader {
        _ if kubernetes.is_leader => Some("this server".into()),
        leader => leader.as_ref().map(|leader| plain(leader)),
    };
    if let Some(leader) = leader {
        text += &format!("; {leader} writes them for the fleet");
        let since = kubernetes.leader_seconds.map(|at| format!(" since {}", utc(at)));
        text += &since.unwrap_or_default();
        let written = kubernetes.written_seconds.filter(|_| kubernetes.is_leader);
        text += &written.map(|at| format!(", last at {}", utc(at))).unwrap_or_default();
    }
    if let Some(parts) = &kubernetes.parts {
        let of = |cluster: &ClusterParts| match (&*cluster.name, cluster.heartbeat_seconds) {
            ("", _) => plural(cluster.parts as usize, "object"),
            (name, Some(at)) if cluster.is_gone => {
                format!("none of {}, which was last seen at {}", plain(name), utc(at))
            }
            (name, _) => format!("{} of {}", cluster.parts, plain(name)),
        };
        let clusters: Vec<String> = parts.clusters.iter().map(of).collect();
        text += &format!("; {} shares {}", plain(&parts.zones.join(", ")), clusters.join(", "));
    }
    match (kubernetes.is_synced, kubernetes.is_saved) {
        (false, _) => "not listed yet: its names answer SERVFAIL".into(),
        (true, true) => text + "; from the saved state",
        (true, false) => text,
    }
}

/// Why objects of a kind may be outdated.
fn stream_fault(stream: &KubernetesStream) -> Option<String> {
    let kind = plain(&stream.kind);
    let known = match stream.current_seconds {
        Some(at) => format!("; what is known is of {}", utc(at)),
        None => String::new(),
    };
    match (&stream.error, stream.open_seconds) {
        (Some(why), None) => Some(format!("{kind} are not watched: {}{known}", plain(why))),
        (None, None) => Some(format!("{kind} are not watched yet")),
        (_, Some(_)) if stream.is_stale => {
            Some(format!("{kind} are watched, but nothing came of them for minutes{known}"))
        }
        (_, Some(_)) => None,
    }
}

/// The streams of the cluster that are not open or current, and which objects and checks are not
/// used.
pub(super) fn faults(kubernetes: &KubernetesStatus) -> Vec<String> {
    let mut lines: Vec<String> = kubernetes.streams.iter().filter_map(stream_fault).collect();
    let skipped = kubernetes.skipped.iter();
    lines.extend(skipped.map(|which| format!("skipped: {}", plain(which))));
    match (kubernetes.skipped_count as usize).saturating_sub(kubernetes.skipped.len()) {
        0 => {}
        more => lines.push(format!("{} more skipped", plural(more, "object"))),
    }
    if let Some(parts) = &kubernetes.parts {
        let conflicts = parts.conflicts.iter();
        lines.extend(conflicts.map(|which| format!("not shared: {}", plain(which))));
        match (parts.conflict_count as usize).saturating_sub(parts.conflicts.len()) {
            0 => {}
            more => lines.push(format!("{} more not shared", plural(more, "part"))),
        }
    }
    let unusable = &kubernetes.unusable;
    lines.extend(unusable.iter().map(|which| format!("ignored in etcd: {}", plain(which))));
    let unused = &kubernetes.unused_checks;
    lines.extend(unused.iter().map(|which| format!("check not used: {}", plain(which))));
    match (kubernetes.unused_check_count as usize).saturating_sub(unused.len()) {
        0 => {}
        more => lines.push(format!("{} more not used", plural(more, "check"))),
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_a_cluster_are_shown() {
        let stream = |open: bool, is_stale, error: Option<&str>| KubernetesStream {
            open_seconds: open.then_some(1.7e9),
            error: error.map(str::to_owned),
            current_seconds: Some(1.7e9),
            is_stale,
            ..KubernetesStream::new("services")
        };
        let status = |stream| KubernetesStatus {
            is_synced: true,
            streams: vec![stream],
            ..KubernetesStatus::default()
        };
        let well = status(stream(true, false, None));
        assert!(faults(&well).is_empty());
        let stale = status(stream(true, true, None));
        assert!(faults(&stale)[0].contains("nothing came of them"));
        let closed = status(stream(false, true, Some("HTTP 404")));
        let line = &faults(&closed)[0];
        assert!(line.starts_with("services are not watched: HTTP 404; what is known is of 2023"));
        let skipped = vec!["services shop/*: its name is not a label".to_owned()];
        let skipped = KubernetesStatus { skipped, skipped_count: 3, ..well };
        let lines = ["skipped: services shop/*: its name is not a label", "2 objects more skipped"];
        assert_eq!(faults(&skipped), lines);
    }
}
