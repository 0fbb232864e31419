//! Shared parts of the command lines of the server and the lab: text, values with units, the
//! manual, completions and exit statuses.
#![forbid(unsafe_code)]

mod manual;
mod paint;
mod spelling;
mod text;
mod units;
mod version;

pub use manual::{DATE, SOURCE, TITLE, write_completions, write_manual};
pub use paint::Paint;
pub use spelling::nearest;
pub use text::{
    COLUMN_WIDTH_MAX, Side, align, count, format_bytes, percent, plain, plural, rate, short, span,
    utc,
};
pub use units::{read_bytes, read_duration};
pub use version::version;

use clap::{ArgMatches, ValueEnum};
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

impl Output {
    /// The format that a command line asks for, by an argument `output` of any of its subcommands.
    pub fn of(matches: &ArgMatches) -> Self {
        let (mut at, mut output) = (matches, Self::Text);
        loop {
            if let Ok(Some(found)) = at.try_get_one::<Self>("output") {
                output = *found;
            }
            match at.subcommand() {
                Some((_, below)) => at = below,
                None => return output,
            }
        }
    }
}

/// As [`finish`], with the error as JSON if the command line asks for it: `{"error":"…"}`.
pub fn finish_as(
    program: &str,
    output: Output,
    done: Result<ExitCode, Box<dyn Error>>,
) -> ExitCode {
    match (output, done) {
        (Output::Json, Err(error)) if !is_pipe_closed(&*error) => {
            eprintln!("{}", serde_json::json!({ "error": error.to_string() }));
            ExitCode::FAILURE
        }
        (_, done) => finish(program, done),
    }
}

/// `head` closes the pipe when it has its lines: that is not a failure.
fn is_pipe_closed(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The exit status of a command. Writes an error to standard error, after the program's name.
pub fn finish(program: &str, done: Result<ExitCode, Box<dyn Error>>) -> ExitCode {
    done.unwrap_or_else(|error| {
        if !is_pipe_closed(&*error) {
            eprintln!("{program}: {error}");
        }
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, Command, value_parser};

    #[test]
    fn format_is_that_of_the_innermost_command() {
        let output = || Arg::new("output").short('o').value_parser(value_parser!(Output));
        let command = Command::new("dunlin")
            .subcommand(Command::new("status").arg(output()))
            .subcommand(Command::new("zones").subcommand(Command::new("list").arg(output())))
            .subcommand(Command::new("serve").arg(Arg::new("output").short('o')));
        for (words, expected) in [
            (&["dunlin", "status"][..], Output::Text),
            (&["dunlin", "status", "-o", "json"], Output::Json),
            (&["dunlin", "zones", "list", "-o", "json"], Output::Json),
            (&["dunlin", "serve", "-o", "json"], Output::Text),
        ] {
            let matches = command.clone().get_matches_from(words);
            assert_eq!(Output::of(&matches), expected, "{words:?}");
        }
    }
}
