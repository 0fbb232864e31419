//! Samples queries and their responses on a worker thread, without an allocation.
//!
//! A [`QueryTap`] copies one query in so many, with its response or the reason why there is none,
//! into a bounded ring. A reader in the control plane turns each event back into a [`Sample`].
#![forbid(unsafe_code)]

pub mod limits;
mod query_tap;
mod sample;

pub use query_tap::{QueryTap, SampleRng, SharedRate};
pub use sample::{HEAD_LEN, QueryOutcome, Sample};
