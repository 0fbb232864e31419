//! `dunlin lab compare`: servers beside each other.
use super::manifest::software;
use crate::human::span;
use crate::lab::load::stop_when_interrupted;
use clap::Args;
use cpu::CpuList;
use lab::compare::{
    Campaign, Compared, Wanted, against, comparable, compare, configs, differences, page, tables,
};
use lab::servers::{ALL, Kind, Zone};
use lab_host::hosts::{Hosts, Layout, Options, Resident, Side};
use lab_host::machine::Machine;
use lab_host::manifest::{Look, Manifest};
use lab_load::arrivals::{read_number, read_time_ns};
use sha1::{Digest, Sha1};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, IsTerminal, Write, stderr};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

pub const EXAMPLES: &str = "Examples:\n  \
    dunlin lab compare dunlin knot nsd --zone cluster.local=zone --names queries\n  \
    dunlin lab compare knot --zone cluster.local=zone --names queries --print-configs\n  \
    dunlin lab compare --zone cluster.local=zone --names queries --rounds 10 \\\n    \
    --json new.json --with old.json --markdown docs/performance.md";

/// Held by benches, too.
const LOCK: &str = "/run/lock/dunlin-bench";

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
    /// Prints the servers' configs, and measures nothing.
    #[arg(long)]
    print_configs: bool,
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

    /// Packets are received by interrupts: a polling thread has to wait for the server or the
    /// generator on its CPU, and from some 60,000 packets a second on the wire loses what comes
    /// meanwhile, which is no server's fault.
    fn hosts(&self) -> Result<Options, String> {
        let cpus = (self.server_cpus.as_ref(), self.client_cpus.as_ref());
        Ok(Options { layout: Layout::Steered, ..Options::new(HOSTS, cpus.0, cpus.1)? })
    }

    /// All that is known before anything is measured.
    fn plan(
        &self,
        wanted: &Wanted,
        manifest: &Manifest,
        hosts: &Options,
    ) -> Result<Campaign, String> {
        Ok(Campaign {
            date: jiff::Timestamp::now().strftime("%-d %B %Y").to_string(),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            data: vec![
                format!("zone {}", digest(&wanted.zone.file)?),
                format!("names {}", digest(&wanted.names)?),
            ],
            seconds: self.length as f64 / 1e9,
            cpus: hosts.cpus(Side::Server)?.to_string(),
            seed: self.seed,
            machine: machine(manifest),
            manifest: serde_json::to_value(manifest).map_err(|error| error.to_string())?,
            ..Campaign::default()
        })
    }

    /// The results, and in what the machine has changed meanwhile.
    fn campaign(&self, old: Option<&Campaign>) -> Result<(Campaign, Vec<String>), String> {
        let folder = Folder::fresh(Path::new(lab_host::STATE))?;
        let wanted = self.wanted(&folder.0)?;
        let manifest = Manifest::take(&Machine::this(), &Look::default(), software())?;
        let options = self.hosts()?;
        let plan = self.plan(&wanted, &manifest, &options)?;
        old.map_or(Ok(()), |old| comparable(old, &plan))?;
        let stop = Arc::new(AtomicBool::new(false));
        stop_when_interrupted(stop.clone()).map_err(|error| error.to_string())?;
        let up = Up::new(&options)?;
        let mut bar = Bar::new();
        let compared = compare(&wanted, &up.0, &stop, &mut |who, done, of| bar.show(who, done, of));
        bar.end();
        let Compared { entrants, again } = compared?;
        drop(up);
        let after = Manifest::take(&Machine::this(), &Look::default(), software())?;
        Ok((Campaign { entrants, again, ..plan }, differences(&manifest, &after)))
    }
}

/// Who holds this is alone: two would measure each other.
fn alone(path: &Path) -> Result<File, String> {
    let told = |error: io::Error| format!("{}: {error}", path.display());
    let mut options = File::options();
    // Others may write into the folder: nothing of theirs is followed, or emptied.
    options.write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(path).map_err(told)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(format!(
            "something else measures here and holds {}: wait for its end",
            path.display()
        )),
        Err(TryLockError::Error(error)) => Err(told(error)),
    }
}

