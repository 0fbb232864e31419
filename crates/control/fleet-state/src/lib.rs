//! The state that servers of a fleet share besides records: documents, findings of health, and
//! maps.
//!
//! Each is followed by [`keyspace::FollowedKeys`], and written under a condition on what a server
//! has seen: the revision of a document, its own membership, or its election.
#![forbid(unsafe_code)]

mod documents;
pub mod limits;
mod map;
mod states;

pub use self::documents::{CheckDocument, DocumentKind, EtcdDocuments};
pub use map::{EtcdMap, read_cluster, retire};
pub use states::EtcdStates;
