//! The log: lines on standard error.
use crate::config::{Format, Level, Log};
use std::io::{IsTerminal, stderr};
use tracing_subscriber::filter::LevelFilter;

/// Sends what is logged from here on to standard error. To be called once.
pub fn start(log: &Log) {
    let level = match log.level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
    };
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        .with_target(false);
    match log.format {
        Format::Text => lines.init(),
        Format::Json => lines.json().flatten_event(true).init(),
    }
}
