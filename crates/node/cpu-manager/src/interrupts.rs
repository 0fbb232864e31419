//! Moves interrupts off exclusive CPUs, unless the group claims them.
use crate::Failure;
use crate::events::Event;
use crate::groups::Groups;
use crate::manager::{Manager, Wanted};
use crate::rules::{Interrupts, Rules};
use cpu::CpuList;
use cpu_topology::Topology;
use std::collections::BTreeMap;

impl<G: Groups> Manager<G> {
    /// Moves interrupts to their CPUs. The next pass handles new ones, and those that another
    /// program has moved. The previous setting is recorded first.
    pub(crate) fn steer_interrupts(
        &mut self,
        topology: &Topology,
        rules: &Rules,
        assigned: &Wanted,
        shared: &CpuList,
        events: &mut Vec<Event>,
    ) -> Result<(), Failure> {
        let exclusive = assigned.values().fold(CpuList::default(), |all, cpus| all.union(cpus));
        let online = topology.online();
        let claims = match rules.interrupts {
            Interrupts::Move => self.claimed_interrupts(topology, rules, assigned),
            Interrupts::Keep => BTreeMap::new(),
        };
        self.summary.interrupts = 0;
        let numbers: Vec<u32> = topology.interrupts.iter().map(|one| one.number).collect();
        self.state.interrupts.retain(|number, _| numbers.contains(number));
        self.immovable.retain(|number| numbers.contains(number));
        let mut moves = Vec::new();
        for interrupt in &topology.interrupts {
            let number = interrupt.number;
            if interrupt.allowed.is_empty() || self.immovable.contains(&number) {
                continue;
            }
            let found = self.state.interrupts.get(&number);
            let found = found.and_then(|text| CpuList::from_kernel(text).ok());
            let base = found.clone().unwrap_or_else(|| interrupt.allowed.clone());
            let target = match rules.interrupts {
                Interrupts::Move => match claims.get(&number) {
                    Some(cpu) => cpu.clone(),
                    None => target(&base, &exclusive, &online, shared),
                },
                Interrupts::Keep => base.clone(),
            };
            if target != base {
                self.summary.interrupts += 1;
                self.state.interrupts.entry(number).or_insert_with(|| base.to_string());
            }
            if target != interrupt.allowed {
                moves.push((number, target, base));
            } else if target == base {
                self.state.interrupts.remove(&number);
            }
        }
        self.save()?;
        for (number, target, base) in moves {
            match self.groups.set_interrupt(number, &target.to_string()) {
                Ok(()) if target == base => drop(self.state.interrupts.remove(&number)),
                Ok(()) => {}
                // Some are bound by their driver, or to one CPU. Each is reported once.
                Err(error) => {
                    self.state.interrupts.remove(&number);
                    self.immovable.insert(number);
                    events.push(Event::Fixed(number, error.to_string()));
                }
            }
        }
        self.save()
    }

    /// The CPU of each interrupt that a group claims: one after another of the group's.
    fn claimed_interrupts(
        &self,
        topology: &Topology,
        rules: &Rules,
        assigned: &Wanted,
    ) -> BTreeMap<u32, CpuList> {
        let of_rules = rules.groups.iter().filter(|rule| rule.interrupts);
        let of_rules = of_rules.map(|rule| (&rule.path, &rule.near));
        let of_claims = self.state.claims.values().filter(|claim| claim.interrupts);
        let of_claims = of_claims.map(|claim| (&claim.path, &claim.near));
        let mut cpu_of = BTreeMap::new();
        for (path, near) in of_rules.chain(of_claims) {
            let device = near.as_deref().and_then(|name| topology.device(name));
            let (Some(device), Some(cpus)) = (device, assigned.get(path)) else { continue };
            for (interrupt, cpu) in device.interrupts.iter().zip(cpus.iter().cycle()) {
                cpu_of.insert(*interrupt, CpuList::from_iter([cpu]));
            }
        }
        cpu_of
    }
}

/// The CPUs of an interrupt that no group claims: its previous CPUs without exclusive ones, or all
/// shared CPUs if none is left.
fn target(base: &CpuList, exclusive: &CpuList, online: &CpuList, shared: &CpuList) -> CpuList {
    let left = base.difference(exclusive);
    match left.intersection(online).is_empty() {
        true => shared.clone(),
        false => left,
    }
}
