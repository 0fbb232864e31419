//! Keys in a real etcd.
mod coredns;
mod fetched;
