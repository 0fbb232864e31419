//! Speaking with the REST API of a running server: `dunlin zones` and `dunlin records`.
mod client;
mod difference;
pub mod records;
mod snapshot;
pub mod zones;

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Writes JSON for programs.
fn write_json(told: &serde_json::Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, told)?;
    writeln!(out)
}

/// Asks whether it is meant so, where somebody is there to say it; nobody is asked who `said` so.
fn confirm(said: bool, what: &str) -> client::Anyhow<()> {
    if said {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        let why = format!("nobody is there to say yes to this: {what}; --yes says it");
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

/// A bar on a terminal, for what takes longer than a second; nothing elsewhere.
fn bar(len: Option<u64>) -> ProgressBar {
    let bar = match len {
        Some(len) => ProgressBar::new(len),
        None => ProgressBar::no_length(),
    };
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {elapsed}");
    bar.set_style(style.expect("a constant template"));
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}
