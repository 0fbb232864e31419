//! The command `dunlin-lab`: measures DNS servers and prepares the machine for it.
mod bench;
mod bundles;
mod compare;
mod cpus;
mod doctor;
mod echo;
mod fabric;
mod history;
mod hosts;
mod limits;
mod load;
mod manifest;
mod report;
mod reproduce;
mod search;
mod signals;
mod sweep;
mod tune;
mod values;

use clap::{Args, CommandFactory, Parser, Subcommand};
use command_line::{write_completions, write_manual};
use lab_host::machine::Machine;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::LazyLock;

/// The version and commit of this program.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    command_line::version(env!("CARGO_PKG_VERSION"), option_env!("DUNLIN_COMMIT"))
});

/// Measure DNS servers, and prepare the machine for it.
#[derive(Debug, Parser)]
#[command(
    version = VERSION.as_str(),
    after_help = "Examples:\n  \
                  dunlin-lab echo --listen 127.0.0.1:5353\n  \
                  dunlin-lab hosts up\n  \
                  dunlin-lab load -s 10.99.0.1 -d queries --rate 50k -l 30\n\n\
                  Exit status: 0 done, 1 failed, 2 usage error."
)]
struct Lab {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Answer every query with itself and the QR flag set, to find the highest rate of this
    /// machine.
    ///
    /// The echo neither parses nor looks up names. The difference between a server and an echo of
    /// the same model is the cost of the server itself. Datagrams that are not queries (QR set, or
    /// shorter than a DNS header) are dropped and counted. The echo runs until SIGINT, SIGTERM or
    /// the end of --seconds, and then prints its counts. Exit status 1: a thread or process failed.
    #[command(after_help = "Examples:\n  \
        dunlin-lab echo --listen 10.99.0.1:5353\n  \
        dunlin-lab echo --listen '[::1]:5353' --model io_uring --threads 2 --cpus 0-1\n  \
        dunlin-lab echo --model blocking --processes 4 --shared --seconds 10\n  \
        dunlin-lab echo --spin-ns 5000 -o json | jq .responses\n\n\
        Each thread has its own socket, unless --shared: the kernel spreads clients over them \
        by a hash of their addresses and ports.\n\
        CPU time is that of the echo's threads, without interrupts and kernel threads.")]
    Echo(echo::Echo),
    /// Create two hosts on this machine, so that a server and its clients have CPUs of their own.
    ///
    /// Each host is a network namespace; a virtual link connects them. The server has 10.99.0.1 and
    /// fd99::1. The clients have 10.99.0.2 and fd99::2, and all of 10.98.0.0/16 and fd98::/64.
    /// Results from these hosts compare servers; they do not predict rates on other machines.
    #[command(after_help = "Examples:\n  \
        dunlin-lab hosts up\n  \
        dunlin-lab hosts exec server -- dunlin serve -c dunlin.toml &\n  \
        dunlin-lab hosts exec client -- dnsperf -s 10.99.0.1 -d queries\n  \
        dunlin-lab hosts down --end")]
    Hosts(hosts::Hosts),
    /// Show the properties of this machine that affect measurements.
    ///
    /// CPUs and their frequency, the hypervisor, the kernel and its command line, network devices
    /// with their queues and interrupts, settings of the network stack, this program, and, under
    /// `now`, values that always change. Equal fingerprints mean that all relevant properties
    /// agree.
    #[command(after_help = "Examples:\n  \
        dunlin-lab manifest\n  \
        dunlin-lab manifest -o json > today.json\n  \
        dunlin-lab manifest diff yesterday.json today.json\n  \
        dunlin-lab hosts exec server -- dunlin-lab manifest")]
    Manifest(manifest::Manifest),
    /// Report problems that make measurements on this machine unreliable.
    ///
    /// Each finding states the problem, why it matters, and a remedy. Exit status 1: results would
    /// be unreliable. Findings that only reduce speed do not change the exit status.
    #[command(after_help = "Examples:\n  \
        dunlin-lab doctor\n  \
        dunlin-lab doctor --cpus 2-5 --device eth0\n  \
        dunlin-lab doctor --manifest yesterday.json -o json")]
    Doctor(doctor::Doctor),
    /// Apply the settings that `doctor` recommends, while a command runs or until `tune restore`.
    ///
    /// Larger buffers and budgets, the governor `performance`, and the CPUs that receive a device's
    /// packets. The old value of each setting is written to disk first, and restored when the
    /// command ends. If this program is killed, the next `dunlin-lab` restores them. Needs root.
    #[command(after_help = "Examples:\n  \
        dunlin-lab tune --device eth0 --cpus 2-5 --dry-run\n  \
        dunlin-lab tune --device eth0 --cpus 2-5 -- make bench-compare-sockets\n  \
        dunlin-lab tune --busy-poll 50\n  \
        dunlin-lab tune restore")]
    Tune(tune::Tune),
    /// Send queries at planned times, and report the outcome of each.
    ///
    /// With --rate the loop is open: queries leave at their planned times, whatever the server
    /// does, and response times count from there. Without it the loop is closed as in dnsperf: at
    /// most -q queries are outstanding, and queries that slow answers prevent are not measured. All
    /// time statistics include timeouts, as longer than the timeout.
    ///
    /// Short flags mean the same as in dnsperf, except: -s takes an address, not a name; -t, -l and
    /// -S also take units (500ms); EDNS announces 1,232 bytes, not 4,096; -a also takes a prefix;
    /// -b is 4,096 by default.
    #[command(after_help = load::EXAMPLES)]
    Load(Box<load::Load>),
    /// Compare servers: the same zone, the same CPUs, in turn.
    ///
    /// The servers are Dunlin, Knot, NSD, BIND, Unbound, dnsmasq and CoreDNS, with a thread for
    /// each CPU and otherwise as packaged. They run on two hosts on this machine (`dunlin-lab
    /// hosts`). All servers run during the whole comparison. Each round measures each server at a
    /// common rate, at its best rate, and under overload; the next round reverses the order. The
    /// first server runs twice: the difference between its two processes is the noise floor, and
    /// smaller differences do not count. Needs root.
    #[command(after_help = compare::EXAMPLES)]
    Compare(Box<compare::Compare>),
    /// Find the highest rate at which a server meets its goals (MLRsearch).
    ///
    /// NDR is the highest rate without loss, PDR that with at most 0.5 % of loss, each in at least
    /// half of the trial time. A latency goal counts late answers as lost. All goals are searched
    /// together. A trial whose queries the generator could not send is repeated, and does not count
    /// against the server.
    #[command(after_help = search::EXAMPLES)]
    Search(Box<search::Search>),
    /// Measure answers a second at every combination of settings, and fit the scalability law.
    ///
    /// An echo, or a server with --server, answers on one of two hosts on this machine. The
    /// settings are its processes, threads, I/O model, batch and core set, and how packets are
    /// received. Every point is measured once before any point is measured again. Needs root.
    #[command(after_help = sweep::EXAMPLES)]
    Sweep(Box<sweep::Sweep>),
    /// Reproduce a published benchmark: repeat its steps in its order, and compare its figures with
    /// new ones.
    ///
    /// isc-2015: an echo, by number of processes, client and core set. bind-2008: resolvers on 1 to
    /// N cores, with cached and unique names, under rising load. kdns: servers on the same cores.
    /// heretic-2019: two ends of this machine, by how far apart they are.
    /// The report says of each finding of the original whether it holds, does not, or cannot be
    /// seen on this machine, and why. Needs root.
    #[command(after_help = reproduce::EXAMPLES)]
    Reproduce(Box<reproduce::Reproduce>),
    /// Measure the effect of exclusive CPUs on workloads, with and without `dunlin cpus manage`.
    ///
    /// The experiments are a workload while another one loads the machine, two workloads at the
    /// same time, one program, and bursts under a quota. Each runs in control groups like those of
    /// a kubelet. Runs with and without the manager take turns. Needs root and cgroup v2.
    #[command(after_help = cpus::EXAMPLES)]
    Cpus(cpus::Cpus),
    /// Measure two ends of this machine, by how far apart their CPUs are.
    ///
    /// The ends are threads or processes on one CPU, on two threads of a core, with a common L3,
    /// and so on; classes that the machine lacks are "absent". They reach each other by a ring in
    /// shared memory, a Unix socket, loopback, a bridge of two network namespaces, and the switch
    /// of `dunlin fabric`. Round trips, HTTP pages, packets and bytes are measured, and replicas
    /// that agree, all to all. Run it on an otherwise idle machine.
    #[command(after_help = fabric::EXAMPLES)]
    Fabric(fabric::Fabric),
    /// Write the report of a bundle: one HTML file that needs no network and no script.
    #[command(after_help = "Example:\n  dunlin-lab report search.json")]
    Report(report::Report),
    /// Recompute every number of bundles and reports from their raw data.
    ///
    /// Exit status 1: a file was changed, is cut off, or has a number that does not follow.
    #[command(after_help = "Example:\n  dunlin-lab verify search.json search.html")]
    Verify(report::Verify),
    /// Run the commands of a bundle again.
    ///
    /// Show the commands first, and ask for confirmation. Only measuring commands of dunlin-lab are
    /// run.
    #[command(after_help = "Examples:\n  dunlin-lab replay search.json\n  \
        dunlin-lab replay search.json --yes")]
    Replay(report::Replay),
    /// Read the output of dnsperf, resperf or kxdpgun.
    #[command(after_help = "Examples:\n  dunlin-lab import dnsperf.txt\n  \
        dunlin-lab import run1.txt run2.txt --history history.jsonl --series 'knot, 10 k names'")]
    Import(history::Import),
    /// Show trends of results, and name the points where they change.
    ///
    /// A change is larger than the difference of equal runs. Results of different machines are
    /// different series.
    #[command(after_help = "Examples:\n  dunlin-lab history history.jsonl --add sweep.json\n  \
        dunlin-lab history history.jsonl --html history.html --fail")]
    History(history::History),
    /// Write the manual: a page for each command.
    #[command(after_help = "Example:\n  dunlin-lab manual /usr/local/share/man")]
    Manual(Manual),
    /// Print completions for a shell.
    #[command(after_help = "Example:\n  source <(dunlin-lab completions bash)")]
    Completions(Completions),
}

