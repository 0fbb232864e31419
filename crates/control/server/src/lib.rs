//! Runs the server: opens sockets, starts threads, follows the config, and ends in order.
// Code that is used only with features that are disabled in this build.
#![cfg_attr(not(all(feature = "etcd", feature = "kubernetes")), allow(dead_code))]

mod accept;
mod documents;
#[cfg_attr(not(feature = "etcd"), path = "absent/etcd.rs")]
mod etcd;
#[cfg(feature = "kubernetes")]
mod kubernetes;
#[cfg(not(feature = "kubernetes"))]
#[path = "absent/kubernetes.rs"]
mod kubernetes;
mod limits;
mod live;
mod prober;
mod resources;
mod rest;
mod serve;
mod server;
mod sources;
mod stage;
mod store;
mod transfers;
mod zone_changes;
mod zones;

#[cfg(not(feature = "etcd"))]
#[path = "absent/sites.rs"]
mod sites;

#[cfg(feature = "etcd")]
use source_site as sites;

pub use admin::HotRestart;
pub use data_plane::CorePlanner;
pub use durable::data_folder;
pub use serve::{ServeOptions, run};
