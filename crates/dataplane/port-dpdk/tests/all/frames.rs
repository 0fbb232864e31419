//! The contract over an interface of the kernel, by af_packet and by af_xdp, and over virtio-user,
//! whose vhost is DPDK's own test program. The clients are a packet socket at the other end.

use crate::end::{alone, environment, frame, open_device};
use packet::frame::read;
use packet::{Packet, Verdict};
use port::{Port, Udp};
use port_contract::TestLink;
use port_dpdk::{DeviceView, DpdkQueue};
use std::collections::VecDeque;
use std::ffi::CString;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use test_support::folder::Folder;
use test_support::skip::{leave, skip};
use test_support::wait;

const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Two interfaces of the kernel, each the other end of the other, until this is dropped.
struct Pair {
    ours: String,
    theirs: String,
}

impl Pair {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let name = |end| format!("d{process:x}{end}{number}");
        let pair = Self { ours: name('a'), theirs: name('b') };
        let Self { ours, theirs } = &pair;
        // An oversized frame is sent, too.
        ip(&format!("link add {ours} type veth peer name {theirs} mtu 3000"));
        for end in [ours, theirs] {
            ip(&format!("link set {end} up"));
        }
        pair
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["link", "del", &self.ours]).status();
    }
}

fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).output().expect("it runs");
    assert!(done.status.success(), "{arguments}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A packet socket on an interface.
struct PacketSocket(OwnedFd);

impl PacketSocket {
    fn new(interface: &str) -> Self {
        let all = (libc::ETH_P_ALL as u16).to_be();
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: it takes numbers.
        let socket = unsafe { libc::socket(libc::AF_PACKET, kind, all.into()) };
        assert!(socket >= 0, "{}", io::Error::last_os_error());
        // SAFETY: it was just opened, and is no one else's.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let name = CString::new(interface).expect("a name");
        // SAFETY: a text that lives longer than the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        // SAFETY: all bytes zero are a valid address.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = all;
        address.sll_ifindex = index as i32;
        let len = size_of_val(&address) as u32;
        // SAFETY: an address of this length.
        let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
        assert_eq!(bound, 0, "{}", io::Error::last_os_error());
        Self(socket)
    }
}

/// A port, and clients at its other end. Fields are dropped in this order.
struct FrameLink {
    port: Udp<DpdkQueue>,
    view: DeviceView,
    socket: PacketSocket,
    server: SocketAddr,
    clients: [SocketAddr; 2],
    got: [VecDeque<Vec<u8>>; 2],
    _peer: Option<Peer>,
    _pair: Pair,
    _alone: MutexGuard<'static, ()>,
}

/// Killed when it is dropped.
struct Peer(Child, #[allow(dead_code, reason = "it has the socket")] Folder);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl FrameLink {
    /// The device with these arguments, which has one end of a pair of interfaces.
    fn of_interface(driver: &str) -> Self {
        let (alone, pair) = (alone(), Pair::new());
        let device = format!("{driver},iface={}", pair.ours);
        Self::new(alone, pair, None, &device)
    }

    /// virtio-user, whose other end has that end of a pair.
    fn of_virtio() -> Self {
        let (alone, pair, folder) = (alone(), Pair::new(), Folder::new("vhost"));
        let socket = folder.join("socket");
        let mut command = Command::new("dpdk-testpmd");
        command.arg(format!("--file-prefix=dunlin-vhost-{}", pair.ours));
        command.args("--no-huge --no-pci --no-shconf -m 64 --lcores 0@0,1@0".split(' '));
        command.arg(format!("--vdev=net_vhost0,iface={}", socket.display()));
        command.arg(format!("--vdev=net_af_packet0,iface={}", pair.ours));
        command.args("-- --auto-start --total-num-mbufs=4096 --no-mlockall".split(' '));
        // It ends with its input.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let peer = Peer(command.spawn().expect("it runs"), folder);
        wait::until_true("the socket is there", || socket.exists());
        let device = format!("virtio_user,path={},mac=02:00:00:00:00:53", socket.display());
        Self::new(alone, pair, Some(peer), &device)
    }

    fn new(alone: MutexGuard<'static, ()>, pair: Pair, peer: Option<Peer>, device: &str) -> Self {
        let server = "192.0.2.53:53".parse().expect("an address");
        let clients = ["198.51.100.1:4001", "198.51.100.2:4002"].map(|at| at.parse().unwrap());
        let (mut queues, view) = open_device(device, 1, &[server]).expect("opened");
        let port = Udp::new(queues.pop().expect("one"));
        let socket = PacketSocket::new(&pair.theirs);
        let (got, _peer, _pair, _alone) = (Default::default(), peer, pair, alone);
        let mut link = Self { port, view, socket, server, clients, got, _peer, _pair, _alone };
        link.warm_up();
        link
    }

    /// Waits until frames come and go, and until none of this is left.
    fn warm_up(&mut self) {
        let mut number = 0u32;
        let mut exchange = |link: &mut Self| {
            number += 1;
            link.send(0, &number.to_be_bytes());
            let end = Instant::now() + Duration::from_millis(20);
            while link.got[0].is_empty() && Instant::now() < end {
                let reply = |packets: &mut [Packet<'_>]| {
                    packets.iter_mut().for_each(|packet| packet.verdict = Verdict::Reply);
                };
                link.port.burst(reply).expect("usable");
                link.take();
            }
            number
        };
        wait::until_true("frames come and go", || {
            exchange(self);
            !self.got[0].is_empty()
        });
        // They keep their order.
        self.got[0].clear();
        let last = exchange(self);
        wait::until_true("the last one is back", || {
            let reply = |packets: &mut [Packet<'_>]| {
                packets.iter_mut().for_each(|packet| packet.verdict = Verdict::Reply);
            };
            self.port.burst(reply).expect("usable");
            self.take();
            self.got[0].back().is_some_and(|got| *got == last.to_be_bytes())
        });
        self.got[0].clear();
    }

    /// Takes what has come.
    fn take(&mut self) {
        let mut room = [0; 4096];
        loop {
            let socket = self.socket.0.as_raw_fd();
            // SAFETY: so many bytes are written at most.
            let len = unsafe { libc::recv(socket, room.as_mut_ptr().cast(), room.len(), 0) };
            let Ok(len) = usize::try_from(len) else { return };
            // The kernel sends some of its own.
            let Ok(datagram) = read(&room[..len]) else { continue };
            let to = SocketAddr::new(datagram.way.local, datagram.local_port());
            let nth = self.clients.iter().position(|client| *client == to);
            if let Some(nth) = nth.filter(|_| datagram.peer == self.server) {
                let payload = &room[datagram.at..datagram.at + datagram.len];
                self.got[nth].push_back(payload.to_vec());
            }
        }
    }
}

impl TestLink for FrameLink {
    type Port = Udp<DpdkQueue>;

    fn port(&mut self) -> &mut Self::Port {
        &mut self.port
    }

    fn address(&self, client: usize) -> SocketAddr {
        self.clients[client]
    }

    fn send(&mut self, client: usize, payload: &[u8]) {
        let way = (self.clients[client], self.server);
        let frame = frame(way, (CLIENT_MAC, self.view.info.mac), payload);
        let socket = self.socket.0.as_raw_fd();
        wait::until_ok("there is room to send", || {
            // SAFETY: so many bytes are read.
            match unsafe { libc::send(socket, frame.as_ptr().cast(), frame.len(), 0) } {
                0.. => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        });
    }

    fn receive(&mut self, client: usize) -> Option<Vec<u8>> {
        // By another thread of the kernel, or by another process.
        let end = Instant::now() + Duration::from_secs(1);
        while self.got[client].is_empty() && Instant::now() < end {
            self.take();
        }
        self.got[client].pop_front()
    }
}

/// Whether there are root and DPDK, and what else the device needs.
fn is_possible(needs: impl FnOnce() -> bool) -> bool {
    if !rustix::process::geteuid().is_root() {
        skip("interfaces need root");
        return false;
    }
    environment().is_some() && needs()
}

fn has_af_xdp() -> bool {
    let protocols = std::fs::read_to_string("/proc/net/protocols").unwrap_or_default();
    let has = protocols.lines().any(|line| line.starts_with("XDP "));
    if !has {
        leave("no AF_XDP in this kernel (CONFIG_XDP_SOCKETS)");
    }
    has
}

fn has_testpmd() -> bool {
    let has = Command::new("dpdk-testpmd").arg("--version").output().is_ok();
    if !has {
        skip("dpdk-testpmd is not installed (Debian: dpdk-dev)");
    }
    has
}

/// The contract, where all of it is.
macro_rules! frame_contract {
    ($name:ident, $needs:expr, $link:expr, [$($clause:ident),*]) => {
        mod $name {
            use super::*;
            $(#[test] #[ignore = "slow: interfaces and a process for each clause"] fn $clause() {
                if is_possible($needs) {
                    port_contract::$clause($link);
                }
            })*
        }
    };
    ($name:ident, $needs:expr, $link:expr $(, $more:ident)?) => {
        frame_contract!($name, $needs, $link, [
            replies_go_to_whom_they_belong,
            an_empty_burst_does_not_call_the_application,
            dropped_packet_is_not_answered,
            every_packet_is_counted_once,
            a_burst_is_no_longer_than_it_may_be,
            a_zero_length_datagram_is_a_packet,
            a_reply_may_fill_the_room,
            oversized_datagram_is_dropped,
            waiting_packets_make_the_port_readable
            $(, $more)?
        ]);
    };
}

frame_contract!(
    af_packet,
    || true,
    FrameLink::of_interface("net_af_packet"),
    deferred_packets_are_answered_later
);
// Of 32 replies at once, which its driver took, not all come to the client: docs/dpdk.md.
frame_contract!(af_xdp, has_af_xdp, FrameLink::of_interface("net_af_xdp"));
frame_contract!(
    virtio_user,
    has_testpmd,
    FrameLink::of_virtio(),
    deferred_packets_are_answered_later
);
