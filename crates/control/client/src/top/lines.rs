//! `dunlin top` without a terminal: one line per sample, for files and pipes.
use super::rates::Rates;
use crate::status_text::quantile;
use command_line::{count, format_bytes, percent, plain, rate, utc};
use server_status::Status;
use std::io::{self, Write};

const HEADS: [&str; 9] =
    ["TIME", "RECEIVED/s", "REPLIED/s", "DROPPED/s", "P50", "P99", "P99.9", "STREAMS", "MEMORY"];

/// Writes the heads of the columns.
///
/// # Errors
/// `out` fails.
pub fn write_head(out: &mut impl Write) -> io::Result<()> {
    write_cells(out, HEADS.map(str::to_owned), "RCODES")
}

/// Writes the line of one sample.
///
/// # Errors
/// `out` fails.
pub fn write(out: &mut impl Write, status: &Status, rates: &Rates) -> io::Result<()> {
    let time = utc(status.gathered_seconds);
    let cells = [
        time.split(' ').nth(1).unwrap_or_default().to_owned(),
        rate(rates.received),
        rate(rates.replied),
        rate(rates.dropped),
        quantile(&rates.latency, 0.5),
        quantile(&rates.latency, 0.99),
        quantile(&rates.latency, 0.999),
        count(status.streams.open),
        format_bytes(status.process.resident_bytes),
    ];
    let all: f64 = rates.rcodes.iter().map(|(_, rate)| rate).sum();
    let rcodes: Vec<String> = rates
        .rcodes
        .iter()
        .map(|(rcode, rate)| format!("{} {}", plain(rcode), percent(rate / all)))
        .collect();
    write_cells(out, cells, &rcodes.join(", "))
}

fn write_cells(out: &mut impl Write, cells: [String; 9], rcodes: &str) -> io::Result<()> {
    let [time, received, replied, dropped, p50, p99, p999, streams, memory] = cells;
    let line = format!(
        "{time:<8}  {received:>10}  {replied:>10}  {dropped:>9}  {p50:>6}  {p99:>6}  {p999:>6}  \
         {streams:>7}  {memory:>8}  {rcodes}"
    );
    writeln!(out, "{}", line.trim_end())?;
    // The reader of a pipe gets each line at once.
    out.flush()
}