#[derive(Args, Debug)]
struct Manual {
    /// The folder for the pages, which go into its subfolder man1.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

#[derive(Args, Debug)]
struct Completions {
    /// The shell to complete for.
    shell: clap_complete::Shell,
}

/// Runs the command that the command line names.
pub fn main() -> ExitCode {
    command_line::finish("dunlin-lab", run(&Lab::parse()))
}

fn run(command: &Lab) -> Result<ExitCode, Box<dyn Error>> {
    // Restores settings that a killed run left. Without root it cannot.
    match lab_host::tune::recover(&Machine::this(), Path::new(lab_host::STATE)) {
        Ok(Some(restored)) => eprintln!("dunlin-lab: {}", tune::told(&restored)),
        Err(why) if rustix::process::geteuid().is_root() => eprintln!("dunlin-lab: {why}"),
        _ => {}
    }
    match &command.act {
        Act::Echo(command) => echo::run(command),
        Act::Hosts(command) => hosts::run(command),
        Act::Manifest(command) => manifest::run(command),
        Act::Doctor(command) => doctor::run(command),
        Act::Tune(command) => tune::run(command),
        Act::Load(command) => load::run(command),
        Act::Compare(command) => compare::run(command),
        Act::Search(command) => search::run(command),
        Act::Sweep(command) => sweep::run(command),
        Act::Reproduce(command) => reproduce::run(command),
        Act::Cpus(command) => cpus::run(command),
        Act::Fabric(command) => fabric::run(command),
        Act::Report(command) => report::report(command),
        Act::Verify(command) => report::verify(command),
        Act::Replay(command) => report::replay(command),
        Act::Import(command) => history::import(command),
        Act::History(command) => history::history(command),
        Act::Manual(command) => write_pages(&command.folder),
        Act::Completions(command) => {
            write_completions(command.shell, &mut Lab::command())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn write_pages(folder: &Path) -> Result<ExitCode, Box<dyn Error>> {
    let folder = folder.join("man1");
    let mut command = Lab::command().disable_help_subcommand(true);
    command.build();
    fs::create_dir_all(&folder)
        .and_then(|()| write_manual(&command, &folder))
        .map_err(|why| format!("cannot write into {}: {why}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_consistent_and_has_an_example() {
        Lab::command().debug_assert();
        for command in Lab::command().get_subcommands() {
            let help = command.clone().render_long_help().to_string();
            assert!(help.contains("Example"), "{}", command.get_name());
        }
    }
}
