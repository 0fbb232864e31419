//! Master files: text in, records with their places out.
//!
//! RFC 1035 §5 with `$TTL` (RFC 2308 §4), generic types and data (RFC 3597 §5), `$INCLUDE`,
//! relative to the folder of the file that includes, and `$GENERATE` as BIND has it.
//!
//! ```
//! use wire::{Name, NameBuf};
//!
//! let origin = NameBuf::from_text(b"example.org.", Name::ROOT)?;
//! let mut text = &b"$TTL 1h\n@ NS ns\nns A 192.0.2.1\n"[..];
//! let mut owners = Vec::new();
//! let summary = zonefile::read_stream(&mut text, origin.as_name(), &mut |record| {
//!     owners.push(record.owner.to_string());
//!     Ok(())
//! })?;
//! assert_eq!((summary.records, owners.join(" ")), (2, "example.org. ns.example.org.".into()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod data;
mod entry;
mod fields;
mod form;
mod generate;
mod lex;
mod limits;
mod location;
mod open;
mod rdata;
mod reader;
mod report;
mod scan;
mod source;

use std::io::Read;
use std::path::Path;

use wire::{Class, Name, Rtype};

pub use data::{DataFault, data_text, read_data, write_data};
pub use open::open;
pub use report::{Error, Failure, Place, Summary};

/// One record of a zone.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its owner, in the case of the file; within the zone.
    pub owner: Name<'a>,
    /// Its class.
    pub class: Class,
    /// Its type; never a meta-type.
    pub rtype: Rtype,
    /// Seconds, at most 2^31 - 1.
    pub ttl: u32,
    /// Its data in wire form, valid for the type, names uncompressed and in the case of the file.
    pub rdata: &'a [u8],
    /// Where it begins; for a $GENERATE, where that begins.
    pub place: Place<'a>,
}

/// Reads the zone `origin` from a file and those it includes; hands each record to `sink` as soon
/// as it is read. What `sink` refuses is an error at the record's place.
///
/// # Errors
/// All that is wrong with the files, up to a limit; each error with its place.
pub fn read(
    path: &Path,
    origin: Name<'_>,
    sink: &mut dyn FnMut(Record<'_>) -> Result<(), String>,
) -> Result<Summary, Failure> {
    let mut reader = reader::Reader::new(origin, sink);
    reader.file(path);
    reader.finish()
}

/// The same from any stream, which cannot include files; places name it `-`.
///
/// # Errors
/// As with [`read`].
pub fn read_stream(
    input: &mut dyn Read,
    origin: Name<'_>,
    sink: &mut dyn FnMut(Record<'_>) -> Result<(), String>,
) -> Result<Summary, Failure> {
    let mut reader = reader::Reader::new(origin, sink);
    reader.stream(Path::new("-"), input);
    reader.finish()
}
