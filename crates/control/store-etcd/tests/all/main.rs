//! Servers that share a real etcd.
mod digests;
mod documents;
mod faults;
mod fleet;
mod history;
mod kill;
mod maps;
mod members;
mod mirror;
mod node;
mod rights;
mod space;
mod states;
mod unreadable;
mod upgrade;
