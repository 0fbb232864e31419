//! `make bench-pod`: what a program in a Pod sees of DNS, by `getaddrinfo` with the search list of
//! a Pod, while servers are replaced, killed and cut off from what they need. The node's cache runs
//! in PID namespaces, as in Pods; CoreDNS takes its place for comparison.
use crate::clustered::section;
use crate::held::{Container, container};
use crate::kubernetes_manifests::node_config;
use crate::served::{HEAD, Process, Served, short_socket, zone};
use cluster::{Cluster, Part, objects};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::cell::RefCell;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::Duration;
use test_support::ports::free_address;
use test_support::tools;
use test_support::wait;

/// Where programs find their resolver, at port 53.
const DUNLIN: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 153);
const COREDNS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 154);
/// Services of the cluster, and names outside.
const NAMES: u8 = 50;
/// Lookups a second, and the threads that make them.
const RATE: &str = "1000";
const THREADS: &str = "200";
/// How long a fault lasts, and how long lookups go on before and after it.
const FAULT: Duration = Duration::from_secs(5);
const AROUND: Duration = Duration::from_secs(1);
/// Servers that are killed, and replaced: the other server leaves a gap each time.
const KILLS: usize = 3;
const UPDATES: usize = 100;
const UPDATES_OF_OTHER: usize = 10;

