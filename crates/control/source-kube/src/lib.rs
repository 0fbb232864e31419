//! Kubernetes as a source of records: watches the API server and turns its objects into names.
#![forbid(unsafe_code)]

mod body;
mod checks;
pub mod client;
pub mod clients;
pub mod cluster;
pub mod failure;
mod fleet;
pub mod limits;
pub mod names;
pub mod objects;
mod packed;
mod publish;
pub mod record_zones;
pub mod records;
pub mod sample;
pub mod saved;
mod shared;
pub mod shared_zone;
pub mod source;
mod status;
#[cfg(test)]
mod text;
pub mod watch;
