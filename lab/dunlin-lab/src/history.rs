//! `dunlin-lab import` and `dunlin-lab history`.
use clap::Args;
use lab::import::import as read_output;
use lab_host::machine::Machine;
use lab_host::manifest::{Manifest, ManifestOptions};
use lab_report::bundle::{read_text, write_file};
use lab_report::history::{Entry, Trend, entries_of, page, trends};
use lab_report::verify::verify;
use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct Import {
    /// Output of dnsperf, resperf or kxdpgun. Several files are runs of one setting.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Append the files to a history, as one result of --series.
    #[arg(long, value_name = "FILE", requires = "series")]
    history: Option<PathBuf>,
    /// The series, such as `knot, 10 k names`.
    #[arg(long, value_name = "NAME")]
    series: Option<String>,
}

#[derive(Args, Debug)]
pub struct History {
    /// The history: a JSON object on each line.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Append the results of a bundle first.
    #[arg(long, value_name = "BUNDLE")]
    add: Vec<PathBuf>,
    /// Write a page with a chart of each series.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Exit with status 1 if the last level of a series is lower than the level before.
    #[arg(long)]
    fail: bool,
}

fn append(path: &Path, entries: &[Entry]) -> Result<(), String> {
    let lines: Result<Vec<String>, _> = entries.iter().map(serde_json::to_string).collect();
    let lines = lines.map_err(|error| error.to_string())?;
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = File::options().create(true).append(true).open(path).map_err(told)?;
    file.write_all((lines.join("\n") + "\n").as_bytes()).map_err(told)
}

fn read(path: &Path) -> Result<Vec<Entry>, String> {
    let text = read_text(path)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty());
    let entry = |(number, line): (usize, &str)| {
        let told = |error| format!("{}:{}: no result: {error}", path.display(), number + 1);
        serde_json::from_str(line).map_err(told)
    };
    lines.map(entry).collect()
}

/// Reads the output of other tools.
///
/// # Errors
/// A file is no such output, or the history cannot be written.
pub fn import(command: &Import) -> Result<ExitCode, Box<dyn Error>> {
    let mut samples = Vec::new();
    let mut tool = "";
    for file in &command.files {
        let told = |why: String| format!("{}: {why}", file.display());
        let found = read_output(&read_text(file)?).map_err(told)?;
        let lost = 100.0 * (1.0 - found.answered as f64 / found.sent.max(1) as f64);
        let mean = found.mean_ns.map_or("no latency".into(), |ns| format!("{:.0} µs", ns / 1e3));
        println!(
            "{}: {} {:.0}/s, {} of {} answered ({lost:.2} % lost), {mean}; {}",
            file.display(),
            found.tool,
            found.rate,
            found.answered,
            found.sent,
            found.remark
        );
        if !tool.is_empty() && tool != found.tool {
            return Err(told(format!("of {}, the others of {tool}", found.tool)).into());
        }
        tool = found.tool;
        samples.push(found.rate);
    }
    if let (Some(path), Some(series)) = (&command.history, &command.series) {
        let software = crate::manifest::software();
        let manifest = Manifest::take(&Machine::this(), &ManifestOptions::default(), software)?;
        let machine = crate::compare::machine(&manifest).into_iter().next().unwrap_or_default();
        let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        let series = format!("{tool}: {series}");
        append(path, &[Entry { series, machine, date, version: tool.into(), samples }])?;
    }
    Ok(ExitCode::SUCCESS)
}

fn line(trend: &Trend) -> String {
    let count = trend.medians.len();
    let last = trend.medians.last().copied().unwrap_or(0.0);
    let change = match (trend.last_change(), trend.changes.last()) {
        (Some(change), Some(at)) => {
            let entry = &trend.entries[*at];
            let percent = change * 100.0;
            format!("{percent:+.1} % since {} (version {})", entry.date, entry.version)
        }
        _ => "no change".into(),
    };
    let floor = trend.floor * 100.0;
    format!(
        "{}: {last:.0}/s in the last of {count} results; {change}; floor {floor:.1} %",
        trend.name
    )
}

/// Shows trends and change points.
///
/// # Errors
/// A file cannot be read or written, or a bundle is not right.
pub fn history(command: &History) -> Result<ExitCode, Box<dyn Error>> {
    for path in &command.add {
        let told = |why: String| format!("{}: {why}", path.display());
        let bundle = verify(&read_text(path)?).map_err(told)?;
        append(&command.file, &entries_of(&bundle).map_err(told)?)?;
    }
    let trends = trends(&read(&command.file)?);
    trends.iter().for_each(|trend| println!("{}", line(trend)));
    if let Some(path) = &command.html {
        write_file(path, &page(&trends))?;
    }
    let is_worse = trends.iter().any(|trend| trend.last_change().is_some_and(|c| c < 0.0));
    Ok(if command.fail && is_worse { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
