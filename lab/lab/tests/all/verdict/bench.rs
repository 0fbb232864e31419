//! The two-host bench, and what is broken on it. What is made is unmade when it is dropped.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lab_echo::Model;
use lab_host::hosts::{Hosts, Options, Side};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

pub const SERVER: Side = Side::Server;
pub const CLIENT: Side = Side::Client;
const SIDES: [Side; 2] = [SERVER, CLIENT];
pub const ADDRESS: SocketAddr =
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(10, 99, 0, 1), 5_300));
const NAME: &str = "verdict";
/// Real-time priorities: server and generator, their receiving threads, and the disturbing process.
pub const ASKING: u32 = 10;
const RECEIVING: u32 = 20;
const HOGGING: u32 = 50;

pub fn netns(side: Side) -> String {
    format!("{NAME}-{side}")
}

/// The missing requirement of this machine.
pub fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("the two-host bench needs root".into());
    }
    if std::thread::available_parallelism().map_or(1, |n| n.get()) < 2 {
        return Some("the two-host bench needs two CPUs".into());
    }
    let lacks = |program: &str| {
        let found = ["/usr/bin", "/usr/sbin", "/sbin", "/bin"].map(|p| Path::new(p).join(program));
        !found.iter().any(|path| path.exists())
    };
    [("ip", "iproute2"), ("tc", "iproute2"), ("ethtool", "ethtool"), ("clang", "clang")]
        .into_iter()
        .chain([("chrt", "util-linux"), ("taskset", "util-linux"), ("prlimit", "util-linux")])
        .find(|(program, _)| lacks(program))
        .map(|(program, package)| format!("no {program} here: apt install {package}"))
}

fn run(program: &str, words: &str) {
    let output = Command::new(program).args(words.split_whitespace()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {words}: {said}");
}

/// Both hosts, held alone.
pub struct TestBench {
    hosts: Hosts,
    _alone: File,
}

impl TestBench {
    pub fn up() -> Self {
        let alone = File::create("/run/lock/dunlin-bench").unwrap();
        flock(&alone, FlockOperation::LockExclusive).unwrap();
        let (hosts, _) = Hosts::up(&Options::new(NAME, None, None).unwrap()).unwrap();
        let bench = Self { hosts, _alone: alone };
        bench.favour();
        bench
    }

    /// What else this machine does (other tests, a build) is not what is tried here: this thread,
    /// those it starts, and the kernel threads between both sides go before it.
    fn favour(&self) {
        SIDES.into_iter().for_each(|side| receivers(side, "--rr", RECEIVING));
        start_as("--rr", ASKING);
    }

    /// What of `side` is started by `work` is as other programs are, and so is who receives for it,
    /// until `done` is dropped: who has real time gets nothing at all beside who has more of it,
    /// and could not even be seen to wait.
    pub fn plainly<T>(&self, side: Side, work: impl FnOnce() -> T) -> (T, PlainServer<'_>) {
        receivers(side, "--other", 0);
        start_as("--other", 0);
        let done = work();
        (done, PlainServer(self))
    }

    /// Starts a server and waits until it answers.
    pub fn start(&self, server: &Spinner) -> Running {
        let Spinner { model, spin_ns, sockets, buffer } = server;
        let words = [
            env!("CARGO_BIN_EXE_lab-spinner").to_owned(),
            ADDRESS.to_string(),
            model.name().to_owned(),
            spin_ns.to_string(),
            sockets.to_string(),
            buffer.to_string(),
        ];
        let mut command = self.hosts.command(SERVER, &words).unwrap();
        // Which pins the threads that receive, and has the client's run as other hosts have it.
        receivers(CLIENT, "--rr", RECEIVING);
        let running = Running(command.stdin(Stdio::null()).spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(20);
        while !answers() {
            assert!(Instant::now() < deadline, "the server does not answer");
        }
        running
    }

    /// A link that takes a fifth of what is offered.
    pub fn narrow(&self) -> Cleanup {
        let (netns, device) = (netns(CLIENT), self.hosts.options().device(CLIENT));
        run(
            "tc",
            &format!("-n {netns} qdisc add dev {device} root tbf rate 2mbit burst 16k limit 32k"),
        );
        Cleanup(format!("-n {netns} qdisc del dev {device} root"))
    }

    /// A link that loses 5 of 100.
    pub fn lossy(&self) -> Cleanup {
        let (netns, device) = (netns(SERVER), self.hosts.options().device(SERVER));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verdict/drop.c");
        let object = std::env::temp_dir().join(format!("dunlin-drop-{}.o", std::process::id()));
        run("clang", &format!("-O2 -target bpf -c {} -o {}", source.display(), object.display()));
        run("tc", &format!("-n {netns} qdisc add dev {device} clsact"));
        let bpf = format!("bpf da obj {} sec classifier", object.display());
        run("tc", &format!("-n {netns} filter add dev {device} ingress {bpf}"));
        std::fs::remove_file(object).unwrap();
        Cleanup(format!("-n {netns} qdisc del dev {device} clsact"))
    }
}

/// Who is as other programs are, until this is dropped.
pub struct PlainServer<'s>(&'s TestBench);

impl Drop for PlainServer<'_> {
    fn drop(&mut self) {
        self.0.favour();
    }
}

