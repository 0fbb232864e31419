//! The experiments: who runs beside whom.
use super::groups::Qos;
use super::work::{Kind, Work, steps_in};
use super::{Experiment, Lab};
use cpu::CpuList;
use lab::record::record;
use lab::servers::{ServerKind, ServerSetup, Zone};
use lab_host::manifest::Cpu;
use lab_load::arrivals::{Arrivals, Rate, Spacing};
use lab_load::names::QuestionSet;
use lab_load::query::QueryFormat;
use lab_load::{LoadMode, Options};
use lab_report::cpus::{CpuResult, CpuStep};
use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;
use wire::Rtype;

/// Queries a second at Dunlin.
const RATE: f64 = 2_000.0;

/// Where Dunlin answers.
const PORT: u16 = 5_399;

/// Work of a thread in a burst, ms, on a CPU of its own.
const BURST_MS: f64 = 75.0;

const BOTH: [bool; 2] = [false, true];

/// How many settings the experiments have, for the progress bar.
pub fn settings(wanted: &[Experiment], has_program: bool) -> usize {
    let of = |experiment: &Experiment| match experiment {
        Experiment::Victim => 6,
        Experiment::Pairs => 5,
        Experiment::Program => 2 * usize::from(has_program),
        Experiment::Throttle => 3,
    };
    wanted.iter().map(of).sum()
}

/// Runs an experiment.
///
/// # Errors
/// A process does not start, or the kernel refuses a group.
pub fn run(experiment: Experiment, lab: &mut Lab<'_>) -> Result<CpuStep, String> {
    match experiment {
        Experiment::Victim => victim(lab),
        Experiment::Pairs => pairs(lab),
        Experiment::Program => program(lab),
        Experiment::Throttle => throttle(lab),
    }
}

/// What a machine cannot show.
pub fn limits(cpus: usize, cpu: &Cpu) -> Vec<String> {
    let mut limits = Vec::new();
    if cpu.cores.iter().all(|core| core.package == cpu.cores[0].package) {
        limits.push("One socket: traffic between sockets is not shown".into());
    }
    let has_one = |siblings: &str| CpuList::from_kernel(siblings).is_ok_and(|all| all.len() < 2);
    if cpu.cores.iter().all(|core| has_one(&core.siblings)) {
        limits.push("No SMT: neighbors on a core's other thread are not shown".into());
    }
    if cpus < 4 {
        limits.push(format!(
            "{cpus} CPUs: one workload at a time can have a CPU of its own, because one CPU stays \
             shared; the generator of queries shares it"
        ));
    }
    limits
}

/// Half of the CPUs for the victim; the stress requests half less one.
fn victim(lab: &mut Lab<'_>) -> Result<CpuStep, String> {
    let half = lab.cpus / 2;
    let about = format!(
        "A Guaranteed victim requests {half} of {} CPUs and has as many threads. A Burstable \
         stress requests {} and has {} threads, which write all over 4 MiB each. Without the \
         manager the victim has the quota of its limit.",
        lab.cpus,
        half - 1,
        lab.cpus
    );
    let mut step = CpuStep::new("victim", "A Guaranteed victim beside a Burstable stress", &about);
    for (name, kind) in [
        ("Dunlin", None),
        ("cache-bound kernel", Some(Kind::Cache)),
        ("memory-bound kernel", Some(Kind::Memory)),
    ] {
        lab.in_turn(name, &BOTH, |lab, is_managed| {
            let own = lab.groups.add("victim", Qos::Guaranteed, half as u64 * 1_000)?;
            let other = lab.groups.add("stress", Qos::Burstable, (half as u64 - 1) * 1_000)?;
            let work = Work { threads: lab.cpus, seconds: lab.seconds, steps: 0 };
            let mut stress = lab.worker(&other, Kind::Stress, work)?;
            let manager = lab.manager(is_managed, (&own, half), &[&other])?;
            stress.begin()?;
            let raw = match kind {
                Some(kind) => {
                    let mut victim = lab.worker(&own, kind, Work { threads: half, ..work })?;
                    victim.begin()?;
                    victim.result()?
                }
                None => dunlin(lab, &own, half)?,
            };
            let run = lab.measured(raw, &own);
            drop((stress, manager));
            lab.groups.end(&own)?;
            lab.groups.end(&other)?;
            step.add(name, Qos::Guaranteed.name(), is_managed, run);
            Ok(())
        })?;
    }
    Ok(step)
}

/// Dunlin answers a steady load from a group.
fn dunlin(lab: &mut Lab<'_>, group: &Path, threads: usize) -> Result<CpuResult, String> {
    let folder = lab.folder.join("dunlin");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let zone = folder.join("zone");
    let text = "@ 60 SOA ns hostmaster 1 1 1 1 1\n@ 60 NS ns\nns 60 A 192.0.2.1\n";
    fs::write(&zone, text).map_err(|error| format!("{}: {error}", zone.display()))?;
    let starter = folder.join("dunlin");
    lab.groups.starter(group, &lab.dunlin, &starter)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    let setup = ServerSetup {
        address,
        cpus: cpu::allowed().map_err(|error| error.to_string())?,
        threads: Some(threads),
        zone: Zone::open("cpus.test", &zone)?,
        folder,
        netns: None,
        interface: None,
    };
    let server = ServerKind::named("dunlin")?.start(&starter, &setup, None)?;
    // A generator that waits for a CPU would count its own delay as the server's.
    let nice = rustix::process::setpriority_process(None, -20);
    nice.map_err(|error| format!("cannot raise the priority of the generator: {error}"))?;
    let form = QueryFormat::default();
    let set = QuestionSet::from_pattern("ns.cpus.test", 1, Rtype::A, form)?;
    let rate = Rate::Constant(RATE);
    let length_ns = (lab.seconds * 1e9) as u64;
    let load = Options {
        when: LoadMode::Open(Arrivals { rate, spacing: Spacing::Even, burst: 1 }),
        length_ns,
        interval_ns: length_ns,
        timeout_ns: 500_000_000,
        ..Options::new(address, crate::bench::questions(set))
    };
    let run = record("dunlin", BTreeMap::new(), &load, &[server.id()], None, lab.stop());
    let _ = rustix::process::setpriority_process(None, 0);
    lab.runs.push(run?);
    Ok(CpuResult::Queries(lab.runs.len() - 1))
}

