//! The log: lines on standard error.
mod lines;

pub use lines::{flush, start_thread};

use config::{Format, Level, Log};
use lines::{QUERIES, Writer};
use std::ffi::OsString;
use std::io::{IsTerminal, stderr};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;

/// The log levels; they can change while the server runs.
pub struct Levels(Handle<Targets, Registry>);

impl Levels {
    /// Sets the levels.
    pub fn set(&self, log: &Log) {
        // It fails only if the log is gone, and then there is no way to report it.
        let _ = self.0.reload(targets(log));
    }
}

/// Sends log lines to standard error. Call it once.
pub fn start(log: &Log) -> Levels {
    let (filter, handle) = reload::Layer::new(targets(log));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(Writer::new())
        .with_ansi(stderr().is_terminal() && !is_plain(std::env::var_os("NO_COLOR")))
        .with_target(false);
    let registry = tracing_subscriber::registry().with(filter);
    match log.format {
        Format::Text => registry.with(lines).init(),
        Format::Json => registry.with(lines.json().flatten_event(true)).init(),
    }
    Levels(handle)
}

/// Whether `NO_COLOR` asks for text without colors (<https://no-color.org>).
fn is_plain(no_color: Option<OsString>) -> bool {
    no_color.is_some_and(|value| !value.is_empty())
}

fn targets(log: &Log) -> Targets {
    let levels = log.levels.iter().map(|(part, level)| (part.replace('-', "_"), filter(*level)));
    // The sample rate of the query log already limits its lines.
    let queries = (QUERIES.to_owned(), LevelFilter::INFO);
    Targets::new().with_default(filter(log.level)).with_targets(levels.chain([queries]))
}

fn filter(level: Level) -> LevelFilter {
    match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_counts_only_with_a_value() {
        assert!(is_plain(Some("1".into())));
        assert!(!is_plain(Some("".into())) && !is_plain(None));
    }
}
