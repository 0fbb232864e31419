//! The commands that talk to a running server: over its local socket, or over the REST API.
#![forbid(unsafe_code)]

mod accept;
pub mod anycast;
pub mod cache;
pub mod checks;
#[allow(missing_docs, reason = "doc comments are help texts there")]
pub mod cli;
pub mod explain;
pub mod fleet;
pub mod health;
pub mod limits;
pub mod local;
pub mod probe;
pub mod reload;
pub mod remote;
#[cfg(test)]
mod sample;
pub mod sites;
pub mod status;
mod status_text;
pub mod store;
pub mod tokens;
pub mod top;
pub mod upstreams;
