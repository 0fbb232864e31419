//! Metrics of the names of a Kubernetes cluster.
use super::Kind::{Counter, Gauge};
use crate::exposition::Exposition;
use server_status::KubernetesStatus;

/// Writes the metrics of the source.
pub fn write(out: &mut Exposition, kubernetes: &KubernetesStatus) {
    out.family("dunlin_kubernetes_synced", Gauge, "0 until the names of the cluster are served.")
        .sample(&[], u8::from(kubernetes.is_synced));
    let mut open = out.family(
        "dunlin_kubernetes_stream_open",
        Gauge,
        "0 while objects of this kind are not watched.",
    );
    for stream in &kubernetes.streams {
        open.sample(&[("kind", &stream.kind)], u8::from(stream.open_seconds.is_some()));
    }
    let mut current = out.family(
        "dunlin_kubernetes_stream_current_timestamp_seconds",
        Gauge,
        "When the known objects of this kind were last those of the API server, 0 if never.",
    );
    for stream in &kubernetes.streams {
        current.sample(&[("kind", &stream.kind)], stream.current_seconds.unwrap_or_default());
    }
    let mut failures = out.family(
        "dunlin_kubernetes_stream_failures",
        Counter,
        "Failed requests and streams of objects of this kind.",
    );
    for stream in &kubernetes.streams {
        failures.sample(&[("kind", &stream.kind)], stream.failures);
    }
    out.family(
        "dunlin_kubernetes_skipped_objects",
        Gauge,
        "Objects of the API server that are not used.",
    )
    .sample(&[], kubernetes.skipped_count);
    out.family("dunlin_kubernetes_services", Gauge, "Services of the cluster.")
        .sample(&[], kubernetes.services);
    out.family("dunlin_kubernetes_endpoints", Gauge, "Ready endpoints that have names.")
        .sample(&[], kubernetes.endpoints);
    out.family(
        "dunlin_kubernetes_sampled_record_sets",
        Gauge,
        "Record sets too large for a message, served in part.",
    )
    .sample(&[], kubernetes.sampled);
    out.family(
        "dunlin_kubernetes_unused_checks",
        Gauge,
        "Services whose annotation dunlin.io/check has no effect.",
    )
    .sample(&[], kubernetes.unused_check_count);
    out.family(
        "dunlin_kubernetes_fleet_writer",
        Gauge,
        "1 if this server writes the objects of the cluster for the fleet.",
    )
    .sample(&[], u8::from(kubernetes.is_leader));
    let help = "When this server last wrote objects of the cluster for the fleet.";
    let mut written = out.family("dunlin_kubernetes_fleet_written_timestamp_seconds", Gauge, help);
    if let Some(at) = kubernetes.written_seconds {
        written.sample(&[], at);
    }
    let Some(parts) = &kubernetes.parts else { return };
    let help = "Objects of each cluster that have records in zones that clusters share.";
    let mut of_clusters = out.family("dunlin_kubernetes_parts", Gauge, help);
    for cluster in &parts.clusters {
        of_clusters.sample(&[("cluster", &cluster.name)], cluster.parts);
    }
    let help = "Parts of zones that clusters share which cannot be merged.";
    out.family("dunlin_kubernetes_part_conflicts", Gauge, help).sample(&[], parts.conflict_count);
    let help = "0 while the parts of other clusters are not followed.";
    let is_followed = u8::from(parts.is_synced && parts.error.is_none());
    out.family("dunlin_kubernetes_parts_followed", Gauge, help).sample(&[], is_followed);
}
