//! `make campaign-anycast-upgrades`: servers of one announced address are replaced one after the
//! other, by withdrawal, while clients query through a router.
use crate::anycast_bed::{ADDRESSES, OF_SERVER, inside, missing, router, server_by};
use crate::anycast_campaign::number;
use crate::served::{HEAD, NOERROR, Process, Served, holds, query, rcode, text, zone};
use rustix::process::Signal;
use std::collections::HashSet;
use std::env;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use test_support::spaces::{Host, Lan, within};
use test_support::wait;

/// Servers, each with its BIRD.
const SERVERS: u8 = 3;
/// Threads that send queries, and the sockets of each: the router chooses a server for each port.
const SENDERS: usize = 2;
const SOCKETS: usize = 32;
const TICK: Duration = Duration::from_millis(1);

/// The router: it has a route to each server that announces the address.
fn router_config(hosts: &[Host]) -> String {
    let peer = |(nth, host): (usize, &Host)| {
        format!(
            "protocol bgp down{nth} {{\n  local 192.0.2.254 as 64513; neighbor {} as 64512;\n  \
             connect delay time 1; connect retry time 1;\n  \
             ipv4 {{ import all; export none; }};\n}}\n",
            host.address
        )
    };
    let peers: String = hosts.iter().enumerate().map(peer).collect();
    format!(
        "router id 192.0.2.254;\nprotocol device {{ scan time 1; }}\n\
         protocol kernel {{ merge paths on; ipv4 {{ import none; export all; }}; }}\n{peers}"
    )
}

/// One of the servers: a program in its namespace, and its BIRD.
struct Member {
    served: Served,
    space: String,
    folder: PathBuf,
    is_new: bool,
    _bird: Process,
}

impl Member {
    fn start(host: &Host, older: &str) -> Self {
        let (space, address) = (host.space.clone(), host.address.to_string());
        let folder = env::temp_dir().join(format!("dunlin-{space}"));
        let socket = folder.with_extension("sock");
        let config = format!(
            "listen = [\"0.0.0.0:53\"]\ndrain = \"0s\"\n[admin]\nsocket = {socket:?}\n[anycast]\n\
             addresses = [\"{}/32\"]\nadd_addresses = true\nsettle = \"1s\"\n\
             hold_down = \"1s\"\n{}",
            ADDRESSES[0],
            zone("a.test")
        );
        let mut command = server_by(&space, older, "");
        let served = Served::start_by(&mut command, &folder, &config, &[("a.test.zone", HEAD)]);
        let of_host = OF_SERVER
            .replace("192.0.2.2 ", "192.0.2.254 ")
            .replace("192.0.2.1 ", &format!("{address} "))
            .replace("router id 192.0.2.1;", &format!("router id {address};"));
        let bird = router(&space, &folder, "server", &of_host);
        Self { served, space, folder, is_new: false, _bird: bird }
    }

