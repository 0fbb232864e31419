//! What is to be, what is, and the steps between.
use crate::Failure;
use crate::groups::{Groups, ancestors, join};
use crate::limits::GROUPS_MAX;
use crate::rules::{Policy, Rule, Rules};
use crate::state::{State, StateFault, beside, machine_id};
use cpu::CpuList;
use cpu_planner::{Constraints, Request, plan};
use cpu_topology::{Level, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const CPUS: &str = "cpuset.cpus";
const EFFECTIVE: &str = "cpuset.cpus.effective";
const CONTROL: &str = "cgroup.subtree_control";
const QUOTA: &str = "cpu.max";

/// What happened, or could not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A group has CPUs of its own now, and why these.
    Assigned(String, CpuList, String),
    /// A group shares again, or is gone.
    Released(String, CpuList),
    /// What another program had changed is as it should be again: group, what was found, what is.
    Repaired(String, String, String),
    /// Something is not as it should be: group, and what to do.
    Failed(String, String),
    /// All is as it was found.
    Restored,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Assigned(group, cpus, why) => {
                write!(f, "{group} has CPUs {cpus} of its own: {why}")
            }
            Self::Released(group, cpus) => write!(f, "{group} has given CPUs {cpus} back"),
            Self::Repaired(group, found, now) => {
                write!(f, "{group} had CPUs \"{found}\" by another program, and has {now} again")
            }
            Self::Failed(group, what) => write!(f, "{group}: {what}"),
            Self::Restored => f.write_str("every group is as it was found"),
        }
    }
}

/// How things stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// CPUs that groups have for themselves.
    pub exclusive: CpuList,
    /// CPUs that all others share.
    pub shared: CpuList,
    /// Groups whose CPUs are in several L3 domains, NUMA nodes and sockets.
    pub split: [usize; 3],
    /// Changes by other programs that were undone.
    pub repaired: u64,
}

/// Keeps groups as a rule file says.
pub struct Manager<G> {
    groups: G,
    state_path: PathBuf,
    machine: String,
    state: State,
    /// What this process has set, to tell repairs from new sets.
    applied: BTreeMap<String, CpuList>,
    /// A state was lost: sets of groups may be ours, and are not taken for found ones.
    has_forgotten: bool,
    summary: Summary,
}

/// What a pass wants, by group.
type Wanted = BTreeMap<String, CpuList>;

impl<G: Groups> Manager<G> {
    /// Begins with the state of a file, if there is one for this machine. One that cannot be used
    /// is moved aside and told: it is no reason not to start.
    ///
    /// # Errors
    /// A state that cannot be used cannot be moved aside.
    pub fn new(groups: G, state_path: &Path) -> Result<(Self, Vec<Event>), Failure> {
        let machine = machine_id();
        let mut events = Vec::new();
        let (state, has_forgotten) = match State::load(state_path, &machine) {
            Ok(state) => (state.unwrap_or_default(), false),
            Err(fault) => {
                events.push(move_aside(state_path, &fault)?);
                (State::default(), true)
            }
        };
        let (applied, summary) = (BTreeMap::new(), Summary::default());
        let state_path = state_path.to_owned();
        let manager = Self { groups, state_path, machine, state, applied, has_forgotten, summary };
        Ok((manager, events))
    }

    /// How things stood after the last pass.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Compares what is with what is to be, and mends it: one pass.
    ///
    /// # Errors
    /// The kernel refuses everything, or the state cannot be kept. Groups keep what they have.
    pub fn reconcile(&mut self, topology: &Topology, rules: &Rules) -> Result<Vec<Event>, Failure> {
        let mut events = Vec::new();
        if rules.policy == Policy::None {
            if self.state != State::default() {
                self.restore()?;
                events.push(Event::Restored);
            }
            return Ok(events);
        }
        let before = self.state.clone();
        let assigned = self.assign(topology, rules, &mut events);
        let exclusive = assigned.values().fold(CpuList::default(), |all, cpus| all.union(cpus));
        let shared = topology.online().difference(&exclusive);
        if assigned.is_empty() && before.found.is_empty() {
            self.summarize(topology, &assigned, exclusive, shared);
            return Ok(events);
        }
        self.state.assigned =
            assigned.iter().map(|(path, cpus)| (path.clone(), cpus.to_string())).collect();
        self.switch_on(&assigned)?;
        let wanted = self.wanted(&assigned, &shared)?;
        self.remember(&wanted, &assigned);
        if self.state != before {
            self.state.save(&self.state_path, &self.machine)?;
        }
        self.apply(&wanted, &assigned, &exclusive, &mut events)?;
        self.lift_quotas(&assigned)?;
        self.summarize(topology, &assigned, exclusive, shared);
        Ok(events)
    }

