//! `dunlin-lab report`, `verify` and `replay`.
use crate::manifest::software;
use clap::Args;
use lab_host::machine::Machine;
use lab_host::manifest::{Manifest, ManifestOptions, diff};
use lab_report::bundle::{command_line, read_text, write_file};
use lab_report::{Bundle, verify as verification};
use std::error::Error;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

#[derive(Args, Debug)]
pub struct Report {
    /// The bundle.
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// Page to write. Default: the name of the bundle, with the ending .html.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Also write the tables as a Markdown page.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Derive verdicts and findings again from the raw data by the rules of this version, and write
    /// the bundle, too.
    #[arg(long)]
    derive: bool,
}

#[derive(Args, Debug)]
pub struct Verify {
    /// Bundles and reports.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Replay {
    /// The bundle.
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// Run the commands without confirmation.
    #[arg(long)]
    yes: bool,
}

/// Writes the report of a bundle.
///
/// # Errors
/// The bundle is not right, or the page cannot be written.
pub fn report(command: &Report) -> Result<ExitCode, Box<dyn Error>> {
    let text = read_text(&command.bundle)?;
    let told = |why: String| format!("{}: {why}", command.bundle.display());
    let bundle = match command.derive {
        true => derived_again(&command.bundle, &text).map_err(told)?,
        false => verification::verify(&text).map_err(told)?,
    };
    let out = command.out.clone().unwrap_or_else(|| command.bundle.with_extension("html"));
    write_file(&out, &lab_report::report(&bundle))?;
    println!("{}", out.display());
    if let Some(page) = &command.markdown {
        write_page(page, &bundle)?;
        println!("{}", page.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Derives a bundle again, notes that in its header, and writes it.
fn derived_again(path: &Path, text: &str) -> Result<Bundle, String> {
    let mut bundle = Bundle::parse(text)?;
    verification::derive_again(&mut bundle)?;
    let version = software().commit;
    let remark = format!(
        "Verdicts and findings were derived again from the raw data by dunlin-lab {} ({version})",
        env!("CARGO_PKG_VERSION")
    );
    let start = "Verdicts and findings were derived again";
    bundle.header.remarks.retain(|remark| !remark.starts_with(start));
    bundle.header.remarks.push(remark);
    bundle.write(path)?;
    Ok(bundle)
}

/// Writes the tables of a bundle as a Markdown page, and the plots that it shows beside it.
///
/// # Errors
/// A file cannot be written.
pub fn write_page(page: &Path, bundle: &Bundle) -> Result<(), String> {
    write_file(page, &lab_report::markdown(bundle))?;
    for (name, plot) in lab_report::plots(bundle) {
        write_file(&page.with_file_name(name), &plot)?;
    }
    Ok(())
}

/// Recomputes every number of bundles and reports.
///
/// # Errors
/// One is not right: which number does not follow.
pub fn verify(command: &Verify) -> Result<ExitCode, Box<dyn Error>> {
    let mut wrong = 0;
    for file in &command.files {
        match read_text(file).and_then(|text| verification::verify(&text)) {
            Ok(bundle) => {
                let (kind, runs) = (bundle.body.name(), bundle.runs.len());
                println!("{}: {kind}, {runs} runs, every number follows", file.display());
            }
            Err(why) => {
                let file = file.display().to_string();
                let place =
                    if why.starts_with(&file) { String::new() } else { format!("{file}: ") };
                eprintln!("dunlin-lab: {place}{why}");
                wrong += 1;
            }
        }
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the commands of a bundle again.
///
/// # Errors
/// The bundle is not right, its commands are not of `dunlin-lab`, or one failed.
pub fn replay(command: &Replay) -> Result<ExitCode, Box<dyn Error>> {
    let bundle = Bundle::read(&command.bundle)?;
    let commands = &bundle.header.commands;
    for words in commands {
        println!("{}", command_line(words));
        check_command(words)?;
    }
    let here = Manifest::take(&Machine::this(), &ManifestOptions::default(), software())?;
    let changed = diff(&bundle.header.manifest, &here);
    let paths: Vec<_> = changed.iter().filter(|c| c.matters).map(|c| c.path.as_str()).collect();
    if let [first, ..] = paths[..] {
        eprintln!(
            "dunlin-lab: this machine is not as the bundle's, so results will differ: {first}{}",
            if paths.len() > 1 { format!(" and {} more", paths.len() - 1) } else { String::new() }
        );
    }
    if !command.yes {
        if !io::stdin().is_terminal() {
            return Err("no terminal to ask for confirmation: --yes runs the commands above".into());
        }
        print!("Run these {} commands? [y/N] ", commands.len());
        io::stdout().flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            return Err("nothing was run".into());
        }
    }
    let own = std::env::current_exe()?;
    for words in commands {
        let status = Command::new(&own).args(&words[1..]).status()?;
        if !status.success() {
            return Err(format!("{}: {status}", command_line(words)).into());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses all but measuring commands of `dunlin-lab`: `hosts exec` and `tune -- COMMAND` would run
/// any program that a bundle names.
fn check_command(words: &[String]) -> Result<(), String> {
    const MEASURING: [&str; 6] = ["search", "sweep", "reproduce", "compare", "load", "fabric"];
    let [program, command, rest @ ..] = words else {
        return Err("the bundle names an empty command: nothing was run".into());
    };
    let is_right = program == "dunlin-lab" && MEASURING.contains(&command.as_str());
    // A program of the bundle's choice would run, as a server or as an event.
    let is_program = |word: &String| word.starts_with("--b") || word.starts_with("--event");
    let is_bundle = |word: &String| word == "--bundle" || word.starts_with("--bundle=");
    let names_program = rest.iter().any(|word| is_program(word) && !is_bundle(word));
    match is_right && !names_program {
        true => Ok(()),
        false => Err(format!(
            "`{}` is not a measuring command ({}), or names a program: nothing was run",
            words.join(" "),
            MEASURING.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_measuring_commands_are_replayed() {
        let words = |text: &str| text.split(' ').map(ToOwned::to_owned).collect::<Vec<_>>();
        assert!(check_command(&words("dunlin-lab search -s ::1 --pattern a --bundle b")).is_ok());
        for wrong in [
            "rm -rf /",
            "dunlin-lab hosts exec server -- rm -rf /",
            "dunlin-lab tune -- rm -rf /",
            "dunlin-lab replay other.json --yes",
            "dunlin-lab compare knot --binary knot=/tmp/evil",
            "dunlin-lab search --pattern a --event reload --event-command /tmp/evil",
            "dunlin-lab search --pattern a --event=reload --event-command=/tmp/evil",
            "dunlin-lab",
        ] {
            assert!(check_command(&words(wrong)).is_err(), "{wrong}");
        }
        assert!(check_command(&[]).is_err());
    }
}
