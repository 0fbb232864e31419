//! `dunlin cpus manage` and `dunlin cpus uninstall`.
use crate::cli::{Manage, Uninstall};
use crate::containers::{INDEX, NAME, adjustment, greeting, note};
use crate::metrics::write_metrics;
use crate::pod_events::PodEvents;
use command_line::plain;
use cpu_manager::{Event, LiveGroups, Lock, Manager, Policy, Rules, uninstall};
use cpu_planner::state::State as KubeletState;
use cpu_topology::Reader;
use nri::{NriError, Plugin, Request};
use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

/// How long the first pass waits for the runtime to tell of its containers.
const RUNTIME_WAIT: Duration = Duration::from_secs(1);

/// Errors that repeat are reported again after this long.
const REMIND: Duration = Duration::from_secs(60);

/// Keeps groups as the rules say and as containers request, pass by pass, until it is ended. What
/// it has set stays.
///
/// # Errors
/// It cannot begin: the rules are wrong, another manager runs, or it is not cgroup v2.
pub fn run(command: &Manage) -> Result<ExitCode, Box<dyn Error>> {
    let rules = load_rules(command)?;
    stand_aside(&command.kubelet_state)?;
    let groups = LiveGroups::open(&command.cgroup)?;
    let _lock = Lock::take(&command.state)?;
    let (manager, events) = Manager::new(groups, &command.state)?;
    let changed = modified(&command.rules);
    let (reader, log) = (Reader::default(), Log::default());
    let pods = match command.events {
        true => Some(PodEvents::start(command.kubeconfig.clone(), command.node())?),
        false => None,
    };
    let mut node = Node { command, rules, changed, manager, plugin: None, pods, reader, log };
    node.log.events(&events)?;
    node.greet_runtime()?;
    loop {
        let begin = Instant::now();
        node.reload()?;
        let passed = node.pass(None);
        if command.once {
            let is_well = passed?;
            return Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        node.report(passed)?;
        node.serve(begin + command.interval)?;
    }
}

/// Ends the manager, if one runs, and puts everything back as it was found.
///
/// # Errors
/// The state cannot be used, the kernel refuses, or a manager cannot be ended from here.
pub fn undo(command: &Uninstall) -> Result<ExitCode, Box<dyn Error>> {
    let mut groups = LiveGroups::open(&command.cgroup)?;
    let _lock = Lock::take_over(&command.state)?;
    let mut out = io::stdout().lock();
    match uninstall(&mut groups, &command.state)? {
        0 => writeln!(out, "nothing is managed: {} is not there", command.state.display())?,
        number => writeln!(out, "{number} control groups are as they were found")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The manager's loop.
struct Node<'a> {
    command: &'a Manage,
    rules: Rules,
    changed: Option<SystemTime>,
    manager: Manager<LiveGroups>,
    plugin: Option<Plugin>,
    pods: Option<PodEvents>,
    reader: Reader,
    log: Log,
}

impl Node<'_> {
    /// Reads the rules again if they have changed.
    fn reload(&mut self) -> io::Result<()> {
        let changed = modified(&self.command.rules);
        if changed == self.changed {
            return Ok(());
        }
        self.changed = changed;
        match load_rules(self.command) {
            Ok(rules) => self.rules = rules,
            Err(error) => {
                self.log.failure(&format!("{error}; the previous rules stay in effect"))?;
            }
        }
        Ok(())
    }

    /// Makes a pass, after what a call says is noted. Returns whether all is as it should be.
    fn pass(&mut self, request: Option<&Request>) -> Result<bool, Box<dyn Error>> {
        let begin = Instant::now();
        if let (Some(pods), Some(request)) = (&mut self.pods, request) {
            pods.note(request);
        }
        let passed = self.reconcile(request);
        let is_failure = |event: &Event| matches!(event, Event::Failed(..));
        let is_well = passed.as_ref().is_ok_and(|events| !events.iter().any(is_failure));
        if let Some(path) = &self.command.metrics {
            let is_connected = self.command.nri.as_ref().map(|_| self.plugin.is_some());
            let summary = self.manager.summary();
            let counts = self.pods.as_ref().map(|pods| &*pods.counts);
            write_metrics(path, summary, begin.elapsed(), is_well, is_connected, counts)?;
        }
        let events = passed?;
        let told = self.log.events(&events)?;
        if let Some(pods) = &self.pods {
            told.into_iter().for_each(|event| pods.offer(event));
        }
        Ok(is_well)
    }

    fn reconcile(&mut self, request: Option<&Request>) -> Result<Vec<Event>, Box<dyn Error>> {
        stand_aside(&self.command.kubelet_state)?;
        let topology = self.reader.read()?;
        let mut events = match request {
            Some(request) if self.rules.policy != Policy::None => {
                note(&mut self.manager, &topology, &self.rules, request)
            }
            _ => Vec::new(),
        };
        events.extend(self.manager.reconcile(&topology, &self.rules)?);
        Ok(events)
    }

    fn report(&mut self, passed: Result<bool, Box<dyn Error>>) -> io::Result<bool> {
        match passed {
            Ok(_) => Ok(true),
            Err(error) => self.log.failure(&error.to_string()).map(|_| false),
        }
    }

    /// Has the runtime gather its containers while the machine is read, and begins with the pass
    /// that knows them: a pass before it would only make them wait.
    fn greet_runtime(&mut self) -> io::Result<()> {
        let until = Instant::now() + RUNTIME_WAIT;
        self.connect()?;
        if self.plugin.is_some() {
            // The pass reports what cannot be read.
            drop(self.reader.read());
            self.serve(until)?;
        }
        Ok(())
    }

    /// Connects to the runtime, if there is to be one and it is not connected.
    fn connect(&mut self) -> io::Result<()> {
        let Some(socket) = self.command.nri.as_ref().filter(|_| self.plugin.is_none()) else {
            return Ok(());
        };
        match Plugin::connect(socket, NAME, INDEX) {
            Ok(plugin) => self.plugin = Some(plugin),
            Err(error) => drop(self.log.failure(&error.to_string())?),
        }
        Ok(())
    }

    /// Answers the runtime's calls until a time, or until it has told of its containers. A runtime
    /// that is not there is looked for again.
    fn serve(&mut self, until: Instant) -> io::Result<()> {
        self.connect()?;
        loop {
            let wait = until.saturating_duration_since(Instant::now());
            let Some(plugin) = &mut self.plugin else {
                sleep(wait);
                return Ok(());
            };
            match plugin.next(wait) {
                Ok(None) => return Ok(()),
                Ok(Some((call, request))) => {
                    if let Some(greeting) = greeting(plugin, &request) {
                        writeln!(io::stdout(), "{}", plain(&greeting))?;
                    }
                    self.reload()?;
                    let passed = self.pass(Some(&request));
                    let is_done = self.report(passed)? && self.rules.policy != Policy::None;
                    let change = is_done.then(|| adjustment(&self.manager, &request)).flatten();
                    let answered = self.plugin.as_mut().map(|plugin| plugin.answer(call, change));
                    self.disconnect_on(answered.unwrap_or(Ok(())))?;
                    if matches!(request, Request::Synchronize(..)) {
                        return Ok(());
                    }
                }
                Err(error) => self.disconnect_on(Err(error))?,
            }
        }
    }

    fn disconnect_on(&mut self, done: Result<(), NriError>) -> io::Result<()> {
        let Err(error) = done else { return Ok(()) };
        self.plugin = None;
        self.log.failure(&error.to_string()).map(drop)
    }
}

/// The rules; none are needed where containers say what they request.
fn load_rules(command: &Manage) -> Result<Rules, Box<dyn Error>> {
    let is_absent = command.nri.is_some() && !command.rules.exists();
    Ok(if is_absent { Rules::default() } else { Rules::load(&command.rules)? })
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
    /// Returns the events that were written.
    fn events<'a>(&mut self, events: &'a [Event]) -> io::Result<Vec<&'a Event>> {
        let failed = |event: &&Event| matches!(event, Event::Failed(..));
        let mut told: Vec<&Event> = events.iter().filter(|event| !failed(event)).collect();
        for event in &told {
            writeln!(io::stdout(), "{}", plain(&event.to_string()))?;
        }
        let failures = events.iter().filter(failed).map(|event| (event, event.to_string()));
        let failures: Vec<(&Event, String)> = failures.collect();
        // A fault that was mended is reported again when it comes again.
        self.last.retain(|(text, _)| failures.iter().any(|(_, failure)| failure == text));
        for (event, text) in failures {
            if self.failure(&text)? {
                told.push(event);
            }
        }
        Ok(told)
    }

    /// Whether it was written.
    fn failure(&mut self, text: &str) -> io::Result<bool> {
        let last = self.last.iter_mut().find(|(known, _)| known == text);
        let is_due = match &last {
            Some((_, told)) => told.is_none_or(|told| told.elapsed() >= REMIND),
            None => true,
        };
        if !is_due {
            return Ok(false);
        }
        match last {
            Some((_, told)) => *told = Some(Instant::now()),
            None => self.last.push((text.to_owned(), Some(Instant::now()))),
        }
        writeln!(io::stderr(), "dunlin: {}", plain(text))?;
        Ok(true)
    }
}
