//! A test server of metrics, and its status.

use ops::Ops;
use server_status::{
    AnycastStatus, ApiStatus, CacheStatus, ClusterParts, ConfigStatus, DpdkDeviceStatus,
    DpdkQueueStatus, DpdkStatus, HealthStatus, HostsStatus, KubernetesStatus, KubernetesStream,
    PartsStatus, SecondaryStatus, ServerState, SignatureSpan, SiteStatus, Status, StatusHistogram,
    StoreStatus, StreamStatus, ThreadStatus, TransferStatus, UpstreamStatus, XdpQueueStatus,
    XdpStatus, ZoneState, ZoneStatus,
};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::oneshot;

/// Longer than any answer takes, on the busiest machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A running server, stopped when dropped.
pub struct Server {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start(ops: Ops) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.unwrap();
            let served = runtime.block_on(ops::serve(listener, ops, async {
                let _ = stopped.await;
            }));
            served.unwrap();
            // A hanging thread must not delay the end of the test.
            runtime.shutdown_background();
        });
        Self { address, stop: Some(stop), thread: Some(thread) }
    }

    /// Sends bytes, and returns everything until the end.
    pub fn send(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // The server may have closed.
        let _ = stream.write_all(bytes);
        rest(&mut stream)
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The status code and body of a GET.
    pub fn get(&self, path: &str, fields: &str) -> (u16, String) {
        split(&self.send(format!("GET {path} HTTP/1.1\r\nHost: d\r\n{fields}\r\n").as_bytes()))
    }

    pub fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Everything until the end, or until a reset.
pub fn rest(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let mut some = [0; 4096];
    loop {
        match stream.read(&mut some) {
            Ok(0) => break,
            Ok(len) => all.extend_from_slice(&some[..len]),
            Err(why) if why.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(why) => panic!("{why}: {}", String::from_utf8_lossy(&all)),
        }
    }
    String::from_utf8(all).unwrap()
}

/// The status code and body of a response.
pub fn split(response: &str) -> (u16, String) {
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or((response, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("no response: {response:?}")), body.to_owned())
}

/// A healthy server that allows all clients.
pub fn ops(status: impl Fn() -> Status + Send + Sync + 'static) -> Ops {
    Ops {
        status: Arc::new(status),
        health: Arc::new(|| Ok(())),
        allow: Arc::new(|_: IpAddr| true),
        hosts: Arc::new(["d".to_owned()]),
    }
}

/// A busy server: each status has higher counts.
pub fn working() -> impl Fn() -> Status + Send + Sync + 'static {
    let looks = AtomicU64::new(0);
    move || status(looks.fetch_add(1, Ordering::Relaxed) + 1)
}

/// The status after this many looks.
pub fn status(looks: u64) -> Status {
    let zone = |name: &str, state, serial| ZoneStatus {
        name: name.into(),
        state,
        serial: Some(serial),
        records: 4,
        loaded_seconds: Some(1.7e9),
        signatures: Some(SignatureSpan {
            expires_seconds: 1_700_864_000,
            validity_seconds: 2_592_000,
        }),
        ..ZoneStatus::default()
    };
    Status {
        version: "0.1.0".into(),
        state: ServerState::Serving,
        started_seconds: 1.7e9,
        config: ConfigStatus { loaded_seconds: 1.7e9, reloads: 1, ..ConfigStatus::default() },
        generation: 3,
        generation_seconds: 1.7e9 + 0.5,
        zones: vec![
            zone("example.org.", ZoneState::Current, u32::MAX),
            zone("od\"d\\010.test.", ZoneState::Behind, 7),
        ],
        sites: vec![SiteStatus {
            name: "b".into(),
            contact_seconds: Some(1.7e9),
            lag_seconds: Some(0.0),
            etcd_bytes: 1,
            ..SiteStatus::default()
        }],
        secondaries: vec![SecondaryStatus {
            name: "c.test.".into(),
            serial: Some(7),
            contact_seconds: Some(1.7e9),
            expires_seconds: Some(60.0),
            ..SecondaryStatus::default()
        }],
        hosts: vec![HostsStatus {
            file: "/etc/hosts".into(),
            state: ZoneState::Behind,
            names: 2,
            ..HostsStatus::default()
        }],
        threads: vec![thread("worker-0", "udp", looks), thread("streams-0", "tcp", looks)],
        streams: StreamStatus {
            open: 1,
            open_max: 1_024,
            accepted: looks,
            closed: [("idle".to_owned(), 1)].into(),
            ..StreamStatus::default()
        },
        imbalance: 1.25,
        upstreams: vec![upstream("192.0.2.53:53", looks), upstream("[2001:db8::53]:53", 0)],
        anycast: Some(AnycastStatus {
            addresses: vec!["192.0.2.53".into()],
            withdrawals: looks,
            ..AnycastStatus::default()
        }),
        xdp: Some(xdp(looks)),
        dpdk: Some(dpdk(looks)),
        cache: Some(CacheStatus { hits: looks, misses: 1, ..CacheStatus::default() }),
        store: Some(StoreStatus { revision: looks, zones: 1, ..StoreStatus::default() }),
        api: Some(api(looks)),
        transfer: Some(transfer(looks)),
        health: Some(HealthStatus { up: 2, passed: looks, ..HealthStatus::default() }),
        kubernetes: Some(kubernetes(looks)),
        process: server_status::Process::read(),
        ..Status::default()
    }
}

