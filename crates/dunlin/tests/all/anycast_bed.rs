//! A server with announced addresses, its BIRD, and BIRD at its neighbor: for tests and campaigns.
use crate::served::{HEAD, NOERROR, Process, Served, binary, exchange, query, rcode, text, zone};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use test_support::spaces::{Spaces, within};
use test_support::wait;

/// The announced addresses, and how `/proc/net` writes them.
pub const ADDRESSES: [&str; 2] = ["198.51.100.53", "2001:db8:53::53"];
pub const IN_TABLES: [&str; 2] = ["356433C6", "20010db8005300000000000000000053"];
/// A withdrawal takes some 20 ms after the end of a server, and a second more if it is silent.
pub const GONE_MAX: Duration = Duration::from_secs(1);
pub const SILENT_MAX: Duration = Duration::from_secs(2);

/// What the server's BIRD announces: the routes of the table.
pub const OF_SERVER: &str = include_str!("../../../../examples/anycast/bird.conf");

/// The neighbor uses what it receives.
pub const OF_NEIGHBOR: &str = r#"
router id 192.0.2.2;
protocol device { scan time 1; }
protocol kernel { ipv4 { import none; export all; }; }
protocol kernel { ipv6 { import none; export all; }; }
protocol bgp down4 {
  local 192.0.2.2 as 64513; neighbor 192.0.2.1 as 64512;
  connect delay time 1; connect retry time 1;
  ipv4 { import all; export none; };
}
protocol bgp down6 {
  local 2001:db8::2 as 64513; neighbor 2001:db8::1 as 64512;
  connect delay time 1; connect retry time 1;
  ipv6 { import all; export none; };
}
"#;

/// A server with its router. Fields are dropped in this order.
pub struct Bed {
    pub served: Served,
    _routers: [Process; 2],
    pub spaces: Spaces,
    pub socket: PathBuf,
    pub folder: PathBuf,
}

/// Why the tests cannot run here.
pub fn missing() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("network namespaces: run it as root");
    }
    let is_there = |path: &&str| Path::new(path).exists();
    if !["/usr/sbin/bird", "/usr/bin/bird"].iter().any(is_there) {
        return Some("bird: install bird2");
    }
    (!is_there(&"/dev/net/tun")).then_some("/dev/net/tun: load the module `tun`")
}

pub fn inside(space: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", space]);
    command
}

/// Runs the server with the usual mode of the device file, which containers often lack.
const WITH_DEVICE: &str = "mount -t tmpfs tmpfs /dev/net && \
    mknod -m 666 /dev/net/tun c 10 200 && exec \"$0\" \"$@\"";

pub fn server(space: &str) -> Command {
    server_with(space, "")
}

/// The same with a last argument.
pub fn server_with(space: &str, argument: &str) -> Command {
    server_by(space, env!("CARGO_BIN_EXE_dunlin"), argument)
}

/// The same by another program.
pub fn server_by(space: &str, program: &str, argument: &str) -> Command {
    let mut command = inside(space);
    let script = format!("{WITH_DEVICE} {argument}");
    command.args(["sh", "-c", &script, program]);
    command
}

pub fn router(space: &str, folder: &Path, name: &str, config: &str) -> Process {
    let file = folder.join(format!("{name}.conf"));
    fs::write(&file, config).expect("a file");
    let mut command = inside(space);
    command.args(["bird", "-f", "-c"]).arg(&file).arg("-s").arg(folder.join(name));
    command.stderr(Stdio::null());
    Process(command.spawn().expect("bird runs"))
}

impl Bed {
    /// Waits until the addresses are announced. `more`: further keys of `[anycast]`.
    pub fn start(test: &str, more: &str) -> Self {
        let clients = "[acl]\nquery = [\"192.0.2.0/24\", \"2001:db8::/64\"]\n";
        Self::start_with(test, &format!("{more}\n{clients}"))
    }

    /// The same with further keys of `[anycast]`, and sections.
    pub fn start_with(test: &str, more: &str) -> Self {
        Self::start_with_daemon(test, more, |spaces, folder, _| {
            router(&spaces.server, folder, "server", OF_SERVER)
        })
    }

    /// The same with another daemon, which is started with the namespaces, the folder of its files
    /// and the socket of the server.
    pub fn start_with_daemon(
        test: &str,
        more: &str,
        daemon: impl FnOnce(&Spaces, &Path, &Path) -> Process,
    ) -> Self {
        let spaces = Spaces::wired(&format!("dunlin-{test}"), ["", ""]);
        // Every user can read it.
        let folder = std::env::temp_dir().join(format!("dunlin-{test}-{}", std::process::id()));
        let socket = folder.with_extension("sock");
        let data = folder.with_extension("data");
        fs::create_dir_all(&data).expect("a folder");
        chown(&data, Some(65_534), Some(65_533)).expect("root may");
        let [v4, v6] = ADDRESSES;
        let config = format!(
            "listen = [\"0.0.0.0:53\", \"[::]:53\"]\nuser = \"65534\"\ngroup = \"65533\"\n\
             drain = \"0s\"\nid = \"a1\"\ndata_dir = {data:?}\n\
             [admin]\nsocket = {socket:?}\n[anycast]\naddresses = [\"{v4}/32\", \"{v6}/128\"]\n\
             add_addresses = true\n{more}\n{}",
            zone("a.test")
        );
        let mut command = server(&spaces.server);
        let served = Served::start_by(&mut command, &folder, &config, &[("a.test.zone", HEAD)]);
        let routers = [
            daemon(&spaces, &folder, &socket),
            router(&spaces.client, &folder, "neighbor", OF_NEIGHBOR),
        ];
        let bed = Self { served, _routers: routers, spaces, socket, folder };
        bed.wait_for_routes(2, "announced");
        bed
    }