/// A folder of configs and logs that nobody else can look or write into, removed when this is
/// dropped. They are worth keeping only where something failed, and then it has been told.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    /// An empty one; what was left by a comparison that was killed is removed.
    fn fresh(place: &Path) -> Result<Self, String> {
        let path = place.join(HOSTS);
        let _ = fs::remove_dir_all(&path);
        let made =
            fs::create_dir_all(place).and_then(|()| DirBuilder::new().mode(0o700).create(&path));
        made.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now, the next comparison removes.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Two hosts that are removed when this is dropped.
struct Up(Hosts);

impl Up {
    fn new(options: &Options) -> Result<Self, String> {
        let (hosts, _) = Hosts::up(options)?;
        free(&hosts.status()?.residents)?;
        Ok(Self(hosts))
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // What cannot be removed, the next `dunlin lab hosts down --name compare` names.
        let _ = Hosts::down(HOSTS, true);
    }
}

/// Refuses hosts with somebody in them: he would be measured along, and share ports of servers.
fn free(residents: &[Resident]) -> Result<(), String> {
    if residents.is_empty() {
        return Ok(());
    }
    let list: Vec<_> = residents.iter().map(|r| format!("{} ({})", r.name, r.pid)).collect();
    let list = list.join(", ");
    Err(format!(
        "in the hosts {HOSTS} there is somebody already: {list}; `dunlin lab hosts down --name \
         {HOSTS} --end` ends and removes all of it"
    ))
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

/// A file that is written in the end, and can be: that is known before anything is measured. Until
/// then it stays as it is.
struct Page {
    path: PathBuf,
    file: File,
}

impl Page {
    fn open(path: &Path) -> Result<Self, String> {
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path: path.to_owned(), file })
    }

    fn write(mut self, text: &str) -> Result<(), String> {
        let written = self.file.set_len(0).and_then(|()| self.file.write_all(text.as_bytes()));
        written.map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

fn read(path: &Path) -> Result<Campaign, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Compares servers.
///
/// # Errors
/// What it could not do, and what would help.
pub fn run(command: &Compare) -> Result<ExitCode, Box<dyn Error>> {
    if command.print_configs {
        let wanted = command.wanted(&Path::new(lab_host::STATE).join(HOSTS))?;
        print!("{}", configs(&wanted, &command.hosts()?)?);
        return Ok(ExitCode::SUCCESS);
    }
    let old = command.with.as_deref().map(read).transpose()?;
    let [json, markdown] =
        [&command.json, &command.markdown].map(|path| path.as_deref().map(Page::open).transpose());
    let (json, markdown) = (json?, markdown?);
    let _alone = alone(Path::new(LOCK))?;
    let (campaign, changed) = command.campaign(old.as_ref())?;
    print!("{}", tables(&campaign)?);
    if let Some(file) = json {
        file.write(&(serde_json::to_string_pretty(&campaign)? + "\n"))?;
    }
    if !changed.is_empty() {
        let list = changed.join("\n  ");
        let told = "the machine changed while it was measured on: the figures say little, and no \
                    page is written";
        return Err(format!("{told}\n  {list}").into());
    }
    if let Some(file) = markdown {
        file.write(&page(&campaign)?)?;
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
    use std::os::unix::fs::MetadataExt;
    use std::sync::atomic::Ordering;

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
    fn configs_are_shown_as_they_are_used() {
        let zone = std::env::temp_dir().join(format!("dunlin-shown-{}", std::process::id()));
        fs::write(&zone, "@ 30 SOA ns hostmaster 1 1 1 1 1\nns 30 A 192.0.2.1\n").unwrap();
        let line = format!("knot dnsmasq --zone a.example={} --names c", zone.display());
        let binaries = "--binary knot=k --binary dnsmasq=d --server-cpus 0 --client-cpus 0";
        let compare = parse(&format!("{line} {binaries}")).unwrap();
        let wanted = compare.wanted(Path::new("/run")).unwrap();
        let hosts = compare.hosts().unwrap();
        assert_eq!((hosts.layout, hosts.server_cpus.as_str()), (Layout::Steered, "0"));
        let text = configs(&wanted, &hosts).unwrap();
        fs::remove_file(&zone).unwrap();
        let (knot, dnsmasq) = text.split_once("\n# dnsmasq\n").unwrap();
        assert!(knot.starts_with("# knot\nserver:\n  rundir: \"/run/0\"\n"), "{knot}");
        assert!(dnsmasq.contains("host-record=ns.a.example,192.0.2.1,30\n"), "{dnsmasq}");
    }

    #[test]
    fn a_file_that_lacks_is_named() {
        let compare = parse("knot --zone a.example=/no/zone --names c --binary knot=k").unwrap();
        let error = compare.wanted(Path::new("/tmp")).unwrap_err();
        assert!(error.contains("/no/zone"), "{error}");
        let compare = parse("--zone a.example --names c").unwrap();
        assert!(compare.wanted(Path::new("/tmp")).unwrap_err().contains("--zone is as in"));
    }

    #[test]
    fn nobody_measures_beside_somebody_else() {
        let path = std::env::temp_dir().join(format!("dunlin-alone-{}", std::process::id()));
        let first = alone(&path).unwrap();
        let error = alone(&path).unwrap_err();
        assert!(error.contains("wait for its end"), "{error}");
        drop(first);
        assert!(alone(&path).is_ok(), "it has ended");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert!(alone(&path).is_err(), "a link leads elsewhere");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn who_is_left_of_one_that_was_killed_is_not_measured_along() {
        let knot = Resident { side: Side::Server, pid: 4_711, name: "knotd".into() };
        let error = free(&[knot]).unwrap_err();
        assert!(
            error.contains("knotd (4711)") && error.contains("--name compare --end"),
            "{error}"
        );
        assert_eq!(free(&[]), Ok(()));
    }

    #[test]
    fn whoever_asks_it_to_end_it_cleans_up() {
        use rustix::process::{Signal, getpid, kill_process};
        let stop = Arc::new(AtomicBool::new(false));
        stop_when_interrupted(stop.clone()).unwrap();
        for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
            kill_process(getpid(), signal).unwrap();
            while !stop.swap(false, Ordering::Relaxed) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    }

    #[test]
    fn configs_are_nobodys_else_and_nothing_is_left() {
        let place = std::env::temp_dir().join(format!("dunlin-configs-{}", std::process::id()));
        let folder = Folder::fresh(&place).unwrap();
        assert_eq!(fs::metadata(&folder.0).unwrap().mode() & 0o777, 0o700);
        // As one that was killed leaves it.
        fs::write(folder.0.join("left"), "").unwrap();
        std::mem::forget(folder);
        let folder = Folder::fresh(&place).unwrap();
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
        drop(folder);
        // What somebody else has prepared is not followed.
        let victim = place.join("victim");
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("kept"), "").unwrap();
        std::os::unix::fs::symlink(&victim, place.join("compare")).unwrap();
        let folder = Folder::fresh(&place).unwrap();
        assert!(victim.join("kept").exists() && fs::symlink_metadata(&folder.0).unwrap().is_dir());
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn what_cannot_be_written_is_told_first_and_what_is_there_stays_till_then() {
        let error = Page::open(Path::new("/no/such/page")).err().unwrap();
        assert!(error.starts_with("/no/such/page: "), "{error}");
        let path = std::env::temp_dir().join(format!("dunlin-page-{}", std::process::id()));
        fs::write(&path, "the old page, which is longer").unwrap();
        let page = Page::open(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "the old page, which is longer");
        page.write("the new one").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "the new one");
        fs::remove_file(&path).unwrap();
    }
}
