//! `dunlin cpus manage` and `dunlin cpus uninstall`.
use crate::cli::{Manage, Uninstall};
use command_line::plain;
use cpu_manager::{Event, LiveGroups, Manager, Rules, Summary, uninstall};
use cpu_planner::state::State as KubeletState;
use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

/// Errors that repeat are reported again after so long.
const REMIND: Duration = Duration::from_secs(60);

/// Keeps groups as the rules say, pass by pass, until it is ended. What it has set stays.
///
/// # Errors
/// It cannot begin: the rules are wrong, another manager is there, or it is not cgroup v2.
pub fn run(command: &Manage) -> Result<ExitCode, Box<dyn Error>> {
    let mut rules = Rules::load(&command.rules)?;
    let mut changed = modified(&command.rules);
    stand_aside(&command.kubelet_state)?;
    let groups = LiveGroups::open(&command.cgroup)?;
    let (mut manager, events) = Manager::new(groups, &command.state)?;
    let mut log = Log::default();
    log.events(&events)?;
    loop {
        let begin = Instant::now();
        if modified(&command.rules) != changed {
            changed = modified(&command.rules);
            match Rules::load(&command.rules) {
                Ok(new) => rules = new,
                Err(error) => log.failure(&format!("{error}; the rules of before hold"))?,
            }
        }
        let passed = cpu_topology::read()
            .map_err(|error| error.to_string())
            .and_then(|machine| manager.reconcile(&machine, &rules).map_err(|e| e.to_string()));
        let is_well = match &passed {
            Ok(events) => !events.iter().any(|event| matches!(event, Event::Failed(..))),
            Err(_) => false,
        };
        match passed {
            Ok(events) => log.events(&events)?,
            Err(error) if command.once => return Err(error.into()),
            Err(error) => log.failure(&error)?,
        }
        if let Some(path) = &command.metrics {
            write_metrics(path, manager.summary(), begin.elapsed(), is_well)?;
        }
        if command.once {
            return Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        sleep(command.interval.saturating_sub(begin.elapsed()));
    }
}

/// Puts everything back as it was found.
///
/// # Errors
/// The state cannot be used, or the kernel refuses.
pub fn undo(command: &Uninstall) -> Result<ExitCode, Box<dyn Error>> {
    let mut groups = LiveGroups::open(&command.cgroup)?;
    let mut out = io::stdout().lock();
    match uninstall(&mut groups, &command.state)? {
        0 => writeln!(out, "nothing is managed: {} is not there", command.state.display())?,
        number => writeln!(out, "{number} control groups are as they were found")?,
    }
    Ok(ExitCode::SUCCESS)
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|meta| meta.modified()).ok()
}

/// Two managers of the same CPUs would undo each other's work.
fn stand_aside(state: &Path) -> Result<(), String> {
    match KubeletState::load(state) {
        Ok(kubelet) if kubelet.policy == "static" => Err(format!(
            "the kubelet's static CPU manager policy is on ({}): set cpuManagerPolicy: none, drain \
             the node and delete that file, or leave the CPUs to the kubelet",
            state.display()
        )),
        _ => Ok(()),
    }
}

/// Writes events as lines; those that repeat each pass only now and then.
#[derive(Default)]
struct Log {
    last: Vec<(String, Option<Instant>)>,
}

impl Log {
    fn events(&mut self, events: &[Event]) -> io::Result<()> {
        let failed = |event: &&Event| matches!(event, Event::Failed(..));
        for event in events.iter().filter(|event| !failed(event)) {
            writeln!(io::stdout(), "{}", plain(&event.to_string()))?;
        }
        let failures: Vec<String> = events.iter().filter(failed).map(Event::to_string).collect();
        // A fault that was mended is reported anew when it comes again.
        self.last.retain(|(text, _)| failures.contains(text));
        failures.iter().try_for_each(|text| self.failure(text))
    }

    fn failure(&mut self, text: &str) -> io::Result<()> {
        let last = self.last.iter_mut().find(|(known, _)| known == text);
        let is_due = match &last {
            Some((_, told)) => told.is_none_or(|told| told.elapsed() >= REMIND),
            None => true,
        };
        if !is_due {
            return Ok(());
        }
        match last {
            Some((_, told)) => *told = Some(Instant::now()),
            None => self.last.push((text.to_owned(), Some(Instant::now()))),
        }
        writeln!(io::stderr(), "dunlin: {}", plain(text))
    }
}

/// Writes metrics for the textfile collector of node_exporter, whole or not at all.
fn write_metrics(
    path: &Path,
    summary: &Summary,
    pass: Duration,
    is_well: bool,
) -> Result<(), String> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let [l3, node, socket] = summary.split;
    let text = format!(
        "# HELP dunlin_cpus_exclusive CPUs that control groups have for themselves.\n\
         # TYPE dunlin_cpus_exclusive gauge\ndunlin_cpus_exclusive {}\n\
         # HELP dunlin_cpus_shared CPUs that all other control groups share.\n\
         # TYPE dunlin_cpus_shared gauge\ndunlin_cpus_shared {}\n\
         # HELP dunlin_cpus_split_groups Control groups whose CPUs are in several elements.\n\
         # TYPE dunlin_cpus_split_groups gauge\n\
         dunlin_cpus_split_groups{{level=\"l3\"}} {l3}\n\
         dunlin_cpus_split_groups{{level=\"node\"}} {node}\n\
         dunlin_cpus_split_groups{{level=\"socket\"}} {socket}\n\
         # HELP dunlin_cpus_drift_repaired_total Changes by other programs that were undone.\n\
         # TYPE dunlin_cpus_drift_repaired_total counter\n\
         dunlin_cpus_drift_repaired_total {}\n\
         # HELP dunlin_cpus_pass_seconds Time of the last pass.\n\
         # TYPE dunlin_cpus_pass_seconds gauge\ndunlin_cpus_pass_seconds {:.6}\n\
         # HELP dunlin_cpus_healthy Whether the last pass found or made all as it should be.\n\
         # TYPE dunlin_cpus_healthy gauge\ndunlin_cpus_healthy {}\n",
        summary.exclusive.len(),
        summary.shared.len(),
        summary.repaired,
        pass.as_secs_f64(),
        u8::from(is_well),
    );
    let written = fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, path));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}
