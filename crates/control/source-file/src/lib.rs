//! Zone files and hosts files: loads, watches and reloads them.
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as source_file;

mod change;
mod file_events;
mod file_loop;
mod folders;
mod handler;
mod hosts;
mod limits;
mod lint;
mod load;
pub mod saved;
mod signatures;
mod stamp;
mod visit;
mod watch;
mod zones;

pub use file_loop::FileLoop;
pub use handler::{FilesToLoad, LoadAttempt, LoadHandler, ViewFile, WriteKind, ZoneFile};
pub use hosts::{LoadedHosts, load_hosts, read_hosts};
pub use lint::{check_serial, lint};
pub use load::{load, load_with_views};
pub use saved::ZoneSaver;
pub use signatures::{
    SignatureReport, VERIFIED_AT_LOAD_MAX, VERIFIED_MAX, check_signatures, seconds_now,
    signature_span,
};
pub use watch::{CommandId, CommandSender};
pub use zones::{BuiltInZones, LOADER, SAVER, ZoneConfig, Zones};
