//! When which target is probed, and what follows from the results. Without I/O: the clock and the
//! randomness are arguments.
//!
//! Each target has a phase within the interval of its check. Phases are multiples of the golden
//! ratio, so that any number of targets is spread evenly. A probe comes at its phase, and up to the
//! jitter later; the jitter of one probe does not move the next one.
use crate::check::Check;
use crate::limits::{ADDRESS_PROBES_PER_SECOND_MAX, SUSPECT_TARGETS_MIN};
use crate::state::{ProbeState, TargetState};
use fastrand::Rng;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use zone_manager::HealthTarget;

/// The fraction of the golden ratio, in units of 2^-32.
const GOLDEN: u32 = 0x9e37_79b9;
/// Probes a second are counted in units of a millionth.
pub const RATE_UNIT: u64 = 1_000_000;

/// Identifies a target as long as it is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProbeId {
    slot: u32,
    /// Differs if another target has the slot.
    generation: u32,
}

/// A probe to make now.
#[derive(Clone, Debug)]
pub struct DueProbe {
    /// For the result.
    pub id: ProbeId,
    /// The check.
    pub check: Arc<Check>,
    /// The address.
    pub address: IpAddr,
}

/// Why a target is not probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotProbed {
    /// There is no such check.
    NoCheck,
    /// There would be too many probes a second to one address.
    AddressRate,
}

/// A change of the state of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The target.
    pub target: HealthTarget,
    /// The state before.
    pub before: ProbeState,
    /// The state now.
    pub now: TargetState,
}

struct Slot {
    target: HealthTarget,
    check: Arc<Check>,
    state: TargetState,
    /// When the next probe is planned, before jitter.
    planned: Duration,
    /// Rounds since the start of a probe without a result yet.
    in_flight: u8,
    /// Whether its certificate ends soon, as of the last probe.
    ends_soon: bool,
    generation: u32,
}

/// All targets with their states and their schedule.
pub struct Prober {
    checks: HashMap<Arc<str>, Arc<Check>>,
    by_target: HashMap<HealthTarget, u32>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    queue: BinaryHeap<Reverse<(Duration, ProbeId)>>,
    /// The rate of probes to each address.
    address_rates: HashMap<IpAddr, u64>,
    /// The number of targets so far; chooses the phases and generations.
    count: u32,
    /// Targets that are up, and those of them whose last probe failed.
    up: usize,
    failing: usize,
    /// Targets whose certificate ends soon.
    expiring: usize,
    /// Whether other servers probe, too, and whether what they find arrives.
    fleet: Option<bool>,
    rng: Rng,
}

impl Prober {
    /// A prober for these checks. Equal seeds give equal schedules.
    pub fn new(checks: impl IntoIterator<Item = Check>, seed: u64) -> Self {
        let checks = checks.into_iter();
        let checks = checks.map(|check| (check.name.as_str().into(), Arc::new(check)));
        Self {
            checks: checks.collect(),
            by_target: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            queue: BinaryHeap::new(),
            address_rates: HashMap::new(),
            count: 0,
            up: 0,
            failing: 0,
            expiring: 0,
            fleet: None,
            rng: Rng::with_seed(seed),
        }
    }

    /// Starts to probe a target, with a state from before; one that is probed already stays as it
    /// is. `now`: since the start of the prober.
    ///
    /// # Errors
    /// Why it is not probed.
    pub fn add(
        &mut self,
        target: HealthTarget,
        state: TargetState,
        now: Duration,
    ) -> Result<(), NotProbed> {
        if self.by_target.contains_key(&target) {
            return Ok(());
        }
        let check = Arc::clone(self.checks.get(&target.check).ok_or(NotProbed::NoCheck)?);
        self.take_rate(&check, target.address)?;
        self.count = self.count.wrapping_add(1);
        let generation = self.count;
        let phase = phase(self.count, check.interval);
        let planned = next_planned(now, phase, check.interval);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.count_state(&state, 1);
        let id = ProbeId { slot, generation };
        let due = planned + check.jitter_max().mul_f64(self.rng.f64());
        self.queue.push(Reverse((due, id)));
        self.by_target.insert(target.clone(), slot);
        let made =
            Slot { target, check, state, planned, in_flight: 0, ends_soon: false, generation };
        self.slots[slot as usize] = Some(made);
        Ok(())
    }

