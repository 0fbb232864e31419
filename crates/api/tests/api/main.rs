//! The API as its clients meet it: real sockets, on a store in memory.
mod bulk;
mod defects;
mod described;
mod fuzzed;
mod grants;
mod limits;
mod operate;
mod scene;
mod secured;
mod sets;
mod snapshot;
