//! Two network namespaces on a bridge, in a third one.
use crate::{Result, failed};
use bpf::Order;
use fabric::{Container, Watcher};
use lab_host::namespace::{path, within};
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

/// The namespaces: that of the bridge, the client's and the server's. Those that a killed run has
/// left are removed.
const NAMES: [&str; 3] = ["dunlin-fabric-bridge", "dunlin-fabric-client", "dunlin-fabric-server"];

/// Silence after which datagrams begin a flow that may be switched.
const SILENCE: Duration = Duration::from_millis(1);

/// The namespaces, until it is dropped.
pub struct Spaces(());

/// The switch is on, until it is dropped.
pub struct Switched {
    watcher: Watcher,
}

impl Switched {
    /// Packets that it has moved.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn packets(&self) -> Result<u64> {
        self.watcher.read().map(|counters| counters.switch.packets).map_err(|e| e.to_string())
    }
}

impl Spaces {
    /// The address of the server.
    pub const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

    /// Makes them.
    ///
    /// # Errors
    /// We are not root, or a command fails.
    pub fn new() -> Result<Self> {
        remove();
        let spaces = Self(());
        let [bridge, client, server] = NAMES;
        let run = |words: String| ip(&words);
        NAMES.iter().try_for_each(|name| run(format!("netns add {name}")))?;
        NAMES.iter().try_for_each(|name| run(format!("-n {name} link set lo up")))?;
        run(format!("-n {bridge} link add lan type bridge"))?;
        run(format!("-n {bridge} link set lan up"))?;
        for (number, name) in [(1, client), (2, server)] {
            run(format!("-n {bridge} link add h{number} type veth peer name eth0 netns {name}"))?;
            run(format!("-n {bridge} link set h{number} master lan up"))?;
            run(format!("-n {name} address add 192.0.2.{number}/24 dev eth0"))?;
            run(format!("-n {name} link set eth0 up"))?;
        }
        Ok(spaces)
    }

    /// The client's and the server's.
    pub fn hosts(&self) -> [String; 2] {
        [NAMES[1].into(), NAMES[2].into()]
    }

    /// Turns the switch on between them.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn switch(&self) -> Result<Switched> {
        within(Some(NAMES[0]), || {
            let found = fabric::find().map_err(failed("cannot list interfaces"))?;
            let members: Vec<Container> =
                found.into_iter().map(|one| Container { opts_in: true, ..one }).collect();
            let mut watcher = Watcher::new(None, Order::First).map_err(|e| e.to_string())?;
            watcher.switch_after(SILENCE).map_err(|e| e.to_string())?;
            let refused = watcher.follow(&members).map_err(|e| e.to_string())?;
            match refused.first() {
                Some(why) => Err(format!("the switch: {why}")),
                None => Ok(Switched { watcher }),
            }
        })
    }
}

/// Runs `ip` (iproute2).
fn ip(words: &str) -> Result<()> {
    let output = Command::new("ip").args(words.split_whitespace()).output();
    let output = output.map_err(failed("ip (Debian: iproute2)"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ip {words}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn remove() {
    for name in NAMES.iter().filter(|name| path(name).exists()) {
        // One that stays is an error when it is made again.
        let _ = ip(&format!("netns delete {name}"));
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        remove();
    }
}
