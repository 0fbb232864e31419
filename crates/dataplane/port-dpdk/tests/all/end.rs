//! DPDK in the process of a test, and devices at the other end of a server's.

#![allow(dead_code, reason = "each test binary uses some of it")]
use packet::frame::{LinkHeader, ReplyPath, compose, headers_len, read};
use port::Frames;
use port_dpdk::{
    DeviceView, DpdkError, DpdkQueue, Environment, EnvironmentOptions, Library, Selection,
};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use test_support::{dpdk, wait};

/// The environment of this process, once; `None`: DPDK is not there, which is said.
pub fn environment() -> Option<&'static Environment> {
    static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
    let path = dpdk::library()?;
    Some(ENVIRONMENT.get_or_init(|| {
        let library = Library::open(&path).expect("it was just compiled");
        assert!(library.release().starts_with("DPDK "), "{}", library.release());
        Environment::start(library, &options()).expect("started")
    }))
}

/// How it is started.
pub fn options() -> EnvironmentOptions {
    EnvironmentOptions {
        prefix: format!("dunlin-test-{}", std::process::id()),
        huge_pages: false,
        memory: 256 << 20,
        cpus: "0".into(),
        devices: Vec::new(),
    }
}

/// A memif that no other test of this process has.
pub fn open(
    arguments: &str,
    queues: u16,
    listen: &[SocketAddr],
) -> Result<(Vec<DpdkQueue>, DeviceView), DpdkError> {
    open_device(&format!("net_memif,{arguments}"), queues, listen)
}

/// A device of this driver, whose number gets it a name of its own.
pub fn open_device(
    device: &str,
    queues: u16,
    listen: &[SocketAddr],
) -> Result<(Vec<DpdkQueue>, DeviceView), DpdkError> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let (driver, arguments) = device.split_once(',').expect("arguments");
    let address = format!("{driver}{number},{arguments}").parse().expect("an address");
    environment().expect("DPDK").open(&address, queues, &Selection::new(listen), None)
}

/// A datagram in a frame.
pub fn frame(
    (from, to): (SocketAddr, SocketAddr),
    (mac, of_peer): ([u8; 6], [u8; 6]),
    payload: &[u8],
) -> Vec<u8> {
    let way = ReplyPath { link: LinkHeader::new(mac, of_peer, from.port()), local: from.ip() };
    let mut head = vec![0; headers_len(&way)];
    assert!(compose(&mut head, payload, &way, to));
    [&head, payload].concat()
}

/// Waits for the tests of this process that have devices: some of DPDK's drivers close a descriptor
/// a second time, which may be another one's then.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The clients of a server at the other end of a memif device. Fields are dropped in this order.
pub struct ClientEnd {
    pub queues: Vec<DpdkQueue>,
    pub view: DeviceView,
    _alone: MutexGuard<'static, ()>,
}

impl ClientEnd {
    /// Opens an end with so many queues for clients with these addresses.
    pub fn open(
        alone: MutexGuard<'static, ()>,
        socket: &Path,
        queues: u16,
        clients: &[SocketAddr],
    ) -> Self {
        let arguments = format!("role=client,socket={},socket-abstract=no", socket.display());
        let (queues, view) = open(&arguments, queues, clients).expect("opened");
        Self { queues, view, _alone: alone }
    }

    /// Waits until there is a server. A ring has buffers from its first call on.
    pub fn wait(&mut self) {
        wait::until_true("the link is up", || self.view.counts().is_up);
        for queue in &mut self.queues {
            queue.burst(|_| panic!("nothing was sent")).expect("usable");
        }
    }

    /// Sends a frame by a queue.
    pub fn send(&mut self, queue: usize, frame: &[u8]) {
        let queued = self.queues[queue].queue(|room| {
            room[..frame.len()].copy_from_slice(frame);
            Some(frame.len())
        });
        assert!(queued);
        self.queues[queue].flush(|taken| assert!(taken));
    }

    /// What has come to a queue: for which client, from whom, and its payload.
    pub fn receive(&mut self, queue: usize) -> Vec<(SocketAddr, SocketAddr, Vec<u8>)> {
        let mut got = Vec::new();
        let burst = self.queues[queue].burst(|frames| {
            for frame in frames {
                let datagram = read(&frame.buf[..frame.len]).expect("what is sent can be read");
                let to = SocketAddr::new(datagram.way.local, datagram.local_port());
                let payload = &frame.buf[datagram.at..datagram.at + datagram.len];
                got.push((to, datagram.peer, payload.to_vec()));
            }
        });
        burst.expect("usable");
        got
    }
}
