//! DNS messages: names, header, question, records, EDNS; parsing and composing.
#![no_std]
#![forbid(unsafe_code)]

mod client_subnet;
mod compose;
mod edns;
mod fast_parse;
mod header;
mod inject;
pub mod limits;
mod name;
mod query;
mod rdata;
mod record;
mod rtype;
mod tsig;

pub use client_subnet::ClientSubnet;
pub use compose::{Composer, Mark, NoSpace, Suffixes};
pub use edns::{Cookie, Edns, OptionCode};
pub use fast_parse::FastParse;
pub use header::{Flags, HEADER_LEN, Rcode};
#[cfg(debug_assertions)]
pub use inject::enable_injected_panics;
pub use inject::inject_panic;
pub use name::{Labels, Name, NameBuf, NameError, canonical_cmp};
pub use query::{QName, Query, QueryFault};
pub use rdata::{RdataField, layout, target};
pub use record::{Malformed, Record, Records, age_records, expanded, skip_name};
pub use rtype::{Class, Rtype};
pub use tsig::{Tsig, signature_at};
