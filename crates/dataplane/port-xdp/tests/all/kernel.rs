//! The port on a real interface: a pair of virtual ones between two network namespaces, whose other
//! end is the kernel's own sockets. Needs root.

mod allocations;
mod shapes;
mod wire;

use bpf::{AttachedProgram, EbpfLoader};
use packet::{Packet, Verdict};
use port::{Port, Udp};
use port_contract::TestLink;
use port_xdp::limits::FRAMES;
use port_xdp::{
    AttachMode, FilterCounts, FilterProgram, FilterRules, Interface, XdpError, XdpQueue, XdpSocket,
    open,
};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use test_support::wait;
use wire::{Wire, is_root};

/// A queue of the server's interface, and two clients behind the other one.
struct FakeKernel {
    port: Udp<XdpQueue<XdpSocket>>,
    clients: [UdpSocket; 2],
    program: FilterProgram,
    // Goes last: with it, the interfaces do.
    wire: Wire,
}

fn attach(wire: &Wire, listen: &[SocketAddr]) -> (FilterProgram, Udp<XdpQueue<XdpSocket>>) {
    attach_by(wire, listen, true)
}

fn attach_by(
    wire: &Wire,
    listen: &[SocketAddr],
    route_check: bool,
) -> (FilterProgram, Udp<XdpQueue<XdpSocket>>) {
    let rules = FilterRules { listen: listen.to_vec(), route_check, priority: None };
    let (program, mut queues) = wire.in_server(|| serve("s0", &rules, &[0]));
    (program, Udp::new(queues.pop().unwrap()))
}

/// Attaches to an interface of this thread's, and serves these queues of it.
fn serve(
    interface: &str,
    rules: &FilterRules,
    queues: &[u32],
) -> (FilterProgram, Vec<XdpQueue<XdpSocket>>) {
    let interface = Interface::find(interface).unwrap();
    let mut program = FilterProgram::attach(&interface, rules).unwrap();
    let serve = |number: &u32| {
        let (chunk, mtu) = (interface.chunk(), interface.mtu);
        let mut queue = open(interface.index, *number, chunk, mtu).unwrap();
        assert!(!queue.device().is_zero_copy());
        program.serve(*number, &*queue.device()).unwrap();
        queue
    };
    let queues = queues.iter().map(serve).collect();
    (program, queues)
}

impl FakeKernel {
    fn new(server: &str) -> Self {
        let (wire, server) = (Wire::new(), server.parse().unwrap());
        let (program, port) = attach(&wire, &[server]);
        let clients = [wire.client(server), wire.client(server)];
        Self { port, clients, program, wire }
    }

    fn passed(&self) -> FilterCounts {
        self.program.passed().unwrap()
    }

    /// Whether a client already has a reply, which is skipped.
    fn receive_now(&self, client: usize) -> bool {
        let flags = rustix::net::RecvFlags::DONTWAIT;
        rustix::net::recv(&self.clients[client], &mut [0; 16], flags).is_ok()
    }

    /// Answers until this many were.
    fn echo(&mut self, count: usize) {
        let (mut done, end) = (0, Instant::now() + Duration::from_secs(5));
        while done < count {
            assert!(Instant::now() < end, "{done} of {count}; {:?}", self.passed());
            done += self.port.burst(reply_to_all).unwrap().replied;
        }
    }
}