/// A relay of connections, which answers HTTP 404 instead while `refuses` is set.
struct Gate {
    address: SocketAddr,
    refuses: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Gate {
    fn start(server: SocketAddrV4) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (refuses, open) = <(Arc<AtomicBool>, Arc<Mutex<Vec<TcpStream>>>)>::default();
        let (is_refusing, opened) = (Arc::clone(&refuses), Arc::clone(&open));
        // It ends with the test's process.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if is_refusing.load(Ordering::SeqCst) {
                    thread::spawn(move || refuse(client));
                    continue;
                }
                let Ok(server) = TcpStream::connect(server) else { continue };
                let clone = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
                opened.lock().expect("no panic").extend([clone(&client), clone(&server)]);
                relay(clone(&client), clone(&server));
                relay(server, client);
            }
        });
        Self { address, refuses, open }
    }

    /// Begins to answer 404, and cuts what is open; or ends that.
    fn refuse(&self, is_refusing: bool) {
        self.refuses.store(is_refusing, Ordering::SeqCst);
        for stream in self.open.lock().expect("no panic").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn relay(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || {
        // One side closes, or the gate does.
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
}

fn refuse(mut client: TcpStream) {
    let mut request = [0; 4096];
    while let Ok(1..) = client.read(&mut request) {
        let reply = b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot found";
        if client.write_all(reply).is_err() {
            return;
        }
    }
}

/// The node's cache.
enum NodeCache {
    Dunlin(Container),
    CoreDns(Process),
}

/// A cluster, its DNS, and one of the caches.
struct Bed {
    cluster: RefCell<Cluster>,
    gate: Gate,
    central: RefCell<Vec<Served>>,
    cache: RefCell<Option<NodeCache>>,
    folder: PathBuf,
    socket: PathBuf,
    _others: (Process, Served),
}

impl Bed {
    fn start() -> Option<Self> {
        let cluster = Cluster::start_or_skip()?;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pod");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        cluster.create(&objects::namespace("shop"));
        let mut names = String::new();
        let mut outside = HEAD.to_owned();
        for n in 1..=NAMES {
            let ip = json!({ "clusterIP": format!("10.96.7.{n}") });
            let ports = [("http", "TCP", 80)];
            cluster.create(&objects::service("shop", &format!("web{n}"), &ports, ip));
            outside += &format!("www{n} A 192.0.2.{n}\n");
            names += &format!("web{n} 10.96.7.{n}\nweb{n}.shop 10.96.7.{n}\n");
            names += &format!("www{n}.pod.example 192.0.2.{n}\n");
        }
        fs::write(folder.join("names"), names).expect("a file");
        let (proxy, gate) = proxy(&cluster);
        let config = folder.join("kubeconfig");
        fs::write(&config, kubeconfig(gate.address)).expect("a file");
        let resolver =
            Served::start("pod-resolver", &zone("pod.example"), &[("pod.example.zone", &outside)]);
        let central = |n| {
            let address = free_address(Ipv4Addr::LOCALHOST);
            let listen = format!("listen = [\"{address}\"]\ndrain = \"1s\"\n");
            Served::start(&format!("pod-central-{n}"), &(listen + &section(&config, "")), &[])
        };
        let central = RefCell::new(vec![central(0), central(1)]);
        let (cluster, cache) = (RefCell::new(cluster), RefCell::new(None));
        let socket = short_socket("pod");
        let others = (proxy, resolver);
        Some(Self { cluster, gate, central, cache, folder, socket, _others: others })
    }

    /// Starts a cache on the node.
    fn start_cache(&self, is_dunlin: bool) {
        let central: Vec<String> =
            self.central.borrow().iter().map(|one| one.address.to_string()).collect();
        let resolver = self._others.1.address;
        if !is_dunlin {
            let central = central.join(" ");
            let text = format!(
                ".:53 {{\n bind {COREDNS}\n cache 5\n forward . {resolver}\n}}\n\
                 cluster.local:53 {{\n bind {COREDNS}\n cache 5\n forward . {central}\n}}\n"
            );
            fs::write(self.folder.join("Corefile"), text).expect("a file");
            return self.put(NodeCache::CoreDns(self.coredns()));
        }
        let config =
            node_config(&format!("{DUNLIN}:53"), &format!("\"{}\"", central.join("\", \"")));
        let config = config.replace("\"resolv.conf\"", &format!("[\"{resolver}\"]"));
        let config = format!("{config}\n[admin]\nsocket = {:?}\n", self.socket);
        let folder = self.folder.join("node");
        let served = Served::start_by(&mut container(), &folder, &config, &[]);
        self.put(NodeCache::Dunlin(Container::new(served, &self.socket)));
    }

    fn put(&self, cache: NodeCache) {
        *self.cache.borrow_mut() = Some(cache);
    }

    fn coredns(&self) -> Process {
        let mut command = Command::new(tools::go("coredns", "COREDNS").expect("CoreDNS"));
        command.arg("-conf").arg(self.folder.join("Corefile"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let process = Process(command.spawn().expect("it runs"));
        wait::until_true("it serves", || TcpStream::connect((COREDNS, 53)).is_ok());
        process
    }

    /// Replaces the cache: beside the old one, or after it.
    fn update(&self) {
        let old = self.cache.borrow_mut().take().expect("a cache");
        let new = match old {
            NodeCache::Dunlin(old) => {
                let served = Served::spawn(&mut container(), &self.folder.join("node"));
                let new = Container::new(served, &self.socket);
                wait::until_true("it is ready", || new.probe("ready").status.success());
                old.end();
                NodeCache::Dunlin(new)
            }
            NodeCache::CoreDns(mut old) => {
                kill_process(Pid::from_child(&old.0), Signal::TERM).expect("it runs");
                wait::until_exit("CoreDNS", &mut old.0);
                NodeCache::CoreDns(self.coredns())
            }
        };
        self.put(new);
    }

    /// Kills the cache; it is started again at once.
    fn kill(&self) {
        let mut cache = self.cache.borrow_mut();
        match cache.as_mut().expect("a cache") {
            NodeCache::Dunlin(container) => {
                let old = container.server().expect("a server");
                kill_process(Pid::from_raw(old).expect("a process"), Signal::KILL)
                    .expect("it runs");
                let is_new = || container.server().is_some_and(|new| new != old);
                wait::until_true("the next server", is_new);
                wait::until_true("it serves", || container.probe("ready").status.success());
            }
            NodeCache::CoreDns(process) => {
                process.0.kill().expect("it runs");
                process.0.wait().expect("it ends");
                *process = self.coredns();
            }
        }
    }

    /// Replaces each server of the cluster's DNS.
    fn roll_out(&self) {
        for n in 0..2 {
            self.drain(n, Duration::ZERO);
        }
    }

    /// Stops a server of the cluster's DNS, and starts it again after a while.
    fn drain(&self, n: usize, away: Duration) {
        let mut central = self.central.borrow_mut();
        central[n].signal(Signal::TERM);
        let mut old = central.remove(n);
        assert_eq!(old.status(), Some(0));
        sleep(away);
        central.insert(n, old.restarted());
    }

    fn lose_etcd(&self) {
        self.cluster.borrow_mut().kill(Part::Etcd);
        sleep(FAULT);
        self.cluster.borrow_mut().start_part(Part::Etcd).expect("it starts");
    }
}

/// A proxy of the API server without TLS, and the gate before it.
fn proxy(cluster: &Cluster) -> (Process, Gate) {
    let address = free_address(Ipv4Addr::LOCALHOST);
    let mut command = Command::new(cluster::find().expect("the binaries").join("kubectl"));
    command.arg("--kubeconfig").arg(cluster.kubeconfig());
    command.args(["proxy", "--port", &address.port().to_string()]).stdout(Stdio::null());
    let proxy = Process(command.spawn().expect("it runs"));
    wait::until_true("a proxy", || TcpStream::connect(address).is_ok());
    (proxy, Gate::start(address))
}

fn kubeconfig(server: SocketAddr) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
         clusters: [{{name: a, cluster: {{server: \"http://{server}\"}}}}]\n\
         contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
         users: [{{name: a, user: {{}}}}]\n"
    )
}

/// Looks names up while something happens; returns the columns of the result.
fn resolve_names(bed: &Bed, program: &str, resolver: Ipv4Addr, event: impl FnOnce()) -> Vec<f64> {
    let conf = bed.folder.join("resolv.conf");
    let search = "search shop.svc.cluster.local svc.cluster.local cluster.local";
    fs::write(&conf, format!("{search}\nnameserver {resolver}\noptions ndots:5\n"))
        .expect("a file");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\""]);
    command.arg(conf).arg(program).args([RATE, THREADS]).arg(bed.folder.join("names"));
    let mut client = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    sleep(AROUND);
    event();
    sleep(AROUND);
    drop(client.stdin.take());
    let output = client.wait_with_output().expect("it ends");
    let text = String::from_utf8(output.stdout).expect("text");
    text.split_whitespace().map(|word| word.parse().expect("a number")).collect()
}

#[test]
#[ignore = "campaign: make bench-pod"]
fn lookups_of_a_pod_while_its_dns_changes() {
    let Some(bed) = Bed::start() else { return };
    let lookups = std::env::var("DUNLIN_LOOKUPS").expect("make bench-pod names the programs");
    let mut failed = 0.0;
    println!("| | cache, C library | lookups | failed | p50 ms | p99.9 ms | slowest ms |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (is_dunlin, resolver, updates) in
        [(true, DUNLIN, UPDATES), (false, COREDNS, UPDATES_OF_OTHER)]
    {
        bed.start_cache(is_dunlin);
        let cache = if is_dunlin { "Dunlin" } else { "CoreDNS" };
        let repeat = |count: usize, act: &dyn Fn()| (0..count).for_each(|_| act());
        let events: [(String, &dyn Fn()); 8] = [
            ("nothing".into(), &|| sleep(FAULT)),
            ("rollout of the cluster's DNS".into(), &|| bed.roll_out()),
            ("a server of it is drained, and gone for 5 s".into(), &|| bed.drain(0, FAULT)),
            (format!("{updates} updates of the cache"), &|| repeat(updates, &|| bed.update())),
            (format!("`kill -9` of the cache, {KILLS} times"), &|| repeat(KILLS, &|| bed.kill())),
            ("the API server answers 404 for 5 s".into(), &|| {
                bed.gate.refuse(true);
                sleep(FAULT);
                bed.gate.refuse(false);
            }),
            ("etcd of the cluster is lost for 5 s".into(), &|| bed.lose_etcd()),
            ("all servers replaced and back: upgrade, rollback".into(), &|| {
                repeat(2, &|| {
                    bed.update();
                    bed.roll_out();
                });
            }),
        ];
        for (name, event) in events {
            for program in lookups.split(' ') {
                // A holder of its own: pauses before restarts depend on earlier ones.
                bed.update();
                let library = program.rsplit('-').next().expect("a name");
                let found = resolve_names(&bed, program, resolver, event);
                let [count, lost, median, late, slowest] = found[..] else { panic!("{found:?}") };
                let cells = [count, lost, median, late, slowest].map(|cell| cell.to_string());
                println!("| {name} | {cache}, {library} | {} |", cells.join(" | "));
                failed += if is_dunlin { lost } else { 0.0 };
            }
        }
    }
    assert_eq!(failed, 0.0, "no lookup by Dunlin may fail");
}
