//! Which threads run on which CPU, as the kernel's scheduler tells.
use super::node::{Node, Pod, now};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use test_support::wait;

/// `PF_KTHREAD` of a thread's flags.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// A thread that began to run: when, on which CPU, its process' name and its id.
#[derive(Clone, Debug)]
struct Switch {
    at: f64,
    cpu: usize,
    name: String,
    thread: u32,
}

/// Tracing, until it is dropped.
pub struct Trace {
    folder: PathBuf,
    switches: Arc<Mutex<Vec<Switch>>>,
    kernel_threads: Mutex<BTreeSet<u32>>,
    seen: AtomicUsize,
    forgotten: AtomicUsize,
}

impl Trace {
    pub fn start() -> Self {
        let folder = Path::new("/sys/kernel/tracing");
        let write = |file: &str, text: &str| {
            fs::write(folder.join(file), text).unwrap_or_else(|error| panic!("{file}: {error}"));
        };
        write("trace_clock", "mono");
        write("buffer_size_kb", "4096");
        write("events/sched/sched_switch/filter", "next_pid != 0");
        let switches: Arc<Mutex<Vec<Switch>>> = Arc::default();
        let pipe = fs::File::open(folder.join("trace_pipe")).expect("a trace");
        let into = Arc::clone(&switches);
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines() {
                let Ok(line) = line else { return };
                assert!(!line.contains("LOST"), "the trace has gaps: {line}");
                into.lock().expect("switches").extend(parse(&line));
            }
        });
        write("events/sched/sched_switch/enable", "1");
        let (kernel_threads, seen, forgotten) = Default::default();
        Self { folder: folder.to_owned(), switches, kernel_threads, seen, forgotten }
    }

    /// How many switches there were, and how many on CPUs that a container was alone on.
    pub fn events(&self) -> (usize, usize) {
        let kept = self.switches.lock().expect("switches").len();
        (self.forgotten.load(Ordering::Relaxed) + kept, self.seen.load(Ordering::Relaxed))
    }

    /// Lets go of what happened before any of these was alone: hundreds of containers make millions
    /// of switches, and each check reads all that are kept.
    pub fn forget(&self, pods: &[Pod]) {
        let since = pods.iter().filter_map(|pod| pod.alone_since).fold(now(), f64::min);
        let mut switches = self.switches.lock().expect("switches");
        let before = switches.len();
        switches.retain(|switch| switch.at >= since);
        self.forgotten.fetch_add(before - switches.len(), Ordering::Relaxed);
    }

    /// Asserts that a container was alone on its CPUs for as long as it was to be.
    pub fn check(&self, node: &Node, pod: &Pod) {
        self.note_kernel_threads();
        let Some(since) = pod.alone_since else { return };
        self.catch_up();
        let mut foreign: BTreeMap<(usize, String, u32), usize> = BTreeMap::new();
        let switches = self.switches.lock().expect("switches");
        let known = self.kernel_threads.lock().expect("threads");
        for switch in switches.iter().filter(|switch| pod.own.contains(switch.cpu)) {
            if switch.at <= since || switch.at >= pod.alone_until {
                continue;
            }
            self.seen.fetch_add(1, Ordering::Relaxed);
            // Workers of the kernel come and go; their names have a slash.
            let is_kernel = known.contains(&switch.thread) || switch.name.contains('/');
            if !is_kernel && !pod.processes.contains(&switch.thread) {
                let key = (switch.cpu, switch.name.clone(), switch.thread);
                *foreign.entry(key).or_default() += 1;
            }
        }
        assert!(
            foreign.is_empty(),
            "on CPUs {} of {} ran (CPU, name, thread: times) {foreign:?}\n{}",
            pod.own,
            pod.group,
            node.log()
        );
    }

    /// The same, and it need not be alone until it is opened again.
    pub fn check_and_pause(&self, node: &Node, pod: &mut Pod) {
        pod.close();
        self.check(node, pod);
        pod.alone_since = None;
    }

    /// Waits until what has happened by now has been read.
    fn catch_up(&self) {
        let until = now();
        let is_late = || {
            let switches = self.switches.lock().expect("switches");
            switches.last().is_none_or(|last| last.at < until)
        };
        wait::until_true("the trace is read", || !is_late());
    }

    fn note_kernel_threads(&self) {
        let mut threads = self.kernel_threads.lock().expect("threads");
        for process in fs::read_dir("/proc").expect("/proc").flatten() {
            let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
            let behind_name = stat.rsplit(')').next().unwrap_or_default();
            let flags: Option<u64> =
                behind_name.split_whitespace().nth(6).and_then(|word| word.parse().ok());
            let id = process.file_name().to_string_lossy().parse().ok();
            if let (Some(flags), Some(id)) = (flags, id)
                && flags & KERNEL_THREAD != 0
            {
                threads.insert(id);
            }
        }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        drop(fs::write(self.folder.join("events/sched/sched_switch/enable"), "0"));
    }
}

/// `sh-12 [003] d..2. 12.345678: sched_switch: prev_comm=… ==> next_comm=sh next_pid=12 …`
fn parse(line: &str) -> Option<Switch> {
    let (head, rest) = line.split_once(": sched_switch: ")?;
    let at = head.split_whitespace().last()?.parse().ok()?;
    // A name may contain anything; the CPU is the last that stands in brackets.
    let cpu = head.rsplit('[').next()?.split(']').next()?.parse().ok()?;
    let next = rest.split(" next_comm=").nth(1)?;
    let (name, numbers) = next.rsplit_once(" next_pid=")?;
    let thread = numbers.split_whitespace().next()?.parse().ok()?;
    Some(Switch { at, cpu, name: name.to_owned(), thread })
}
