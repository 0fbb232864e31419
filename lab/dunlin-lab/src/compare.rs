//! `dunlin-lab compare`: servers beside each other.
mod bar;

pub(crate) use bar::Bar;

use super::manifest::software;
use crate::bench::beside;
use crate::bundles::{header, write};
use crate::load::{Calls, Queries};
use crate::signals::stop_when_interrupted;
use clap::Args;
use cpu::CpuList;
use lab::compare::{
    CompareOptions, CompareResult, Comparison, Limit, LimitResult, against, comparable, compare,
    configs, differences, limit_results, tables,
};
use lab::servers::{ALL, OTHERS, ServerKind, Zone};
use lab_host::hosts::{Hosts, Layout, NamespaceProcess, Options, Side};
use lab_host::machine::Machine;
use lab_host::manifest::{Manifest, ManifestOptions};
use lab_load::arrivals::{read_number, read_time_ns};
use lab_report::bundle::{Body, Bundle, write_file};
use lab_report::markdown as markdown_of;
use sha1::{Digest, Sha1};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub const EXAMPLES: &str = "Examples:\n  \
    dunlin-lab compare dunlin knot nsd --zone cluster.local=zone -d queries\n  \
    dunlin-lab compare knot --zone cluster.local=zone -d queries --print-configs\n  \
    dunlin-lab compare --zone cluster.local=zone -d queries --rounds 10 \\\n    \
    --bundle new.json --with old.json --markdown performance.md\n  \
    dunlin-lab compare dunlin knot --zone cluster.local=zone -d queries --path af_xdp \\\n    \
    --limit 'best dunlin/knot >= 1.25' --limit 'most dunlin/echo >= 0.85'\n  \
    dunlin-lab compare dunlin-xdp knot-xdp --zone cluster.local=zone -d queries --path af_xdp\n  \
    dunlin-lab compare dunlin unbound --forward --zone cluster.local=zone -d queries";

/// Held by benches, too.
pub(crate) const LOCK: &str = "/run/lock/dunlin-bench";

/// Name of the pair of hosts, as `dunlin-lab hosts` has it.
const HOSTS: &str = "compare";

#[derive(Args, Debug)]
pub struct Compare {
    /// The servers; the others are compared with the first. Default: all that serve a zone over
    /// sockets, or with --forward all that forward. dunlin-xdp and knot-xdp use AF_XDP; with one of
    /// them, the servers run one after the other, not at the same time.
    #[arg(value_name = "SERVER", value_parser = ServerKind::named)]
    servers: Vec<&'static ServerKind>,
    /// The zone that the servers serve.
    #[arg(long, value_name = "ZONE=FILE")]
    zone: String,
    #[command(flatten)]
    queries: Queries,
    /// I/O path of the generator.
    #[arg(long, value_enum, default_value_t = Calls::Sockets)]
    path: Calls,
    /// Forward to a Knot on the client's host that serves the zone. Servers that do not forward,
    /// and dunlin-zone, serve the zone themselves.
    #[arg(long)]
    forward: bool,
    /// Exit with status 1 if this is missed: FIGURE SERVER[/SERVER] >= NUMBER, or <=. Figures:
    /// best, most, kept (share of the best rate that remains under overload), p50, p99, cpu,
    /// upstream. Instead of the first server: all; of the second: others, echo.
    #[arg(long, value_name = "LIMIT")]
    limit: Vec<Limit>,
    /// Title of the bundle and its pages.
    #[arg(long, value_name = "TEXT", default_value = "Performance beside other servers")]
    title: String,
    /// Number of rounds. Six or more give medians an interval, and prove differences among up to
    /// five servers; seven or more, among all.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Length of a trial.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = length)]
    length: u64,
    /// Rate for overload: more queries a second than any server can answer.
    #[arg(long, value_name = "RATE", default_value = "500k", value_parser = read_number)]
    highest: f64,
    /// A program that is not in PATH.
    #[arg(long, value_name = "SERVER=PATH", value_parser = binary)]
    binary: Vec<(String, PathBuf)>,
    /// CPUs of the servers; each server runs a thread on each. Default: the first CPU.
    #[arg(long, value_name = "CPUS")]
    server_cpus: Option<CpuList>,
    /// CPUs of the generator. Default: the second CPU.
    #[arg(long, value_name = "CPUS")]
    client_cpus: Option<CpuList>,
    /// Print the servers' configs, and measure nothing.
    #[arg(long)]
    print_configs: bool,
    /// Write a bundle, and its report beside it.
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// Compare with this bundle of earlier results. The command refuses a bundle whose machine
    /// differs in a relevant property.
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

pub(crate) fn binary(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("expected SERVER=PATH")?;
    ServerKind::named(name)?;
    Ok((name.into(), path.into()))
}

impl Compare {
    fn options(&self, folder: &Path) -> Result<CompareOptions, String> {
        let (name, file) = self.zone.split_once('=').ok_or("--zone is as in example.org=FILE")?;
        let mut binaries: BTreeMap<String, PathBuf> = self.binary.iter().cloned().collect();
        if let Some(beside) = beside() {
            binaries.entry("dunlin".into()).or_insert(beside);
        }
        let kinds = match (self.servers.is_empty(), self.forward) {
            (false, _) => self.servers.clone(),
            (true, false) => ALL.to_vec(),
            (true, true) => ALL.into_iter().chain(OTHERS).filter(|kind| kind.forwards()).collect(),
        };
        // A missing program is an error before any server starts.
        kinds.iter().try_for_each(|kind| kind.binary(&binaries).map(drop))?;
        let compared = |name: &&str| !kinds.iter().any(|kind| kind.name == *name);
        if let Some(name) = self.limit.iter().flat_map(Limit::servers).find(compared) {
            return Err(format!("--limit: {name} is not compared"));
        }
        Ok(CompareOptions {
            kinds,
            binaries,
            zone: Zone::open(name, Path::new(file))?,
            asks: self.queries.asks_with_edns()?,
            path: self.path.path(),
            forward: self.forward,
            rounds: self.rounds,
            length_ns: self.length,
            highest: self.highest,
            folder: folder.to_owned(),
        })
    }

