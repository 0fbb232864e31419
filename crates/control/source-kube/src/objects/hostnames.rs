//! Ingresses, Gateways and HTTPRoutes: objects with hostnames, and where their clients are to go.
use super::part_objects::{Listener, Parent, PartContent, PartObject, Targets};
use super::rules::PartRules;
use super::services::RawLoadBalancer;
use super::{EndpointNaming, Kind, Meta, Optional, Raw};
use serde::Deserialize;

/// Ingresses.
pub enum Ingresses {}
/// Gateways.
pub enum Gateways {}
/// HTTPRoutes.
pub enum HttpRoutes {}

fn object(mut meta: Meta, content: PartContent) -> PartObject {
    PartObject { rules: PartRules::take(&mut meta), content }
}

/// `spec` of an Ingress.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawIngress {
    rules: Option<Vec<RawRule>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawRule {
    host: Option<Box<str>>,
}

/// `status` of an Ingress.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawIngressStatus {
    load_balancer: RawLoadBalancer,
}

impl Kind for Ingresses {
    type Entry = PartObject;
    type Raw = Raw<RawIngress, RawIngressStatus>;
    const PATH: &'static str = "/apis/networking.k8s.io/v1/ingresses";
    const RESOURCE: &'static str = "ingresses.networking.k8s.io";
    const LIST: &'static str = "IngressList";

    fn meta(raw: &Self::Raw) -> &Meta {
        &raw.metadata
    }

    fn keep(raw: Self::Raw, _: EndpointNaming) -> Option<PartObject> {
        let rules = raw.spec.unwrap_or_default().rules.unwrap_or_default();
        let hosts = rules.into_iter().filter_map(|rule| rule.host);
        let hosts: Box<[Box<str>]> = hosts.filter(|host| !host.is_empty()).collect();
        let targets = raw.status.unwrap_or_default().load_balancer.targets();
        (!hosts.is_empty()).then(|| object(raw.metadata, PartContent::Hosts(hosts, targets)))
    }
}

/// `spec` of a Gateway.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawGateway {
    listeners: Option<Vec<RawListener>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawListener {
    name: Box<str>,
    hostname: Option<Box<str>>,
}

/// `status` of a Gateway.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawGatewayStatus {
    addresses: Option<Vec<RawAddress>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawAddress {
    #[serde(rename = "type")]
    kind: Option<Box<str>>,
    value: Box<str>,
}

impl Kind for Gateways {
    type Entry = PartObject;
    type Raw = Raw<RawGateway, RawGatewayStatus>;
    const PATH: &'static str = "/apis/gateway.networking.k8s.io/v1/gateways";
    const RESOURCE: &'static str = "gateways.gateway.networking.k8s.io";
    const LIST: &'static str = "GatewayList";
    const OPTIONAL: Option<Optional> = Some(Optional {
        group: "gateway.networking.k8s.io",
        versions: &["v1", "v1beta1"],
        plural: "gateways",
    });

    fn meta(raw: &Self::Raw) -> &Meta {
        &raw.metadata
    }

    fn keep(raw: Self::Raw, _: EndpointNaming) -> Option<PartObject> {
        let listeners = raw.spec.unwrap_or_default().listeners.unwrap_or_default();
        let listener = |raw: RawListener| Listener {
            name: raw.name,
            hostname: raw.hostname.unwrap_or_default(),
        };
        let listeners = listeners.into_iter().map(listener).collect();
        let all = raw.status.unwrap_or_default().addresses.unwrap_or_default();
        let of = |wanted: &'static str| {
            let all = all.iter().filter(move |one| {
                one.kind.as_deref().unwrap_or("IPAddress") == wanted && !one.value.is_empty()
            });
            all.map(|one| &*one.value)
        };
        let targets = Targets::new(of("IPAddress"), of("Hostname"));
        Some(object(raw.metadata, PartContent::Listeners(listeners, targets)))
    }
}

/// `spec` of an HTTPRoute.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawRoute {
    hostnames: Option<Vec<Box<str>>>,
}

/// `status` of an HTTPRoute.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawRouteStatus {
    parents: Option<Vec<RawParent>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawParent {
    parent_ref: RawParentRef,
    conditions: Option<Vec<RawCondition>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawParentRef {
    kind: Option<Box<str>>,
    namespace: Option<Box<str>>,
    name: Box<str>,
    section_name: Option<Box<str>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawCondition {
    #[serde(rename = "type")]
    kind: Box<str>,
    status: Box<str>,
}

impl RawParent {
    /// The Gateway, if it has accepted the route.
    fn accepted(self) -> Option<Parent> {
        let mut conditions = self.conditions.into_iter().flatten();
        let is_accepted = conditions.any(|one| &*one.kind == "Accepted" && &*one.status == "True");
        let RawParentRef { kind, namespace, name, section_name } = self.parent_ref;
        let is_gateway = kind.is_none_or(|kind| &*kind == "Gateway");
        (is_accepted && is_gateway).then(|| Parent {
            namespace: namespace.unwrap_or_default(),
            name,
            listener: section_name.unwrap_or_default(),
        })
    }
}

impl Kind for HttpRoutes {
    type Entry = PartObject;
    type Raw = Raw<RawRoute, RawRouteStatus>;
    const PATH: &'static str = "/apis/gateway.networking.k8s.io/v1/httproutes";
    const RESOURCE: &'static str = "httproutes.gateway.networking.k8s.io";
    const LIST: &'static str = "HTTPRouteList";
    const OPTIONAL: Option<Optional> = Some(Optional {
        group: "gateway.networking.k8s.io",
        versions: &["v1", "v1beta1"],
        plural: "httproutes",
    });

    fn meta(raw: &Self::Raw) -> &Meta {
        &raw.metadata
    }

    fn keep(raw: Self::Raw, _: EndpointNaming) -> Option<PartObject> {
        let hosts: Box<[Box<str>]> = raw.spec.unwrap_or_default().hostnames?.into();
        let parents = raw.status.unwrap_or_default().parents.unwrap_or_default();
        let parents = parents.into_iter().filter_map(RawParent::accepted).collect();
        (!hosts.is_empty()).then(|| object(raw.metadata, PartContent::Route(hosts, parents)))
    }
}
