//! `dunlin lab compare`: servers beside each other.
use super::manifest::software;
use crate::human::span;
use crate::lab::load::stop_when_interrupted;
use clap::Args;
use cpu::CpuList;
use lab::compare::{Campaign, Wanted, against, compare, page, tables};
use lab::servers::{ALL, Kind, Zone};
use lab_host::hosts::{Hosts, Options, Side};
use lab_host::machine::Machine;
use lab_host::manifest::{Look, Manifest};
use lab_load::arrivals::{read_number, read_time_ns};
use sha1::{Digest, Sha1};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::{IsTerminal, Write, stderr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

pub const EXAMPLES: &str = "Examples:\n  \
    dunlin lab compare dunlin knot nsd --zone cluster.local=zone --names queries\n  \
    dunlin lab compare --zone cluster.local=zone --names queries --rounds 10 \\\n    \
    --json new.json --with old.json --markdown docs/performance.md";

/// What the two hosts are called.
const HOSTS: &str = "compare";

#[derive(Args, Debug)]
pub struct Compare {
    /// The servers; the others are seen beside the first. Without any, all there are.
    #[arg(value_name = "SERVER", value_parser = Kind::named)]
    servers: Vec<&'static Kind>,
    /// What they serve.
    #[arg(long, value_name = "ZONE=FILE")]
    zone: String,
    /// What they are asked for: a name and a type each line, as dnsperf reads them.
    #[arg(long, value_name = "FILE")]
    names: PathBuf,
    /// How often each is measured; from six on medians have an interval, and differences can be
    /// proven among up to five servers, from seven on among all.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// How long each trial is.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = length)]
    length: u64,
    /// Queries a second that no server is thought to answer.
    #[arg(long, value_name = "RATE", default_value = "500k", value_parser = read_number)]
    highest: f64,
    /// A program that is not in PATH.
    #[arg(long, value_name = "SERVER=PATH", value_parser = binary)]
    binary: Vec<(String, PathBuf)>,
    /// CPUs of the servers, each of which gets a thread on every one; without it, the first.
    #[arg(long, value_name = "CPUS")]
    server_cpus: Option<CpuList>,
    /// CPUs of the generator; without it, the second.
    #[arg(long, value_name = "CPUS")]
    client_cpus: Option<CpuList>,
    /// What intervals are drawn by.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes all results.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Earlier results: what has changed since. Refused where the machines differ in what matters.
    #[arg(long, value_name = "FILE")]
    with: Option<PathBuf>,
    /// Writes the page.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

fn length(text: &str) -> Result<u64, String> {
    let told = || "expected 100ms to 1m, such as 500ms or 2s".to_owned();
    read_time_ns(text).filter(|ns| (100_000_000..=60_000_000_000).contains(ns)).ok_or_else(told)
}

fn binary(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("expected SERVER=PATH")?;
    Kind::named(name)?;
    Ok((name.into(), path.into()))
}

impl Compare {
    fn wanted(&self, folder: &Path) -> Result<Wanted, String> {
        let (name, file) = self.zone.split_once('=').ok_or("--zone is as in example.org=FILE")?;
        let mut binaries: BTreeMap<String, PathBuf> = self.binary.iter().cloned().collect();
        let own = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
        binaries.entry("dunlin".into()).or_insert(own);
        let kinds = if self.servers.is_empty() { ALL.to_vec() } else { self.servers.clone() };
        // What is missing is told before anything is started.
        for kind in kinds.iter().filter(|kind| !binaries.contains_key(kind.name)) {
            kind.find()?;
        }
        Ok(Wanted {
            kinds,
            binaries,
            zone: Zone::open(name, Path::new(file))?,
            names: self.names.clone(),
            rounds: self.rounds,
            length_ns: self.length,
            highest: self.highest,
            folder: folder.to_owned(),
        })
    }

    fn campaign(&self, folder: &Path) -> Result<Campaign, String> {
        let wanted = self.wanted(folder)?;
        let manifest = Manifest::take(&Machine::this(), &Look::default(), software())?;
        let options = Options::new(HOSTS, self.server_cpus.as_ref(), self.client_cpus.as_ref())?;
        let up = Up(Hosts::up(&options)?.0);
        let stop = Arc::new(AtomicBool::new(false));
        stop_when_interrupted(stop.clone()).map_err(|error| error.to_string())?;
        let mut bar = Bar::new();
        let compared = compare(&wanted, &up.0, &stop, &mut |who, done, of| bar.show(who, done, of));
        bar.end();
        let compared = compared?;
        drop(up);
        let after = Manifest::take(&Machine::this(), &Look::default(), software())?;
        if after.fingerprint != manifest.fingerprint {
            return Err("the machine changed while it was measured on; `dunlin lab manifest` \
                        before and after says in what"
                .into());
        }
        Ok(Campaign {
            date: jiff::Timestamp::now().strftime("%-d %B %Y").to_string(),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            data: vec![
                format!("zone {}", digest(&wanted.zone.file)?),
                format!("names {}", digest(&wanted.names)?),
            ],
            seconds: self.length as f64 / 1e9,
            cpus: options.cpus(Side::Server)?.to_string(),
            seed: self.seed,
            entrants: compared.entrants,
            again: compared.again,
            machine: machine(&manifest),
            manifest: serde_json::to_value(manifest).map_err(|error| error.to_string())?,
        })
    }
}

/// Two hosts that are removed when this is dropped.
struct Up(Hosts);

impl Drop for Up {
    fn drop(&mut self) {
        // What cannot be removed, the next `dunlin lab hosts down --name compare` names.
        let _ = Hosts::down(HOSTS, true);
    }
}

/// What a reader has to know of the machine.
fn machine(manifest: &Manifest) -> Vec<String> {
    let Manifest { cpu, kernel, software, .. } = manifest;
    vec![
        format!("CPU: {}, online {}", cpu.model, cpu.online),
        format!("kernel: {}", kernel.release),
        format!(
            "Dunlin {} ({}), {}, {} for {}",
            software.version,
            software.commit,
            software.rustc,
            software.profile,
            software.target_cpu
        ),
        format!("manifest {} (`dunlin lab manifest` shows all of it)", manifest.fingerprint),
    ]
}

/// A file by its name and what is in it.
fn digest(path: &Path) -> Result<String, String> {
    let octets = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let hash: String = Sha1::digest(&octets).iter().map(|octet| format!("{octet:02x}")).collect();
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    Ok(format!("{name}, {} octets, SHA-1 {hash}", octets.len()))
}

/// How far it is, on a terminal.
struct Bar {
    shown: bool,
    begun: Instant,
}

impl Bar {
    fn new() -> Self {
        Self { shown: stderr().is_terminal(), begun: Instant::now() }
    }

    fn show(&mut self, who: &str, done: usize, of: usize) {
        if !self.shown {
            return;
        }
        let share = done as f64 / of.max(1) as f64;
        let left = match done {
            0 => "?".into(),
            _ => span(self.begun.elapsed().as_secs_f64() * (1.0 / share - 1.0)),
        };
        // Who cannot be shown anything can still be told the end.
        let _ = write!(stderr(), "\r\x1b[K{:3.0} %  {left} left  {who}", share * 100.0);
    }

    fn end(&mut self) {
        if self.shown {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

/// Compares servers.
///
/// # Errors
/// What it could not do, and what would help.
pub fn run(command: &Compare) -> Result<ExitCode, Box<dyn Error>> {
    let old: Option<Campaign> = match &command.with {
        Some(path) => {
            let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
            let text = fs::read_to_string(path).map_err(|error| told(&error))?;
            Some(serde_json::from_str(&text).map_err(|error| told(&error))?)
        }
        None => None,
    };
    let folder = std::env::temp_dir().join(format!("dunlin-compare-{}", std::process::id()));
    let campaign = command.campaign(&folder);
    // Configs and logs are worth keeping only where something failed, and then it has been told.
    let _ = fs::remove_dir_all(&folder);
    let campaign = campaign?;
    print!("{}", tables(&campaign)?);
    let write = |path: &Path, text: String| {
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    if let Some(path) = &command.json {
        write(path, serde_json::to_string_pretty(&campaign)? + "\n")?;
    }
    if let Some(path) = &command.markdown {
        write(path, page(&campaign)?)?;
    }
    if let Some(old) = old {
        print!("\n{}", against(&old, &campaign)?);
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        compare: Compare,
    }

    fn parse(words: &str) -> Result<Compare, String> {
        let words = ["compare"].into_iter().chain(words.split_whitespace());
        Line::try_parse_from(words).map(|line| line.compare).map_err(|error| error.to_string())
    }

    #[test]
    fn servers_and_programs_are_known_by_name() {
        let line = "knot nsd --zone a.example=zone --names names --binary knot=/opt/knotd";
        let compare = parse(line).unwrap();
        let names: Vec<_> = compare.servers.iter().map(|kind| kind.name).collect();
        assert_eq!(names, ["knot", "nsd"]);
        assert_eq!(compare.binary, [("knot".to_owned(), PathBuf::from("/opt/knotd"))]);
        let error = parse("djbdns --zone a=b --names c").unwrap_err();
        assert!(error.contains("there are dunlin, knot"), "{error}");
        for wrong in ["--binary knot", "--binary djbdns=x", "--length 1ms", "--length 2m"] {
            assert!(parse(&format!("--zone a=b --names c {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_that_lacks_is_named() {
        let compare = parse("knot --zone a.example=/no/zone --names c --binary knot=k").unwrap();
        let error = compare.wanted(Path::new("/tmp")).unwrap_err();
        assert!(error.contains("/no/zone"), "{error}");
        let compare = parse("--zone a.example --names c").unwrap();
        assert!(compare.wanted(Path::new("/tmp")).unwrap_err().contains("--zone is as in"));
    }
}
