//! The CPU that receives packets.

use super::{Options, Side};
use crate::mask::write as mask;
use crate::{Result, threads, tool};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// The CPU that receives packets. The sender's CPU does the work of sending, up to the other end of
/// the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// The receiver's: each end of the link has a polling thread (threaded NAPI) on its host's CPU.
    /// The server's thread has the normal priority; the clients' thread runs first, like an
    /// interrupt, because a busy generator would lose packets.
    Whole,
    /// As `whole`, but what AF_XDP sends goes past the other end's polling thread, so that the
    /// sender's CPU runs the network stack of the receiver.
    Shared,
    /// The receiver's: packets are steered (RPS) to its CPU and received there by interrupts, as a
    /// network card's are, before whatever thread runs there.
    Steered,
}

impl Layout {
    /// All layouts.
    pub const ALL: [Self; 3] = [Self::Whole, Self::Shared, Self::Steered];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Shared => "shared",
            Self::Steered => "steered",
        }
    }

    /// Whether it has polling threads.
    fn polls(self) -> bool {
        self != Self::Steered
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Layout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|layout| layout.name() == text);
        found.ok_or_else(|| format!("`{text}` is not a layout: whole, shared or steered"))
    }
}

/// Sets up receiving on a host whose device is up.
pub(super) fn apply(options: &Options, side: Side) -> Result<()> {
    let device = options.device(side);
    if options.layout.polls() {
        // A veth device polls only with GRO or an XDP program.
        on(options, side, "ethtool", &["-K", &device, "gro", "on"])?;
        write(options, side, &format!("/sys/class/net/{device}/threaded"), "1")?;
    }
    match options.layout {
        // A sender without segmentation offload: then the other end polls for packets of every
        // origin, on its own CPU.
        Layout::Whole => on(options, side, "ethtool", &["-K", &device, "tso", "off"])?,
        Layout::Shared => {}
        Layout::Steered => {
            steer(options, side, options.cpus(side)?.as_slice())?;
        }
    }
    Ok(())
}

/// Steers the packets of a host to these CPUs (RPS).
pub(super) fn steer(options: &Options, side: Side, cpus: &[usize]) -> Result<()> {
    let (device, mask) = (options.device(side), mask(cpus));
    (0..options.queues).try_for_each(|queue| {
        let file = format!("/sys/class/net/{device}/queues/rx-{queue}/rps_cpus");
        write(options, side, &file, &mask)
    })
}

/// Pins the polling threads, each to the next CPU of its side, and lets the clients' threads run
/// first.
pub(super) fn pin(options: &Options) -> Result<()> {
    for side in Side::ALL.into_iter().filter(|_| options.layout.polls()) {
        let cpus = options.cpus(side)?;
        let found = threads::polling(Path::new("/proc"), &options.device(side));
        if found.is_empty() {
            let device = options.device(side);
            return Err(format!(
                "{device} has no polling threads: this kernel has no threaded NAPI (before 5.12), \
                 or a container hides the kernel's threads (docker run --pid=host)"
            ));
        }
        for (thread, cpu) in found.iter().zip(cpus.as_slice().iter().cycle()) {
            let pinned = threads::pin(thread.pid, &std::iter::once(*cpu).collect());
            pinned.map_err(|e| format!("cannot pin {} to CPU {cpu}: {e}", thread.name))?;
            if side == Side::Client {
                tool::run("chrt", &format!("--fifo --pid 1 {}", thread.pid))?;
            }
        }
    }
    Ok(())
}

/// Runs a command on a host, with its `/sys`.
fn on(options: &Options, side: Side, program: &str, words: &[&str]) -> Result<()> {
    let namespace = options.namespace(side);
    // `ip` would report a missing command in its own words.
    if let Err(error) = tool::command(program).arg("--version").output() {
        return Err(tool::not_started(program, &error));
    }
    let words = [&["netns", "exec", &namespace, program], words].concat();
    tool::output("ip", &words).map(drop)
}

/// Writes a file as a host sees it.
fn write(options: &Options, side: Side, file: &str, value: &str) -> Result<()> {
    tool::write_within(&options.namespace(side), file, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_named() {
        for layout in Layout::ALL {
            assert_eq!(layout.name().parse(), Ok(layout));
        }
        assert!("half".parse::<Layout>().is_err());
    }
}
