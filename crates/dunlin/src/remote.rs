//! Speaking with the REST API of a running server: `dunlin zones` and `dunlin records`.
mod client;
mod difference;
pub mod records;
pub mod zones;

use std::io::{self, Write};

/// Writes JSON for programs.
fn write_json(told: &serde_json::Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, told)?;
    writeln!(out)
}
