//! The manual and the completions: written from the command line's one definition, and from the
//! comments of the example config.
use crate::cli::{Cli, Completions, Manual};
use clap::CommandFactory;
use clap_mangen::roff::{Inline, Roff, bold, roman};
use command_line::{DATE, SOURCE, TITLE, write_completions, write_manual};
use std::fs;
use std::io;
use std::process::ExitCode;

/// Holds every key at its default, each behind a comment that says what it does.
const EXAMPLE: &str = include_str!("../../../examples/dunlin.toml");

/// Writes every page, below a folder by section, as man(1) looks for them.
///
/// # Errors
/// The folder or a file of it cannot be written.
pub fn write(command: &Manual) -> io::Result<ExitCode> {
    let folder = &command.folder;
    let told = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot write into {}: {error}", folder.display()))
    };
    let [commands, files] = ["man1", "man5"].map(|section| folder.join(section));
    fs::create_dir_all(&commands).and_then(|()| fs::create_dir_all(&files)).map_err(told)?;
    let mut cli = Cli::command().disable_help_subcommand(true);
    cli.build();
    write_manual(&cli, &commands).map_err(told)?;
    fs::write(files.join("dunlin.toml.5"), config_page(EXAMPLE)).map_err(told)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes what a shell reads to complete command lines to standard output.
///
/// # Errors
/// Standard output is gone.
pub fn complete(command: &Completions) -> io::Result<ExitCode> {
    write_completions(command.shell, &mut Cli::command())?;
    Ok(ExitCode::SUCCESS)
}

/// dunlin.toml(5), from the text of the example.
fn config_page(example: &str) -> String {
    let mut page = Roff::new();
    page.control("TH", ["dunlin.toml", "5", DATE, SOURCE, TITLE]);
    page.control("SH", ["NAME"]).text([roman("dunlin.toml - configuration of dunlin(1)")]);
    page.control("SH", ["DESCRIPTION"]);
    for block in example.split("\n\n") {
        write_block(&mut page, block);
    }
    page.control("SH", ["SEE ALSO"]);
    page.text([bold("dunlin"), roman("(1), "), bold("dunlin-check"), roman("(1)")]);
    page.render()
}

/// A block between two blank lines: comments, the keys that they describe, examples of rules.
fn write_block(page: &mut Roff, block: &str) {
    let mut prose = Vec::new();
    let mut keys = Vec::new();
    for line in block.lines() {
        let uncommented = line.trim_start_matches('#');
        if let Some(rule) = line.strip_prefix("# ").filter(|rule| rule.starts_with('"')) {
            write_prose(page, &mut prose);
            page.control("EX", []).text([roman(rule)]).control("EE", []);
        } else if let Some(comment) = line.strip_prefix("# ") {
            prose.push(comment);
        } else if uncommented.starts_with('[') {
            page.control("SS", [uncommented]);
            write_prose(page, &mut prose);
        } else if let Some((key, value)) = uncommented.split_once(" = ") {
            keys.push([bold(key), roman(format!(" = {value}"))]);
        }
    }
    for (index, key) in keys.into_iter().enumerate() {
        page.control(if index == 0 { "TP" } else { "TQ" }, []);
        page.text(Vec::from(key));
    }
    write_prose(page, &mut prose);
}

fn write_prose(page: &mut Roff, prose: &mut Vec<&str>) {
    if !prose.is_empty() {
        page.text(vec![Inline::Roman(prose.join(" "))]);
        prose.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_example_is_in_the_manual() {
        let page = config_page(EXAMPLE);
        let mut keys = 0;
        for line in EXAMPLE.lines().filter(|line| !line.starts_with("# ")) {
            let Some((key, _)) = line.trim_start_matches('#').split_once(" = ") else { continue };
            assert!(page.contains(&format!("\\fB{key}\\fR = ")), "{key} in\n{page}");
            keys += 1;
        }
        assert!(keys > 20, "{keys}");
        assert!(page.contains(".SS [server]"), "{page}");
    }

    #[test]
    fn a_comment_before_a_section_is_of_the_section() {
        let page =
            config_page("# Of all.\n\n# Of it.\n[a]\n# Of both\n# keys.\n#k = 1\n#l = \"x\"\n");
        let wanted = "Of all.\n.SS [a]\nOf it.\n.TP\n\\fBk\\fR = 1\n.TQ\n\\fBl\\fR = \"x\"\n\
                      Of both keys.\n";
        assert!(page.contains(wanted), "{page}");
    }
}
