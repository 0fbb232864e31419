//! Runs the server: opens sockets, starts threads, follows the config, and ends in order.

mod accept;
mod bypass;
mod commands;
mod control_messages;
mod follow;
mod forwarding;
mod gather;
mod health;
mod kubernetes;
mod limits;
mod live;
mod local;
mod log;
mod peer;
mod ports;
mod privileges;
mod prober;
mod resources;
mod rest;
mod serve;
mod server;
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

pub use forwarding::{forwarding, forwarding_of_file};
pub use serve::run;
pub use settings::{settings, settings_of_file};
pub use startup_check::check_startup;
pub use workers::CorePlanner;
