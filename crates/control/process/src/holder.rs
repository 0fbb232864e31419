//! The holder: the parent of a server, which keeps copies of its sockets. When the server is
//! killed, queries wait in them until the holder has started it again. It reads nothing but what
//! its server sends, and has no capability, except that of the keeper of announced addresses.
use crate::limits::{HELD_RESTART_PAUSE, HELD_RESTART_PAUSE_MAX};
use crate::limits::{HELD_RESTARTS_AT_ONCE, HELD_RESTARTS_MAX, HELD_RESTARTS_TIME};
use crate::limits::{NEW_PROCESS_POLL_INTERVAL, SILENT_POLLS_MAX};
use crate::{HeldSockets, drop_to, keep_only, own_command};
use admin::HotRestart;
use config::Config;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};
use rustix::thread::CapabilitySet;
use std::collections::VecDeque;
use std::error::Error;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::time::sleep;

/// The flag of a server that a holder has started.
const HELD: &str = "--held";

/// Runs the server as a child, and starts it again when it is killed, until it ends by itself.
///
/// # Errors
/// No process can be started, or privileges cannot be dropped.
pub fn run(
    config: &Config,
    file: Option<&Path>,
    hot_restart: Option<HotRestart>,
) -> Result<ExitCode, Box<dyn Error>> {
    let (file, admin) = (file.map(Path::to_owned), config.admin.socket.clone());
    let held = HeldSockets::default();
    let mut holder = Holder { file, admin, hot_restart, held, ..Holder::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let signals = runtime.block_on(async { Received::new() })?;
    // The first server opens the sockets, and may need privileges for that. Others get them.
    let first = holder.start()?;
    let keeps = match config.anycast.addresses.is_empty() {
        true => CapabilitySet::empty(),
        false => CapabilitySet::NET_ADMIN,
    };
    if !config.server.user.is_empty() {
        drop_to(&config.server.user, &config.server.group, keeps)?;
    }
    keep_only(keeps, true)?;
    runtime.block_on(holder.run(first, signals))
}

/// Ends this server, as by SIGTERM, when its holder has ended: nothing would start it again.
///
/// # Errors
/// The thread that waits for that cannot be started.
pub fn end_with(holder: OwnedFd) -> io::Result<()> {
    let wait_for_end = move || {
        // The holder sends nothing after the start.
        let mut watched = [PollFd::new(&holder, PollFlags::IN)];
        while let Ok(0) | Err(Errno::INTR) = poll(&mut watched, None) {}
        tracing::error!("the holder of the sockets has ended: ending, too");
        let _ = kill_process(getpid(), Signal::TERM);
    };
    thread::Builder::new().name("holder".into()).spawn(wait_for_end).map(drop)
}

/// A server, and the holder's end of their socket.
struct Child {
    pid: Pid,
    socket: OwnedFd,
}

/// What follows the end of a server.
enum Next {
    /// The holder ends, too.
    End(ExitCode),
    /// It is started again after a pause.
    Restart(Duration),
    /// A new process serves. The holder waits, because its end would be that of its container.
    StandBy,
}

/// The holder of the sockets of one server.
#[derive(Default)]
struct Holder {
    file: Option<PathBuf>,
    admin: Option<PathBuf>,
    hot_restart: Option<HotRestart>,
    held: HeldSockets,
    restarts: Restarts,
    /// A server has served.
    was_ready: bool,
    /// A signal to reload came before the server could handle it.
    wants_reload: bool,
    /// A signal to end was passed on.
    is_ending: bool,
}

impl Holder {
    /// Starts a server, with the sockets of the last one.
    fn start(&mut self) -> io::Result<Child> {
        (self.held.is_ready, self.held.is_handed_over) = (false, false);
        let (socket, of_server) = self.held.pair()?;
        let mut command = own_command("serve");
        command.arg(HELD).stdin(Stdio::from(of_server)).process_group(0);
        if let Some(file) = &self.file {
            command.arg("--config").arg(file);
        }
        if let Some(how) = self.hot_restart {
            command.arg(how.flag());
        }
        // The process that a later one may replace is gone with the first one.
        self.hot_restart = self.hot_restart.map(|_| HotRestart::IfRunning);
        let pid = Pid::from_child(&command.spawn()?);
        Ok(Child { pid, socket })
    }

    /// Follows servers, one after the other, to the end of the last one.
    async fn run(
        mut self,
        first: Child,
        mut signals: Received,
    ) -> Result<ExitCode, Box<dyn Error>> {
        let mut child = first;
        loop {
            let status = self.follow(child, &mut signals).await?;
            let goes_on = match self.next(status) {
                Next::End(code) => return Ok(code),
                Next::Restart(pause) => signals.allow(sleep(pause)).await,
                Next::StandBy => signals.allow(wait_for_silence(self.admin.as_deref())).await,
            };
            if !goes_on {
                return Ok(ExitCode::SUCCESS);
            }
            child = self.start()?;
        }
    }

    /// Receives what a server sends, and passes signals on to it, until it has ended.
    async fn follow(&mut self, child: Child, signals: &mut Received) -> io::Result<WaitStatus> {
        let socket = std::os::unix::net::UnixStream::from(child.socket);
        socket.set_nonblocking(true)?;
        let socket = UnixStream::from_std(socket)?;
        let mut is_open = true;
        loop {
            tokio::select! {
                received = signals.next() => match received {
                    Signal::CHILD => {
                        if let Some(status) = reap(child.pid) {
                            // What it sent before its end.
                            self.held.receive(&socket)?;
                            self.was_ready |= self.held.is_ready;
                            return Ok(status);
                        }
                    }
                    signal => self.pass_on(signal, child.pid),
                },
                ready = socket.readable(), if is_open => {
                    ready?;
                    // All is received, unless the server has closed its end.
                    let received = socket.try_io(Interest::READABLE, || {
                        match self.held.receive(&socket)? {
                            true => Ok(()),
                            false => Err(io::ErrorKind::WouldBlock.into()),
                        }
                    });
                    is_open = match received {
                        Ok(()) => false,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
                        Err(error) => return Err(error),
                    };
                    self.was_ready |= self.held.is_ready;
                    if self.held.is_ready && std::mem::take(&mut self.wants_reload) {
                        self.pass_on(Signal::HUP, child.pid);
                    }
                }
            }
        }
    }

    /// Passes a signal on. A server that starts could not handle all of them yet.
    fn pass_on(&mut self, signal: Signal, pid: Pid) {
        self.is_ending |= matches!(signal, Signal::TERM | Signal::INT);
        if self.is_ending || self.held.is_ready {
            // It may have ended at this moment.
            let _ = kill_process(pid, signal);
        } else if signal == Signal::HUP {
            self.wants_reload = true;
        }
    }

    /// What follows the end of a server.
    fn next(&mut self, status: WaitStatus) -> Next {
        let code = status.exit_status().and_then(|code| u8::try_from(code).ok());
        let end = Next::End(code.map_or(ExitCode::FAILURE, ExitCode::from));
        if self.held.is_handed_over {
            self.held.clear();
            // The first process of a container is the container.
            return if getpid() == Pid::INIT { Next::StandBy } else { end };
        }
        // A server that never served could not be started: the next one could not either.
        if self.is_ending || code == Some(0) || !self.was_ready {
            return end;
        }
        let sockets = self.held.len();
        let how = match status.terminating_signal() {
            Some(signal) => format!("was killed by signal {signal}"),
            None => format!("ended with status {}", code.unwrap_or_default()),
        };
        let Some(pause) = self.restarts.next(Instant::now()) else {
            tracing::error!(
                sockets,
                "the server {how}, {HELD_RESTARTS_MAX} times in {HELD_RESTARTS_TIME:?}: its \
                 sockets are held no longer"
            );
            return Next::End(ExitCode::FAILURE);
        };
        tracing::warn!(sockets, "the server {how}: it is started again; queries wait meanwhile");
        Next::Restart(pause)
    }
}

/// Waits until no process serves the admin socket, for longer than a start takes.
async fn wait_for_silence(admin: Option<&Path>) {
    let Some(path) = admin else { return std::future::pending().await };
    let mut silent = 0;
    while silent < SILENT_POLLS_MAX {
        sleep(NEW_PROCESS_POLL_INTERVAL).await;
        silent = if has_server(path) { 0 } else { silent + 1 };
    }
    tracing::warn!("no server serves any more: it is started again");
}

fn has_server(path: &Path) -> bool {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let connected = SocketAddrUnix::new(path).and_then(|address| {
        connect(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?, &address)
    });
    !matches!(connected, Err(Errno::CONNREFUSED | Errno::NOENT))
}

/// Waits for all children that have ended: those of a killed server are ours, too, in a container.
/// Returns the status of the server.
fn reap(server: Pid) -> Option<WaitStatus> {
    let mut found = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if pid == server {
            found = Some(status);
        }
    }
    found
}

