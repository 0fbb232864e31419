//! The status of DNSEndpoints: whether their records are live, or why not.
use super::{Worker, streams::api};
use crate::cluster::ObjectName;
use crate::cluster::parts::{PartKind, PartName};
use crate::limits::{STATUS_LEN_MAX, STATUSES_MAX, STATUSES_REPEATED_AFTER};
use crate::objects::{CONDITION, GivenRecords, GivenStatus};
use kube_api::ApiError;
use serde_json::{Value, json};
use source_parts::{PartKey, Report};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// A status that was written, and when.
pub(super) struct StatusWrite {
    status: GivenStatus,
    at: Instant,
}

impl Worker {
    /// Writes the status of DNSEndpoints of this cluster, if this server speaks for it. Those that
    /// have none of their records in a zone of the config are another program's.
    pub(super) fn write_statuses(&mut self) {
        let Some(shared) = self.settings.shared.as_ref().filter(|_| self.speaks()) else { return };
        let report: Arc<Report> = Arc::clone(&shared.report.borrow());
        let mut faults: BTreeMap<&PartKey, Vec<String>> = BTreeMap::new();
        for one in &report.conflicts {
            faults.entry(&one.key).or_default().push(one.text());
        }
        let mut due = Vec::new();
        for object in self.cluster.part_objects(PartKind::DnsEndpoint) {
            let of = PartName { kind: PartKind::DnsEndpoint, object };
            let key = shared.key(&of);
            let Some(merged) = report.generations.get(&key) else { continue };
            let Some(given) = self.cluster.given_records(&of.object) else { continue };
            // A newer generation is reported once it was merged.
            if *merged != given.generation {
                continue;
            }
            let status = status_of(&given, faults.remove(&key).unwrap_or_default());
            if status == given.status {
                continue;
            }
            let now = Instant::now();
            let last = self.parts.statuses.get(&of.object);
            // A definition without conditions drops what was written.
            let is_written = last.is_some_and(|last| {
                same(&last.status, &status) && now.duration_since(last.at) < STATUSES_REPEATED_AFTER
            });
            if !is_written {
                due.push((of.object, status));
            }
            if due.len() >= STATUSES_MAX {
                break;
            }
        }
        for (object, status) in due {
            let body = body(&object, &status);
            self.parts.statuses.insert(object.clone(), StatusWrite { status, at: Instant::now() });
            let api = api(&self.settings.access);
            tokio::spawn(async move {
                let ObjectName { namespace, name } = &object;
                let path = format!(
                    "/apis/externaldns.k8s.io/v1alpha1/namespaces/{namespace}/dnsendpoints/{name}\
                     /status?fieldManager=dunlin&force=true"
                );
                match api.apply(&path, &body).await {
                    // It was deleted.
                    Ok(_) | Err(ApiError::NotFound(_)) => {}
                    Err(why) => {
                        tracing::warn!("the status of a DNSEndpoint cannot be written: {why}");
                    }
                }
            });
        }
        let cluster = &self.cluster;
        self.parts
            .statuses
            .retain(|object, _| cluster.has_part_object(PartKind::DnsEndpoint, object));
    }
}

/// Whether two say the same, whenever it began.
fn same(one: &GivenStatus, other: &GivenStatus) -> bool {
    let said = |of: &GivenStatus| {
        (of.observed_generation, of.status.clone(), of.reason.clone(), of.message.clone())
    };
    said(one) == said(other)
}

/// The status that is to be written. The time is that of the last change of `status`.
fn status_of(given: &GivenRecords, faults: Vec<String>) -> GivenStatus {
    let (status, reason, mut message) = match faults.is_empty() {
        true => ("True", "Served", "all records are answered".to_owned()),
        false => ("False", "NotShared", faults.join("; ")),
    };
    message.truncate(message.floor_char_boundary(STATUS_LEN_MAX));
    let known = &given.status;
    let since = match *known.status == *status && !known.since.is_empty() {
        true => known.since.clone(),
        false => kube_api::seconds(jiff::Timestamp::now()).into(),
    };
    GivenStatus {
        observed_generation: given.generation,
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
        since,
    }
}

fn body(object: &ObjectName, status: &GivenStatus) -> Value {
    let (version, kind) = PartKind::DnsEndpoint.api();
    json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": { "namespace": object.namespace, "name": object.name },
        "status": {
            "observedGeneration": status.observed_generation,
            "conditions": [{
                "type": CONDITION,
                "status": status.status,
                "observedGeneration": status.observed_generation,
                "reason": status.reason,
                "message": status.message,
                "lastTransitionTime": status.since,
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_names_the_faults_and_keeps_the_time_of_the_last_change() {
        let given = |status: &GivenStatus| GivenRecords {
            generation: 3,
            status: status.clone(),
            ..GivenRecords::default()
        };
        let first = status_of(&given(&GivenStatus::default()), Vec::new());
        assert_eq!(
            (&*first.status, &*first.reason, first.observed_generation),
            ("True", "Served", 3)
        );
        let old = GivenStatus { since: "2026-11-28T07:00:00Z".into(), ..first };
        assert_eq!(status_of(&given(&old), Vec::new()), old, "nothing is to be written");
        let faults = vec!["a".to_owned(), "ä".repeat(2 * STATUS_LEN_MAX)];
        let failed = status_of(&given(&old), faults);
        assert_eq!((&*failed.status, &*failed.reason), ("False", "NotShared"));
        assert!(failed.message.starts_with("a; ä") && failed.message.len() <= STATUS_LEN_MAX);
        assert_ne!(failed.since, old.since, "the status has changed");
        let body = body(&ObjectName::new("shop", "web"), &failed);
        assert_eq!(body["status"]["conditions"][0]["type"], "Live");
    }
}
