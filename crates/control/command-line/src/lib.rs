//! Shared parts of the command lines of the server and the lab: text, values with units, the
//! manual, completions and exit statuses.
#![forbid(unsafe_code)]

mod manual;
mod spelling;
mod text;
mod units;

pub use manual::{DATE, SOURCE, TITLE, write_completions, write_manual};
pub use spelling::nearest;
pub use text::{
    COLUMN_WIDTH_MAX, Side, align, count, format_bytes, percent, plain, plural, rate, short, span,
    utc,
};
pub use units::{read_bytes, read_duration};

use clap::ValueEnum;
use std::error::Error;
use std::io;
use std::process::ExitCode;

/// The format of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Text.
    Text,
    /// JSON.
    Json,
}

/// The exit status of a command. Writes an error to standard error, after the program's name.
pub fn finish(program: &str, done: Result<ExitCode, Box<dyn Error>>) -> ExitCode {
    done.unwrap_or_else(|error| {
        // `head` closes the pipe when it has its lines: that is no failure.
        let is_pipe_closed = error
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        if !is_pipe_closed {
            eprintln!("{program}: {error}");
        }
        ExitCode::FAILURE
    })
}
