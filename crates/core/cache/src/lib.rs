//! Cache of forwarded answers, in memory of a fixed size.
//!
//! Entries lie in two byte queues, after S3-FIFO (Yang et al., SOSP 2023). New entries enter a
//! short queue, where entries without a second use soon fall out. All others are in a long queue,
//! whose oldest entry goes around once more for each use. The cache remembers some bits of the hash
//! of an entry that fell out of the short queue, and if it returns, it enters the long one. So a
//! scan of many names displaces only itself.
#![no_std]
#![forbid(unsafe_code)]

mod entry;
mod index;
pub mod limits;
mod queue;
mod shape;
mod store;
mod walk;

pub use index::Bucket;
pub use shape::{CacheShape, CacheState};
pub use store::{Cache, CacheHit, CacheKey, Insertion, QueryKind, memory};
pub use walk::WalkedEntry;
