//! The lab's own tools beside others, on the two-host bench: the echo beside one in C, the
//! generator beside dnsperf. Both need a machine that does nothing else.

use crate::bypass::{NAME, Up, load};
use lab::ceiling::EchoBaseline;
use lab::statistics::median;
use lab_echo::Model;
use lab_host::hosts::{Hosts, SERVER, Side};
use lab_load::{LoadMode, Options, Path as LoadPath};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::AtomicBool;
use test_support::folder::Folder;

/// Pairs of measurements: one of each, in turns.
const ROUNDS: usize = 9;
const PORT: u16 = 5_301;

/// Hosts that nothing else measures on, and a folder.
struct Quiet {
    hosts: Hosts,
    folder: Folder,
    _up: Up,
    _alone: File,
}

impl Quiet {
    fn new(test: &str) -> Self {
        let alone = File::create("/run/lock/dunlin-bench").unwrap();
        flock(&alone, FlockOperation::LockExclusive).unwrap();
        let options = lab_host::hosts::Options::new(NAME, None, None).unwrap();
        let (hosts, _) = Hosts::up(&options).unwrap();
        let folder = Folder::new(test);
        Self { hosts, folder, _up: Up, _alone: alone }
    }

    fn command(&self, side: Side, words: &[&str]) -> Command {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        self.hosts.command(side, &words).unwrap()
    }

    fn echo(&self, model: Model) -> EchoBaseline {
        let cpus = self.hosts.options().cpus(Side::Server).unwrap();
        let netns = self.hosts.options().namespace(Side::Server);
        EchoBaseline::start(model, SERVER.into(), &cpus, Some(&netns)).unwrap()
    }

    /// The load of one generator thread on the client's CPU.
    fn load(&self, outstanding: usize) -> Options {
        Options {
            path: LoadPath::Udp { segments: false },
            when: LoadMode::Closed { outstanding, rate_max: None },
            cpus: self.hosts.options().cpus(Side::Client).unwrap().as_slice().to_vec(),
            ..load((SERVER, PORT).into())
        }
    }
}

/// The medians of ratios hold more than one disturbed round.
fn judge(what: &str, pairs: &[(f64, f64)], least: f64) {
    let ratios: Vec<f64> = pairs.iter().map(|(own, other)| own / other).collect();
    let ratio = median(&ratios).unwrap();
    println!("{what}: {ratio:.3}, at least {least} (a second: {pairs:.0?})");
    assert!(ratio >= least, "{what}: {ratio:.3} is below {least}: {pairs:.0?}");
}

/// Ends with this.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "campaign: make bench-lab-echo"]
fn recvmmsg_echo_is_as_fast_as_a_c_echo() {
    let bench = Quiet::new("c-echo");
    let (source, program) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/echo.c"), bench.folder.join("echo"));
    assert!(
        Command::new("cc")
            .args(["-O2", "-o"])
            .args([&program, &source])
            .status()
            .unwrap()
            .success()
    );
    let words = [program.to_str().unwrap(), &SERVER.to_string(), &PORT.to_string()];
    let _c = Ended(bench.command(Side::Server, &words).spawn().unwrap());
    let (c, own) = (EchoBaseline::elsewhere((SERVER, PORT).into()), bench.echo(Model::Recvmmsg));
    let (load, stop) = (bench.load(1_024), AtomicBool::new(false));
    let rate = |echo: &EchoBaseline| echo.rate(&load, &stop).unwrap();
    let pairs: Vec<_> = (0..ROUNDS).map(|_| (rate(&own), rate(&c))).collect();
    judge("recvmmsg / the echo in C", &pairs, 0.95);
}

#[test]
#[ignore = "campaign: make bench-lab-generator"]
fn generator_sends_more_than_dnsperf() {
    let bench = Quiet::new("dnsperf");
    let names = bench.folder.join("names");
    let text: String = (0..1_000).map(|n| format!("svc-{n}.example A\n")).collect();
    std::fs::write(&names, text).unwrap();
    // The fastest echo by the kernel's own packets, so that the generator is the limit.
    let echo = bench.echo(Model::Packet);
    let (load, stop) = (bench.load(100), AtomicBool::new(false));
    let port = echo.address().port().to_string();
    let ip = SERVER.to_string();
    let words =
        ["dnsperf", "-s", &ip, "-p", &port, "-q", "100", "-l", "2", "-d", names.to_str().unwrap()];
    let dnsperf = || {
        let output = bench.command(Side::Client, &words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = said.lines().find_map(|line| line.trim().strip_prefix("Queries per second:"));
        line.and_then(|rate| rate.trim().parse().ok())
            .unwrap_or_else(|| panic!("no rate in {said}"))
    };
    let pairs: Vec<_> =
        (0..ROUNDS).map(|_| (echo.rate(&load, &stop).unwrap(), dnsperf())).collect();
    judge("the generator / dnsperf, one CPU each", &pairs, 1.5);
}