fn reply_to_all(packets: &mut [Packet<'_>]) {
    packets.iter_mut().for_each(|packet| packet.verdict = Verdict::Reply);
}

impl TestLink for FakeKernel {
    type Port = Udp<XdpQueue<XdpSocket>>;

    fn port(&mut self) -> &mut Self::Port {
        &mut self.port
    }

    fn address(&self, client: usize) -> SocketAddr {
        self.clients[client].local_addr().unwrap()
    }

    fn send(&mut self, client: usize, payload: &[u8]) {
        self.clients[client].send(payload).unwrap();
    }

    fn receive(&mut self, client: usize) -> Option<Vec<u8>> {
        let mut buf = vec![0; 65_535];
        let len = self.clients[client].recv(&mut buf).ok()?;
        buf.truncate(len);
        Some(buf)
    }
}

/// The contract, but for what is longer than the room: that is left to the kernel.
macro_rules! kernel_contract {
    ($name:ident, $server:expr, [$($clause:ident),*]) => {
        mod $name {
            use super::*;
            $(#[test] fn $clause() {
                if is_root() {
                    port_contract::$clause(FakeKernel::new($server));
                }
            })*
        }
    };
    ($name:ident, $server:expr) => {
        kernel_contract!($name, $server, [
            replies_go_to_whom_they_belong,
            an_empty_burst_does_not_call_the_application,
            dropped_packet_is_not_answered,
            deferred_packets_are_answered_later,
            every_packet_is_counted_once,
            a_burst_is_no_longer_than_it_may_be,
            a_zero_length_datagram_is_a_packet,
            a_reply_may_fill_the_room,
            waiting_packets_make_the_port_readable
        ]);
    };
}

kernel_contract!(v4, "192.0.2.1:53");
kernel_contract!(v6, "[2001:db8::1]:53");
#[test]
fn what_is_not_ours_passes() {
    if !is_root() {
        return;
    }
    let mut link = FakeKernel::new("192.0.2.1:53");
    let listen = |at: &str| link.wire.in_server(|| UdpSocket::bind(at).unwrap());
    let (other_port, beside) = (listen("192.0.2.1:54"), listen("192.0.2.1:53"));
    let tcp = link.wire.in_server(|| TcpListener::bind("192.0.2.1:53").unwrap());
    let client = link.wire.client("192.0.2.1:54".parse().unwrap());
    let heard = |socket: &UdpSocket| {
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket.recv(&mut [0; 4_096]).unwrap()
    };
    client.send(b"another port").unwrap();
    assert_eq!(heard(&other_port), 12);
    // Longer than there is room for, and in fragments.
    link.send(0, &[0; 1_460]);
    assert_eq!(heard(&beside), 1_460);
    link.send(0, &[0; 3_000]);
    assert_eq!(heard(&beside), 3_000);
    let stream = link.wire.in_client(|| TcpStream::connect("192.0.2.1:53"));
    assert!(stream.is_ok() && tcp.accept().is_ok());
    link.wire.ping("192.0.2.1");
    link.wire.ping("2001:db8::1");
    assert_eq!(link.port.burst(|_| panic!("nothing is ours")).unwrap().received, 0);
    link.send(0, b"ours");
    link.echo(1);
    let passed = FilterCounts { taken: 1, long: 1, ..FilterCounts::default() };
    assert_eq!(link.passed(), passed);
    let losses = link.port.frames().device().watch().unwrap().losses().unwrap();
    assert_eq!(losses, port_xdp::KernelDrops::default());
}

#[test]
fn query_with_another_return_route_passes_to_the_kernel() {
    if !is_root() {
        return;
    }
    let mut link = FakeKernel::new("192.0.2.1:53");
    let beside = link.wire.in_server(|| UdpSocket::bind("192.0.2.1:53").unwrap());
    beside.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    // A client whose link address is not known.
    link.wire.forget_neighbours();
    link.send(0, b"unknown");
    assert_eq!(beside.recv(&mut [0; 16]).unwrap(), 7);
    assert_eq!(link.passed().neighbour, 1);
    // Once the kernel has answered, it knows.
    let client = link.address(0);
    beside.send_to(b"answer", client).unwrap();
    assert_eq!(link.receive(0).unwrap(), b"answer");
    link.send(0, b"known");
    link.echo(1);
    // Another way.
    link.wire.route_elsewhere("192.0.2.2");
    link.send(0, b"elsewhere");
    assert_eq!(beside.recv(&mut [0; 16]).unwrap(), 9);
    assert_eq!((link.passed().route, link.passed().taken), (1, 1));
}

