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

mod base64;
mod bitmap;
mod data;
mod digest;
mod entry;
mod fields;
mod form;
mod generate;
mod hex;
mod lex;
mod limits;
mod location;
mod mnemonics;
mod name;
mod open;
mod rare;
mod rdata;
mod reader;
mod report;
mod rule;
mod scan;
mod source;
mod svcb;
mod time;

use std::io::Read;
use std::path::Path;

use wire::{Class, Name, Rtype};

pub use bitmap::types as bitmap_types;
pub use data::{InvalidData, data_text, read_data, write_data};
pub use form::{has_canonical_names, make_canonical};
pub use name::{InvalidName, read_name};
pub use open::open;
pub use report::{Error, LoadFailure, LoadSummary, SourcePosition};
pub use rule::BrokenRule;
pub use time::date_text;

/// One record of a zone.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The owner, in the case of the file; always within the zone.
    pub owner: Name<'a>,
    /// The class.
    pub class: Class,
    /// The type; never a meta-type.
    pub rtype: Rtype,
    /// Seconds, at most 2^31 - 1.
    pub ttl: u32,
    /// The data in wire form, valid for the type, with uncompressed names in the case of the file.
    pub rdata: &'a [u8],
    /// Where the record begins, or its $GENERATE.
    pub place: SourcePosition<'a>,
}

/// Reads the zone `origin` from a file and its included files. Passes each record to `sink` at
/// once. An error from `sink` is reported at the record's position.
///
/// # Errors
/// The errors of all files, up to a limit, with their positions.
pub fn read(
    path: &Path,
    origin: Name<'_>,
    sink: &mut dyn FnMut(Record<'_>) -> Result<(), String>,
) -> Result<LoadSummary, LoadFailure> {
    let mut reader = reader::ZoneParser::new(origin, sink);
    reader.file(path);
    reader.finish()
}

/// Reads a zone from a stream. Streams cannot include files; positions name the stream `-`.
///
/// # Errors
/// As with [`read`].
pub fn read_stream(
    input: &mut dyn Read,
    origin: Name<'_>,
    sink: &mut dyn FnMut(Record<'_>) -> Result<(), String>,
) -> Result<LoadSummary, LoadFailure> {
    let mut reader = reader::ZoneParser::new(origin, sink);
    reader.stream(Path::new("-"), input);
    reader.finish()
}

/// Reads a stream with generic data that this or an earlier version has written and a checksum
/// protects: rules that came later do not refuse it.
///
/// # Errors
/// As with [`read`].
pub fn read_saved(
    input: &mut dyn Read,
    origin: Name<'_>,
    sink: &mut dyn FnMut(Record<'_>) -> Result<(), String>,
) -> Result<LoadSummary, LoadFailure> {
    let mut reader = reader::ZoneParser::new(origin, sink);
    reader.is_trusted = true;
    reader.stream(Path::new("-"), input);
    reader.finish()
}

/// Bytes in base 32 with the extended alphabet (RFC 4648 §7), without padding.
pub fn base32_text(bytes: &[u8]) -> String {
    domain::utils::base32::encode_string_hex(bytes)
}