    /// The CPUs of each group that has a rule and is there. Groups keep theirs as long as they can.
    fn assign(&self, topology: &Topology, rules: &Rules, events: &mut Vec<Event>) -> Wanted {
        let online = topology.online();
        let mut assigned = Wanted::new();
        let mut taken = CpuList::default();
        let mut open: Vec<(&Rule, CpuList)> = Vec::new();
        for rule in rules.groups.iter().filter(|rule| self.is_there(&rule.path)) {
            let old = self.old_set(rule);
            let usable = old.intersection(&online).difference(&rules.reserved).difference(&taken);
            taken = taken.union(&usable);
            if usable == old && old.len() == rule.cpus {
                assigned.insert(rule.path.clone(), old);
            } else {
                open.push((rule, usable));
            }
        }
        for (rule, usable) in open {
            let free = online.difference(&taken).union(&usable);
            let request = Request { cpus: rule.cpus, near: rule.near.clone() };
            let constraints = Constraints {
                reserved: rules.reserved.clone(),
                full_cores: rule.full_cores,
                shared_min: 1,
                ..Constraints::default()
            };
            match plan(topology, &free, &request, &constraints) {
                Ok(plan) => {
                    taken = taken.difference(&usable).union(&plan.cpus);
                    let why = plan.explanation.to_string().replace('\n', "; ");
                    events.push(Event::Assigned(rule.path.clone(), plan.cpus.clone(), why));
                    assigned.insert(rule.path.clone(), plan.cpus);
                }
                Err(error) => {
                    let keeps = match usable.is_empty() {
                        true => "it shares".to_owned(),
                        false => format!("it keeps {usable}"),
                    };
                    events.push(Event::Failed(rule.path.clone(), format!("{error}; {keeps}")));
                    if !usable.is_empty() {
                        assigned.insert(rule.path.clone(), usable);
                    }
                }
            }
        }
        for (path, cpus) in &self.state.assigned {
            if !assigned.contains_key(path) {
                let cpus = CpuList::from_kernel(cpus).unwrap_or_default();
                events.push(Event::Released(path.clone(), cpus));
            }
        }
        assigned
    }

    /// The CPUs that a group has: by the state, or, where that was lost, by the kernel.
    fn old_set(&self, rule: &Rule) -> CpuList {
        let own = self.state.assigned.get(&rule.path).cloned();
        let own = match own {
            None if self.has_forgotten => self.groups.read(&rule.path, CPUS).ok(),
            own => own,
        };
        own.and_then(|text| CpuList::from_kernel(&text).ok()).unwrap_or_default()
    }

    fn is_there(&self, path: &str) -> bool {
        self.groups.read(path, "cgroup.procs").is_ok()
    }

    /// Has the kernel offer CPU sets beside and above the groups that get some.
    fn switch_on(&mut self, assigned: &Wanted) -> Result<(), Failure> {
        let above: BTreeSet<String> =
            assigned.keys().flat_map(|path| ancestors(path)).map(str::to_owned).collect();
        // A path sorts behind those that it is in.
        for group in above {
            let Ok(on) = self.groups.read(&group, CONTROL) else { continue };
            if on.split_whitespace().any(|one| one == "cpuset") {
                continue;
            }
            if !self.state.switched_on.contains(&group) {
                self.state.switched_on.push(group.clone());
                self.state.save(&self.state_path, &self.machine)?;
            }
            self.write(&group, CONTROL, "+cpuset")?;
        }
        Ok(())
    }

