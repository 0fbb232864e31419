//! Compares the wanted CPU sets with the kernel's, and applies the difference.
use crate::Failure;
use crate::events::{Event, Summary};
use crate::groups::{CONTROL, CPUS, EFFECTIVE, Groups, QUOTA, ancestors, join};
use crate::limits::GROUPS_MAX;
use crate::partitions::Refused;
use crate::restore::{move_aside, remove, restore, write};
use crate::rules::{Policy, Rules};
use crate::state::{State, machine_id};
use cpu::CpuList;
use cpu_planner::{Constraints, Request, plan};
use cpu_topology::{Level, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Keeps the CPU sets of groups as the rule file and the containers request.
pub struct Manager<G> {
    pub(crate) groups: G,
    state_path: PathBuf,
    machine: String,
    pub(crate) state: State,
    /// The state as saved in the file.
    saved: State,
    /// Sets written by this process, to distinguish repairs from new sets.
    applied: BTreeMap<String, CpuList>,
    /// Whether a state was lost: existing sets may be from this manager, and are not recorded as
    /// previous settings.
    has_forgotten: bool,
    /// Groups that the kernel refuses as partitions.
    pub(crate) unpartitioned: BTreeMap<String, Refused>,
    /// Interrupts that the kernel does not move.
    pub(crate) immovable: BTreeSet<u32>,
    /// Groups of containers that run and have no CPUs of their own yet, and since when.
    pub(crate) waiting: BTreeMap<String, Instant>,
    /// The last set of shared CPUs.
    last_shared: CpuList,
    pub(crate) summary: Summary,
}

/// The CPU sets that a pass wants, by group.
pub(crate) type Wanted = BTreeMap<String, CpuList>;

/// The request of a group with exclusive CPUs.
struct Want<'a> {
    path: &'a str,
    cpus: usize,
    near: &'a Option<String>,
    full_cores: bool,
}

