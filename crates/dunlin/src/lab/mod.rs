//! `dunlin lab`: measuring, and the machine that is measured on.
pub mod compare;
pub mod doctor;
pub mod echo;
pub mod hosts;
pub mod load;
pub mod manifest;
mod signals;
pub mod tune;
mod values;

use clap::{Args, Subcommand};
use lab_host::machine::Machine;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct Lab {
    #[command(subcommand)]
    pub act: Act,
}

#[derive(Debug, Subcommand)]
pub enum Act {
    /// Answers every query with itself, QR set: the most that a server on this machine can answer.
    ///
    /// Nothing is parsed and nothing looked up: whatever a server gets less than an echo by the
    /// same model is what the server itself costs. What is no query (QR set, or shorter than a DNS
    /// header) is dropped and counted. It runs until SIGINT, SIGTERM, or the end of --seconds, and
    /// then says what it did; exit status 1 says that a thread or a process ended by itself.
    #[command(after_help = "Examples:\n  \
        dunlin lab echo --listen 10.99.0.1:5353\n  \
        dunlin lab echo --listen '[::1]:5353' --model io_uring --threads 2 --cpus 0-1\n  \
        dunlin lab echo --model blocking --processes 4 --shared --seconds 10\n  \
        dunlin lab echo --spin-ns 5000 -o json | jq .responses\n\n\
        Each thread has a socket of its own, unless --shared: the kernel spreads clients over them \
        by a hash of their addresses and ports.\n\
        CPU time is that of the echo's own threads: what the kernel does for them in interrupts, \
        and in threads of its own, is not in it.")]
    Echo(echo::Echo),
    /// Makes two hosts of this machine, so that a server and its clients have a CPU each.
    ///
    /// Each host is a network namespace, with a wire between both. The server's is 10.99.0.1 and
    /// fd99::1; the clients' is 10.99.0.2 and fd99::2, and all of 10.98.0.0/16 and fd98::/64. What
    /// is measured on them compares servers; it says nothing of another machine.
    #[command(after_help = "Examples:\n  \
        dunlin lab hosts up\n  \
        dunlin lab hosts exec server -- dunlin serve -c dunlin.toml &\n  \
        dunlin lab hosts exec client -- dnsperf -s 10.99.0.1 -d queries\n  \
        dunlin lab hosts down --end")]
    Hosts(hosts::Hosts),
    /// Shows what this machine is, as far as it decides what is measured on it.
    ///
    /// CPUs and their frequency, the hypervisor, the kernel and what it was started with, network
    /// devices with their queues and interrupts, settings of the network stack, this program, and,
    /// under `now`, what is never the same twice. `fingerprint` is alike where all that matters is.
    #[command(after_help = "Examples:\n  \
        dunlin lab manifest\n  \
        dunlin lab manifest -o json > today.json\n  \
        dunlin lab manifest diff yesterday.json today.json\n  \
        dunlin lab hosts exec server -- dunlin lab manifest")]
    Manifest(manifest::Manifest),
    /// Says whether a figure that is taken on this machine now would be worth believing.
    ///
    /// Each finding says what is so, why it matters, and what to do. Of what is fine nothing is
    /// said. Exit status 1 says that a figure would not be worth believing; what only costs speed
    /// does not count.
    #[command(after_help = "Examples:\n  \
        dunlin lab doctor\n  \
        dunlin lab doctor --cpus 2-5 --device eth0\n  \
        dunlin lab doctor --manifest yesterday.json -o json")]
    Doctor(doctor::Doctor),
    /// Sets what `doctor` asks for, while a command runs or until it is restored.
    ///
    /// Larger buffers and budgets, the governor `performance`, and, of a device, which CPUs take
    /// its packets. What was before is noted durably before it is changed, and restored when the
    /// command has ended; if this program is killed first, by the next `dunlin lab` that is run.
    /// Needs root.
    #[command(after_help = "Examples:\n  \
        dunlin lab tune --device eth0 --cpus 2-5 --dry-run\n  \
        dunlin lab tune --device eth0 --cpus 2-5 -- make bench-sockets\n  \
        dunlin lab tune --busy-poll 50\n  \
        dunlin lab tune restore")]
    Tune(tune::Tune),
    /// Sends queries at their times, and tells what became of every one.
    ///
    /// With --rate the loop is open: queries leave when they are due, whatever the server does, and
    /// a response time counts from then. Without, it is closed as dnsperf's: no more than -q are
    /// under way, and what a slow answer keeps from being sent is not measured. Timeouts are in all
    /// times, as more than the timeout.
    ///
    /// Flags of one letter mean what they mean to dnsperf, but: -s takes an address, no name; -t,
    /// -l and -S take units as well (500ms); EDNS says 1,232 octets, not 4,096; -a takes a prefix,
    /// too; -b is 4,096 by default.
    #[command(after_help = load::EXAMPLES)]
    Load(Box<load::Load>),
    /// Measures servers beside each other: the same zone, the same CPUs, in turns.
    ///
    /// Dunlin, Knot, NSD, BIND, Unbound, dnsmasq and CoreDNS, each with a thread for each CPU and
    /// otherwise as packaged, on two hosts made of this machine. All run all the time; in each
    /// round each is asked at a rate that all can answer, for its best rate, and for far more; the
    /// next round goes the other way about. The first server is there twice: what these two differ
    /// by is the noise, and less than that is no difference. Needs root.
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::Compare),
}

/// Does what the command line asks the lab for.
///
/// # Errors
/// What it could not do, and what would help.
pub fn run(command: &Lab) -> Result<ExitCode, Box<dyn Error>> {
    // What one that was killed could not. Where we may not, it is not ours to do.
    match lab_host::tune::recover(&Machine::this(), Path::new(lab_host::STATE)) {
        Ok(Some(restored)) => eprintln!("dunlin: {}", tune::told(&restored)),
        Err(why) if rustix::process::geteuid().is_root() => eprintln!("dunlin: {why}"),
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
    }
}
