//! The client of upstream servers: sockets, connections, waiting clients, and the cache.
//!
//! Each thread has an [`UpstreamClient`] with its share of the cache, its own sockets, and the
//! deferred queries. When an answer has arrived, each query that waited for it is answered again
//! from the beginning, and now finds the answer.
#![forbid(unsafe_code)]

mod client;
mod command_sender;
mod commands;
mod connection;
mod fault;
pub mod limits;
mod loops;
mod peer_shards;
mod pending_sends;
mod plan;
mod random;
mod shard_messages;
mod shares;
mod sockets;
mod status;
mod store;
mod streams;
mod tls;
mod waiters;

pub use client::UpstreamClient;
pub use command_sender::{CommandPending, CommandSender};
pub use commands::{CachedAnswer, CommandReport, NameScope, ResolverCommand};
pub use fault::TlsFault;
pub use loops::ServerMarks;
pub use peer_shards::{PeerShards, peer_shards};
pub use plan::{QueryTransport, ResolverPlan, UpstreamAddress, UpstreamServers};
/// Certificates for [`TrustAnchors`], and names of servers.
pub use rustls::pki_types;
pub use status::{ResolverCounts, ShardCounts, StatusView, UpstreamState};
pub use tls::TrustAnchors;
