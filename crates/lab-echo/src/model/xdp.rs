//! AF_XDP and XDP_TX: frames from the device's driver, past the network stack.
//!
//! The program that picks them is attached as long as the echo lives, and no longer. A UDP socket
//! that drops all takes the port, as with `packet`.

use crate::limits::PATIENCE;
use crate::model::packet::silence;
use crate::reply::Reason;
use crate::seat::Seat;
use crate::{Error, Model, Options, interface};
use packet::frame::link_len;
use packet::udp::Udp;
use port::{Frame, Frames};
use port_xdp::{Attached, EbpfLoader, Interface, Program, Queue, Rules, Socket, XdpError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::any::Any;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// `bpf/echo.c`, compiled.
static OBJECT: &[u8] = port_xdp::include_bytes_aligned!("../../bpf/echo.o");
/// How often what the kernel has answered is looked at.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// What a thread has besides a socket.
pub enum Device {
    /// A queue's rings.
    Queue(Box<Queue<Socket>>),
    /// The program that answers, and counts.
    Program(Attached),
}

/// What the threads of one of these models have.
pub struct Opened {
    pub devices: Vec<Device>,
    pub sockets: Vec<Arc<OwnedFd>>,
    /// What is to be kept beside them.
    pub beside: Box<dyn Any + Send>,
}

/// A queue for each thread, or the program that needs none.
///
/// # Errors
/// No interface has the address, it has fewer queues, or the kernel refuses.
pub fn open(options: &Options, count: usize) -> Result<Opened, Error> {
    let silencer = silence(options)?;
    let index = interface::of_address(options.listen.ip())?;
    let told = |error: XdpError| Error::Failed(error.to_string());
    let interface = interface::name(index)
        .and_then(|name| Interface::find(&name))
        .map_err(|error| told(XdpError::Interface(error)))?;
    if options.model == Model::XdpTx {
        let program = attach_echo(&interface, options.listen).map_err(told)?;
        let devices = vec![Device::Program(program)];
        return Ok(Opened { devices, sockets: vec![Arc::new(silencer)], beside: Box::new(()) });
    }
    if count > interface.queues as usize {
        let (name, queues) = (&interface.name, interface.queues);
        return Err(Error::Asked(format!("{name} has queues for {queues} threads, not {count}")));
    }
    let rules = Rules { listen: vec![options.listen], route_check: false, priority: None };
    let mut program = Program::attach(&interface, &rules).map_err(told)?;
    let (mut devices, mut sockets) = (Vec::new(), Vec::new());
    for number in 0..count as u32 {
        let queue = port_xdp::open(interface.index, number, interface.chunk(), interface.mtu);
        let mut queue = queue.map_err(|error| Error::failed("AF_XDP", error))?;
        program.serve(number, &*queue.device()).map_err(told)?;
        let socket = Frames::as_fd(&queue).try_clone_to_owned();
        sockets.push(Arc::new(socket.map_err(|error| Error::failed("AF_XDP", error))?));
        devices.push(Device::Queue(Box::new(queue)));
    }
    Ok(Opened { devices, sockets, beside: Box::new((program, silencer)) })
}

fn attach_echo(interface: &Interface, listen: SocketAddr) -> Result<Attached, XdpError> {
    let address = match listen.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    let port = listen.port().to_be_bytes();
    let mut loader = EbpfLoader::new();
    loader.override_global("address", &address, true).override_global("port", &port, true);
    Attached::new(loader, OBJECT, interface, None, |_| Ok(()))
}

/// Answers by a queue, or looks at the program that answers, until it is to stop.
pub fn run(seat: &Seat) -> io::Result<()> {
    match seat.device.lock().expect("nobody else holds it").take() {
        Some(Device::Queue(mut queue)) => answer_all(seat, &mut queue),
        Some(Device::Program(program)) => look_on(seat, &program),
        None => Err(io::Error::other("there is no device")),
    }
}

fn answer_all(seat: &Seat, queue: &mut Queue<Socket>) -> io::Result<()> {
    let patience = Timespec { tv_sec: 0, tv_nsec: PATIENCE.subsec_nanos().into() };
    while seat.goes_on() {
        let mut sent = 0;
        let exchange = queue.burst(|frames| {
            for frame in frames {
                frame.is_sent = answer(seat, frame);
                sent += usize::from(frame.is_sent);
            }
        })?;
        if exchange.received > 0 {
            seat.tally().burst(exchange.received);
            seat.sent(sent, sent - exchange.refused);
        } else {
            wait(Frames::as_fd(queue), &patience);
        }
    }
    Ok(())
}

/// Makes a frame its own answer; false: it has none.
fn answer(seat: &Seat, frame: &mut Frame<'_>) -> bool {
    let octets = &mut frame.buf[..frame.len];
    let datagram = link_len(octets).and_then(|at| Some((at, Udp::parse(&octets[at..])?)));
    let Some((at, udp)) = datagram else {
        seat.tally().dropped(Reason::Malformed, 1);
        return false;
    };
    let (link, packet) = octets.split_at_mut(at);
    let port = udp.source_port(packet);
    if !seat.answer(&mut packet[udp.payload()], port) {
        return false;
    }
    // Addresses change places, and tags stay.
    let (to, from) = link[..12].split_at_mut(6);
    to.swap_with_slice(from);
    frame.len = at + udp.turn_around(packet);
    true
}

/// Shows what the kernel has answered. Nobody else counts here.
fn look_on(seat: &Seat, program: &Attached) -> io::Result<()> {
    loop {
        let goes_on = seat.goes_on();
        let [answered, short, response, no_peer] = program.counts().map_err(io::Error::other)?;
        let mut counts = crate::Counts { answered, bursts: answered, ..<_>::default() };
        counts.dropped[Reason::Short as usize] = short;
        counts.dropped[Reason::Response as usize] = response;
        counts.dropped[Reason::NoPeer as usize] = no_peer;
        counts.received = answered + counts.dropped();
        seat.tally().set(&counts);
        if !goes_on {
            return Ok(());
        }
        wait(seat.on_stop.as_fd(), &LOOK);
    }
}

fn wait(fd: BorrowedFd<'_>, time: &Timespec) {
    // What ends the wait early is looked at when it begins again.
    let _ = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(time));
}

