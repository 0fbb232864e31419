//! Runs the server: opens sockets, starts threads, follows the config, and ends in order.
// What only a part that is left out would call.
#![cfg_attr(not(all(feature = "xdp", feature = "etcd", feature = "kubernetes")), allow(dead_code))]

mod accept;
#[cfg(feature = "xdp")]
mod bypass;
#[cfg(not(feature = "xdp"))]
#[path = "absent/bypass.rs"]
mod bypass;
mod commands;
mod control_messages;
mod documents;
#[cfg(not(feature = "etcd"))]
#[path = "absent/etcd.rs"]
mod etcd;
mod file_watch;
mod follow;
mod forward_table;
mod forwarding;
mod gather;
mod health;
#[cfg(feature = "kubernetes")]
mod kubernetes;
#[cfg(not(feature = "kubernetes"))]
#[path = "absent/kubernetes.rs"]
mod kubernetes;
mod limits;
mod live;
mod log;
mod panics;
mod peer;
mod ports;
mod privileges;
mod prober;
mod resources;
mod rest;
mod serve;
mod server;
mod server_files;
mod session;
mod settings;
mod sockets;
mod startup_check;
mod store;
mod systemd;
mod threads;
mod workers;
mod zone_changes;
mod zones;

#[cfg(feature = "etcd")]
use store_etcd as etcd;

pub use durable::data_folder;
pub use serve::run;
pub use settings::{settings, settings_of_file};
pub use startup_check::{StartupReport, check_startup};
pub use workers::CorePlanner;
