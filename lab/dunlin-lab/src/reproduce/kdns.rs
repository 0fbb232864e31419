//! JD.com, "ContainerDNS performance: 170 k to 10 M QPS" (2018): servers on the same cores.
use super::Reproduction;
use crate::bench::{Spread, address, closed_loop, questions};
use lab::servers::{Server, ServerKind, ServerSetup, Zone};
use lab_host::hosts::{Hosts, Side};
use lab_host::namespace;
use lab_load::arrivals::{Arrivals, Rate, Spacing};
use lab_load::names::{Order, QuestionSet, QuestionSpec};
use lab_load::query::QueryFormat;
use lab_load::{LoadMode, Options, Oracle, QuerySource};
use lab_report::study::Range;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::{NameBuf, Rtype};

const ZONE: &str = "kdns.example";
/// Names by their number of addresses in the article: 30,000 have 1, 10,000 have 2, 10,000 have 3
/// to 10.
const NAMES: usize = 50_000;
/// An upstream that never answers, on the server's host.
const SILENT: (Ipv4Addr, u16) = (Ipv4Addr::new(127, 0, 0, 54), 5_302);
/// Forwarded queries a second that hang, and how many of them are sent at once. Both loads use one
/// CPU, and a load spins before each time that it sends: one at a time would slow the other load.
const HANGING: f64 = 1_000.0;
const HANGING_BURST: u32 = 10;

/// Servers in the order of the article; the second Dunlin receives by AF_XDP.
const SERVERS: [(&str, &str); 4] = [
    ("dunlin", "dunlin"),
    ("dunlin AF_XDP", "dunlin-xdp"),
    ("bind", "bind"),
    ("coredns", "coredns"),
];

struct Article {
    hosts: Hosts,
    folder: PathBuf,
    zone: Zone,
    oracle: Arc<Oracle>,
}

/// Runs the study.
///
/// # Errors
/// As `Reproduction::run`.
pub fn run(study: &mut Reproduction<'_>) -> Result<(), String> {
    let article = Article::new(study)?;
    study.measure_echo()?;
    study.remarks.push("Dunlin stands in the place of KDNS, which was not run".into());
    study.remarks.push(
        "A client of the original has one query outstanding: steps 3 and 4 have one and three of \
         them, steps 1 and 2 have 512"
            .into(),
    );
    let steps = [
        ("one-name", "One name", "KDNS 10 M/s, BIND 470 k/s, ContainerDNS (Go) 170 k/s", 512, 1),
        ("many-names", "50,000 names with 1, 2 and 3 to 10 addresses", "8.36 M/s", 512, NAMES),
        ("one-client", "One client", "mean 68 µs, BIND 102; p100 226 µs, BIND 1,140", 1, 1),
        ("three-clients", "Three clients", "mean 83 µs, BIND 172; p100 654 µs, BIND 1,138", 3, 1),
    ];
    let mut best: Option<Range> = None;
    for (key, title, original, outstanding, names) in steps {
        study.step(key, title, original);
        for (label, name) in SERVERS {
            let server = match article.start(study, name, "") {
                Ok(server) => server,
                Err(why) => {
                    let why = why.lines().next().unwrap_or_default();
                    let remark = format!("{label} was not measured: {why}");
                    if !study.remarks.contains(&remark) {
                        study.remarks.push(remark);
                    }
                    continue;
                }
            };
            let load = article.load(study, names, outstanding)?;
            for _ in 0..study.repeats {
                let range = study.run(label, outstanding as f64, &load)?;
                if (key, label) == ("one-name", "dunlin") {
                    best = Some(range);
                }
            }
            drop(server);
        }
    }
    let best = best.ok_or("dunlin was not measured, so there is no rate for a soak")?;
    article.soak(study, best.mean * 0.9)?;
    article.hanging(study, best.mean * 0.3)?;
    records(study, &article)
}

/// Addresses of the name of this number.
fn addresses(number: usize) -> usize {
    match number {
        0..30_000 => 1,
        30_000..40_000 => 2,
        _ => 3 + number % 8,
    }
}

