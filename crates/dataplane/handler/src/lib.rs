//! Handles a burst on one thread: loads the snapshot of the zones and the settings, strips PROXY
//! headers, samples queries, answers, forwards what other servers have to answer, and passes on
//! what a handler outside the data plane has to decide.
#![forbid(unsafe_code)]

mod access_list;
mod answerer;
mod control;
mod forwarding;
pub mod limits;
mod networks;
mod own_query;
mod panic_report;
mod panics;
mod settings;

pub use access_list::AccessList;
pub use answer::ControlAnswer;
pub use answerer::{
    Answerer, COUNTERS, FIRST_NOTIFY, FIRST_TYPE, NETWORK_COUNTERS, NETWORK_RCODES, PANICS,
    PROBE_ANSWERS, SELF_ANSWERS, TRUNCATED,
};
pub use control::{ControlId, ControlMessage, ControlReceiver};
pub use forwarding::Forwarding;
pub use networks::{Denial, NameSet, NetworkList, NetworkSettings, PlaceTable};
pub use own_query::{OwnQuery, TOKEN_LEN};
pub use panic_report::{OnPanic, QueryPanic};
pub use settings::{DebtTable, RateLimit, Settings};
