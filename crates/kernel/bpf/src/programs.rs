//! Programs of one object, each attached by itself: to an interface beside those of others (tcx),
//! or to a control group.

use crate::attached::chain;
use aya::maps::Map;
use aya::programs::links::FdLink;
use aya::programs::tc::TcAttachOptions;
use aya::programs::{
    CgroupAttachMode, LinkOrder, Program, SchedClassifier, SockOps, TcAttachType, TestRunOptions,
    loaded_programs,
};
use aya::{Ebpf, EbpfLoader, TestRun};
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// A result with what failed, and what to do.
type Attached<T> = Result<T, AttachError>;

/// Why a program of the kernel does not run where it should.
#[derive(Debug)]
pub struct AttachError(String);

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for AttachError {}

fn failed<'e>(action: &'e str, advice: &'e str) -> impl Fn(&dyn Error) -> AttachError + 'e {
    move |error| AttachError(format!("{action}: {}; {advice}", chain(error)))
}

/// Which frames of an interface a program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Those that the interface has received.
    Ingress,
    /// Those that it sends.
    Egress,
}

/// Where a program runs among those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Before those that are there.
    First,
    /// After those that are there.
    Last,
}

/// A program that stays attached until this is dropped, or the process ends in any way.
#[derive(Debug)]
pub struct ProgramLink(#[expect(dead_code, reason = "it is kept")] FdLink);

/// The programs and maps of an object.
pub struct ProgramSet(Ebpf);

impl ProgramSet {
    /// Loads an object's maps, and its programs when they are attached.
    ///
    /// # Errors
    /// The kernel refuses, or this is no object.
    pub fn load(object: &[u8]) -> Attached<Self> {
        let loaded = EbpfLoader::new().load(object);
        loaded.map(Self).map_err(|error| {
            let advice = "it needs Linux 6.6, CAP_BPF and CAP_NET_ADMIN";
            failed("the kernel does not load the program", advice)(&error)
        })
    }

    /// Takes a map. The programs keep it.
    ///
    /// # Errors
    /// The object has none of this name.
    pub fn take_map(&mut self, name: &str) -> Attached<Map> {
        self.0.take_map(name).ok_or_else(|| AttachError(format!("the object has no map {name}")))
    }

    /// Attaches a program to an interface of this thread's network namespace.
    ///
    /// # Errors
    /// The kernel refuses the program, or there is no such interface.
    pub fn attach(
        &mut self,
        program: &str,
        interface: &str,
        direction: Direction,
        order: Order,
    ) -> Attached<ProgramLink> {
        let action = format!("cannot attach the program {program} to {interface}");
        let failed = failed(&action, "it needs Linux 6.6, CAP_BPF and CAP_NET_ADMIN");
        let program = self.classifier(program)?;
        let direction = match direction {
            Direction::Ingress => TcAttachType::Ingress,
            Direction::Egress => TcAttachType::Egress,
        };
        let order = match order {
            Order::First => LinkOrder::first(),
            Order::Last => LinkOrder::last(),
        };
        let link = program
            .attach_with_options(interface, direction, TcAttachOptions::TcxOrder(order))
            .and_then(|id| program.take_link(id))
            .map_err(|error| failed(&error))?;
        link.try_into().map(ProgramLink).map_err(|error| failed(&error))
    }

    /// Attaches a program to a control group (v2), beside those of others.
    ///
    /// # Errors
    /// The kernel refuses the program, or there is no such group.
    pub fn attach_to_group(&mut self, program: &str, group: &Path) -> Attached<ProgramLink> {
        let action = format!("cannot attach the program {program} to {}", group.display());
        let failed = failed(&action, "it needs cgroup v2, CAP_BPF and CAP_NET_ADMIN");
        let group = File::open(group).map_err(|error| failed(&error))?;
        let program: &mut SockOps =
            self.program(program)?.try_into().map_err(|error| failed(&error))?;
        if program.fd().is_err() {
            program.load().map_err(|error| failed(&error))?;
        }
        // A link always leaves room for others; the kernel refuses a flag that says so.
        let link = program
            .attach(group, CgroupAttachMode::Single)
            .and_then(|id| program.take_link(id))
            .map_err(|error| failed(&error))?;
        link.try_into().map(ProgramLink).map_err(|error| failed(&error))
    }

    /// Runs a program for a frame that is on no wire: what it returns, and the frame after it.
    /// `context` is the beginning of the kernel's `__sk_buff`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn run(&mut self, program: &str, frame: &[u8], context: &[u8]) -> Attached<(u32, Vec<u8>)> {
        let failed = failed("the kernel does not run the program", "it needs CAP_BPF");
        let program = self.classifier(program)?;
        let mut out = vec![0; frame.len() + 256];
        let options = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(&mut out),
            ctx_in: (!context.is_empty()).then_some(context),
            ..TestRunOptions::default()
        };
        let result = program.test_run(options).map_err(|error| failed(&error))?;
        let len = result.data_size_out as usize;
        out.truncate(len);
        Ok((result.return_value, out))
    }

    fn classifier(&mut self, name: &str) -> Attached<&mut SchedClassifier> {
        let action = format!("the kernel does not load the program {name}");
        let failed = failed(&action, "it needs Linux 6.6, CAP_BPF and CAP_NET_ADMIN");
        let program: &mut SchedClassifier =
            self.program(name)?.try_into().map_err(|error| failed(&error))?;
        if program.fd().is_err() {
            program.load().map_err(|error| failed(&error))?;
        }
        Ok(program)
    }

    fn program(&mut self, name: &str) -> Attached<&mut Program> {
        let absent = || AttachError(format!("the object has no program {name}"));
        self.0.program_mut(name).ok_or_else(absent)
    }
}

/// The names of all programs that the kernel has loaded.
///
/// # Errors
/// The kernel refuses.
pub fn program_names() -> Attached<Vec<String>> {
    let failed = failed("cannot list the kernel's programs", "it needs CAP_SYS_ADMIN");
    let mut names = Vec::new();
    for program in loaded_programs() {
        let program = program.map_err(|error| failed(&error))?;
        names.extend(program.name_as_str().map(str::to_owned));
    }
    Ok(names)
}

/// The names of the programs that have frames of an interface of this thread's network namespace:
/// of those that it receives, then of those that it sends, in the order in which they run (tcx).
///
/// # Errors
/// The kernel refuses, or there is no such interface.
pub fn attached_names(interface: &str) -> Attached<Vec<String>> {
    let action = format!("cannot list the programs of {interface}");
    let failed = failed(&action, "it needs Linux 6.6 and CAP_NET_ADMIN");
    let mut names = Vec::new();
    for way in [TcAttachType::Ingress, TcAttachType::Egress] {
        let (_, programs) =
            SchedClassifier::query_tcx(interface, way).map_err(|error| failed(&error))?;
        names.extend(programs.iter().filter_map(|one| one.name_as_str().map(str::to_owned)));
    }
    Ok(names)
}

/// How often the programs of this name have run, and for how long in all, while
/// `kernel.bpf_stats_enabled` was 1.
///
/// # Errors
/// The kernel refuses.
pub fn run_times(name: &str) -> Attached<(u64, Duration)> {
    let failed = failed("cannot list the kernel's programs", "it needs CAP_SYS_ADMIN");
    let mut sum = (0, Duration::ZERO);
    for program in loaded_programs() {
        let program = program.map_err(|error| failed(&error))?;
        if program.name_as_str() == Some(name) {
            sum = (sum.0 + program.run_count(), sum.1 + program.run_time());
        }
    }
    Ok(sum)
}