#[test]
fn when_nothing_is_under_way_every_frame_is_in_one_place() {
    if !is_root() {
        return;
    }
    let mut link = FakeKernel::new("192.0.2.1:53");
    assert_eq!(link.port.frames().counts().places().sum(), FRAMES);
    // More than there are.
    for nth in 0..FRAMES as usize + 1_000 {
        link.send(nth % 2, b"question");
        link.echo(1);
    }
    let end = Instant::now() + Duration::from_secs(5);
    while link.port.frames().counts().places().sum() != FRAMES {
        assert!(Instant::now() < end, "{:?}", link.port.frames().counts().places());
    }
    assert_eq!(link.port.frames().counts().strays(), 0);
}

#[test]
fn next_hop_is_maintained_by_the_kernel() {
    if !is_root() {
        return;
    }
    let mut link = FakeKernel::new("192.0.2.1:53");
    let beside = link.wire.in_server(|| UdpSocket::bind("192.0.2.1:53").unwrap());
    beside.set_nonblocking(true).unwrap();
    link.wire.age_neighbours();
    link.send(0, b"first");
    link.echo(1);
    assert!(link.wire.has_stale_neighbour(), "a reply on AF_XDP does not change that");
    let (mut sent, mut buf) = (1, [0; 16]);
    let (len, client) = loop {
        // Each CPU counts for itself.
        assert!(sent < 64 * 16_384, "{:?}", link.passed());
        (0..32).for_each(|_| link.send(0, b"question"));
        sent += 32;
        if let Ok(heard) = beside.recv_from(&mut buf) {
            break heard;
        }
        while link.port.burst(reply_to_all).unwrap().received > 0 {}
        while link.receive_now(0) {}
    };
    beside.send_to(&buf[..len], client).unwrap();
    assert!(!link.wire.has_stale_neighbour(), "the kernel asks");
    assert_eq!(link.passed().probe, 1);
    assert!(sent >= 16_384, "{sent}");
}

#[test]
fn a_frame_for_another_host_is_left_to_the_kernel() {
    if !is_root() {
        return;
    }
    for route_check in [true, false] {
        let wire = Wire::new();
        let server = "192.0.2.1:53".parse().unwrap();
        let (program, port) = attach_by(&wire, &[server], route_check);
        let client = wire.client(server);
        let mut link = FakeKernel { clients: [client, wire.client(server)], port, program, wire };
        link.send(0, b"ours");
        link.echo(1);
        // As one hears what a bridge floods, or is sent to a server of the same address.
        link.wire.mistake_the_server();
        link.send(0, b"another's");
        let end = Instant::now() + Duration::from_secs(5);
        while link.passed().foreign == 0 {
            assert!(Instant::now() < end, "{:?}", link.passed());
            assert_eq!(link.port.burst(reply_to_all).unwrap().received, 0);
        }
        assert_eq!(link.passed(), FilterCounts { taken: 1, foreign: 1, ..FilterCounts::default() });
        assert!(link.receive(0).is_some_and(|reply| reply == b"ours"));
        assert!(link.receive(0).is_none());
    }
}

#[test]
fn a_kernel_that_knows_no_packets_in_several_buffers_has_a_program_of_its_own() {
    if !is_root() {
        return;
    }
    // This one knows them, so that the first program is made one that cannot be had.
    let (known, unknown) = (b"xdp.frags", b"sk_lookup");
    let mut object = include_bytes!("../../bpf/filter.o").to_vec();
    let at = object.windows(known.len()).position(|name| name == known).expect("its section");
    object[at..][..known.len()].copy_from_slice(unknown);
    let wire = Wire::new();
    wire.in_server(|| {
        let interface = Interface::find("s0").unwrap();
        let attached =
            AttachedProgram::new(EbpfLoader::new(), &object, &interface.device(), None, |_| Ok(()));
        assert_eq!(attached.expect("attached").mode(), AttachMode::Native);
    });
}

