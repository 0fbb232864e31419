//! Processes and their threads.

use crate::limits::{CHANGE_MAX, PATIENCE};
use crate::thread_context::ThreadContext;
use crate::{Error, Model, Options, model};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_parent_process_death_signal,
    waitpid,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fs, io};

/// Threads of this process, or other processes.
pub enum Processes {
    /// The calling process only.
    Own(Vec<JoinHandle<()>>),
    /// Forked ones; `None` are those that have ended.
    Forked(Vec<Option<Pid>>),
}

impl Processes {
    /// Starts a thread or process for every context.
    ///
    /// # Errors
    /// No process or thread is left, or this one may not be forked. Threads that have
    /// started are stopped.
    pub fn start(options: &Options, contexts: Vec<Arc<ThreadContext>>) -> Result<Self, Error> {
        let mut processes = match options.processes {
            1 => Self::Own(Vec::new()),
            _ => Self::Forked(Vec::new()),
        };
        let begun = contexts.chunks(options.threads).try_for_each(|part| match &mut processes {
            Self::Own(threads) => part.iter().try_for_each(|context| {
                threads.push(spawn(options.model, context.clone())?);
                Ok(())
            }),
            Self::Forked(children) => {
                require_one_thread()?;
                let pid = fork(options.model, part);
                children.push(Some(pid.map_err(|error| Error::failed("fork", error))?));
                Ok(())
            }
        });
        if begun.is_err() {
            contexts[0].stop();
            processes.end();
        }
        begun.map(|()| processes)
    }

    /// # Errors
    /// A process has died.
    pub fn check(&mut self) -> Result<(), Error> {
        let Self::Forked(children) = self else { return Ok(()) };
        for (number, child) in children.iter_mut().enumerate() {
            let Some(pid) = *child else { continue };
            if let Some(status) = reap(pid) {
                *child = None;
                let pid = pid.as_raw_nonzero();
                let how = match status {
                    ChildExit::Killed(signal) => format!("killed by signal {signal}"),
                    ChildExit::Exited(status) => format!("it ended with status {status}"),
                    ChildExit::Unknown => "its exit status is unknown".into(),
                };
                return Err(Error::failed(format!("process {number} (PID {pid}) died"), how));
            }
        }
        Ok(())
    }

    /// Waits until all have stopped, and kills those that do not.
    pub fn end(&mut self) {
        match self {
            // Each thread reports its own end.
            Self::Own(threads) => threads.drain(..).for_each(|thread| drop(thread.join())),
            Self::Forked(children) => {
                let end = Instant::now() + CHANGE_MAX;
                for pid in children.iter_mut().filter_map(Option::take) {
                    while reap(pid).is_none() {
                        if Instant::now() > end {
                            // It is ours and was not reaped, so the number is still its own.
                            let _ = kill_process(pid, Signal::KILL);
                        }
                        thread::sleep(Duration::from_millis(2));
                    }
                }
            }
        }
    }
}

/// How a process ended.
enum ChildExit {
    /// By this signal.
    Killed(i32),
    /// By itself, with this status.
    Exited(i32),
    /// Its status was already collected.
    Unknown,
}

/// How a process ended, if it has.
fn reap(pid: Pid) -> Option<ChildExit> {
    match waitpid(Some(pid), WaitOptions::NOHANG) {
        Ok(None) | Err(rustix::io::Errno::INTR) => None,
        Ok(Some((_, status))) => Some(match status.terminating_signal() {
            Some(signal) => ChildExit::Killed(signal),
            None => ChildExit::Exited(status.exit_status().unwrap_or_default()),
        }),
        Err(_) => Some(ChildExit::Unknown),
    }
}

fn spawn(model: Model, context: Arc<ThreadContext>) -> Result<JoinHandle<()>, Error> {
    let name = format!("echo-{}", context.number);
    let body = move || {
        let work = || {
            context.enter()?;
            context.counters_mut().begin();
            model::run(model, &context).map_err(|error| Error::failed(model.name(), error))
        };
        // After a panic of a model only its counters are used.
        let done = catch_unwind(AssertUnwindSafe(work));
        context.counters_mut().end(match done {
            Ok(done) => done.map_err(|error| error.to_string()),
            Err(_) => Err("it panicked, as standard error says".into()),
        });
    };
    thread::Builder::new().name(name).spawn(body).map_err(|error| Error::failed("a thread", error))
}

/// fork copies one thread only: locks of others would stay locked for ever. A thread that
/// was joined a moment ago may still be counted.
fn require_one_thread() -> Result<(), Error> {
    let end = Instant::now() + PATIENCE;
    loop {
        let threads = fs::read_dir("/proc/self/task").map(Iterator::count);
        match threads.map_err(|error| Error::failed("/proc/self/task", error))? {
            1 => return Ok(()),
            _ if Instant::now() < end => thread::sleep(Duration::from_millis(1)),
            more => {
                return Err(Error::Failed(format!(
                    "a process of {more} threads cannot be forked: use one process, or for \
                     `dunlin lab echo`"
                )));
            }
        }
    }
}

/// Starts a process for these threads.
fn fork(model: Model, contexts: &[Arc<ThreadContext>]) -> io::Result<Pid> {
    let parent = getpid();
    // SAFETY: this process has one thread, so that the other has all there is.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let status = be_child(model, contexts, parent);
            // SAFETY: it ends this process, without running what the parent has left to run.
            unsafe { libc::_exit(status) }
        }
        pid => Pid::from_raw(pid).ok_or_else(|| io::ErrorKind::Other.into()),
    }
}

/// Runs a forked process; returns its exit status.
fn be_child(model: Model, contexts: &[Arc<ThreadContext>], parent: Pid) -> i32 {
    // However the parent ends, nothing of it is left behind.
    let is_bound = set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
    if !is_bound || getppid() != Some(parent) {
        return 1;
    }
    let threads: Result<Vec<_>, _> =
        contexts.iter().map(|context| spawn(model, context.clone())).collect();
    match threads {
        Ok(threads) => {
            threads.into_iter().for_each(|thread| drop(thread.join()));
            0
        }
        Err(error) => {
            // Its threads cannot report it, so the process does.
            eprintln!("dunlin: {error}");
            1
        }
    }
}
