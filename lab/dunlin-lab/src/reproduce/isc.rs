//! ISC, "Benchmarking DNS reliably on multi-core systems" (2015): an echo by number of processes,
//! client, and core set.
use super::Reproduction;
use crate::bench::{EchoProcess, EchoSpec, Spread, closed_loop, questions};
use crate::sweep::plan::set_name;
use cpu::CpuList;
use lab_echo::Model;
use lab_host::core_sets::{classes, distances, sets};
use lab_host::hosts::Side;
use lab_load::QuerySource;
use lab_load::names::QuestionSet;
use lab_load::query::QueryFormat;
use lab_report::study::Range;
use wire::Rtype;

/// MiB of socket buffers in the study.
const BUFFER_MIB: usize = 16;
/// The client of the study's first step: one socket, 100 outstanding queries.
const DEFAULT: Client = Client { sockets: 1, outstanding: 100, cores: 1 };
/// The client of its second step.
const THEIRS: Client = Client { sockets: 8, outstanding: 500, cores: 4 };
/// Runs of each setting in the search for a client.
const SEARCH_RUNS_MAX: usize = 3;
/// What the search for a client goes up to.
const SOCKETS_MAX: usize = 64;
const OUTSTANDING_MAX: usize = 4_096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Client {
    sockets: usize,
    outstanding: usize,
    /// CPUs of the generator, at most those of its host.
    cores: usize,
}

impl std::fmt::Display for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { sockets, outstanding, cores } = self;
        write!(
            f,
            "-c {sockets} -q {outstanding}, {cores} core{}",
            if *cores == 1 { "" } else { "s" }
        )
    }
}

/// Runs the study.
///
/// # Errors
/// As `Reproduction::run`.
pub fn run(study: &mut Reproduction<'_>) -> Result<(), String> {
    study.remarks.extend([
        "The server is dunlin-lab's echo, which sends each query back as its answer; the client is \
         dunlin-lab's generator: -c is its number of sockets, -q that of queries without an answer"
            .into(),
        format!("Sockets of the echo have buffers of {BUFFER_MIB} MiB"),
        "epoll stands for the study's libevent".into(),
    ]);
    study.remarks.push(
        "The wire is a veth pair: RPS, by which the kernel passes packets to chosen CPUs, steers \
             them where the study set IRQs"
            .into(),
    );
    study.measure_echo()?;
    let cores = study.cpu.cores.len().max(2);
    let processes: Vec<usize> = (1..=2 * cores).collect();
    study.step(
        "default-client",
        "1 process to two for each of the machine's CPUs, the default client (-c 1 -q 100)",
        "flat, 239 k/s at most, a drop at 7 and 8 processes",
    );
    each_count(study, &processes, DEFAULT, false)?;
    study.step(
        "shared-socket",
        "The same with one socket for all processes (no SO_REUSEPORT)",
        "not told apart in the study",
    );
    each_count(study, &processes, DEFAULT, true)?;
    let client = search_client(study)?;
    study.step(
        "tuned-client",
        &format!("The same by the tuned client ({client})"),
        "-c 8 -q 500, on one package: 348 k/s at most with 2 or 3 processes, more spread",
    );
    each_count(study, &processes, client, false)?;
    let own = study.server_cpus()?;
    let receiving = own.as_slice().last().copied().unwrap_or(0);
    one_receive_core(study, &processes, client, &own, receiving)?;
    core_sets(study, client, &own, receiving)?;
    study.step(
        "models",
        "One process by other ways of receiving",
        "libevent and others beside the blocking model",
    );
    for model in [Model::Blocking, Model::Poll, Model::Select, Model::Epoll, Model::Recvmmsg] {
        let echo = spec(1, model);
        repeat(study, model.name(), 1.0, &echo, client, None)?;
    }
    Ok(())
}

fn spec(processes: usize, model: Model) -> EchoSpec {
    EchoSpec { processes, buffer_mib: Some(BUFFER_MIB), ..EchoSpec::of(model) }
}

/// The names of dnsperf's sample file stand for any names here: an echo does not look at them.
fn queries() -> Result<QuerySource, String> {
    QuestionSet::from_pattern("name-{i}.example", 10_000, Rtype::A, QueryFormat::default())
        .map(questions)
}

/// Runs an echo as often as the study does.
fn repeat(
    study: &mut Reproduction<'_>,
    label: &str,
    number: f64,
    echo: &EchoSpec,
    client: Client,
    receiving: Option<usize>,
) -> Result<Range, String> {
    let hosts = study.hosts()?;
    let all = study.server_cpus()?;
    hosts.steer(Side::Server, &receiving.map_or(all, |cpu| std::iter::once(cpu).collect()))?;
    let spread = Spread { flows: client.sockets, by_address: false };
    let mut load = closed_loop(&hosts, queries()?, spread, client.outstanding, study.length_ns)?;
    load.cpus.truncate(client.cores);
    load.threads = load.threads.min(load.cpus.len());
    let mut range = None;
    for _ in 0..study.repeats {
        let _running = EchoProcess::start(&hosts, echo)?;
        range = Some(study.run(label, number, &load)?);
    }
    range.ok_or_else(|| "no run was asked for (--runs)".into())
}