    fn take_rate(&mut self, check: &Check, address: IpAddr) -> Result<(), NotProbed> {
        let more = rate_of(check);
        let of_address = self.address_rates.get(&address).copied().unwrap_or_default() + more;
        if of_address > u64::from(ADDRESS_PROBES_PER_SECOND_MAX) * RATE_UNIT {
            return Err(NotProbed::AddressRate);
        }
        self.address_rates.insert(address, of_address);
        Ok(())
    }

    /// Stops to probe a target; returns its state.
    pub fn remove(&mut self, target: &HealthTarget) -> Option<TargetState> {
        let slot = self.by_target.remove(target)?;
        let Slot { check, state, target, ends_soon, .. } = self.slots[slot as usize].take()?;
        self.expiring -= usize::from(ends_soon);
        self.free.push(slot);
        let rate = rate_of(&check);
        if let Some(of_address) = self.address_rates.get_mut(&target.address) {
            *of_address -= rate;
            if *of_address == 0 {
                self.address_rates.remove(&target.address);
            }
        }
        self.count_state(&state, usize::MAX);
        Some(state)
    }

    /// Adds 1 or -1 (`usize::MAX`) for a state.
    fn count_state(&mut self, state: &TargetState, step: usize) {
        if state.state == ProbeState::Up {
            self.up = self.up.wrapping_add(step);
        }
        if state.is_failing() {
            self.failing = self.failing.wrapping_add(step);
        }
    }

    /// When the next probe is due; `None`: there are no targets.
    pub fn next_due(&self) -> Option<Duration> {
        self.queue.peek().map(|Reverse((due, _))| *due)
    }

    /// The next probe that is due. The one after it is planned.
    pub fn due(&mut self, now: Duration) -> Option<DueProbe> {
        while let Some(Reverse((due, id))) = self.queue.peek().copied() {
            if due > now {
                return None;
            }
            self.queue.pop();
            let jitter_unit = self.rng.f64();
            let Some(slot) = self.slot(id) else { continue };
            let check = Arc::clone(&slot.check);
            slot.planned += check.interval;
            if slot.planned < now {
                // The clock jumped: missed probes are not made up for.
                let phase = remainder(slot.planned, check.interval);
                slot.planned = next_planned(now, phase, check.interval);
            }
            let next = slot.planned + check.jitter_max().mul_f64(jitter_unit);
            // A probe without a result for two rounds is lost.
            slot.in_flight = if slot.in_flight >= 2 { 1 } else { slot.in_flight + 1 };
            let (address, is_first) = (slot.target.address, slot.in_flight == 1);
            self.queue.push(Reverse((next, id)));
            if is_first {
                return Some(DueProbe { id, check, address });
            }
        }
        None
    }

    fn slot(&mut self, id: ProbeId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(id.slot as usize)?.as_mut()?;
        (slot.generation == id.generation).then_some(slot)
    }

    /// A due probe was not made.
    pub fn skip(&mut self, id: ProbeId) {
        if let Some(slot) = self.slot(id) {
            slot.in_flight = 0;
        }
    }

    /// This host could not make a probe: the state of its target stays.
    pub fn not_made(&mut self, id: ProbeId, reason: &str) {
        if let Some(slot) = self.slot(id) {
            slot.in_flight = 0;
            slot.state.take_reason(reason);
        }
    }

    /// Takes in when the certificate of a target ends; both times are since 1970. Returns the
    /// target if operators have to be warned.
    pub fn certificate(
        &mut self,
        id: ProbeId,
        end: Duration,
        wall: Duration,
    ) -> Option<&HealthTarget> {
        let slot = self.slots.get_mut(id.slot as usize)?.as_mut()?;
        if slot.generation != id.generation {
            return None;
        }
        let has_to_warn = slot.state.observe_certificate(end, &slot.check, wall);
        let certificate = slot.state.certificate.as_ref();
        let ends_soon = certificate.is_some_and(|found| found.ends_soon(&slot.check, wall));
        self.expiring = self.expiring + usize::from(ends_soon) - usize::from(slot.ends_soon);
        slot.ends_soon = ends_soon;
        has_to_warn.then_some(&slot.target)
    }

    /// Targets whose certificate ends soon.
    pub fn expiring(&self) -> usize {
        self.expiring
    }

