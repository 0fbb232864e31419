//! Two network namespaces, of a server and of a client.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// Ends the processes in the namespaces, and the namespaces, once the other end of its input is
/// closed, also if the test is killed. A signal at the parent's death does not work for servers
/// that drop privileges: they lose it.
const GUARD: &str = "read -r _
for space; do ip netns pids $space | xargs -r kill -KILL; ip netns del $space; done";

/// The namespaces, until it is dropped.
pub struct Spaces {
    /// The name of the server's.
    pub server: String,
    /// The name of the clients'.
    pub client: String,
    guard: Child,
}

impl Spaces {
    /// Makes both. Their names begin with `name` and are unique.
    pub fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = |end| format!("{name}-{}-{number}-{end}", std::process::id());
        let (server, client) = (name("s"), name("c"));
        let mut guard = Command::new("sh");
        // In a group of its own, which what interrupts the test does not interrupt.
        guard.args(["-c", GUARD, "guard", &server, &client]).process_group(0);
        let guard = guard.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let spaces = Self { server, client, guard };
        spaces.run("ip netns add {s}\nip netns add {c}");
        spaces
    }

    /// The same with an interface in each, `s0` and `c0`, which are the two ends of a wire: .1 and
    /// .2 of 192.0.2.0/24, ::1 and ::2 of 2001:db8::/64. `ends` says more of each, as `ip link`
    /// does.
    pub fn wired(name: &str, ends: [&str; 2]) -> Self {
        let spaces = Self::new(name);
        let [server, client] = ends;
        spaces.run(&format!(
            "ip -n {{s}} link add s0 {server} type veth peer name c0 netns {{c}} {client}"
        ));
        for (space, end, number) in [("{s}", "s0", 1), ("{c}", "c0", 2)] {
            let ip = format!("ip -n {space}");
            spaces.run(&format!("{ip} addr add 192.0.2.{number}/24 dev {end}"));
            spaces.run(&format!("{ip} addr add 2001:db8::{number}/64 dev {end} nodad"));
            spaces.run(&format!("{ip} link set lo up\n{ip} link set {end} up"));
        }
        spaces
    }

    /// Runs commands, one a line; `{s}` and `{c}` are the namespaces.
    pub fn run(&self, lines: &str) {
        for line in lines.lines().filter(|line| !line.is_empty()) {
            let told = self.told_by(line);
            assert!(told.is_ok(), "{line}: {told:?}");
        }
    }

    /// What a command writes, or all it says where it fails.
    pub fn told_by(&self, line: &str) -> Result<String, String> {
        let line = line.replace("{s}", &self.server).replace("{c}", &self.client);
        let mut words = line.split_whitespace();
        let output = Command::new(words.next().expect("a command")).args(words).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&[output.stdout, output.stderr].concat())),
        }
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        self.guard.wait().expect("it ends");
    }
}

/// Does something in a thread of a network namespace.
pub fn within<T: Send>(space: &str, act: impl FnOnce() -> T + Send) -> T {
    let enter = || {
        let space = File::open(format!("/run/netns/{space}")).unwrap();
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        act()
    };
    thread::scope(|scope| scope.spawn(enter).join().unwrap())
}