fn each_count(
    study: &mut Reproduction<'_>,
    processes: &[usize],
    client: Client,
    shared: bool,
) -> Result<(), String> {
    for count in processes {
        let label = format!("{count} process{}", if *count == 1 { "" } else { "es" });
        let echo = EchoSpec { shared, ..spec(*count, Model::Blocking) };
        repeat(study, &label, *count as f64, &echo, client, None)?;
    }
    Ok(())
}

/// Doubles sockets, outstanding queries and the client's cores while that adds more than the
/// difference of two equal settings.
fn search_client(study: &mut Reproduction<'_>) -> Result<Client, String> {
    study.step(
        "client-search",
        "The client is tuned until no setting adds more than equal runs differ, with 2 processes",
        "by hand: -c 8 -q 500 on one package",
    );
    let repeats = study.repeats;
    study.repeats = repeats.min(SEARCH_RUNS_MAX);
    let echo = spec(2, Model::Blocking);
    let hosts = study.hosts()?;
    let cores = hosts.options().cpus(Side::Client)?.as_slice().len();
    let theirs = Client { cores: THEIRS.cores.min(cores), ..THEIRS };
    let mut measure = |client: Client| {
        let label = client.to_string();
        repeat(study, &label, client.outstanding as f64, &echo, client, None)
    };
    let mut best = DEFAULT;
    let mut range = measure(best)?;
    // The second group of runs of the same setting joins the first: its range is the floor.
    range = measure(best).map(|again| Range { mean: range.mean.max(again.mean), ..again })?;
    let floor = (range.max / range.min - 1.0).clamp(0.02, 0.5);
    loop {
        let next = [
            Client { sockets: best.sockets * 2, ..best },
            Client { outstanding: best.outstanding * 2, ..best },
            // A thread of the generator needs a socket of its own.
            Client { sockets: best.sockets.max(best.cores * 2), cores: best.cores * 2, ..best },
        ];
        let mut better = None;
        for client in next {
            let is_over = client.sockets > SOCKETS_MAX || client.outstanding > OUTSTANDING_MAX;
            if is_over || client.cores > cores {
                continue;
            }
            let found = measure(client)?;
            if found.mean > range.mean * (1.0 + floor) {
                (range, better) = (found, Some(client));
            }
        }
        match better {
            Some(client) => best = client,
            None => break,
        }
    }
    measure(theirs)?;
    study.remarks.push(format!(
        "The tuned client is {best} of {cores}. The search doubles sockets, outstanding queries \
         and cores in turn, and keeps what adds more than {:.0} %, by which {} equal runs at its \
         begin differed (2 % at least); each of its settings has {} runs",
        floor * 100.0,
        2 * study.repeats,
        study.repeats
    ));
    study.repeats = repeats;
    Ok(best)
}

fn one_receive_core(
    study: &mut Reproduction<'_>,
    processes: &[usize],
    client: Client,
    own: &CpuList,
    receiving: usize,
) -> Result<(), String> {
    let title = format!("All receive work on CPU {receiving} (RPS), processes unpinned");
    let original = "irqbalance off, every IRQ on core 7: below the second step, peak at 2";
    if own.as_slice().len() < 2 {
        let why = "servers have 1 CPU here, which receives everything in each step; two beside the \
                   generator's are needed";
        study.skip("one-receive-core", &title, original, why);
        return Ok(());
    }
    study.step("one-receive-core", &title, original);
    for count in processes {
        let label = format!("{count} process{}", if *count == 1 { "" } else { "es" });
        let echo = spec(*count, Model::Blocking);
        repeat(study, &label, *count as f64, &echo, client, Some(receiving))?;
    }
    Ok(())
}

/// One process on each core of a set, for sets of one to four; of equal sets, one.
fn core_sets(
    study: &mut Reproduction<'_>,
    client: Client,
    own: &CpuList,
    receiving: usize,
) -> Result<(), String> {
    let one = "0, 2, 4, 6 (other package) equal; 1 and 3 lower; 5 (shares L2 with 7) highest";
    let two = "5+7 best, over 390 k/s, 45 to 65 % above most pairs; 1+5 well above 1+3";
    let more = "1+5+7 and 3+5+7 as 5+7; 1+3+5+7 much slower";
    for (key, title, original, sizes) in [
        ("each-core", "One process on each core in turn", one, 1..=1),
        ("pairs", "Pairs of cores", two, 2..=2),
        ("larger-sets", "Three and four cores", more, 3..=4),
    ] {
        let least = *sizes.start();
        if own.as_slice().len() < least.max(2) {
            let why = format!("servers have {} CPU here", own.as_slice().len());
            study.skip(key, title, original, &why);
            continue;
        }
        study.step(key, title, original);
        let mut all = Vec::new();
        for size in sizes {
            all.extend(sets(own, size)?);
        }
        for class in classes(study.cpu, &all, Some(receiving)) {
            let set = class.members[0].clone();
            let equal = class.members.len() - 1;
            let label = format!("CPU {} ({}; {equal} equal sets)", set_name(&set), class.name);
            let count = set.as_slice().len();
            let near = distances(study.cpu, &set, receiving);
            let echo = EchoSpec { cpus: Some(set), ..spec(count, Model::Blocking) };
            repeat(study, &label, count as f64, &echo, client, Some(receiving))?;
            if let Some(group) = study.steps.last_mut().and_then(|step| step.groups.last_mut()) {
                group.distances = near;
            }
        }
    }
    Ok(())
}
