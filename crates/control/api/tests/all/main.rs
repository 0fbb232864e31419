//! The API for a client: real sockets, with a store in memory.
mod bulk;
mod conditions;
mod defects;
mod described;
mod dump;
mod fuzzed;
mod grants;
mod history;
mod limits;
mod local;
mod members;
#[expect(dead_code, reason = "no writer is outrun here")]
#[path = "../../../records/src/tests/memory.rs"]
mod memory;
mod names;
mod openapi;
mod operate;
mod powerdns;
mod powerdns_clients;
mod powerdns_server;
mod scene;
mod secured;
mod sets;
mod shadows;
mod snapshot;
mod views;