    /// Packets are received by interrupts: a polling thread has to wait for the server or the
    /// generator on its CPU, and from some 60,000 packets a second on the wire loses what comes
    /// meanwhile, which is not the fault of a server.
    fn hosts(&self) -> Result<Options, String> {
        let cpus = (self.server_cpus.as_ref(), self.client_cpus.as_ref());
        Ok(Options { layout: Layout::Steered, ..Options::new(HOSTS, cpus.0, cpus.1)? })
    }

    /// All that is known before anything is measured.
    fn plan(
        &self,
        options: &CompareOptions,
        manifest: &Manifest,
        hosts: &Options,
    ) -> Result<Comparison, String> {
        Ok(Comparison {
            date: jiff::Timestamp::now().strftime("%-d %B %Y").to_string(),
            command: crate::bundles::command().join(" "),
            data: vec![format!("zone {}", digest(&options.zone.file)?), self.queries.told()?],
            seconds: self.length as f64 / 1e9,
            cpus: hosts.cpus(Side::Server)?.to_string(),
            seed: self.queries.seed,
            limits: self.limit.clone(),
            machine: machine(manifest),
            manifest: serde_json::to_value(manifest).map_err(|error| error.to_string())?,
            ..Comparison::default()
        })
    }

    /// The results, and in what the machine has changed meanwhile.
    fn comparison(&self, old: Option<&Comparison>) -> Result<(Comparison, Vec<String>), String> {
        let folder = Folder::fresh(Path::new(lab_host::STATE))?;
        let options = self.options(&folder.0)?;
        let manifest = Manifest::take(&Machine::this(), &ManifestOptions::default(), software())?;
        let hosts = self.hosts()?;
        let plan = self.plan(&options, &manifest, &hosts)?;
        old.map_or(Ok(()), |old| comparable(old, &plan))?;
        let stop = Arc::new(AtomicBool::new(false));
        stop_when_interrupted(stop.clone()).map_err(|error| error.to_string())?;
        let up = Up::new(&hosts)?;
        let mut bar = Bar::new();
        let compared =
            compare(&options, &up.0, &stop, &mut |who, done, of| bar.show(who, done, of));
        bar.end();
        let CompareResult { servers, again } = compared?;
        drop(up);
        let after = Manifest::take(&Machine::this(), &ManifestOptions::default(), software())?;
        Ok((Comparison { servers, again, ..plan }, differences(&manifest, &after)))
    }
}

/// Locks the machine: two comparisons would measure each other.
pub(crate) fn alone(path: &Path) -> Result<File, String> {
    let told = |error: io::Error| format!("{}: {error}", path.display());
    let mut options = File::options();
    // Others may write into the folder: nothing of theirs is followed, or emptied.
    options.write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(path).map_err(told)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(format!(
            "another measurement runs here and holds {}: wait for its end",
            path.display()
        )),
        Err(TryLockError::Error(error)) => Err(told(error)),
    }
}

