//! Output of a load: text at its end, or lines for programs each interval.
use super::{Output, show};
use crate::limits::HLOG_INTERVALS_MAX;
use crate::manifest::software;
use lab::observer::RunResult;
use lab::output::{Counts, Csv, Header, Hlog, Metrics, Period};
use lab_host::machine::Machine;
use lab_host::manifest::{Manifest, ManifestOptions};
use lab_load::{Options, Path, QueryCounts, Snapshot, Times};
use std::fs::File;
use std::io::{self, BufWriter, Stdout, Write, stdout};
use std::path::{self, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How a load is written.
pub struct Writer {
    form: Form,
    hlog: Option<IntervalLog>,
    failed: Option<io::Error>,
}

enum Form {
    Text,
    Json(Box<Metrics<Stdout>>),
    Csv(Csv<Stdout>),
}

/// Data for a file at the end of the load.
struct IntervalLog {
    path: PathBuf,
    file: File,
    intervals: Vec<Snapshot>,
}

impl Writer {
    /// Begins to write.
    ///
    /// # Errors
    /// The output that cannot be written, and why.
    pub fn new(
        output: Output,
        hlog: Option<&path::Path>,
        options: &Options,
    ) -> Result<Self, String> {
        let form = match output {
            Output::Text => Ok(Form::Text),
            Output::Json => begin_json(options).map(|metrics| Form::Json(metrics.into())),
            Output::Csv => {
                Csv::begin(stdout(), Duration::from_nanos(options.timeout_ns)).map(Form::Csv)
            }
        };
        if output == Output::Csv {
            // The lines have no place for it.
            eprintln!("dunlin-lab: {}", show::when(options));
        }
        let hlog = hlog.map(|path| IntervalLog::new(path, options)).transpose()?;
        Ok(Self { form: form.map_err(|error| error.to_string())?, hlog, failed: None })
    }

    /// Writes an interval; false: that is of no use any more.
    pub fn interval(&mut self, seen: &Snapshot) -> bool {
        let period =
            period(seen.began_ns, [seen.since_ns, seen.until_ns], &seen.counts, &seen.times);
        let written = match &mut self.form {
            Form::Text => Ok(()),
            Form::Json(metrics) => metrics.periodic(&period),
            Form::Csv(csv) => csv.line(&period),
        };
        if let Some(kept) = &mut self.hlog
            && (kept.intervals.len() as u64) < HLOG_INTERVALS_MAX
        {
            kept.intervals.push(seen.clone());
        }
        self.failed = self.failed.take().or(written.err());
        self.failed.is_none()
    }

    /// Writes what it all came to, and what bounded it.
    ///
    /// # Errors
    /// Errors of writing so far.
    pub fn end(mut self, options: &Options, run: &RunResult) -> io::Result<()> {
        let RunResult { report, measurements, verdict, .. } = run;
        if let Some(error) = self.failed {
            return Err(error);
        }
        if let Some(kept) = self.hlog {
            kept.write(report.began_ns)?;
        }
        match &mut self.form {
            Form::Text => {
                let (report, seen) =
                    (show::report(options, report), show::measurements(measurements));
                let text = format!("{report}{seen}\nbounded by {verdict}\n");
                stdout().write_all(text.as_bytes())
            }
            Form::Json(metrics) => {
                let whole = [0, report.whole_ns];
                let whole = period(report.began_ns, whole, &report.counts, &report.times);
                metrics.sum(&whole, verdict, measurements)
            }
            Form::Csv(_) => Ok(()),
        }
    }
}

impl IntervalLog {
    fn new(path: &path::Path, options: &Options) -> Result<Self, String> {
        let intervals = options.length_ns / options.interval_ns;
        if intervals > HLOG_INTERVALS_MAX {
            return Err(format!(
                "--hlog keeps {HLOG_INTERVALS_MAX} intervals, and there would be {intervals}: \
                 longer ones (-S) or a shorter load (-l)"
            ));
        }
        let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path: path.into(), file, intervals: Vec::new() })
    }

    fn write(self, began_ns: u64) -> io::Result<()> {
        let of = |seen: &Snapshot| [seen.since_ns, seen.until_ns];
        let stretches: Vec<Period<'_>> = self
            .intervals
            .iter()
            .map(|seen| period(began_ns, of(seen), &seen.counts, &seen.times))
            .collect();
        let mut out = BufWriter::new(&self.file);
        let written = Hlog::write(&mut out, at(began_ns), &stretches).and_then(|()| out.flush());
        written.map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
        })
    }
}

/// The header, and which loop it is: that of figures without it is not known.
fn begin_json(options: &Options) -> io::Result<Metrics<Stdout>> {
    let taken = Manifest::take(&Machine::this(), &ManifestOptions::default(), software());
    let manifest = taken.map_err(io::Error::other)?;
    let mut metrics = Metrics::begin(stdout(), header(options, manifest))?;
    metrics.event(SystemTime::now(), "loop", &show::when(options))?;
    Ok(metrics)
}

fn header(options: &Options, manifest: Manifest) -> Header {
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Header {
        run: format!("{}-{}", began.as_nanos(), std::process::id()),
        version: env!("CARGO_PKG_VERSION").into(),
        words: std::env::args().collect(),
        interval: Duration::from_nanos(options.interval_ns),
        timeout: Duration::from_nanos(options.timeout_ns),
        transport: match options.path {
            Path::Udp { .. } | Path::Uring { .. } | Path::Xdp | Path::Dpdk => "udp",
            Path::Tcp { .. } => "tcp",
        },
        manifest,
    }
}

fn at(ns: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(ns)
}

/// The input of the writers.
fn period<'a>(
    began_ns: u64,
    [since, until]: [u64; 2],
    counts: &QueryCounts,
    times: &'a Times,
) -> Period<'a> {
    Period {
        since: at(began_ns + since),
        until: at(began_ns + until),
        counts: Counts {
            planned: counts.planned,
            sent: counts.sent,
            unsent: counts.unsent,
            answered: counts.answered,
            late: counts.late,
            timeouts: counts.timeouts,
            wrong: counts.wrong,
            unexpected: counts.unexpected,
            rcodes: counts.rcodes().collect(),
        },
        response: &times.response,
        service: &times.service,
        lateness: &times.lateness,
    }
}
