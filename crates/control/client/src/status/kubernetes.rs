//! What the status says of a Kubernetes cluster.
use command_line::{plain, plural, utc};
use zone_manager::status::KubernetesStatus;

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
    match (kubernetes.is_synced, kubernetes.is_saved) {
        (false, _) => "not listed yet: its names answer SERVFAIL".into(),
        (true, true) => text + "; from the saved state",
        (true, false) => text,
    }
}

/// The streams of the cluster that are not open, and which objects and checks are not used.
pub(super) fn faults(kubernetes: &KubernetesStatus) -> Vec<String> {
    let closed = kubernetes.streams.iter().filter(|stream| stream.open_seconds.is_none());
    let mut lines: Vec<String> = closed
        .map(|stream| match &stream.error {
            Some(why) => format!("{} are not watched: {}", plain(&stream.kind), plain(why)),
            None => format!("{} are not watched yet", plain(&stream.kind)),
        })
        .collect();
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
