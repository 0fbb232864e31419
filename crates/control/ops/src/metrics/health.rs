//! The metrics of health checks.
use super::Kind::{Counter, Gauge};
use crate::exposition::Exposition;
use server_status::HealthStatus;

/// Writes the metrics of the prober.
pub fn write(out: &mut Exposition, health: &HealthStatus) {
    let help = "Targets of checks, pairs of a check and an address, by state.";
    let mut targets = out.family("dunlin_health_targets", Gauge, help);
    let of_state = [("up", health.up), ("down", health.down), ("unknown", health.unknown)];
    for (state, number) in of_state {
        targets.sample(&[("state", state)], number);
    }
    out.family(
        "dunlin_health_targets_not_probed",
        Gauge,
        "Targets that may not be probed, or not so often.",
    )
    .sample(&[], health.not_probed);
    out.family(
        "dunlin_health_targets_waiting",
        Gauge,
        "Targets that are not probed because their zone has its share of all probes and targets.",
    )
    .sample(&[], health.waiting);
    out.family(
        "dunlin_health_certificates_ending",
        Gauge,
        "Targets whose certificate ends within the time that their check warns of.",
    )
    .sample(&[], health.expiring);
    out.family(
        "dunlin_health_open_sets",
        Gauge,
        "Record sets that answer addresses that are down, because too few others are up.",
    )
    .sample(&[], health.open_sets);
    out.family(
        "dunlin_health_suspects_itself",
        Gauge,
        "1 while all targets that are up fail: the network of this host may be down.",
    )
    .sample(&[], u8::from(health.suspects_itself));
    out.family("dunlin_health_saved", Gauge, "0 while states are not saved on disk.")
        .sample(&[], u8::from(health.is_saved));
    let mut probes = out.family("dunlin_health_probes", Counter, "Probes, by result.");
    let by_result =
        [("passed", health.passed), ("failed", health.failed), ("skipped", health.skipped)];
    for (result, number) in by_result {
        probes.sample(&[("result", result)], number);
    }
    let help = "Changes of targets, by the new state.";
    let mut changes = out.family("dunlin_health_changes", Counter, help);
    for (state, number) in [("up", health.went_up), ("down", health.went_down)] {
        changes.sample(&[("state", state)], number);
    }
    let help = "Changes of targets that the webhook has taken, or that were dropped.";
    let mut told = out.family("dunlin_health_webhook_changes", Counter, help);
    for (result, number) in [("sent", health.webhook_sent), ("dropped", health.webhook_dropped)] {
        told.sample(&[("result", result)], number);
    }
}
