//! One manager at a time.
use crate::Failure;
use crate::state::beside;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Flock, FlockType, Pid, Signal, fcntl_getlk, kill_process};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a manager may take to end.
const END_MAX: Duration = Duration::from_secs(10);

/// The right to write control groups by a state, until it is dropped or the process ends: a lock of
/// the kernel on a file beside the state.
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock.
    ///
    /// # Errors
    /// Another process has it, or the folder cannot be written.
    pub fn take(state: &Path) -> Result<Self, Failure> {
        let (path, file) = open(state)?;
        if fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Ok(Self { _file: file });
        }
        let who = holder(&file)
            .map_or("in a container".into(), |pid| format!("process {}", pid.as_raw_nonzero()));
        let path = path.display();
        Err(Failure(format!(
            "another manager runs ({who} has locked {path}): two managers would undo each other's \
             changes; end \
             it first, or name another state by --state"
        )))
    }

    /// The same, but first ends the manager that has it, if its process is visible here. The
    /// settings of that manager stay.
    ///
    /// # Errors
    /// It does not end, or is one of a container.
    pub fn take_over(state: &Path) -> Result<Self, Failure> {
        let (path, file) = open(state)?;
        let (begin, path) = (Instant::now(), path.display());
        let mut ended = None;
        while fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let now = holder(&file);
            let Some(pid) = now else {
                // It has just ended, or its process is not visible.
                if begin.elapsed() < Duration::from_secs(1) {
                    sleep(Duration::from_millis(20));
                    continue;
                }
                return Err(Failure(format!(
                    "a manager in a container has locked {path}: set policy = \"none\" in its rule \
                     file, which puts everything back, or end it first"
                )));
            };
            if ended != now {
                // A manager that ends by itself meanwhile is no error.
                let _ = kill_process(pid, Signal::TERM);
                ended = now;
            }
            if begin.elapsed() > END_MAX {
                return Err(Failure(format!(
                    "the manager (process {}) does not end within {END_MAX:?}: end it first",
                    pid.as_raw_nonzero()
                )));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(Self { _file: file })
    }
}

fn open(state: &Path) -> Result<(PathBuf, File), Failure> {
    let path = beside(state, "lock");
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let made = folder.map_or(Ok(()), fs::create_dir_all);
    let file = made.and_then(|()| {
        File::options().create(true).truncate(false).read(true).write(true).open(&path)
    });
    let file = file.map_err(|error| Failure::of("open", path.display(), &error))?;
    Ok((path, file))
}

/// The process that has the lock; `None`: there is none, or it is not visible here.
fn holder(file: &File) -> Option<Pid> {
    fcntl_getlk(file, &Flock::from(FlockType::WriteLock)).ok()??.pid
}
