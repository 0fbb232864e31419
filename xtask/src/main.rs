//! Chores of the project: `cargo xtask`.
#![forbid(unsafe_code)]

mod absent;
mod campaigns;
mod circles;
mod commands;
mod commits;
mod crates;
mod demo;
#[cfg(test)]
mod demo_build;
mod figures;
mod fleet;
mod layers;
mod links;
mod promises;
mod release;
mod releases;
mod repository;
mod style;
mod tests;
mod words;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask layers       the crates by layer, and whether every dependency leads downwards
cargo xtask style        lengths of lines and files, and a README for each crate
cargo xtask campaigns    whether the table of long targets is that of the Makefile
cargo xtask circles      whether two files of a crate name each other
cargo xtask links        whether every link, path and test in Markdown exists
cargo xtask promises     whether every test that SPECIFICATION.md names exists
cargo xtask absent       whether each `not yet` of a page names what is pending
cargo xtask figures      whether the figures of each make target stand on one page
cargo xtask commands     whether every make target and test binary that a page runs exists
cargo xtask commits      whether long commits say why, and none is too long
cargo xtask words        words that are not used any more; with --write, writes how many are left
cargo xtask test quick [FOLDER]   builds and runs every test that needs no Go build and no minutes
cargo xtask test cluster [FOLDER] the same with the tests marked cluster and slow
cargo xtask marks        whether every ignored test says when it is run
cargo xtask last-release  version and commit of the last line of packaging/releases
cargo xtask fleet N      the anchor zone of N services, to standard output
cargo xtask demo DIR     writes the zones of the demo fleet into DIR
cargo xtask image FILE [--libraries] ARCH=PROGRAM…   a container image, as an OCI archive
cargo xtask release DIR ARCH[,ARCH] [KEY]            compiles and writes a release: `make release`";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["layers"] => {
            let crates = crates::load();
            print!("{}", crates::table(&crates));
            tell(&layers::violations(&crates))
        }
        ["style"] => tell(&style::violations(&root())),
        ["circles"] => tell(&circles::violations()),
        ["campaigns"] => tell(&campaigns::violations(&root())),
        ["commits"] => tell(&commits::violations(&root())),
        ["links"] => tell(&links::violations(&root())),
        ["promises"] => tell(&promises::violations(&root())),
        ["absent"] => tell(&absent::violations(&root())),
        ["figures"] => tell(&figures::violations(&root())),
        ["commands"] => tell(&commands::violations(&root())),
        ["words"] => tell(&words::violations(&root())),
        ["words", "--write"] => words::write(&root()),
        ["marks"] => tell(&tests::marks::violations(&root())),
        ["test", "quick"] => tests::run(&root(), tests::Scope::Quick, None),
        ["test", "quick", folder] => tests::run(&root(), tests::Scope::Quick, Some(folder)),
        ["test", "cluster"] => tests::run(&root(), tests::Scope::Cluster, None),
        ["test", "cluster", folder] => tests::run(&root(), tests::Scope::Cluster, Some(folder)),
        ["last-release"] => match releases::last(&root()) {
            Ok(last) => writeln!(io::stdout().lock(), "{last}"),
            Err(why) => Err(io::Error::other(why)),
        },
        ["fleet", count] => write_fleet(count),
        ["demo", directory] => demo::write(Path::new(directory)),
        ["image", to, ref programs @ ..] if !programs.is_empty() => {
            release::write_image(&root(), to, programs)
        }
        ["release", to, archs] => release::make(&root(), Path::new(to), archs, None),
        ["release", to, archs, key] => {
            release::make(&root(), Path::new(to), archs, Some(Path::new(key)))
        }
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of a long list may close the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the anchor zone of `count` services to standard output.
fn write_fleet(count: &str) -> io::Result<()> {
    let count = count.replace('_', "").parse().map_err(|_| {
        io::Error::other(format!("expected a number up to {}, not `{count}`", fleet::SERVICES_MAX))
    })?;
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    fleet::write_zone(&mut out, count)?;
    out.flush()
}

/// Prints violations; none is success.
fn tell(violations: &[String]) -> io::Result<()> {
    for violation in violations {
        eprintln!("{violation}");
    }
    match violations.len() {
        0 => Ok(()),
        count => Err(io::Error::other(format!("{count} violations"))),
    }
}

/// The root of the repository: the directory above this crate.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root").to_owned()
}
