//! The immutable data that answers are read from, as borrowed slices.
//!
//! `compile` owns the blocks of an image; this crate defines their layout. The traits lead from one
//! block to the next and hide how the blocks are stored.
#![no_std]
#![forbid(unsafe_code)]

mod forwards;
mod hash;
mod leaf;
mod location;
mod name_list;
mod node;
mod rewrites;
mod selection;
mod zone;

pub use forwards::{ForwardRule, Forwards};
pub use hash::{HASH_KEY_WORDS, HashKey};
pub use leaf::{LEAF_HEAD_LEN, Leaf, Nodes, bucket_of, last_bucket, same};
pub use location::{InvalidLocation, Location};
pub use name_list::{ENTRY_HEAD_LEN, NameList, NameRule, NameVerdicts};
pub use node::{
    DECLARED_BITS, Declared, HAS_RULES, NODE_HEAD_LEN, Node, RecordSet, Records, SET_HEAD_LEN,
};
pub use rewrites::{RewriteRule, Rewrites};
pub use selection::{
    Group, Groups, ORDERED_MAX, Order, SELECTION_HEAD_LEN, Selection, inverse_of, mix, record_hash,
};
pub use zone::{
    DepthMask, LabelStep, Nsec3Params, RelName, Route, Tree, Zone, ZoneFacts, ZoneTable,
};
