//! The used fields of NRI's messages (`nri.pkg.api.v1alpha1`) and of ttrpc's. Numbers are those of
//! the published `.proto` files; unknown fields are skipped.
use std::collections::BTreeMap;

/// A pod.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Pod {
    /// The id that the runtime gave it.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Its name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// The id that Kubernetes gave it.
    #[prost(string, tag = "3")]
    pub uid: String,
    /// Its namespace.
    #[prost(string, tag = "4")]
    pub namespace: String,
    /// Its annotations.
    #[prost(btree_map = "string, string", tag = "6")]
    pub annotations: BTreeMap<String, String>,
    /// Fields that only Linux has.
    #[prost(message, optional, tag = "8")]
    pub linux: Option<LinuxPod>,
}

/// What only Linux has of a pod.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxPod {
    /// The control group that those of its containers are in.
    #[prost(string, tag = "3")]
    pub cgroup_parent: String,
}

/// A container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Container {
    /// The id that the runtime gave it.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The id of its pod.
    #[prost(string, tag = "2")]
    pub pod_id: String,
    /// Its name in the pod.
    #[prost(string, tag = "3")]
    pub name: String,
    /// Its state.
    #[prost(enumeration = "ContainerState", tag = "4")]
    pub state: i32,
    /// Fields that only Linux has.
    #[prost(message, optional, tag = "11")]
    pub linux: Option<LinuxContainer>,
}

/// The state of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ContainerState {
    /// The runtime does not say.
    Unknown = 0,
    /// It does not run yet.
    Created = 1,
    /// It is frozen.
    Paused = 2,
    /// It runs.
    Running = 3,
    /// It has ended.
    Stopped = 4,
}

/// What only Linux has of a container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxContainer {
    /// Its resources.
    #[prost(message, optional, tag = "3")]
    pub resources: Option<LinuxResources>,
    /// Its control group: a path, or `slice:prefix:name` for systemd.
    #[prost(string, tag = "5")]
    pub cgroups_path: String,
}

/// Resources.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxResources {
    /// Those of CPUs.
    #[prost(message, optional, tag = "2")]
    pub cpu: Option<LinuxCpu>,
}

/// Resources of CPUs. What is `None` or empty is not set, or not to be changed.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxCpu {
    /// Weight; 1,024 for each CPU requested.
    #[prost(message, optional, tag = "1")]
    pub shares: Option<Unsigned>,
    /// Microseconds in each period; -1: no limit.
    #[prost(message, optional, tag = "2")]
    pub quota: Option<Signed>,
    /// Microseconds.
    #[prost(message, optional, tag = "3")]
    pub period: Option<Unsigned>,
    /// The CPUs that it may run on, as a list of the kernel.
    #[prost(string, tag = "6")]
    pub cpus: String,
}

/// A number that may be absent.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Unsigned {
    /// The number.
    #[prost(uint64, tag = "1")]
    pub value: u64,
}

/// A number that may be absent.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Signed {
    /// The number.
    #[prost(int64, tag = "1")]
    pub value: i64,
}

/// Any request about a pod or a container: all of them use these numbers.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LifecycleRequest {
    #[prost(message, optional, tag = "1")]
    pub pod: Option<Pod>,
    #[prost(message, optional, tag = "2")]
    pub container: Option<Container>,
    #[prost(message, optional, tag = "3")]
    pub resources: Option<LinuxResources>,
}

/// The same of a pod only: number 2 means something else in some of these.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodRequest {
    #[prost(message, optional, tag = "1")]
    pub pod: Option<Pod>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SynchronizeRequest {
    #[prost(message, repeated, tag = "1")]
    pub pods: Vec<Pod>,
    #[prost(message, repeated, tag = "2")]
    pub containers: Vec<Container>,
    #[prost(bool, tag = "3")]
    pub more: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SynchronizeResponse {
    #[prost(bool, tag = "2")]
    pub more: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CreateResponse {
    #[prost(message, optional, tag = "1")]
    pub adjust: Option<Adjustment>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Adjustment {
    #[prost(message, optional, tag = "6")]
    pub linux: Option<LinuxAdjustment>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LinuxAdjustment {
    #[prost(message, optional, tag = "2")]
    pub resources: Option<LinuxResources>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct UpdateResponse {
    #[prost(message, repeated, tag = "1")]
    pub update: Vec<Update>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Update {
    #[prost(string, tag = "1")]
    pub container_id: String,
    #[prost(message, optional, tag = "2")]
    pub linux: Option<LinuxUpdate>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LinuxUpdate {
    #[prost(message, optional, tag = "1")]
    pub resources: Option<LinuxResources>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RegisterRequest {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub index: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ConfigureRequest {
    #[prost(string, tag = "2")]
    pub runtime_name: String,
    #[prost(string, tag = "3")]
    pub runtime_version: String,
    #[prost(int64, tag = "5")]
    pub request_timeout_ms: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ConfigureResponse {
    #[prost(int32, tag = "2")]
    pub events: i32,
}

/// ttrpc's request.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Call {
    #[prost(string, tag = "1")]
    pub service: String,
    #[prost(string, tag = "2")]
    pub method: String,
    #[prost(bytes = "vec", tag = "3")]
    pub payload: Vec<u8>,
}

/// ttrpc's response.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Answer {
    #[prost(message, optional, tag = "1")]
    pub status: Option<Status>,
    #[prost(bytes = "vec", tag = "2")]
    pub payload: Vec<u8>,
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Status {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
}