    /// The CPUs of every group that matters: those with rules, those above them, and beside these
    /// all others, which share.
    fn wanted(&self, assigned: &Wanted, shared: &CpuList) -> Result<Wanted, Failure> {
        let mut wanted = Wanted::new();
        let mut left = vec![String::new()];
        while let Some(group) = left.pop() {
            // It may be gone by now.
            for name in self.groups.children(&group).unwrap_or_default() {
                let path = join(&group, &name);
                let below = format!("{path}/");
                let inside = assigned.iter().filter(|(other, _)| other.starts_with(&below));
                let inside: Vec<&CpuList> = inside.map(|(_, cpus)| cpus).collect();
                let cpus = match assigned.get(&path) {
                    Some(own) => own.clone(),
                    None => inside.iter().fold(shared.clone(), |all, cpus| all.union(cpus)),
                };
                if !inside.is_empty() {
                    left.push(path.clone());
                }
                wanted.insert(path, cpus);
            }
            if wanted.len() > GROUPS_MAX {
                return Err(Failure(format!(
                    "there are more than {GROUPS_MAX} control groups beside those with rules: \
                     give their parents rules, or end some"
                )));
            }
        }
        Ok(wanted)
    }

    /// Notes what is found in groups that are touched for the first time, and forgets those that
    /// are gone.
    fn remember(&mut self, wanted: &Wanted, assigned: &Wanted) {
        let there: Vec<String> =
            self.state.found.keys().filter(|path| self.is_there(path)).cloned().collect();
        self.state.found.retain(|path, _| there.contains(path));
        self.applied.retain(|path, _| wanted.contains_key(path));
        for path in wanted.keys() {
            let Ok(mut cpus) = self.groups.read(path, CPUS) else { continue };
            if self.has_forgotten {
                cpus.clear();
            }
            let files = self.state.found.entry(path.clone()).or_default();
            files.entry(CPUS.into()).or_insert(cpus);
            if assigned.contains_key(path)
                && let Ok(quota) = self.groups.read(path, QUOTA)
            {
                files.entry(QUOTA.into()).or_insert(quota);
            }
        }
    }

    /// Sets what is wanted: those who share leave first, and the kernel confirms it, before a group
    /// gets CPUs of its own.
    fn apply(
        &mut self,
        wanted: &Wanted,
        assigned: &Wanted,
        exclusive: &CpuList,
        events: &mut Vec<Event>,
    ) -> Result<(), Failure> {
        let is_above = |path: &str| {
            let below = format!("{path}/");
            assigned.keys().any(|other| other.starts_with(&below))
        };
        let step = |path: &str| match () {
            () if assigned.contains_key(path) => 2,
            () if is_above(path) => 1,
            () => 0,
        };
        for wanted_step in 0..3 {
            for (path, cpus) in wanted.iter().filter(|(path, _)| step(path) == wanted_step) {
                let Ok(found) = self.groups.read(path, CPUS) else { continue };
                if CpuList::from_kernel(&found).ok().as_ref() != Some(cpus) {
                    self.write(path, CPUS, &cpus.to_string())?;
                    if self.applied.get(path) == Some(cpus) {
                        self.summary.repaired += 1;
                        events.push(Event::Repaired(path.clone(), found, cpus.to_string()));
                    }
                }
                self.applied.insert(path.clone(), cpus.clone());
                let Ok(effective) = self.groups.read(path, EFFECTIVE) else { continue };
                let effective = CpuList::from_kernel(&effective).unwrap_or_default();
                let is_confirmed = match wanted_step {
                    0 => effective.intersection(exclusive).is_empty(),
                    1 => true,
                    _ => effective == *cpus,
                };
                if !is_confirmed {
                    let what = format!(
                        "the kernel has it on CPUs {effective} instead of {cpus}: a group above it \
                         has other CPUs, or is a partition"
                    );
                    events.push(Event::Failed(path.clone(), what));
                }
            }
        }
        Ok(())
    }

