//! DNSEndpoints (`externaldns.k8s.io`): objects that list records.
use super::part_objects::{GivenRecords, GivenSet, GivenStatus, PartContent, PartObject};
use super::rules::PartRules;
use super::{EndpointNaming, Kind, Meta, Optional, Raw};
use serde::Deserialize;
use source_parts::limits::SETS_MAX;

/// The type of the condition in the status.
pub(crate) const CONDITION: &str = "Live";

/// DNSEndpoints.
pub enum DnsEndpoints {}

/// `spec` of a DNSEndpoint.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawSpec {
    endpoints: Option<Vec<RawSet>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSet {
    dns_name: Box<str>,
    record_type: Box<str>,
    #[serde(rename = "recordTTL")]
    record_ttl: i64,
    targets: Option<Vec<Box<str>>>,
}

/// `status` of a DNSEndpoint.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawStatus {
    observed_generation: u64,
    conditions: Option<Vec<RawCondition>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawCondition {
    #[serde(rename = "type")]
    kind: Box<str>,
    status: Box<str>,
    reason: Box<str>,
    message: Box<str>,
    last_transition_time: Box<str>,
}

impl From<RawStatus> for GivenStatus {
    fn from(raw: RawStatus) -> Self {
        let mut conditions = raw.conditions.into_iter().flatten();
        let own = conditions.find(|one| &*one.kind == CONDITION).unwrap_or_default();
        let RawCondition { status, reason, message, last_transition_time: since, .. } = own;
        let observed_generation = raw.observed_generation;
        Self { observed_generation, status, reason, message, since }
    }
}

impl Kind for DnsEndpoints {
    type Entry = PartObject;
    type Raw = Raw<RawSpec, RawStatus>;
    const PATH: &'static str = "/apis/externaldns.k8s.io/v1alpha1/dnsendpoints";
    const RESOURCE: &'static str = "dnsendpoints.externaldns.k8s.io";
    const LIST: &'static str = "DNSEndpointList";
    const OPTIONAL: Option<Optional> = Some(Optional {
        group: "externaldns.k8s.io",
        versions: &["v1alpha1"],
        plural: "dnsendpoints",
    });

    fn meta(raw: &Self::Raw) -> &Meta {
        &raw.metadata
    }

    fn keep(mut raw: Self::Raw, _: EndpointNaming) -> Option<PartObject> {
        let mut given = raw.spec.unwrap_or_default().endpoints.unwrap_or_default();
        let left_out = given.len().saturating_sub(SETS_MAX) as u32;
        given.truncate(SETS_MAX);
        let set = |raw: RawSet| GivenSet {
            name: raw.dns_name,
            rtype: raw.record_type,
            ttl: raw.record_ttl,
            targets: raw.targets.unwrap_or_default().into(),
        };
        let generation = raw.metadata.generation;
        let status = raw.status.unwrap_or_default().into();
        let sets = given.into_iter().map(set).collect();
        let rules = PartRules::take(&mut raw.metadata);
        let records = GivenRecords { generation, sets, left_out, status };
        Some(PartObject { rules, content: PartContent::Records(records) })
    }
}
