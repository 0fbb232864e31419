//! Announced addresses, end to end: a server, its BIRD, and BIRD at its neighbor, which has
//! routes to the addresses only while the server answers.
use crate::served::{
    HEAD, NOERROR, Process, REFUSED, Served, binary, exchange, query, rcode, text, zone,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use test_support::skip::skip;
use test_support::spaces::{Spaces, within};
use test_support::wait;

/// The announced addresses, and how `/proc/net` writes them.
const ADDRESSES: [&str; 2] = ["198.51.100.53", "2001:db8:53::53"];
const IN_TABLES: [&str; 2] = ["356433C6", "20010db8005300000000000000000053"];
/// CAP_NET_ADMIN, as `/proc` writes it.
const NET_ADMIN: &str = "0000000000001000";
/// A withdrawal takes some 20 ms after the end of a server, and a second more if it is silent.
const GONE_MAX: Duration = Duration::from_secs(1);
const SILENT_MAX: Duration = Duration::from_secs(2);

const HOT_RESTARTS: usize = 3;
/// Bytes of the additional record of a query.
const OPT_LEN: usize = 11;

/// What the server's BIRD announces: the routes of the table.
const OF_SERVER: &str = include_str!("../../../../examples/anycast/bird.conf");

/// The neighbor uses what it receives.
const OF_NEIGHBOR: &str = r#"
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
struct Bed {
    served: Served,
    _routers: [Process; 2],
    spaces: Spaces,
    socket: PathBuf,
    folder: PathBuf,
}

/// Why the tests cannot run here.
fn missing() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("network namespaces: run it as root");
    }
    let is_there = |path: &&str| Path::new(path).exists();
    if !["/usr/sbin/bird", "/usr/bin/bird"].iter().any(is_there) {
        return Some("bird: install bird2");
    }
    (!is_there(&"/dev/net/tun")).then_some("/dev/net/tun: load the module `tun`")
}

fn inside(space: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", space]);
    command
}

/// Runs the server with the usual mode of the device file, which containers often lack.
const WITH_DEVICE: &str = "mount -t tmpfs tmpfs /dev/net && \
    mknod -m 666 /dev/net/tun c 10 200 && exec \"$0\" \"$@\"";

fn server(space: &str) -> Command {
    server_with(space, "")
}

/// The same with a last argument.
fn server_with(space: &str, argument: &str) -> Command {
    let mut command = inside(space);
    let script = format!("{WITH_DEVICE} {argument}");
    command.args(["sh", "-c", &script, env!("CARGO_BIN_EXE_dunlin")]);
    command
}

fn router(space: &str, folder: &Path, name: &str, config: &str) -> Process {
    let file = folder.join(format!("{name}.conf"));
    fs::write(&file, config).expect("a file");
    let mut command = inside(space);
    command.args(["bird", "-f", "-c"]).arg(&file).arg("-s").arg(folder.join(name));
    command.stderr(Stdio::null());
    Process(command.spawn().expect("bird runs"))
}

impl Bed {
    /// Waits until the addresses are announced. `more`: further keys of `[anycast]`.
    fn start(test: &str, more: &str) -> Self {
        let clients = "[acl]\nquery = [\"192.0.2.0/24\", \"2001:db8::/64\"]\n";
        Self::start_with(test, &format!("{more}\n{clients}"))
    }

