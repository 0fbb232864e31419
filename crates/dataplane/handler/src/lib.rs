//! Handles a burst on one thread: loads the snapshot of the zones and the settings, strips PROXY
//! headers, samples queries, answers, and forwards what other servers have to answer.
#![forbid(unsafe_code)]

mod access_list;
mod answerer;
mod forwarding;
mod settings;

pub use access_list::AccessList;
pub use answerer::{Answerer, COUNTERS, FIRST_TYPE, TRUNCATED};
pub use forwarding::Forwarding;
pub use settings::{DebtTable, RateLimit, Settings};
