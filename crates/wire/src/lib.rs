//! DNS messages: names, header, question, records, EDNS; parse from wire, compose to wire.
#![no_std]
#![forbid(unsafe_code)]

mod name;
mod rtype;

pub use name::{Labels, Name, NameBuf, NameError};
pub use rtype::{Class, Rtype};