impl<G: Groups> Manager<G> {
    /// Starts with the saved state, if there is one for this machine. An unusable state file is
    /// renamed and reported; the manager starts without it.
    ///
    /// # Errors
    /// An unusable state cannot be moved aside.
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
        let manager = Self {
            groups,
            state_path: state_path.to_owned(),
            machine,
            saved: state.clone(),
            state,
            applied: BTreeMap::new(),
            has_forgotten,
            unpartitioned: BTreeMap::new(),
            immovable: BTreeSet::new(),
            waiting: BTreeMap::new(),
            last_shared: CpuList::default(),
            summary: Summary::default(),
        };
        Ok((manager, events))
    }

    /// The status after the last pass.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Makes one pass: compares the kernel's settings with the wanted ones, and repairs
    /// differences.
    ///
    /// # Errors
    /// The kernel refuses every write, or the state cannot be saved. Groups keep their CPUs.
    pub fn reconcile(&mut self, topology: &Topology, rules: &Rules) -> Result<Vec<Event>, Failure> {
        let mut events = Vec::new();
        if rules.policy == Policy::None {
            if self.state != State::default() {
                self.restore()?;
                events.push(Event::Restored);
            }
            return Ok(events);
        }
        let assigned = self.assign(topology, rules, &mut events);
        let exclusive = assigned.values().fold(CpuList::default(), |all, cpus| all.union(cpus));
        let shared = topology.online().difference(&exclusive);
        if assigned.is_empty() && self.state.found.is_empty() && self.state.interrupts.is_empty() {
            self.save()?;
            self.summarize(topology, &assigned, exclusive, shared);
            return Ok(events);
        }
        self.state.assigned =
            assigned.iter().map(|(path, cpus)| (path.clone(), cpus.to_string())).collect();
        self.switch_on(&assigned)?;
        self.leave_partitions(&assigned)?;
        let wanted = self.wanted(&assigned, &shared)?;
        self.remember(&wanted, &assigned);
        self.save()?;
        self.apply(&wanted, &assigned, &exclusive, &mut events)?;
        self.lift_quotas(&assigned)?;
        self.make_partitions(&assigned)?;
        self.steer_interrupts(topology, rules, &assigned, &shared, &mut events)?;
        self.report_waits(&assigned, &events);
        self.last_shared = shared.clone();
        self.summarize(topology, &assigned, exclusive, shared);
        Ok(events)
    }

    /// Writes the state if it has changed.
    pub(crate) fn save(&mut self) -> Result<(), Failure> {
        if self.state != self.saved {
            self.state.save(&self.state_path, &self.machine)?;
            self.saved = self.state.clone();
        }
        Ok(())
    }

    /// Existing groups with rules, and groups of containers, also before they exist.
    fn wants<'a>(&'a self, rules: &'a Rules) -> Vec<Want<'a>> {
        let of_rules = rules.groups.iter().filter(|rule| self.is_there(&rule.path));
        let of_rules = of_rules.map(|rule| Want {
            path: &rule.path,
            cpus: rule.cpus,
            near: &rule.near,
            full_cores: rule.full_cores,
        });
        let claims = self.state.claims.values().filter(|claim| !rules.has(&claim.path));
        let of_claims = claims.map(|claim| Want {
            path: &claim.path,
            cpus: claim.cpus,
            near: &claim.near,
            full_cores: claim.full_cores,
        });
        of_rules.chain(of_claims).collect()
    }

    /// The CPUs of each group with a rule or a claim. Groups keep their CPUs as long as possible.
    fn assign(&self, topology: &Topology, rules: &Rules, events: &mut Vec<Event>) -> Wanted {
        let online = topology.online();
        let mut assigned = Wanted::new();
        let mut taken = CpuList::default();
        let mut open: Vec<(Want<'_>, CpuList)> = Vec::new();
        for want in self.wants(rules) {
            let old = self.old_set(want.path);
            let usable = old.intersection(&online).difference(&rules.reserved);
            let lost = old.difference(&usable);
            if !lost.is_empty() {
                events.push(Event::Lost(want.path.to_owned(), lost));
            }
            let usable = usable.difference(&taken);
            taken = taken.union(&usable);
            if usable == old && old.len() == want.cpus {
                assigned.insert(want.path.to_owned(), old);
            } else {
                open.push((want, usable));
            }
        }
        for (want, usable) in open {
            let free = online.difference(&taken).union(&usable);
            let request = Request { cpus: want.cpus, near: want.near.clone() };
            let constraints = constraints(rules, want.full_cores);
            match plan(topology, &free, &request, &constraints) {
                Ok(plan) => {
                    taken = taken.difference(&usable).union(&plan.cpus);
                    let why = plan.explanation.to_string().replace('\n', "; ");
                    events.push(Event::Assigned(want.path.to_owned(), plan.cpus.clone(), why));
                    assigned.insert(want.path.to_owned(), plan.cpus);
                }
                Err(error) => {
                    let keeps = match usable.is_empty() {
                        true => "it shares".to_owned(),
                        false => format!("it keeps {usable}"),
                    };
                    events.push(Event::Failed(want.path.to_owned(), format!("{error}; {keeps}")));
                    if !usable.is_empty() {
                        assigned.insert(want.path.to_owned(), usable);
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

    /// The CPUs of a group: from the state, or from the kernel if the state was lost.
    fn old_set(&self, path: &str) -> CpuList {
        let own = self.state.assigned.get(path).cloned();
        let own = match own {
            None if self.has_forgotten => self.groups.read(path, CPUS).ok(),
            own => own,
        };
        own.and_then(|text| CpuList::from_kernel(&text).ok()).unwrap_or_default()
    }

    pub(crate) fn is_there(&self, path: &str) -> bool {
        self.groups.read(path, "cgroup.procs").is_ok()
    }

    /// Enables the cpuset controller for the siblings and the parents of the groups that get CPUs.
    fn switch_on(&mut self, assigned: &Wanted) -> Result<(), Failure> {
        let above: BTreeSet<String> =
            assigned.keys().flat_map(|path| ancestors(path)).map(str::to_owned).collect();
        // A path sorts after its parents.
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

    /// The CPUs of every affected group: groups with rules, their parents, and the siblings of
    /// both, which share.
    fn wanted(&self, assigned: &Wanted, shared: &CpuList) -> Result<Wanted, Failure> {
        let mut wanted = Wanted::new();
        let mut left = vec![String::new()];
        while let Some(group) = left.pop() {
            // It may have been removed.
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

    /// Records the previous settings of groups that are changed for the first time, and removes
    /// records of groups that no longer exist.
    fn remember(&mut self, wanted: &Wanted, assigned: &Wanted) {
        let there: Vec<String> =
            self.state.found.keys().filter(|path| self.is_there(path)).cloned().collect();
        self.state.found.retain(|path, _| there.contains(path));
        self.applied.retain(|path, _| wanted.contains_key(path));
        for path in wanted.keys() {
            let Ok(mut cpus) = self.groups.read(path, CPUS) else { continue };
            // The runtime has created a container with the set of this manager.
            let is_ours = CpuList::from_kernel(&cpus)
                .is_ok_and(|cpus| cpus == self.last_shared || assigned.get(path) == Some(&cpus));
            if self.has_forgotten || is_ours {
                cpus.clear();
            }
            let claim = self.state.claims.values().find(|claim| claim.path == *path);
            let claimed = claim.map(|claim| claim.quota.clone());
            let files = self.state.found.entry(path.clone()).or_default();
            files.entry(CPUS.into()).or_insert(cpus);
            if let Some(quota) = claimed {
                files.entry(QUOTA.into()).or_insert(quota);
            } else if assigned.contains_key(path)
                && let Ok(quota) = self.groups.read(path, QUOTA)
            {
                files.entry(QUOTA.into()).or_insert(quota);
            }
        }
        self.remember_partitions(assigned);
    }

    /// Applies the wanted sets: sharing groups leave first, and the kernel confirms it, before a
    /// group gets exclusive CPUs.
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
            let mut now: Vec<(&String, &CpuList)> =
                wanted.iter().filter(|(path, _)| step(path) == wanted_step).collect();
            // A group leaves its set before another group gets a part of it.
            now.sort_by_key(|(path, _)| self.groups.read(path, CPUS).is_ok_and(|c| c.is_empty()));
            for (path, cpus) in now {
                let Ok(found) = self.groups.read(path, CPUS) else { continue };
                if CpuList::from_kernel(&found).ok().as_ref() != Some(cpus) {
                    self.leave_partition(path)?;
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

    /// How long containers waited that have got their CPUs now.
    fn report_waits(&mut self, assigned: &Wanted, events: &[Event]) {
        let paths: BTreeSet<&String> =
            self.state.claims.values().map(|claim| &claim.path).collect();
        for event in events {
            let Event::Assigned(path, ..) = event else { continue };
            if paths.contains(path) {
                let waited = self.waiting.get(path).map_or(Duration::ZERO, Instant::elapsed);
                self.summary.time_to_exclusive = waited;
            }
        }
        self.waiting.retain(|path, _| !assigned.contains_key(path) && paths.contains(path));
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

    pub(crate) fn write(&mut self, group: &str, file: &str, text: &str) -> Result<(), Failure> {
        write(&mut self.groups, group, file, text)
    }

    /// Restores all previous settings, and deletes their record.
    fn restore(&mut self) -> Result<(), Failure> {
        restore(&mut self.groups, &self.state)?;
        self.state = State::default();
        self.saved = State::default();
        self.applied.clear();
        self.summary = Summary { repaired: self.summary.repaired, ..Summary::default() };
        remove(&self.state_path)
    }
}

/// What limits the choice for a group.
pub(crate) fn constraints(rules: &Rules, full_cores: bool) -> Constraints {
    Constraints {
        reserved: rules.reserved.clone(),
        full_cores,
        shared_min: 1,
        ..Constraints::default()
    }
}

#[cfg(test)]
#[path = "manager_tests.rs"]
pub(crate) mod tests;
