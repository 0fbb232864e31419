//! A Kubernetes API server on loopback, for tests: etcd, kube-apiserver and
//! kube-controller-manager, each a process of its own.
//!
//! The controllers that run are those of endpoint slices, namespaces and service accounts. There is
//! no kubelet: a test gives a Pod its address by [`Cluster::patch`] of its status. Where a real one
//! is needed, all controllers and a scheduler run, and a virtual machine is the node
//! ([`Cluster::add_node`]). Nothing listens on another address than 127.0.0.1. All processes and
//! files are gone when the [`Cluster`] is dropped, also if the test was killed.
#![forbid(unsafe_code)]

mod access;
mod binaries;
mod client;
mod commands;
mod definitions;
mod guard;
mod node;
pub mod objects;
mod servers;

pub use binaries::{BINARIES, find};
pub use client::Answer;
pub use node::{Forward, NODE_NAME};
pub use servers::{Cluster, Part};

/// A result whose error is a sentence for the person who runs the test.
pub type Result<T> = std::result::Result<T, String>;