    /// A group alone on its CPUs gains nothing by a quota, and loses time to it.
    fn lift_quotas(&mut self, assigned: &Wanted) -> Result<(), Failure> {
        for path in assigned.keys() {
            let quota = self.groups.read(path, QUOTA);
            if quota.is_ok_and(|quota| !quota.starts_with("max")) {
                self.write(path, QUOTA, "max")?;
            }
        }
        Ok(())
    }

    fn summarize(
        &mut self,
        topology: &Topology,
        assigned: &Wanted,
        exclusive: CpuList,
        shared: CpuList,
    ) {
        self.summary.split = [Level::L3, Level::Node, Level::Socket].map(|level| {
            let elements = topology.elements(level);
            let used = |cpus: &CpuList| {
                elements.values().filter(|part| !part.intersection(cpus).is_empty()).count()
            };
            assigned.values().filter(|cpus| used(cpus) > 1).count()
        });
        (self.summary.exclusive, self.summary.shared) = (exclusive, shared);
    }

    fn write(&mut self, group: &str, file: &str, text: &str) -> Result<(), Failure> {
        write(&mut self.groups, group, file, text)
    }

    /// Puts everything back as it was found, and forgets it.
    fn restore(&mut self) -> Result<(), Failure> {
        restore(&mut self.groups, &self.state)?;
        self.state = State::default();
        self.applied.clear();
        self.summary = Summary { repaired: self.summary.repaired, ..Summary::default() };
        remove(&self.state_path)
    }
}

/// Writes a file of a group; one that is gone needs nothing.
fn write(groups: &mut impl Groups, group: &str, file: &str, text: &str) -> Result<(), Failure> {
    const NO_DEVICE: i32 = 19;
    match groups.write(group, file, text) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.raw_os_error() == Some(NO_DEVICE) => Ok(()),
        Err(error) => {
            let place = format!("{} of the control group {group:?}", file);
            Err(Failure::of(&format!("write {text:?} into"), place, &error))
        }
        Ok(()) => Ok(()),
    }
}

/// Puts back what was found. Where this program has switched the controller on, it is switched off
/// again, and the sets go with it.
fn restore(groups: &mut impl Groups, state: &State) -> Result<(), Failure> {
    for group in state.switched_on.iter().rev() {
        match groups.write(group, CONTROL, "-cpuset") {
            // Another program has switched it on further down since: then the sets are written.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
            _ => write(groups, group, CONTROL, "-cpuset")?,
        }
    }
    let all = groups.read("", EFFECTIVE).unwrap_or_default();
    for (group, files) in &state.found {
        for (file, text) in files {
            if groups.read(group, file).is_ok_and(|found| found == *text) {
                continue;
            }
            // The kernel refuses to empty the set of a group with processes. All CPUs are the same.
            let refused = groups
                .write(group, file, text)
                .is_err_and(|error| error.kind() == io::ErrorKind::StorageFull && text.is_empty());
            write(groups, group, file, if refused { &all } else { text })?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::of("remove", path.display(), &error))
        }
        _ => Ok(()),
    }
}

fn move_aside(path: &Path, fault: &StateFault) -> Result<Event, Failure> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let aside = beside(path, &format!("unused-{}", now.as_nanos()));
    fs::rename(path, &aside).map_err(|error| Failure::of("move aside", path.display(), &error))?;
    let what = format!(
        "the state {fault}; it is kept as {}, and groups with rules keep the CPUs that they have",
        aside.display()
    );
    Ok(Event::Failed(path.display().to_string(), what))
}

/// Puts everything back as the state of a file says it was found, and removes the file. Returns
/// the number of groups; 0 where nothing was managed.
///
/// # Errors
/// The state cannot be used, or the kernel refuses. The file stays then.
pub fn uninstall(groups: &mut impl Groups, state_path: &Path) -> Result<usize, Failure> {
    let state = State::load(state_path, &machine_id()).map_err(|fault| {
        Failure(format!(
            "{}: the state {fault}; what was found before is not known: write an empty line into \
             cpuset.cpus of each group, or restart the machine",
            state_path.display()
        ))
    })?;
    let Some(state) = state else { return Ok(0) };
    restore(groups, &state)?;
    remove(state_path)?;
    Ok(state.found.len())
}

#[cfg(test)]
#[path = "manager_tests.rs"]
mod tests;
