//! Record sets that several Kubernetes clusters have together: the part of each, and the merge.
//!
//! Each cluster writes its own part. Each server has all parts, and merges them by a function of
//! the parts alone, so all servers answer the same.
#![forbid(unsafe_code)]

mod apex;
mod feed;
pub mod limits;
mod merge;
mod part;
mod parts;
mod saved;
mod source;

pub use feed::SiteFeed;
pub use merge::{Conflict, EXPORTS, Merged, Own, merge};
pub use part::{Part, PartKey, PartSet, is_part_type, object_key, read_object_key};
pub use parts::{Parts, SetChange};
pub use source::{PartsSource, Report, Running, Settings, THREAD};