/// The restarts of the last time.
#[derive(Default)]
struct Restarts(VecDeque<Instant>);

impl Restarts {
    /// The pause before the next one, longer each time after the first ones; `None`: there were too
    /// many.
    fn next(&mut self, now: Instant) -> Option<Duration> {
        self.0.retain(|at| now.saturating_duration_since(*at) < HELD_RESTARTS_TIME);
        let doublings = match self.0.len() {
            HELD_RESTARTS_MAX.. => return None,
            before => before.checked_sub(HELD_RESTARTS_AT_ONCE),
        };
        self.0.push_back(now);
        let pause = doublings.map_or(Duration::ZERO, |n| HELD_RESTART_PAUSE * (1 << n));
        Some(pause.min(HELD_RESTART_PAUSE_MAX))
    }
}

/// The signals that the holder receives.
struct Received([(Signal, Signals); 5]);

impl Received {
    fn new() -> io::Result<Self> {
        let of = |number, kind| Ok::<_, io::Error>((number, signal(kind)?));
        Ok(Self([
            of(Signal::CHILD, SignalKind::child())?,
            of(Signal::TERM, SignalKind::terminate())?,
            of(Signal::INT, SignalKind::interrupt())?,
            of(Signal::HUP, SignalKind::hangup())?,
            of(Signal::USR1, SignalKind::user_defined1())?,
        ]))
    }

