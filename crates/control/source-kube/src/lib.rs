//! Kubernetes as a source of records: watches the API server and turns its objects into names.
#![forbid(unsafe_code)]

pub mod client;
pub mod cluster;
pub mod limits;
pub mod names;
pub mod objects;
mod publish;
pub mod records;
pub mod saved;
pub mod source;
mod status;
#[cfg(test)]
mod text;
pub mod watch;
