//! ServiceExports (KEP-1645): Services that other clusters of the set may use.
use super::part_objects::{PartContent, PartObject};
use super::rules::PartRules;
use super::{EndpointNaming, Kind, Meta, Optional, Raw};
use serde::de::IgnoredAny;

/// ServiceExports.
pub enum Exports {}

impl Kind for Exports {
    type Entry = PartObject;
    type Raw = Raw<IgnoredAny>;
    const PATH: &'static str = "/apis/multicluster.x-k8s.io/v1alpha1/serviceexports";
    const RESOURCE: &'static str = "serviceexports.multicluster.x-k8s.io";
    const LIST: &'static str = "ServiceExportList";
    const OPTIONAL: Option<Optional> = Some(Optional {
        group: "multicluster.x-k8s.io",
        versions: &["v1beta1", "v1alpha1"],
        plural: "serviceexports",
    });
    const IS_LABEL: bool = true;

    fn meta(raw: &Self::Raw) -> &Meta {
        &raw.metadata
    }

    fn keep(mut raw: Self::Raw, _: EndpointNaming) -> Option<PartObject> {
        let rules = PartRules::take(&mut raw.metadata);
        Some(PartObject { rules, content: PartContent::Service })
    }
}