    /// Takes in the result of a probe; `wall`: the time since 1970. Returns the change of state.
    pub fn result(
        &mut self,
        id: ProbeId,
        result: Result<(), &str>,
        wall: Duration,
    ) -> Option<Transition> {
        let before = {
            let slot = self.slot(id)?;
            slot.in_flight = 0;
            slot.state.clone()
        };
        self.count_state(&before, usize::MAX);
        // As it will be with this result: all that are up fail, so it may be our own link.
        let is_failing = result.is_err() && before.state == ProbeState::Up;
        let (up, failing) = match before.state {
            ProbeState::Up => (self.up + 1, self.failing + usize::from(is_failing)),
            _ => (self.up, self.failing),
        };
        let is_suspect = self.are_suspect(up, failing) || self.fleet == Some(false);
        let slot = self.slot(id)?;
        let check = Arc::clone(&slot.check);
        let has_changed = slot.state.observe(result, &check, is_suspect, wall);
        let (now, target) = (slot.state.clone(), slot.target.clone());
        self.count_state(&now, 1);
        has_changed.then_some(Transition { target, before: before.state, now })
    }

    /// Whether all targets that are up fail now, or in a fleet most of them: the prober suspects
    /// its own network, and nothing goes down for one more round.
    pub fn suspects_itself(&self) -> bool {
        self.are_suspect(self.up, self.failing)
    }

    fn are_suspect(&self, up: usize, failing: usize) -> bool {
        let are_too_many = if self.fleet.is_some() { 2 * failing > up } else { failing == up };
        up >= SUSPECT_TARGETS_MIN && are_too_many
    }

    /// Other servers probe, too. If what they find does not arrive, this one may be the one that is
    /// cut off: then nothing goes down for one more round.
    pub fn set_fleet(&mut self, is_connected: bool) {
        self.fleet = Some(is_connected);
    }

    /// The target and its state, if its last probe agrees with the state.
    pub fn confirmed(&self, id: ProbeId) -> Option<(&HealthTarget, &TargetState)> {
        let slot = self.slots.get(id.slot as usize)?.as_ref()?;
        let is_it = slot.generation == id.generation && slot.state.is_confirmed();
        is_it.then_some((&slot.target, &slot.state))
    }

    /// The state of a target that is probed.
    pub fn state(&self, target: &HealthTarget) -> Option<&TargetState> {
        let slot = *self.by_target.get(target)?;
        self.slots[slot as usize].as_ref().map(|slot| &slot.state)
    }

    /// When a target is probed next, at the earliest.
    pub fn next_probe(&self, target: &HealthTarget) -> Option<Duration> {
        let slot = *self.by_target.get(target)?;
        self.slots[slot as usize].as_ref().map(|slot| slot.planned)
    }

    /// All targets that are probed, with their states.
    pub fn states(&self) -> impl Iterator<Item = (&HealthTarget, &TargetState)> {
        self.slots.iter().flatten().map(|slot| (&slot.target, &slot.state))
    }

    /// The targets of a check that are probed.
    pub fn targets_of(&self, check: &str) -> Vec<HealthTarget> {
        let targets = self.by_target.keys().filter(|target| *target.check == *check);
        targets.cloned().collect()
    }

    /// Defines a check, or with `None` removes it. None of its targets may be probed.
    pub fn set_check(&mut self, name: &str, check: Option<Arc<Check>>) {
        match check {
            Some(check) => drop(self.checks.insert(name.into(), check)),
            None => drop(self.checks.remove(name)),
        }
    }

    /// The check of this name.
    pub fn check(&self, name: &str) -> Option<&Arc<Check>> {
        self.checks.get(name)
    }

    /// The number of targets that are probed.
    pub fn len(&self) -> usize {
        self.by_target.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_target.is_empty()
    }
}

/// Probes a second, in [`RATE_UNIT`].
pub fn rate_of(check: &Check) -> u64 {
    let micros = check.interval.as_micros().max(1) as u64;
    RATE_UNIT * RATE_UNIT / micros
}

/// The phase of a target within its interval.
fn phase(number: u32, interval: Duration) -> Duration {
    interval.mul_f64(f64::from(number.wrapping_mul(GOLDEN)) / 2f64.powi(32))
}

fn remainder(time: Duration, interval: Duration) -> Duration {
    Duration::from_nanos((time.as_nanos() % interval.as_nanos().max(1)) as u64)
}

/// The first time after `now` with this phase.
fn next_planned(now: Duration, phase: Duration, interval: Duration) -> Duration {
    let planned = now - remainder(now, interval) + phase;
    if planned > now { planned } else { planned + interval }
}