#[test]
fn a_queue_without_a_socket_is_the_kernels() {
    if !is_root() {
        return;
    }
    let wire = Wire::new();
    let server = "192.0.2.1:53".parse().unwrap();
    let (program, port) = attach(&wire, &[server]);
    let beside = wire.in_server(|| UdpSocket::bind(server).unwrap());
    beside.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let client = wire.client(server);
    // Who closes its socket leaves the queue; the program is still there.
    drop(port);
    client.send(b"question").unwrap();
    // A signal of another test may interrupt it.
    assert_eq!(wait::until_ok("the query", || beside.recv(&mut [0; 16])), 8);
    assert_eq!(program.passed().unwrap().socket, 1);
    assert!(wire.has_program());
    drop(program);
    assert!(!wire.has_program(), "it goes with who attached it");
}

#[test]
fn target_admitted_on_one_queue_passes_to_the_kernel_on_others() {
    if !is_root() {
        return;
    }
    let wire = Wire::new();
    let [target, other] = ["192.0.2.1:4000", "192.0.2.1:4001"].map(|at| at.parse().unwrap());
    let (mut program, mut queue) = wire.in_server(|| {
        let interface = Interface::find("s0").unwrap();
        let mut program = FilterProgram::attach_for_answers(&interface, 1).unwrap();
        let mut queue = open(interface.index, 0, interface.chunk(), interface.mtu).unwrap();
        program.serve(0, &*queue.device()).unwrap();
        (program, Udp::new(queue))
    });
    let (beside, client) =
        (wire.in_server(|| UdpSocket::bind(target).unwrap()), wire.client(target));
    beside.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut counts = |program: &mut FilterProgram, admits: Option<u32>| {
        if let Some(only) = admits {
            program.admit(target, only).unwrap();
        }
        client.send(b"answer").unwrap();
        let end = Instant::now() + Duration::from_secs(5);
        while admits == Some(0) && queue.burst(|_| ()).unwrap().received == 0 {
            assert!(Instant::now() < end, "it is let in");
        }
        if admits != Some(0) {
            assert_eq!(beside.recv(&mut [0; 16]).unwrap(), 6, "it is the kernel's");
        }
        let passed = program.passed().unwrap();
        (passed.taken, passed.socket)
    };
    assert_eq!(counts(&mut program, None), (0, 0));
    assert_eq!(counts(&mut program, Some(1)), (0, 1), "by another queue");
    assert_eq!(counts(&mut program, Some(0)), (1, 1));
    let full = program.admit(other, 0).expect_err("there is room for one");
    assert!(matches!(full, XdpError::Table("targets", _)), "{full}");
    program.dismiss(target).unwrap();
    assert_eq!(counts(&mut program, None), (1, 1));
    program.admit(other, 0).unwrap();
    assert!(program.dismiss(target).is_err(), "it was not let in any more");
}

#[test]
fn an_interface_that_goes_leaves_a_quiet_port() {
    if !is_root() {
        return;
    }
    let mut link = FakeKernel::new("192.0.2.1:53");
    for _ in 0..3 {
        link.send(0, b"question");
    }
    link.wire.remove();
    let end = Instant::now() + Duration::from_millis(200);
    while Instant::now() < end {
        link.port.burst(reply_to_all).expect("it can be used, for nothing");
    }
    let losses = link.port.frames().device().watch().unwrap().losses();
    assert_eq!(losses.unwrap(), port_xdp::KernelDrops::default());
}

#[test]
fn second_attach_is_refused() {
    if !is_root() {
        return;
    }
    let wire = Wire::new();
    let server = "192.0.2.1:53".parse().unwrap();
    for _ in 0..5 {
        let (program, _port) = attach(&wire, &[server]);
        assert_eq!(program.mode(), AttachMode::Native);
        wire.in_server(|| {
            let interface = Interface::find("s0").unwrap();
            let rules = FilterRules { listen: vec![server], route_check: true, priority: None };
            let error = FilterProgram::attach(&interface, &rules).expect_err("it is taken");
            assert!(matches!(error, XdpError::Busy(_)), "{error}");
        });
        wire.ping("192.0.2.1");
    }
    wait::until_true("no program is left", || !wire.has_program());
}