#[cfg(test)]
#[path = "../../../../tests/skip.rs"]
mod skip;

#[cfg(test)]
mod tests {
    use super::*;
    use packet::frame::{Link, Way, compose, headers_len, read};
    use std::path::Path;
    use std::process::Command;

    #[test]
    fn a_frame_goes_back_with_the_tags_that_it_came_with() {
        let (seat, server) = (Seat::alone(), "192.0.2.1:53".parse().unwrap());
        let untagged = Link::new([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1], 4_000);
        let query = [0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for link in [untagged, untagged.behind(7), untagged.behind(7).behind(9)] {
            let way = Way { link, local: "192.0.2.2".parse().unwrap() };
            let mut octets = vec![0; headers_len(&way)];
            assert!(compose(&mut octets, &query, &way, server));
            octets.extend(query);
            let len = octets.len();
            let mut frame = Frame { buf: &mut octets, len, is_sent: false };
            assert!(answer(&seat, &mut frame));
            assert_eq!(frame.len, len);
            let datagram = read(&octets).expect("a datagram");
            assert_eq!((datagram.way, datagram.peer), (way, server));
            assert_eq!(octets[datagram.at..][..4], [0, 1, 0x81, 0]);
        }
    }

    #[test]
    fn the_committed_object_is_what_clang_makes() {
        let room = Path::new(env!("CARGO_MANIFEST_DIR"));
        let built = std::env::temp_dir().join(format!("dunlin-echo-{}.o", std::process::id()));
        let mut build = Command::new(room.join("../port-xdp/bpf/build"));
        match build.arg(room.join("bpf/echo.c")).arg(&built).output() {
            Ok(output) if output.status.success() => {
                let made = std::fs::read(&built).expect("it was built");
                let _ = std::fs::remove_file(&built);
                assert!(made == OBJECT, "bpf/echo.o is not of bpf/echo.c: run `make bpf`");
            }
            other => {
                skip::skip(&format!("no clang and llvm-strip (Debian: clang, llvm): {other:?}"));
            }
        }
    }
}
