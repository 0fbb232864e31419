//! The manual and the completions, generated from the definition of a command line.
use clap::Command;
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// The version, at the foot of each page.
pub const SOURCE: &str = concat!("dunlin ", env!("CARGO_PKG_VERSION"));
/// The manual's name, at the head of each page.
pub const TITLE: &str = "Dunlin manual";
/// No date, so that builds are reproducible. An empty string would shift the footer.
pub const DATE: &str = " ";

/// Writes the page of a command and those of its subcommands into a folder.
///
/// # Errors
/// A file cannot be written.
pub fn write_manual(command: &Command, folder: &Path) -> io::Result<()> {
    let man = Man::new(command.clone()).date(DATE).source(SOURCE).manual(TITLE);
    let mut page = Vec::new();
    man.render(&mut page)?;
    fs::write(folder.join(man.get_filename()), page)?;
    // A command of another program has its page and its help there; hidden ones are not for users.
    let is_own = |one: &&Command| !one.is_disable_help_flag_set() && !one.is_hide_set();
    let own = command.get_subcommands().filter(is_own);
    own.into_iter().try_for_each(|command| write_manual(command, folder))
}

/// Writes the completion script of a shell to standard output.
///
/// # Errors
/// Standard output is closed.
pub fn write_completions(shell: Shell, command: &mut Command) -> io::Result<()> {
    let mut text = Vec::new();
    let name = command.get_name().to_owned();
    generate(shell, command, name, &mut text);
    io::stdout().write_all(&text)
}