    /// The same with further keys of `[anycast]`, and sections.
    fn start_with(test: &str, more: &str) -> Self {
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
            router(&spaces.server, &folder, "server", OF_SERVER),
            router(&spaces.client, &folder, "neighbor", OF_NEIGHBOR),
        ];
        let bed = Self { served, _routers: routers, spaces, socket, folder };
        bed.wait_for_routes(2, "announced");
        bed
    }

    /// The number of announced addresses to which the neighbor has a route.
    fn routes(&self) -> usize {
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
    fn wait_for_routes(&self, count: usize, what: &str) -> Duration {
        let begun = Instant::now();
        wait::until_eq(what, || self.routes(), count);
        begun.elapsed()
    }

    /// Whether the neighbor's clients get an answer through each address.
    fn expect_answers(&self) {
        for address in ADDRESSES {
            let at = SocketAddr::new(address.parse().expect("an address"), 53);
            let reply = within(&self.spaces.client, || exchange_from(at, &query("ns.a.test")));
            assert_eq!(rcode(&reply), NOERROR, "through {address}");
        }
    }

    fn status(&self) -> (Option<i32>, Value) {
        let mut command = binary();
        command.args(["status", "-o", "json", "--socket"]).arg(&self.socket);
        let output = command.output().expect("it runs");
        (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default())
    }

    /// Waits until the status exits like this, and its part on the addresses has these words.
    fn expect_status(&self, code: i32, words: &str) {
        wait::until_value(
            &format!("status {code} with {words}"),
            || self.status(),
            |(found, status)| *found == Some(code) && status["anycast"].to_string().contains(words),
        );
    }

    /// The processes of the server: their starter, and the keeper.
    fn processes(&self) -> Option<(u32, u32)> {
        let starter = child_of(self.served.child.id(), "anycast-starter")?;
        Some((starter, child_of(starter, "anycast-keeper")?))
    }

    /// Replaces the server by a new process with its sockets and its keeper.
    fn hot_restart(&mut self) {
        let mut command = server_with(&self.spaces.server, "--hot-restart");
        let new = Served::spawn(&mut command, &self.folder);
        let mut old = std::mem::replace(&mut self.served, new);
        assert_eq!(old.status(), Some(0));
    }

    /// The updates and withdrawals that the neighbor has received by BGP, with all others.
    fn updates(&self) -> Vec<String> {
        let mut command = Command::new("birdc");
        command.arg("-s").arg(self.folder.join("neighbor")).args(["show", "protocols", "all"]);
        let output = text(&command.output().expect("birdc runs").stdout);
        let is_count = |line: &&str| line.trim_start().starts_with("Import ");
        let counts: Vec<String> = output.lines().filter(is_count).map(str::to_owned).collect();
        assert!(counts.len() >= 4, "{output}");
        counts
    }

    /// Nothing is left of a server that has ended.
    fn expect_nothing_left(&self, (starter, keeper): (u32, u32)) {
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
fn exchange_from(at: SocketAddr, query: &[u8]) -> Vec<u8> {
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
fn field(pid: u32, key: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(&format!("{key}:")))?;
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn is_alive(pid: u32) -> bool {
    field(pid, "State").is_some_and(|state| !state.starts_with('Z'))
}

/// The process that this one started with such an argument.
fn child_of(parent: u32, argument: &str) -> Option<u32> {
    let all = fs::read_dir("/proc").expect("processes").flatten();
    let mut numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.find(|pid| {
        let is_child = field(*pid, "PPid").is_some_and(|found| found == parent.to_string());
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        is_child && text(&words).split('\0').any(|word| word == argument) && is_alive(*pid)
    })
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("a process");
    kill_process(pid, signal).expect("it runs");
}

fn print_time(what: &str, took: Duration) {
    println!("{what}: withdrawn at the neighbor after {} ms", took.as_millis());
}

/// Prints a time, and fails if it is above its bound.
fn expect_within(what: &str, took: Duration, max: Duration) {
    print_time(what, took);
    assert!(took <= max, "{what}: {took:?}, at most {max:?}");
}

#[test]
fn end_of_a_server_withdraws_its_addresses_and_leaves_nothing() {
    if let Some(missing) = missing() {
        return skip(missing);
    }
    let mut bed = Bed::start("anycast-kill", "");
    bed.expect_answers();
    bed.expect_status(0, "\"is_announced\":true");
    let processes = wait::until("starter and keeper", || bed.processes());
    for pid in [processes.0, processes.1] {
        for key in ["CapEff", "CapPrm"] {
            assert_eq!(field(pid, key).as_deref(), Some(NET_ADMIN), "{key}");
        }
        assert_eq!(field(pid, "Uid").as_deref(), Some("65534 65534 65534 65534"));
        assert_eq!(field(pid, "NoNewPrivs").as_deref(), Some("1"));
        // They end with the server, not before.
        [Signal::TERM, Signal::INT, Signal::HUP].into_iter().for_each(|one| signal(pid, one));
    }
    assert_eq!(bed.routes(), 2);
    bed.served.child.kill().expect("it runs");
    expect_within("kill -9", bed.wait_for_routes(0, "withdrawn"), GONE_MAX);
    bed.served.status();
    bed.expect_nothing_left(processes);
}

#[test]
fn silence_withdraws_and_what_was_killed_comes_back() {
    if let Some(missing) = missing() {
        return skip(missing);
    }
    let bed = Bed::start("anycast-stop", "");
    bed.served.signal(Signal::STOP);
    expect_within("SIGSTOP", bed.wait_for_routes(0, "withdrawn"), SILENT_MAX);
    bed.served.signal(Signal::CONT);
    bed.wait_for_routes(2, "announced again after SIGCONT");
    let (_, keeper) = wait::until("starter and keeper", || bed.processes());
    signal(keeper, Signal::KILL);
    // The kernel removes the routes of the dead keeper; when BIRD sees that depends on BIRD.
    print_time("keeper killed", bed.wait_for_routes(0, "withdrawn"));
    bed.wait_for_routes(2, "announced again by a new keeper");
    bed.expect_answers();
    let (starter, keeper) = wait::until("starter and keeper", || bed.processes());
    signal(starter, Signal::KILL);
    signal(keeper, Signal::KILL);
    print_time("both killed", bed.wait_for_routes(0, "withdrawn"));
    bed.expect_status(1, "restart the server");
}

#[test]
fn server_that_ends_withdraws_before_it_stops_to_answer() {
    if let Some(missing) = missing() {
        return skip(missing);
    }
    let mut bed = Bed::start("anycast-end", "settle = \"1h\"");
    let processes = wait::until("starter and keeper", || bed.processes());
    bed.served.signal(Signal::TERM);
    bed.wait_for_routes(0, "withdrawn");
    bed.expect_status(1, "draining");
    let at = SocketAddr::from(([192, 0, 2, 1], 53));
    let reply = within(&bed.spaces.client, || exchange_from(at, &query("ns.a.test")));
    assert_eq!(rcode(&reply), NOERROR, "it answers until `settle` is over");
    bed.served.end();
    bed.expect_nothing_left(processes);
}

#[test]
fn hot_restarts_pass_the_keeper_on_and_the_neighbor_sees_no_update() {
    if let Some(missing) = missing() {
        return skip(missing);
    }
    let mut bed = Bed::start("anycast-hot", "hold_down = \"1s\"");
    let processes = wait::until("starter and keeper", || bed.processes());
    let before = bed.updates();
    for _ in 0..HOT_RESTARTS {
        bed.hot_restart();
        // Its own verdict is ready when it has probed.
        bed.expect_status(0, "\"is_announced\":true");
        bed.expect_answers();
    }
    assert_eq!(bed.updates(), before);
    assert!(is_alive(processes.0) && is_alive(processes.1), "the same keeper");
    bed.served.child.kill().expect("it runs");
    expect_within("kill -9 of the new one", bed.wait_for_routes(0, "withdrawn"), GONE_MAX);
    bed.expect_nothing_left(processes);
    // One that is to announce something else starts a keeper of its own.
    let (folder, space) = (bed.folder.clone(), bed.spaces.server.clone());
    bed.served = Served::spawn(&mut server(&space), &folder);
    bed.wait_for_routes(2, "announced");
    let file = folder.join("dunlin.toml");
    let config = fs::read_to_string(&file).expect("a config");
    fs::write(&file, config.replace("[anycast]", "[anycast]\ntable = 154")).expect("a config");
    bed.hot_restart();
    bed.wait_for_routes(0, "the daemon does not learn this table");
    bed.expect_status(0, "\"table\":154");
}

#[test]
fn own_queries_pass_access_lists_and_are_counted_apart() {
    if let Some(missing) = missing() {
        return skip(missing);
    }
    let limits = "[limits]\nrate.per_second = 1\n[acl]\nquery = [\"203.0.113.0/24\"]\n";
    let bed = Bed::start_with("anycast-own", limits);
    let probes = |status: &Value| status["anycast"]["probes"].as_u64().unwrap_or(0);
    let (_, status) =
        wait::until_value("probes", || bed.status(), |(_, status)| probes(status) > 20);
    let responses = |status: &Value| -> u64 {
        let threads = status["threads"].as_array().expect("threads");
        let codes = threads.iter().filter_map(|thread| thread["rcodes"].as_object());
        codes.flat_map(|codes| codes.values()).filter_map(Value::as_u64).sum()
    };
    assert_eq!(responses(&status), 0, "{status}");
    // What others send is refused: they are on no list.
    let mut own = query("id.server");
    let end = own.len() - OPT_LEN;
    own[end - 4..end].copy_from_slice(&[0, 16, 0, 3]);
    let at = SocketAddr::new(ADDRESSES[0].parse().expect("an address"), 53);
    let reply = within(&bed.spaces.client, || exchange_from(at, &own));
    assert_eq!(rcode(&reply), REFUSED);
    assert_eq!(responses(&bed.status().1), 1);
    assert_eq!(bed.routes(), 2);
}

#[test]
fn operator_withdraws_over_a_restart() {
    if let Some(missing) = missing() {
        return skip(missing);
    }
    let mut bed = Bed::start("anycast-out", "settle = \"0s\"\nhold_down = \"1s\"");
    let command = |bed: &Bed, args: &[&str]| {
        let output = binary().arg("anycast").args(args).arg("--socket").arg(&bed.socket).output();
        let output = output.expect("it runs");
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let (code, told) = command(&bed, &["status"]);
    assert!(code == Some(0) && told.contains("announced since"), "{told}");
    let (code, told) = command(&bed, &["withdraw", "--reason", "rack 7 moves", "--wait"]);
    assert!(code == Some(0) && told.contains("by an operator: rack 7 moves"), "{told}");
    bed.wait_for_routes(0, "withdrawn");
    let (folder, space) = (bed.folder.clone(), bed.spaces.server.clone());
    bed.served.end();
    bed.served = Served::spawn(&mut server(&space), &folder);
    bed.expect_status(1, "rack 7 moves");
    assert_eq!(bed.routes(), 0);
    let (code, told) = command(&bed, &["announce", "--wait"]);
    assert!(code == Some(0) && told.contains("announced since"), "{told}");
    bed.wait_for_routes(2, "announced");
}

/// Without BIRD: what keeps addresses from being announced is one error, and the server answers.
#[test]
fn what_cannot_be_announced_is_a_fault_and_nothing_is_started_without_addresses() {
    if let Some(missing) = missing() {
        return skip(missing);
    }
    let spaces = Spaces::wired("dunlin-anycast-none", ["", ""]);
    let folder = std::env::temp_dir().join(format!("dunlin-anycast-none-{}", std::process::id()));
    let start = |anycast: &str| {
        let mut command = inside(&spaces.server);
        command.args(["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin"]);
        command.arg(env!("CARGO_BIN_EXE_dunlin"));
        let socket = folder.with_extension("sock");
        let config = format!(
            "listen = [\"0.0.0.0:53\"]\n[admin]\nsocket = {socket:?}\n{anycast}{}",
            zone("a.test")
        );
        (Served::start_by(&mut command, &folder, &config, &[("a.test.zone", HEAD)]), socket)
    };
    let (served, _) = start("");
    assert_eq!(child_of(served.child.id(), "anycast-starter"), None);
    drop(served);
    spaces.run("ip -n {s} addr add 198.51.100.53/32 dev lo");
    let (served, socket) = start("[anycast]\naddresses = [\"198.51.100.53\"]\n");
    let told = |line: &String| line.contains("[anycast] needs CAP_NET_ADMIN");
    assert!(served.start.iter().any(told), "{:?}", served.start);
    wait::until_value(
        "a fault",
        || {
            let args = ["status", "--socket"];
            let output = binary().args(args).arg(&socket).output().expect("it runs");
            (output.status.code(), text(&output.stdout))
        },
        |(code, told)| *code == Some(1) && told.contains("no TUN device without CAP_NET_ADMIN"),
    );
    let check = binary().arg("check").arg(folder.join("dunlin.toml")).output().expect("it runs");
    assert_eq!(check.status.code(), Some(1), "{}", text(&check.stdout));
    drop(served);
    fs::remove_dir_all(folder).expect("removed");
}
