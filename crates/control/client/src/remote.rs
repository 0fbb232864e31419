//! The commands that use the REST API of a running server: `dunlin zones`, `dunlin records` and
//! `dunlin journal`.
pub(crate) mod client;
mod difference;
pub mod journal;
pub mod records;
mod snapshot;
pub mod zones;

use crate::cli::WriteOptions;
use hyper::header::IF_MATCH;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// The header fields of the condition given by `--if-match`, else of the entity tag that was read.
/// So no write replaces a state that the command has not seen.
fn condition(options: &WriteOptions, tag: Option<String>) -> Vec<(&'static str, String)> {
    let given = options.if_match.map(|revision| format!("\"{revision}\""));
    given.or(tag).map(|tag| (IF_MATCH.as_str(), tag)).into_iter().collect()
}

/// The query string of a write.
fn query(reason: Option<&String>) -> String {
    let reason = reason.map(|reason| format!("&reason={}", client::path_segment(reason)));
    format!("wait=live{}", reason.unwrap_or_default())
}

fn write_json(value: &serde_json::Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)
}

/// Asks for confirmation on the terminal, unless `yes`.
///
/// # Errors
/// There is no terminal, or the answer is not yes.
pub(crate) fn confirm(yes: bool, what: &str) -> client::CommandResult<()> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        let why = format!("no terminal to confirm this: {what}; confirm it with --yes");
        return Err(why.into());
    }
    eprint!("{what}? [y/N] ");
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    match line.trim() {
        "y" | "yes" => Ok(()),
        _ => Err("nothing was changed".into()),
    }
}

/// A progress bar, shown only on a terminal and after a second.
fn progress_bar(len: Option<u64>) -> ProgressBar {
    let bar = match len {
        Some(len) => ProgressBar::new(len),
        None => ProgressBar::no_length(),
    };
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {elapsed}");
    bar.set_style(style.expect("a constant template"));
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}