    /// Stops the server, which withdraws first, and starts it by the other program.
    fn replace(&mut self, programs: [&str; 2]) {
        self.served.signal(Signal::TERM);
        assert_eq!(self.served.status(), Some(0));
        self.is_new = !self.is_new;
        let mut command = server_by(&self.space, programs[usize::from(self.is_new)], "");
        self.served = Served::spawn(&mut command, &self.folder);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The number of servers to which the router has a route.
fn next_hops(lan: &Lan) -> usize {
    let mut command = inside(&lan.switch);
    command.args(["ip", "route", "show", ADDRESSES[0]]);
    let routes = text(&command.output().expect("ip runs").stdout);
    routes.matches("via 192.0.2.").count()
}

/// What became of the queries of a client.
#[derive(Debug, Default)]
struct Counts {
    sent: usize,
    lost: usize,
    /// Replies to no query, or with another answer.
    wrong: usize,
}

/// Queries the address through the router at this rate until the end, and checks each answer.
fn send_queries(rate: usize, is_ended: &AtomicBool) -> Counts {
    let at: SocketAddr = format!("{}:53", ADDRESSES[0]).parse().expect("an address");
    let socket = |_| {
        let socket = UdpSocket::bind("192.0.2.254:0").expect("a socket");
        socket.connect(at).expect("a route");
        socket.set_nonblocking(true).expect("a socket");
        socket
    };
    let sockets: Vec<UdpSocket> = (0..SOCKETS).map(socket).collect();
    let (mut counts, mut waiting) = (Counts::default(), HashSet::new());
    let (mut message, begun) = (query("ns.a.test"), Instant::now());
    loop {
        let due = (begun.elapsed().as_secs_f64() * rate as f64) as usize;
        while counts.sent < due && !is_ended.load(Ordering::Relaxed) {
            let (socket, id) = (counts.sent % SOCKETS, (counts.sent / SOCKETS) as u16);
            message[..2].copy_from_slice(&id.to_be_bytes());
            counts.sent += 1;
            // An ID comes again after 65,536 queries of a socket: the first was lost.
            let is_sent = sockets[socket].send(&message).is_ok();
            counts.lost += usize::from(!is_sent || !waiting.insert((socket, id)));
        }
        receive(&sockets, &mut waiting, &mut counts);
        if is_ended.load(Ordering::Relaxed) {
            break;
        }
        thread::sleep(TICK);
    }
    let last = Instant::now();
    while !waiting.is_empty() && last.elapsed() < wait::deadline() / 10 {
        receive(&sockets, &mut waiting, &mut counts);
        thread::sleep(TICK);
    }
    counts.lost += waiting.len();
    counts
}

/// Reads all replies that have come.
fn receive(sockets: &[UdpSocket], waiting: &mut HashSet<(usize, u16)>, counts: &mut Counts) {
    let mut reply = [0; 512];
    for (nth, socket) in sockets.iter().enumerate() {
        while let Ok(len) = socket.recv(&mut reply) {
            let reply = &reply[..len];
            let id = u16::from_be_bytes([reply[0], reply[1]]);
            let is_right = rcode(reply) == NOERROR && holds(reply, &[0, 4, 192, 0, 2, 1]);
            counts.wrong += usize::from(!waiting.remove(&(nth, id)) || !is_right);
        }
    }
}

#[test]
#[ignore = "campaign: make campaign-anycast-upgrades"]
fn upgrades_by_withdrawal_lose_no_query() {
    assert_eq!(missing(), None);
    let (times, rate) = (number("DUNLIN_UPGRADES", 50), number("DUNLIN_RATE", 20_000));
    let own = env!("CARGO_BIN_EXE_dunlin").to_owned();
    let older = env::var("DUNLIN_OLDER").unwrap_or_else(|_| own.clone());
    let lan = Lan::new("dunlin-upgrades", SERVERS);
    let mut members: Vec<Member> =
        lan.hosts.iter().map(|host| Member::start(host, &older)).collect();
    // By port, not by address alone: all clients have one.
    let by_port = "net.ipv4.fib_multipath_hash_policy=1";
    let mut sysctl = inside(&lan.switch);
    assert!(sysctl.args(["sysctl", "-qw", by_port]).status().expect("sysctl runs").success());
    let _bird = router(&lan.switch, &members[0].folder, "router", &router_config(&lan.hosts));
    let all = usize::from(SERVERS);
    wait::until_eq("all announce", || next_hops(&lan), all);
    let (is_ended, mut done) = (AtomicBool::new(false), [0; 2]);
    let counts: Vec<Counts> = thread::scope(|scope| {
        let send = || within(&lan.switch, || send_queries(rate / SENDERS, &is_ended));
        let senders: Vec<_> = (0..SENDERS).map(|_| scope.spawn(send)).collect();
        for nth in 0..2 * times {
            let member = &mut members[nth % all];
            member.replace([&older, &own]);
            done[usize::from(member.is_new)] += 1;
            wait::until_eq("all announce again", || next_hops(&lan), all);
        }
        is_ended.store(true, Ordering::Relaxed);
        senders.into_iter().map(|sender| sender.join().expect("it ends")).collect()
    });
    let sum = |of: fn(&Counts) -> usize| counts.iter().map(of).sum::<usize>();
    let (sent, lost, wrong) = (sum(|one| one.sent), sum(|one| one.lost), sum(|one| one.wrong));
    let [rollbacks, upgrades] = done;
    println!(
        "{upgrades} upgrades and {rollbacks} rollbacks by withdrawal, {rate} queries/s: {sent} \
         sent, {lost} lost, {wrong} wrong"
    );
    assert_eq!((lost, wrong), (0, 0));
}
