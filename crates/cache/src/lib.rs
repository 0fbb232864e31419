//! Answers of other servers, in memory of a fixed size.
//!
//! Entries lie one behind the other in two queues of octets, after S3-FIFO (Yang et al., SOSP
//! 2023): new ones in a short queue, where what is asked but once soon falls out again, and the
//! others in a long one, whose oldest goes round once more for each time it was used. What fell out
//! of the short queue is remembered by a few bits of its hash; if it comes again it begins in the
//! long one. So a scan of names that nobody asks again drives out nothing but itself, a use writes
//! two bits, and there is nothing to free, to sort or to compact.
//!
//! A [`Cache`] is a view of memory that somebody else owns: see [`Shape`].
#![no_std]
#![forbid(unsafe_code)]

mod entry;
mod index;
pub mod limits;
mod queue;
mod shape;
mod store;
mod walk;

pub use index::Line;
pub use shape::{Shape, State};
pub use store::{Cache, Found, Key, Kind, Put, memory};
pub use walk::Met;
