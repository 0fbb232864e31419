//! The immutable world an answer is read from, as borrowed slices.
//!
//! `compile` owns the blocks an image is made of; this room knows what stands in them. The traits
//! are how a reader walks from one block to the next without knowing how they are kept.
#![no_std]
#![forbid(unsafe_code)]

mod forwards;
mod hash;
mod leaf;
mod node;
mod rewrites;
mod zone;

pub use forwards::{ForwardRule, Forwards};
pub use hash::{HASH_KEY_WORDS, HashKey};
pub use leaf::{LEAF_HEAD_LEN, Leaf, Nodes, bucket_of, last_bucket, same};
pub use node::{NODE_HEAD_LEN, Node, RecordSet, Records, SET_HEAD_LEN};
pub use rewrites::{RewriteRule, Rewrites};
pub use zone::{DepthMask, Facts, Nsec3Params, RelName, Route, Step, Tree, World, Zone};