fn transfer(looks: u64) -> TransferStatus {
    TransferStatus {
        active: 1,
        served: [("whole".to_owned(), looks)].into(),
        refused: [("full".to_owned(), looks)].into(),
        cut: [("slow_reader".to_owned(), looks)].into(),
        records: looks,
        notifications: [("sent".to_owned(), looks)].into(),
        ..TransferStatus::default()
    }
}

fn kubernetes(looks: u64) -> KubernetesStatus {
    let stream = KubernetesStream {
        open_seconds: Some(1.7e9),
        current_seconds: Some(1.7e9),
        failures: looks,
        ..KubernetesStream::new("services")
    };
    KubernetesStatus {
        is_synced: true,
        services: 3,
        streams: vec![stream],
        written_seconds: Some(1.7e9),
        parts: Some(PartsStatus {
            clusters: vec![ClusterParts {
                name: "fra1-a".into(),
                parts: 3,
                ..ClusterParts::default()
            }],
            is_synced: true,
            ..PartsStatus::default()
        }),
        ..KubernetesStatus::default()
    }
}

fn xdp(looks: u64) -> XdpStatus {
    let counts = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), looks)).collect();
    XdpStatus {
        interface: "eth0".into(),
        mode: "native".into(),
        passed: counts(&["taken", "unchecked", "route"]),
        queues: vec![XdpQueueStatus {
            lost: counts(&["ring_full", "stray"]),
            ..XdpQueueStatus::default()
        }],
        ..XdpStatus::default()
    }
}

fn dpdk(looks: u64) -> DpdkStatus {
    let device = DpdkDeviceStatus {
        name: "net_memif0".into(),
        up: true,
        received: looks,
        lost: [("missed".to_owned(), looks)].into(),
        queues: vec![DpdkQueueStatus { polls: 2 * looks, empty_polls: looks, waits: 0 }],
        ..DpdkDeviceStatus::default()
    };
    DpdkStatus { devices: vec![device], ..DpdkStatus::default() }
}

fn api(looks: u64) -> ApiStatus {
    let took = StatusHistogram {
        bounds_seconds: vec![0.001, 0.002],
        counts: vec![looks, 1, 0],
        sum_seconds: 0.001,
    };
    ApiStatus {
        connections_accepted: looks,
        requests: [("200".to_owned(), looks)].into(),
        durable: took.clone(),
        live: took,
        ..ApiStatus::default()
    }
}

fn upstream(server: &str, looks: u64) -> UpstreamStatus {
    UpstreamStatus {
        suffix: ".".into(),
        server: server.into(),
        round_trip_seconds: (looks > 0).then_some(0.001),
        sent: looks,
        answered: looks,
        ..UpstreamStatus::default()
    }
}

fn thread(name: &str, transport: &str, looks: u64) -> ThreadStatus {
    let counted = |names: &[&str]| names.iter().map(|n| ((*n).to_owned(), looks)).collect();
    ThreadStatus {
        name: name.into(),
        transport: transport.into(),
        cpu: Some(0),
        bursts: looks,
        received: 3 * looks,
        replied: 2 * looks,
        dropped: counted(&["short"]),
        rcodes: counted(&["NOERROR", "NXDOMAIN"]),
        types: counted(&["A", "AAAA", "other"]),
        truncated: looks,
        notifies: counted(&["accepted", "refused"]),
        panics: looks,
        latency: StatusHistogram {
            bounds_seconds: vec![0.00001, 0.0001, 0.001, 1.0],
            counts: vec![looks, looks, 0, 0, 0],
            sum_seconds: 0.0001 * looks as f64,
        },
    }
}

/// Whether a command exists. Logs if it does not, and panics if nothing may be skipped.
pub fn is_present(command: &str, package: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|folder| folder.join(command).exists()) {
        return true;
    }
    let required = std::env::var_os("DUNLIN_REQUIRE_ALL").is_some();
    assert!(!required, "{command} is not installed (Debian's package {package})");
    eprintln!("SKIPPED: {command} is not installed (Debian's package {package})");
    false
}
