//! The command line.
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// An authoritative DNS server for container fleets, one worker a core.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Example:\n  dunlin serve -c dunlin.toml\n\n\
                  Exit status: 0 done, 1 it failed, 2 it was asked wrongly."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answers questions until it is told to stop.
    ///
    /// SIGHUP loads every zone file again, SIGUSR1 logs the counters of each worker, SIGTERM and
    /// SIGINT answer what has been received and end; a second one ends at once.
    #[command(after_help = "Examples:\n  \
        dunlin serve -c /etc/dunlin/dunlin.toml\n  \
        dunlin serve                 every key at its default: port 53 on all addresses")]
    Serve(Serve),
    /// Checks configs and their zone files: every error, with its place.
    #[command(after_help = "Examples:\n  \
        dunlin check /etc/dunlin/dunlin.toml\n  \
        dunlin check -o json dunlin.toml | jq '.errors[].message'")]
    Check(Check),
    /// Writes the manual: a page for each command, and dunlin.toml(5).
    #[command(after_help = "Example:\n  dunlin manual pages && man pages/dunlin-serve.1")]
    Manual(Manual),
    /// Prints what a shell reads to complete command lines.
    #[command(after_help = "Examples:\n  \
        source <(dunlin completions bash)\n  \
        dunlin completions fish > ~/.config/fish/completions/dunlin.fish")]
    Completions(Completions),
}

#[derive(Args, Debug)]
pub struct Serve {
    /// The config; without it every key has its default.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Check {
    /// How the result is written.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// The configs to check.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Manual {
    /// Where the pages go; it is made where it is not there.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}

#[derive(Args, Debug)]
pub struct Completions {
    /// Whose completions.
    pub shell: clap_complete::Shell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Lines for people: `file:line:column: message`.
    Text,
    /// One JSON object.
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example() {
        for command in Cli::command().get_subcommands() {
            let help = command.clone().render_long_help().to_string();
            assert!(help.contains("Example"), "{}", command.get_name());
        }
    }
}
