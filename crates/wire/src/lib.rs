//! DNS messages: names, header, question, records, EDNS; parse from wire, compose to wire.
#![no_std]
#![forbid(unsafe_code)]

mod compose;
mod edns;
mod glance;
mod header;
pub mod limits;
mod name;
mod query;
mod rdata;
mod record;
mod rtype;

pub use compose::{Composer, Full, Mark, Suffixes};
pub use edns::{Cookie, Edns, OptionCode};
pub use glance::Glance;
pub use header::{Flags, HEADER_LEN, Rcode};
pub use name::{Labels, Name, NameBuf, NameError, canonical_cmp};
pub use query::{Fault, QName, Query};
pub use rdata::{Field, layout, target};
pub use record::{Malformed, Record, Records, age_records, expanded, skip_name};
pub use rtype::{Class, Rtype};
