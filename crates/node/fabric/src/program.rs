//! The kernel's programs and their tables.
use crate::addresses::{Address, interfaces, present};
use crate::containers::Container;
use crate::switch::{Switch, check_machine};
use crate::traffic::{BUCKETS, Counters, Other, RoundTrips, SwitchCounts, Traffic};
use bpf::maps::{HashMap as Table, MapData, MapError, PerCpuArray, PerCpuHashMap};
use bpf::{AttachError, Direction, Order, ProgramLink, ProgramSet, include_bytes_aligned};
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::path::Path;
use std::time::Duration;

/// `bpf/fabric.c`, compiled.
static OBJECT: &[u8] = include_bytes_aligned!("../bpf/fabric.o");

const OUTSIDE: u32 = 0;
const NOT_IP: u32 = u32::MAX;
const FROM_CONTAINER: u32 = 0;
/// Counters of the programs.
const COUNTS: usize = 6;

type Failure = Box<dyn Error + Send + Sync>;

/// The programs, attached to the wires of containers.
pub struct Watcher {
    programs: ProgramSet,
    links: HashMap<u32, [ProgramLink; 2]>,
    _group: Option<ProgramLink>,
    addresses: Table<MapData, Address, u32>,
    known: BTreeMap<Address, u32>,
    pairs: PerCpuHashMap<MapData, [u32; 3], [u64; 4]>,
    round_trips: Table<MapData, [u32; 2], [u64; 3 + BUCKETS]>,
    counts: PerCpuArray<MapData, u64>,
    order: Order,
    switch: Option<Switch>,
}

impl Watcher {
    /// Loads the programs, and has TCP report round trips of all sockets below a control group.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn new(group: Option<&Path>, order: Order) -> Result<Self, Failure> {
        let mut programs = ProgramSet::load(OBJECT)?;
        let group = group.map(|group| programs.attach_to_group("round_trip", group)).transpose()?;
        Ok(Self {
            links: HashMap::new(),
            _group: group,
            addresses: programs.take_map("addresses")?.try_into()?,
            known: BTreeMap::new(),
            pairs: programs.take_map("pairs")?.try_into()?,
            round_trips: programs.take_map("round_trips")?.try_into()?,
            counts: programs.take_map("counts")?.try_into()?,
            programs,
            order,
            switch: None,
        })
    }

    /// Has packets between containers that opt in moved by the switch, from now on.
    ///
    /// # Errors
    /// This machine does not allow it, or the kernel refuses.
    pub fn switch(&mut self) -> Result<(), Failure> {
        let silence = check_machine()?;
        self.switch_after(silence)
    }

    /// The same without a look at the machine: a flow of UDP is a new one after this silence.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn switch_after(&mut self, silence: Duration) -> Result<(), Failure> {
        self.switch = Some(Switch::new(&mut self.programs, silence)?);
        Ok(())
    }

    /// Runs the switch's program for a frame that is on no wire: what it returns, and the frame.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn try_switch(&mut self, frame: &[u8], context: &[u8]) -> Result<(u32, Vec<u8>), Failure> {
        Ok(self.programs.run("switch_flow", frame, context)?)
    }

    /// Watches these containers, and no others. Returns what could not be watched.
    ///
    /// # Errors
    /// A table of the kernel cannot be written.
    pub fn follow(&mut self, containers: &[Container]) -> Result<Vec<AttachError>, Failure> {
        let gone = |interface: &u32| !containers.iter().any(|one| one.interface == *interface);
        let left: Vec<u32> = self.links.keys().copied().filter(gone).collect();
        if let Some(switch) = &mut self.switch {
            switch.remove_changed(containers)?;
        }
        self.write_addresses(&interfaces(containers))?;
        for interface in left {
            self.links.remove(&interface);
            self.forget(interface)?;
        }
        let mut refused = Vec::new();
        for one in containers {
            if self.links.contains_key(&one.interface) {
                continue;
            }
            match self.attach(&one.wire) {
                Ok(links) => drop(self.links.insert(one.interface, links)),
                Err(error) => refused.push(error),
            }
        }
        if let Some(switch) = &mut self.switch {
            let is_watched = |one: &&Container| self.links.contains_key(&one.interface);
            let watched: Vec<_> = containers.iter().filter(is_watched).cloned().collect();
            switch.add_new(&mut self.programs, &watched)?;
        }
        Ok(refused)
    }

    /// Interfaces that are watched.
    pub fn watched(&self) -> usize {
        self.links.len()
    }

    fn attach(&mut self, wire: &str) -> Result<[ProgramLink; 2], AttachError> {
        let order = self.order;
        let mut attach = |program, way| self.programs.attach(program, wire, way, order);
        Ok([
            attach("from_container", Direction::Ingress)?,
            attach("to_container", Direction::Egress)?,
        ])
    }

    fn write_addresses(&mut self, wanted: &BTreeMap<Address, u32>) -> Result<(), MapError> {
        for (address, interface) in wanted {
            if self.known.get(address) != Some(interface) {
                self.addresses.insert(address, interface, 0)?;
            }
        }
        for address in self.known.keys().filter(|address| !wanted.contains_key(*address)) {
            present(self.addresses.remove(address))?;
        }
        self.known.clone_from(wanted);
        Ok(())
    }

    /// Deletes the counters of an interface that is gone.
    fn forget(&mut self, interface: u32) -> Result<(), MapError> {
        let keys: Vec<_> = self.pairs.keys().collect::<Result<_, _>>()?;
        for key in keys.iter().filter(|[own, other, _]| [own, other].contains(&&interface)) {
            present(self.pairs.remove(key))?;
        }
        let keys: Vec<_> = self.round_trips.keys().collect::<Result<_, _>>()?;
        for key in keys.iter().filter(|key| key.contains(&interface)) {
            present(self.round_trips.remove(key))?;
        }
        Ok(())
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn read(&self) -> Result<Counters, Failure> {
        let mut counters = Counters::default();
        for entry in self.pairs.iter() {
            let ([interface, other, direction], values) = entry?;
            let sum = |place: usize| values.iter().map(|one| one[place]).sum();
            let traffic =
                Traffic { frames: sum(0), packets: sum(1), bytes: sum(2), payload: sum(3) };
            let table = match direction {
                FROM_CONTAINER => &mut counters.sent,
                _ => &mut counters.delivered,
            };
            table.insert((interface, other_of(other)), traffic);
        }
        for entry in self.round_trips.iter() {
            let ([local, remote], values) = entry?;
            let mut buckets = [0; BUCKETS];
            buckets.copy_from_slice(&values[3..]);
            let [number, sum_us, retransmissions] = [values[0], values[1], values[2]];
            let trips = RoundTrips { number, sum_us, retransmissions, buckets };
            counters.round_trips.insert((local, other_of(remote)), trips);
        }
        let mut counts = [0_u64; COUNTS];
        for (index, count) in (0..).zip(&mut counts) {
            *count = self.counts.get(&index, 0)?.iter().sum();
        }
        let [not_counted, packets, too_long, foreign, flows, given_back] = counts;
        counters.not_counted = not_counted;
        counters.switch = SwitchCounts { packets, flows, too_long, foreign, given_back };
        Ok(counters)
    }
}

fn other_of(number: u32) -> Other {
    match number {
        OUTSIDE => Other::Outside,
        NOT_IP => Other::NotIp,
        interface => Other::Container(interface),
    }
}
