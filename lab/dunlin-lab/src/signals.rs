//! The signals that ask a process to end, as something to be waited for.
use std::io;
use std::mem;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};

/// SIGINT, SIGTERM and SIGHUP no longer end this process, nor those it forks: the descriptor is
/// readable when one has come. To be called before there is a second thread.
///
/// # Errors
/// The process has no file descriptor left.
pub fn to_descriptor() -> io::Result<OwnedFd> {
    // SAFETY: the set is made by `sigemptyset` before it is used, and these signals exist.
    let set = unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    };
    // SAFETY: the set is live; the old one is not asked for.
    let fd = unsafe {
        match libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) {
            0 => libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is new, and no other owner has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The first SIGINT, SIGTERM or SIGHUP ends what runs, with its report or after cleaning up; the
/// second ends the process.
///
/// # Errors
/// The kernel refuses a handler or a thread.
pub fn stop_when_interrupted(stop: Arc<AtomicBool>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let [mut interrupt, mut terminate, mut hangup] = {
        let _inside = runtime.enter();
        let [interrupt, terminate, hangup] =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
        [interrupt?, terminate?, hangup?]
    };
    std::thread::Builder::new().name("interrupts".into()).spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
                if stop.swap(true, Ordering::Relaxed) {
                    std::process::exit(130);
                }
            }
        });
    })?;
    Ok(())
}