    /// The next signal.
    async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            let found = self.0.iter_mut().find_map(|(number, stream)| {
                stream.poll_recv(context).is_ready().then_some(*number)
            });
            found.map_or(std::task::Poll::Pending, std::task::Poll::Ready)
        })
        .await
    }

    /// Waits for a future; `false`: a signal to end came before.
    async fn allow(&mut self, future: impl Future<Output = ()>) -> bool {
        let mut future = std::pin::pin!(future);
        loop {
            tokio::select! {
                () = &mut future => return true,
                received = self.next() => match received {
                    Signal::TERM | Signal::INT => return false,
                    // Children of a server that ended may be left to this process.
                    Signal::CHILD => drop(reap(Pid::INIT)),
                    _ => {}
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_wait_longer_each_time_and_the_eleventh_in_a_minute_is_refused() {
        let (mut restarts, start) = (Restarts::default(), Instant::now());
        let mut next = |seconds| restarts.next(start + Duration::from_secs(seconds));
        let pauses: Vec<_> = (0..10).map(&mut next).collect();
        let expected = [0, 0, 0, 100, 200, 400].map(|ms| Some(Duration::from_millis(ms)));
        assert_eq!(pauses[..6], expected, "queries wait: first without a pause");
        assert_eq!(pauses[9], Some(HELD_RESTART_PAUSE_MAX));
        assert_eq!(next(59), None);
        assert!(next(60).is_some(), "the first one is a minute ago");
        assert_eq!(next(200), Some(Duration::ZERO));
    }
}