/// A private folder of configs and logs, removed when this is
/// dropped.
#[derive(Debug)]
pub(crate) struct Folder(pub PathBuf);

impl Folder {
    /// An empty one; what was left by a comparison that was killed is removed.
    pub(crate) fn fresh(place: &Path) -> Result<Self, String> {
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
        // The next comparison removes leftovers.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Two hosts that are removed when this is dropped.
pub(crate) struct Up(pub Hosts);

impl Up {
    pub(crate) fn new(options: &Options) -> Result<Self, String> {
        let (hosts, _) = Hosts::up(options)?;
        free(&hosts.status()?.residents)?;
        Ok(Self(hosts))
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // `dunlin-lab hosts down --name compare` reports leftovers.
        let _ = Hosts::down(HOSTS, true);
    }
}

/// Refuses hosts with processes in them: they would use CPU time and ports.
fn free(residents: &[NamespaceProcess]) -> Result<(), String> {
    if residents.is_empty() {
        return Ok(());
    }
    let list: Vec<_> = residents.iter().map(|r| format!("{} ({})", r.name, r.pid)).collect();
    let list = list.join(", ");
    Err(format!(
        "processes already run in the hosts {HOSTS}: {list}; `dunlin-lab hosts down --name \
         {HOSTS} --end` ends and removes all of it"
    ))
}

/// The machine in lines for a reader.
pub(crate) fn machine(manifest: &Manifest) -> Vec<String> {
    let Manifest { cpu, kernel, software, .. } = manifest;
    vec![
        format!("CPU: {}, online {}", cpu.model, cpu.online),
        format!("caches: {}", cpu.shared_caches()),
        format!("kernel: {}", kernel.release),
        format!(
            "Dunlin {} ({}), {}, {} for {}",
            software.version,
            software.commit,
            software.rustc,
            software.profile,
            software.target_cpu
        ),
        format!("manifest {} (`dunlin-lab manifest` shows all of it)", manifest.fingerprint),
    ]
}

/// A file by its name and what is in it.
pub(crate) fn digest(path: &Path) -> Result<String, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let hash: String = Sha1::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    Ok(format!("{name}, {} bytes, SHA-1 {hash}", bytes.len()))
}

/// Refuses a file that cannot be written, before anything is measured; it stays as it is.
fn check_writable(path: &Path) -> Result<(), String> {
    let opened = File::options().write(true).create(true).truncate(false).open(path);
    opened.map(drop).map_err(|error| format!("{}: {error}", path.display()))
}

fn read(path: &Path) -> Result<Comparison, String> {
    match Bundle::read(path)?.body {
        Body::Compare(comparison) => Ok(*comparison),
        other => Err(format!("{}: a bundle of {}, not of compare", path.display(), other.name())),
    }
}

/// Compares servers.
///
/// # Errors
/// The failed action, and a remedy.
pub fn run(command: &Compare) -> Result<ExitCode, Box<dyn Error>> {
    if command.print_configs {
        let options = command.options(&Path::new(lab_host::STATE).join(HOSTS))?;
        print!("{}", configs(&options, &command.hosts()?)?);
        return Ok(ExitCode::SUCCESS);
    }
    let old = command.with.as_deref().map(read).transpose()?;
    let files = command.bundle.iter().chain(&command.markdown);
    files.into_iter().try_for_each(|path| check_writable(path))?;
    let _alone = alone(Path::new(LOCK))?;
    let mut header = header(&command.title, Vec::new(), command.queries.seed)?;
    let (comparison, changed) = command.comparison(old.as_ref())?;
    print!("{}", tables(&comparison)?);
    if let Some(old) = old {
        print!("\n{}", against(&old, &comparison)?);
    }
    let is_kept = limit_results(&comparison).iter().all(LimitResult::is_kept);
    header.changes.clone_from(&changed);
    let body = Body::Compare(Box::new(comparison));
    if let Some(path) = &command.bundle {
        write(path, header.clone(), Vec::new(), body.clone())?;
    }
    if !changed.is_empty() {
        let list = changed.join("\n  ");
        let told = "the machine changed while it was run on: the figures say little, and no \
                    page is written";
        return Err(format!("{told}\n  {list}").into());
    }
    if let Some(path) = &command.markdown {
        write_file(path, &markdown_of(&Bundle::new(header, Vec::new(), body)))?;
    }
    Ok(if is_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
    fn servers_and_binaries_are_parsed_by_name() {
        let line = "knot nsd --zone a.example=zone -d names --binary knot=/opt/knotd";
        let compare = parse(line).unwrap();
        let names: Vec<_> = compare.servers.iter().map(|kind| kind.name).collect();
        assert_eq!(names, ["knot", "nsd"]);
        assert_eq!(compare.binary, [("knot".to_owned(), PathBuf::from("/opt/knotd"))]);
        let error = parse("djbdns --zone a=b -d c").unwrap_err();
        assert!(error.contains("there are dunlin, knot"), "{error}");
        for wrong in ["--binary knot", "--binary djbdns=x", "--length 1ms", "--length 2m"] {
            assert!(parse(&format!("--zone a=b -d c {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn configs_are_shown_as_they_are_used() {
        let zone = std::env::temp_dir().join(format!("dunlin-shown-{}", std::process::id()));
        fs::write(&zone, "@ 30 SOA ns hostmaster 1 1 1 1 1\nns 30 A 192.0.2.1\n").unwrap();
        let line = format!("knot dnsmasq --zone a.example={} --pattern ns", zone.display());
        let binaries = "--binary knot=k --binary dnsmasq=d --server-cpus 0 --client-cpus 0";
        let compare = parse(&format!("{line} {binaries}")).unwrap();
        let options = compare.options(Path::new("/run")).unwrap();
        let hosts = compare.hosts().unwrap();
        assert_eq!((hosts.layout, hosts.server_cpus.as_str()), (Layout::Steered, "0"));
        let text = configs(&options, &hosts).unwrap();
        fs::remove_file(&zone).unwrap();
        let (knot, dnsmasq) = text.split_once("\n# dnsmasq\n").unwrap();
        assert!(knot.starts_with("# knot\nserver:\n  rundir: \"/run/0\"\n"), "{knot}");
        assert!(dnsmasq.contains("host-record=ns.a.example,192.0.2.1,30\n"), "{dnsmasq}");
    }

    #[test]
    fn a_missing_file_is_named_in_the_error() {
        let compare = parse("knot --zone a.example=/no/zone -d c --binary knot=k").unwrap();
        let error = compare.options(Path::new("/tmp")).unwrap_err();
        assert!(error.contains("/no/zone"), "{error}");
        let compare = parse("--zone a.example -d c").unwrap();
        assert!(compare.options(Path::new("/tmp")).unwrap_err().contains("--zone is as in"));
    }

    #[test]
    fn a_second_comparison_is_refused() {
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
    fn leftover_processes_of_a_killed_comparison_are_refused() {
        let knot = NamespaceProcess { side: Side::Server, pid: 4_711, name: "knotd".into() };
        let error = free(&[knot]).unwrap_err();
        assert!(
            error.contains("knotd (4711)") && error.contains("--name compare --end"),
            "{error}"
        );
        assert_eq!(free(&[]), Ok(()));
    }

    #[test]
    fn every_ending_signal_cleans_up() {
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
    fn configs_are_private_and_removed() {
        let place = std::env::temp_dir().join(format!("dunlin-configs-{}", std::process::id()));
        let folder = Folder::fresh(&place).unwrap();
        assert_eq!(fs::metadata(&folder.0).unwrap().mode() & 0o777, 0o700);
        // As one that was killed leaves it.
        fs::write(folder.0.join("left"), "").unwrap();
        std::mem::forget(folder);
        let folder = Folder::fresh(&place).unwrap();
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
        drop(folder);
        // A link that another user has prepared is not followed.
        let victim = place.join("victim");
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("kept"), "").unwrap();
        std::os::unix::fs::symlink(&victim, place.join("compare")).unwrap();
        let folder = Folder::fresh(&place).unwrap();
        assert!(victim.join("kept").exists() && fs::symlink_metadata(&folder.0).unwrap().is_dir());
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn unwritable_outputs_are_refused_before_measuring() {
        let error = check_writable(Path::new("/no/such/page")).unwrap_err();
        assert!(error.starts_with("/no/such/page: "), "{error}");
        let path = std::env::temp_dir().join(format!("dunlin-page-{}", std::process::id()));
        fs::write(&path, "the old page").unwrap();
        check_writable(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "the old page");
        fs::remove_file(&path).unwrap();
    }
}
