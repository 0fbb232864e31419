//! The streams: their numbers, what they bring, and the known state of each.
use super::Settings;
use super::parts::SharedPart;
use crate::cluster::ObjectName;
use crate::cluster::parts::PartKind;
use crate::names::PodNames;
use crate::objects::{
    DnsEndpoints, Exports, Gateways, HttpRoutes, Imports, Ingresses, KeptSliceOf, Kind, Namespaces,
    PartObject, Pods, Service, Services, SliceOf, Slices, WatchedService,
};
use crate::watch::StreamEvent;
use std::collections::HashSet;
use std::net::IpAddr;
use std::time::{Instant, SystemTime};

/// An event of one of the streams.
pub(super) enum Event {
    Namespace(StreamEvent<()>),
    Service(StreamEvent<WatchedService>),
    Import(StreamEvent<Service>),
    Slice(StreamEvent<SliceOf>),
    KeptSlice(StreamEvent<KeptSliceOf>),
    Pod(StreamEvent<Box<[IpAddr]>>),
    DnsEndpoint(StreamEvent<PartObject>),
    Ingress(StreamEvent<PartObject>),
    Gateway(StreamEvent<PartObject>),
    HttpRoute(StreamEvent<PartObject>),
    Export(StreamEvent<PartObject>),
}

/// The number of streams.
pub(super) const STREAMS_COUNT: usize = 10;
/// The streams, in the order of their numbers. Those of [`CORE`] come first, then those of
/// [`PartKind::OBJECTS`].
pub(super) const STREAMS: [&str; STREAMS_COUNT] = [
    Namespaces::RESOURCE,
    Services::RESOURCE,
    Imports::RESOURCE,
    Slices::RESOURCE,
    Pods::RESOURCE,
    DnsEndpoints::RESOURCE,
    Ingresses::RESOURCE,
    Gateways::RESOURCE,
    HttpRoutes::RESOURCE,
    Exports::RESOURCE,
];
pub(super) const NAMESPACES: usize = 0;
pub(super) const SERVICES: usize = 1;
pub(super) const IMPORTS: usize = 2;
pub(super) const SLICES: usize = 3;
pub(super) const PODS: usize = 4;
/// The streams that the zones of the cluster need.
pub(super) const CORE: [usize; 5] = [NAMESPACES, SERVICES, IMPORTS, SLICES, PODS];
/// The first stream of objects that have only parts.
pub(super) const OBJECTS: usize = 5;
/// All streams.
pub(super) const ALL: [usize; STREAMS_COUNT] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

/// The known state of one stream.
#[derive(Default)]
pub(super) struct StreamState {
    pub is_wanted: bool,
    /// A list is complete.
    pub is_listed: bool,
    pub is_open: bool,
    /// The cluster does not have this kind of object.
    pub is_absent: bool,
    /// A list has begun and is not complete.
    pub is_listing: bool,
    /// When what is known was last that of the server.
    pub current: Option<SystemTime>,
    /// How often it failed.
    pub failures: u64,
    /// Objects that were known before the list that is read now, and are not in it yet.
    pub missing: HashSet<ObjectName>,
    /// Objects with parts that a list has lost with most others, and since when: they stay for
    /// the time of a hold.
    pub lost: Option<(HashSet<ObjectName>, Instant)>,
}

/// Which streams are wanted.
pub(super) fn wanted(settings: &Settings) -> [bool; STREAMS_COUNT] {
    let naming = &settings.naming;
    let has_imports = naming.zones.iter().any(|zone| zone.is_multicluster);
    let mut wanted = [false; STREAMS_COUNT];
    let core = [true, true, has_imports, naming.endpoints, naming.pods == PodNames::Verified];
    wanted[..OBJECTS].copy_from_slice(&core);
    let watches = |shared: &SharedPart, kind| shared.kinds.contains(kind);
    for (wanted, kind) in wanted[OBJECTS..].iter_mut().zip(&PartKind::OBJECTS) {
        *wanted = settings.shared.as_ref().is_some_and(|shared| watches(shared, kind));
    }
    wanted
}

/// The kind of the objects of a stream of [`PartKind::OBJECTS`].
pub(super) fn kind_of(stream: usize) -> Option<PartKind> {
    PartKind::OBJECTS.get(stream.checked_sub(OBJECTS)?).copied()
}

impl Event {
    /// The number of its stream.
    pub(super) fn stream(&self) -> usize {
        match self {
            Self::Namespace(_) => NAMESPACES,
            Self::Service(_) => SERVICES,
            Self::Import(_) => IMPORTS,
            Self::Slice(_) | Self::KeptSlice(_) => SLICES,
            Self::Pod(_) => PODS,
            Self::DnsEndpoint(_) => OBJECTS,
            Self::Ingress(_) => OBJECTS + 1,
            Self::Gateway(_) => OBJECTS + 2,
            Self::HttpRoute(_) => OBJECTS + 3,
            Self::Export(_) => OBJECTS + 4,
        }
    }
}
