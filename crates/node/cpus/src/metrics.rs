//! Metrics of the manager.
use crate::pod_events::EventCounts;
use cpu_manager::Summary;
use durable::files::{self, Folder};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Writes metrics for the textfile collector of node_exporter, whole or not at all.
pub(crate) fn write_metrics(
    path: &Path,
    summary: &Summary,
    pass: Duration,
    is_well: bool,
    is_connected: Option<bool>,
    events: Option<&EventCounts>,
) -> Result<(), String> {
    let [l3, node, socket] = summary.split;
    let mut text = format!(
        "# HELP dunlin_cpus_exclusive CPUs that control groups have for themselves.\n\
         # TYPE dunlin_cpus_exclusive gauge\ndunlin_cpus_exclusive {}\n\
         # HELP dunlin_cpus_shared CPUs that all other control groups share.\n\
         # TYPE dunlin_cpus_shared gauge\ndunlin_cpus_shared {}\n\
         # HELP dunlin_cpus_split_groups Control groups whose CPUs are in several elements.\n\
         # TYPE dunlin_cpus_split_groups gauge\n\
         dunlin_cpus_split_groups{{level=\"l3\"}} {l3}\n\
         dunlin_cpus_split_groups{{level=\"node\"}} {node}\n\
         dunlin_cpus_split_groups{{level=\"socket\"}} {socket}\n\
         # HELP dunlin_cpus_drift_repaired_total Changes by other programs that were undone.\n\
         # TYPE dunlin_cpus_drift_repaired_total counter\n\
         dunlin_cpus_drift_repaired_total {}\n\
         # HELP dunlin_cpus_pass_seconds Time of the last pass.\n\
         # TYPE dunlin_cpus_pass_seconds gauge\ndunlin_cpus_pass_seconds {:.6}\n\
         # HELP dunlin_cpus_healthy Whether the last pass found or made all as it should be.\n\
         # TYPE dunlin_cpus_healthy gauge\ndunlin_cpus_healthy {}\n\
         # HELP dunlin_cpus_late_containers_total Containers that ran before they had their CPUs.\n\
         # TYPE dunlin_cpus_late_containers_total counter\n\
         dunlin_cpus_late_containers_total {}\n\
         # HELP dunlin_cpus_time_to_exclusive_seconds How long the last container had waited for \
         its CPUs; 0 if they stood before it was created.\n\
         # TYPE dunlin_cpus_time_to_exclusive_seconds gauge\n\
         dunlin_cpus_time_to_exclusive_seconds {:.6}\n\
         # HELP dunlin_cpus_partitions Control groups that are partitions of the kernel.\n\
         # TYPE dunlin_cpus_partitions gauge\ndunlin_cpus_partitions {}\n\
         # HELP dunlin_cpus_moved_interrupts Interrupts that are not where they were found.\n\
         # TYPE dunlin_cpus_moved_interrupts gauge\ndunlin_cpus_moved_interrupts {}\n",
        summary.exclusive.len(),
        summary.shared.len(),
        summary.repaired,
        pass.as_secs_f64(),
        u8::from(is_well),
        summary.late,
        summary.time_to_exclusive.as_secs_f64(),
        summary.partitions,
        summary.interrupts,
    );
    if let Some(is_connected) = is_connected {
        text += &format!(
            "# HELP dunlin_cpus_runtime_connected Whether the container runtime is connected.\n\
             # TYPE dunlin_cpus_runtime_connected gauge\ndunlin_cpus_runtime_connected {}\n",
            u8::from(is_connected)
        );
    }
    if let Some(events) = events {
        text += &format!(
            "# HELP dunlin_cpus_pod_events_total Events of Pods, by what became of them.\n\
             # TYPE dunlin_cpus_pod_events_total counter\n\
             dunlin_cpus_pod_events_total{{outcome=\"written\"}} {}\n\
             dunlin_cpus_pod_events_total{{outcome=\"dropped\"}} {}\n",
            events.written.load(Ordering::Relaxed),
            events.dropped.load(Ordering::Relaxed),
        );
    }
    let written = files::split(path).and_then(|(folder, name)| {
        // Another user reads it.
        Folder::open(folder)?.replace(name, 0o644, |file| file.write_all(text.as_bytes()))
    });
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}