    /// The number of announced addresses to which the neighbor has a route.
    pub fn routes(&self) -> usize {
        within(&self.spaces.client, || {
            let read = |file: &str| {
                fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default()
            };
            let tables = [read("route"), read("ipv6_route")];
            let is_in = |(table, address): (&String, &&str)| table.contains(*address);
            tables.iter().zip(&IN_TABLES).filter(|pair| is_in(*pair)).count()
        })
    }

    /// Waits until the neighbor has so many routes; returns the time it took.
    pub fn wait_for_routes(&self, count: usize, what: &str) -> Duration {
        let begun = Instant::now();
        wait::until_eq(what, || self.routes(), count);
        begun.elapsed()
    }

    /// Whether the neighbor's clients get an answer through each address.
    pub fn expect_answers(&self) {
        for address in ADDRESSES {
            let at = SocketAddr::new(address.parse().expect("an address"), 53);
            let reply = within(&self.spaces.client, || exchange_from(at, &query("ns.a.test")));
            assert_eq!(rcode(&reply), NOERROR, "through {address}");
        }
    }

    pub fn status(&self) -> (Option<i32>, Value) {
        let mut command = binary();
        command.args(["status", "-o", "json", "--socket"]).arg(&self.socket);
        let output = command.output().expect("it runs");
        (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default())
    }

    /// Waits until the status exits like this, and its part on the addresses has these words.
    pub fn expect_status(&self, code: i32, words: &str) {
        wait::until_value(
            &format!("status {code} with {words}"),
            || self.status(),
            |(found, status)| *found == Some(code) && status["anycast"].to_string().contains(words),
        );
    }

    /// The processes of the server: their starter, and the keeper.
    pub fn processes(&self) -> Option<(u32, u32)> {
        let starter = child_of(self.served.child.id(), "anycast-starter")?;
        Some((starter, child_of(starter, "anycast-keeper")?))
    }

    /// Replaces the server by a new process with its sockets and its keeper.
    pub fn hot_restart(&mut self) {
        let mut command = server_with(&self.spaces.server, "--hot-restart");
        let new = Served::spawn(&mut command, &self.folder);
        let mut old = std::mem::replace(&mut self.served, new);
        assert_eq!(old.status(), Some(0));
    }

    /// The updates and withdrawals that the neighbor has received by BGP, with all others.
    pub fn updates(&self) -> Vec<String> {
        let mut command = Command::new("birdc");
        command.arg("-s").arg(self.folder.join("neighbor")).args(["show", "protocols", "all"]);
        let output = text(&command.output().expect("birdc runs").stdout);
        let is_count = |line: &&str| line.trim_start().starts_with("Import ");
        let counts: Vec<String> = output.lines().filter(is_count).map(str::to_owned).collect();
        assert!(counts.len() >= 4, "{output}");
        counts
    }

    /// Nothing is left of a server that has ended.
    pub fn expect_nothing_left(&self, (starter, keeper): (u32, u32)) {
        let alive = || [starter, keeper].iter().filter(|pid| is_alive(**pid)).count();
        wait::until_eq("processes of the server", alive, 0);
        let told = |line: &str| self.spaces.told_by(line).unwrap_or_default();
        assert!(!told("ip -n {s} -o link show").contains("dunlin0"), "the device");
        for family in [4, 6] {
            assert_eq!(told(&format!("ip -n {{s}} -{family} route show table 153")), "");
        }
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
        let _ = fs::remove_dir_all(self.folder.with_extension("data"));
    }
}

/// The response to a query over UDP of either family.
pub fn exchange_from(at: SocketAddr, query: &[u8]) -> Vec<u8> {
    match at.is_ipv4() {
        true => exchange(at, query, wait::deadline()).expect("a reply"),
        false => {
            let socket = std::net::UdpSocket::bind("[::]:0").expect("a socket");
            socket.set_read_timeout(Some(wait::deadline())).expect("a timeout");
            socket.send_to(query, at).expect("sent");
            let mut reply = vec![0; 4096];
            let len = socket.recv(&mut reply).expect("a reply");
            reply.truncate(len);
            reply
        }
    }
}

/// A field of the status of a process.
pub fn field(pid: u32, key: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(&format!("{key}:")))?;
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

pub fn is_alive(pid: u32) -> bool {
    field(pid, "State").is_some_and(|state| !state.starts_with('Z'))
}

/// The process that this one started with such an argument.
pub fn child_of(parent: u32, argument: &str) -> Option<u32> {
    let all = fs::read_dir("/proc").expect("processes").flatten();
    let mut numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.find(|pid| {
        let is_child = field(*pid, "PPid").is_some_and(|found| found == parent.to_string());
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        is_child && text(&words).split('\0').any(|word| word == argument) && is_alive(*pid)
    })
}

pub fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("a process");
    kill_process(pid, signal).expect("it runs");
}

pub fn print_time(what: &str, took: Duration) {
    println!("{what}: withdrawn at the neighbor after {} ms", took.as_millis());
}

/// Prints a time, and fails if it is above its bound.
pub fn expect_within(what: &str, took: Duration, max: Duration) {
    print_time(what, took);
    assert!(took <= max, "{what}: {took:?}, at most {max:?}");
}