/// Writes the zone of this many names, and a file with each `every`-th of them.
fn write_zone(path: &Path, names: usize, every: usize, single: bool) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = BufWriter::new(File::create(path).map_err(told)?);
    let mut text = String::from(
        "$TTL 30\n@ SOA ns hostmaster 1 7200 1800 86400 30\n@ NS ns\nns A 192.0.2.53\n",
    );
    for number in (0..names).step_by(every) {
        for address in 0..if single { 1 } else { addresses(number) } {
            let ip = Ipv4Addr::from(0x0a00_0000 + (number as u32) + ((address as u32) << 20));
            let _ = writeln!(text, "n{number} A {ip}");
        }
        if text.len() > 1 << 20 {
            file.write_all(text.as_bytes()).map_err(told)?;
            text.clear();
        }
    }
    file.write_all(text.as_bytes()).and_then(|()| file.flush()).map_err(told)
}

fn oracle(path: &Path) -> Result<Arc<Oracle>, String> {
    let origin: Result<NameBuf, _> = NameBuf::from_text(ZONE.as_bytes(), wire::Name::ROOT);
    let origin = origin.map_err(|why| format!("{ZONE}: {why}"))?;
    Oracle::read(path, origin.as_name()).map(Arc::new)
}

impl Article {
    fn new(study: &mut Reproduction<'_>) -> Result<Self, String> {
        let folder = study.bench.folder.0.clone();
        let file = folder.join("zone");
        write_zone(&file, NAMES, 1, false)?;
        let (zone, oracle) = (Zone::open(ZONE, &file)?, oracle(&file)?);
        Ok(Self { hosts: study.hosts()?, folder, zone, oracle })
    }

    fn setup(&self, zone: &Zone) -> Result<ServerSetup, String> {
        Ok(ServerSetup {
            address: address(),
            cpus: self.hosts.options().cpus(Side::Server)?,
            threads: None,
            zone: zone.clone(),
            folder: self.folder.join("server"),
            netns: Some(self.hosts.options().namespace(Side::Server)),
            interface: Some(self.hosts.options().device(Side::Server)),
        })
    }

    /// Starts a server of this zone; `more` is added to its config.
    fn start(&self, study: &Reproduction<'_>, name: &str, more: &str) -> Result<Server, String> {
        self.start_at(study, name, more, &self.zone)
    }

    fn start_at(
        &self,
        study: &Reproduction<'_>,
        name: &str,
        more: &str,
        zone: &Zone,
    ) -> Result<Server, String> {
        let kind = ServerKind::named(name)?;
        let setup = self.setup(zone)?;
        let config = kind.config(&setup)? + more;
        let from = self.hosts.options().namespace(Side::Client);
        kind.start_with(&config, &study.binary(kind)?, &setup, Some(&from))
    }

    /// A closed loop whose answers are all held to the zone.
    fn load(
        &self,
        study: &Reproduction<'_>,
        names: usize,
        outstanding: usize,
    ) -> Result<Options, String> {
        let pattern = format!("n{{i}}.{ZONE}");
        let set = QuestionSet::from_pattern(&pattern, names, Rtype::A, QueryFormat::default())?;
        let spread = Spread { flows: outstanding.min(64), by_address: true };
        let asks = questions(set);
        let load = closed_loop(&self.hosts, asks, spread, outstanding, study.length_ns)?;
        // A generator on sockets shares the server's cost for each packet: it, not the server,
        // would bound what a server on AF_XDP answers.
        let path = lab_load::Path::Xdp;
        Ok(Options { oracle: Some(self.oracle.clone()), check_one_in: 1, path, ..load })
    }

    fn soak(&self, study: &mut Reproduction<'_>, rate: f64) -> Result<(), String> {
        let seconds = match (study.quick, study.length_ns < 1_000_000_000) {
            (_, true) => 2,
            (true, _) => 60,
            (false, _) => 1_200,
        };
        let title = format!("One name for {seconds} s at 90 % of the best rate");
        study.step("soak", &title, "20 minutes, one name, steady");
        let _server = self.start(study, "dunlin", "")?;
        let length_ns = seconds * 1_000_000_000;
        let load = Options {
            length_ns,
            interval_ns: (length_ns / 20).max(100_000_000),
            when: open(rate),
            ..self.load(study, 1, 512)?
        };
        study.run("dunlin", 1.0, &load).map(drop)
    }