/// Two workloads, each Guaranteed or Burstable.
fn pairs(lab: &mut Lab<'_>) -> Result<CpuStep, String> {
    let each = (lab.cpus / 2).max(1);
    let about = format!(
        "The cache-bound and the memory-bound kernel run beside each other with {} threads each, \
         and request {each} CPUs each. The manager serves the Guaranteed one.",
        lab.cpus
    );
    let mut step = CpuStep::new("pairs", "Two workloads, Guaranteed or Burstable", &about);
    let kinds = [("cache-bound kernel", Kind::Cache), ("memory-bound kernel", Kind::Memory)];
    let (g, b) = (Qos::Guaranteed, Qos::Burstable);
    for both in [[g, b], [b, g], [b, b]] {
        let setting = |at: usize| format!("{} beside {}", both[at].name(), both[1 - at].name());
        // Without a Guaranteed workload the manager has nothing to do.
        let managed = if both.contains(&g) { &BOTH[..] } else { &BOTH[..1] };
        lab.in_turn(&setting(0), managed, |lab, is_managed| {
            let milli = each as u64 * 1_000;
            let groups = [
                lab.groups.add("first", both[0], milli)?,
                lab.groups.add("second", both[1], milli)?,
            ];
            let own = usize::from(both[1] == g);
            let manager = lab.manager(is_managed, (&groups[own], each), &[&groups[1 - own]])?;
            let work = Work { threads: lab.cpus, seconds: lab.seconds, steps: 0 };
            let mut first = lab.worker(&groups[0], kinds[0].1, work)?;
            let mut second = lab.worker(&groups[1], kinds[1].1, work)?;
            first.begin()?;
            second.begin()?;
            let results = [first.result()?, second.result()?];
            for (at, raw) in results.into_iter().enumerate() {
                let run = lab.measured(raw, &groups[at]);
                step.add(kinds[at].0, &setting(at), is_managed, run);
            }
            drop(manager);
            groups.iter().try_for_each(|group| lab.groups.end(group))
        })?;
    }
    if 2 * each >= lab.cpus {
        step.skipped.push(format!(
            "both Guaranteed: they request all {} CPUs, and one stays shared",
            lab.cpus
        ));
    }
    Ok(step)
}

/// A program alone on all CPUs but one.
fn program(lab: &mut Lab<'_>) -> Result<CpuStep, String> {
    let most = lab.cpus - 1;
    let about = format!("The program is Guaranteed, and requests {most} CPUs. Nothing else runs.");
    let mut step = CpuStep::new("program", "One program alone", &about);
    let Some(program) = lab.program else {
        step.skipped.push("it needs --program COMMAND".into());
        return Ok(step);
    };
    lab.in_turn(program, &BOTH, |lab, is_managed| {
        let own = lab.groups.add("program", Qos::Guaranteed, most as u64 * 1_000)?;
        let manager = lab.manager(is_managed, (&own, most), &[])?;
        let mut command = lab.groups.command(&own, Path::new("/bin/sh"));
        command.args(["-c", program]).stdin(Stdio::null()).stdout(Stdio::null());
        let begin = Instant::now();
        let status = command.status().map_err(|error| format!("{program}: {error}"))?;
        let seconds = begin.elapsed().as_secs_f64();
        if !status.success() {
            return Err(format!("{program}: {status}"));
        }
        let run = lab.measured(CpuResult::Work { units: 1, seconds }, &own);
        drop(manager);
        lab.groups.end(&own)?;
        step.add("program, runs", Qos::Guaranteed.name(), is_managed, run);
        Ok(())
    })?;
    Ok(step)
}

/// Bursts of twice as many threads as CPUs are requested.
fn throttle(lab: &mut Lab<'_>) -> Result<CpuStep, String> {
    let half = lab.cpus / 2;
    let threads = 2 * half;
    let about = format!(
        "Four times a second {threads} threads work at once, {BURST_MS} ms each on a CPU of \
         its own; the request is {half} CPUs. Guaranteed without the manager has a quota, \
         Burstable has none, and the manager lifts it.",
    );
    let mut step = CpuStep::new("throttle", "Bursts with and without a quota", &about);
    let steps = steps_in(BURST_MS);
    for (qos, managed) in [(Qos::Guaranteed, &BOTH[..]), (Qos::Burstable, &BOTH[..1])] {
        lab.in_turn("bursts", managed, |lab, is_managed| {
            let own = lab.groups.add("bursts", qos, half as u64 * 1_000)?;
            let manager = lab.manager(is_managed, (&own, half), &[])?;
            let seconds = lab.seconds.max(2.0);
            let mut bursts = lab.worker(&own, Kind::Burst, Work { threads, seconds, steps })?;
            bursts.begin()?;
            let raw = bursts.result()?;
            let run = lab.measured(raw, &own);
            drop(manager);
            lab.groups.end(&own)?;
            step.add("bursts", qos.name(), is_managed, run);
            Ok(())
        })?;
    }
    Ok(step)
}