/// How this thread runs, and those it starts from now on.
pub fn start_as(policy: &str, priority: u32) {
    let thread = rustix::thread::gettid().as_raw_nonzero();
    run("chrt", &format!("{policy} --pid {priority} {thread}"));
}

/// How the kernel threads run that receive for a side.
fn receivers(side: Side, policy: &str, priority: u32) {
    // The kernel cuts names of threads: of the device's as much is left as tells sides apart.
    let device = if side == SERVER { "s" } else { "g" };
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if name.starts_with(&format!("napi/{NAME}-{device}")) {
            let thread = entry.file_name().to_string_lossy().into_owned();
            run("chrt", &format!("{policy} --pid {priority} {thread}"));
        }
    }
}

impl Drop for TestBench {
    fn drop(&mut self) {
        // The next creation reports a leftover that cannot be removed.
        let _ = Hosts::down(NAME, true);
    }
}

/// One query in its own time.
fn answers() -> bool {
    let ask = || {
        let socket = UdpSocket::bind("0.0.0.0:0").map_err(|e| e.to_string())?;
        socket.set_read_timeout(Some(Duration::from_millis(100))).map_err(|e| e.to_string())?;
        let mut query = [0u8; 17];
        query[5] = 1;
        query[14] = 1;
        query[16] = 1;
        socket.send_to(&query, ADDRESS).map_err(|e| e.to_string())?;
        socket.recv(&mut [0; 64]).map_err(|e| e.to_string())
    };
    lab_host::namespace::within(Some(&netns(CLIENT)), ask).is_ok()
}

/// How a server answers, and how slow it is.
pub struct Spinner {
    pub model: Model,
    pub spin_ns: u64,
    pub sockets: usize,
    /// Bytes of its receive buffer; 0: as `dunlin serve` has.
    pub buffer: usize,
}

/// A process that ends when this is dropped.
pub struct Running(Child);

impl Running {
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A loop that goes before everything else on a CPU; for 5 s at most, whatever becomes of us.
pub struct CpuHog(#[expect(dead_code, reason = "it ends when it is dropped")] Running);

impl CpuHog {
    pub fn on(side: Side) -> Self {
        let cpu = if side == SERVER { "0" } else { "1" };
        let mut command = Command::new("prlimit");
        command.args(["--rttime=5000000:5000000", "taskset", "-c", cpu]);
        command.args(["chrt", "--fifo", &HOGGING.to_string(), "sh", "-c", "while :; do :; done"]);
        Self(Running(command.spawn().unwrap()))
    }
}

/// A change of the link that ends when this is dropped.
pub struct Cleanup(String);

impl Drop for Cleanup {
    fn drop(&mut self) {
        run("tc", &self.0);
    }
}

/// Stops this process, half a second from now, for this many seconds: by another one, which
/// continues.
pub fn stop_us_for(seconds: &str) -> Running {
    let id = std::process::id();
    let steps = format!("sleep 0.5; kill -STOP {id}; sleep {seconds}; kill -CONT {id}");
    Running(Command::new("sh").args(["-c", &steps]).spawn().unwrap())
}

pub fn stop(id: u32) {
    signal(id, Signal::STOP);
}

pub fn go_on(id: u32) {
    signal(id, Signal::CONT);
}

fn signal(id: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}