    /// Own names beside forwarded queries that hang.
    fn hanging(&self, study: &mut Reproduction<'_>, rate: f64) -> Result<(), String> {
        let title = "Own names, alone and while 1,000 forwarded queries a second hang";
        study.step("hanging", title, "not measured in the article");
        let space = self.hosts.options().namespace(Side::Server);
        let bind = || UdpSocket::bind(SILENT).map_err(|error| error.to_string());
        let _silent = namespace::within(Some(&space), bind)?;
        let upstream = SocketAddr::from(SILENT);
        let more = format!(
            "[acl]\nrecursion = [\"any\"]\n[forward]\n\"hang.example\" = [\"{upstream}\"]\n"
        );
        let _server = self.start(study, "dunlin", &more)?;
        // Two loads cannot share a queue of AF_XDP.
        let path = lab_load::Path::Udp { segments: false };
        let own = Options { when: open(rate), path, ..self.load(study, NAMES, 512)? };
        let form = QueryFormat { recursion: true, ..QueryFormat::default() };
        let set = Arc::new(QuestionSet::from_pattern("x{i}.hang.example", 1_000, Rtype::A, form)?);
        let (order, under) = (Order::Given, None);
        let spec = QuestionSpec { set, order, unique: 1.0, nxdomain: 0.0, under };
        let beside = Options {
            when: in_bursts(HANGING, HANGING_BURST),
            asks: QuerySource::Questions(spec.into()),
            oracle: None,
            length_ns: study.length_ns * (study.repeats as u64 + 1) + 10_000_000_000,
            ..own.clone()
        };
        for _ in 0..study.repeats {
            study.run("alone", 0.0, &own)?;
        }
        let over = &AtomicBool::new(false);
        let counts = std::thread::scope(|scope| {
            let load = scope.spawn(|| lab_load::run(&beside, over, &mut |_| {}));
            let done = (0..study.repeats)
                .try_for_each(|_| study.run("1,000 hanging/s", HANGING, &own).map(drop));
            over.store(true, Ordering::Relaxed);
            let load = load.join().unwrap_or_else(|_| Err("the second load panicked".into()))?;
            done.map(|()| load.counts)
        })?;
        study.remarks.push(format!(
            "Of {} forwarded queries, {} got an error of the server and {} no answer in time",
            counts.sent, counts.wrong, counts.timeouts
        ));
        Ok(())
    }
}

fn open(rate: f64) -> LoadMode {
    in_bursts(rate, 1)
}

fn in_bursts(rate: f64, burst: u32) -> LoadMode {
    let rate = Rate::Constant(rate);
    LoadMode::Open(Arrivals { rate, spacing: Spacing::Even, burst })
}

/// Memory by number of records; samples of the answers are compared with the zone.
fn records(study: &mut Reproduction<'_>, article: &Article) -> Result<(), String> {
    let sizes: [usize; 3] = match study.quick {
        true => [10_000, 100_000, 1_000_000],
        false => [1_000_000, 10_000_000, 100_000_000],
    };
    let title = "Memory by number of records";
    study.step("records", title, "2 billion records in a service, sharded over servers");
    for names in sizes {
        let every = (names / 100).max(1);
        let (file, sample) = (article.folder.join("large"), article.folder.join("sample"));
        write_zone(&file, names, 1, true)?;
        write_zone(&sample, names, every, true)?;
        let zone = Zone::open(ZONE, &file)?;
        let _server = article.start_at(study, "dunlin", "", &zone)?;
        let asked = article.folder.join("asked");
        let lines: String =
            (0..names).step_by(every).map(|number| format!("n{number}.{ZONE} A\n")).collect();
        std::fs::write(&asked, lines).map_err(|error| format!("{}: {error}", asked.display()))?;
        let set = QuestionSet::read(&asked, QueryFormat::default())?;
        let load = Options {
            asks: questions(set),
            oracle: Some(oracle(&sample)?),
            ..article.load(study, 1, 64)?
        };
        study.run(&format!("{names} names"), names as f64, &load)?;
        let run = study.runs.last().ok_or("no run")?;
        if run.outcomes.wrong > 0 {
            return Err(format!(
                "{} of the answers are wrong with {names} names",
                run.outcomes.wrong
            ));
        }
    }
    Ok(())
}
