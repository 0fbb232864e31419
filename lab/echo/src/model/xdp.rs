//! AF_XDP and XDP_TX: frames from the device's driver, without the network stack.
//!
//! The program that picks them is attached as long as the echo lives, and no longer. A UDP socket
//! that drops all takes the port, as with `packet`.

use crate::limits::PATIENCE;
use crate::model::packet::silence;
use crate::reply::Reason;
use crate::thread_context::ThreadContext;
use crate::{Error, Model, Options, interface};
use bpf::{AttachedProgram, EbpfLoader};
use packet::frame::link_len;
use packet::udp::Udp;
use port::{Frame, Frames};
use port_xdp::{FilterProgram, FilterRules, Interface, XdpError, XdpQueue, XdpSocket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::any::Any;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// `bpf/echo.c`, compiled.
static OBJECT: &[u8] = bpf::include_bytes_aligned!("../../bpf/echo.o");
/// How often what the kernel has answered is checked.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// The device part of a thread.
pub enum Device {
    /// A queue's rings.
    Queue(Box<XdpQueue<XdpSocket>>),
    /// The program that answers, and counts.
    Program(AttachedProgram),
}

/// The opened devices of a model.
pub struct Opened {
    pub devices: Vec<Device>,
    pub sockets: Vec<Arc<OwnedFd>>,
    /// Resources that stay open beside them.
    pub beside: Box<dyn Any + Send>,
}

/// A queue for each thread, or the program that needs none.
///
/// # Errors
/// No interface has the address, it has fewer queues, or the kernel refuses.
pub fn open(options: &Options, count: usize) -> Result<Opened, Error> {
    let silencer = silence(options)?;
    let link = interface::of_address(options.listen.ip())?;
    let told = |error: XdpError| Error::Failed(error.to_string());
    let interface =
        Interface::find(&link.name).map_err(|error| told(XdpError::Interface(error)))?;
    if options.model == Model::XdpTx {
        let program = attach_echo(&interface, options.listen).map_err(told)?;
        let devices = vec![Device::Program(program)];
        return Ok(Opened { devices, sockets: vec![Arc::new(silencer)], beside: Box::new(()) });
    }
    if count > interface.queues as usize {
        let (name, queues) = (&interface.name, interface.queues);
        return Err(Error::Invalid(format!("{name} has queues for {queues} threads, not {count}")));
    }
    let rules = FilterRules { listen: vec![options.listen], route_check: false, priority: None };
    let mut program = FilterProgram::attach(&interface, &rules).map_err(told)?;
    let (mut devices, mut sockets) = (Vec::new(), Vec::new());
    for number in 0..count as u32 {
        let queue = port_xdp::open(interface.index, number, interface.chunk(), interface.mtu);
        let mut queue = queue.map_err(|error| Error::failed("AF_XDP", error))?;
        program.serve(number, &*queue.device()).map_err(told)?;
        let socket = queue.device().as_fd().try_clone_to_owned();
        sockets.push(Arc::new(socket.map_err(|error| Error::failed("AF_XDP", error))?));
        devices.push(Device::Queue(Box::new(queue)));
    }
    Ok(Opened { devices, sockets, beside: Box::new((program, silencer)) })
}

fn attach_echo(interface: &Interface, listen: SocketAddr) -> Result<AttachedProgram, XdpError> {
    let address = match listen.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits().to_be_bytes(),
        IpAddr::V6(ip) => ip.to_bits().to_be_bytes(),
    };
    let port = listen.port().to_be_bytes();
    let mut loader = EbpfLoader::new();
    loader.override_global("address", &address, true).override_global("port", &port, true);
    AttachedProgram::new(loader, OBJECT, &interface.device(), None, |_| Ok(()))
}

/// Answers on a queue, or reads the counters of the program that answers, until the stop.
pub fn run(context: &ThreadContext) -> io::Result<()> {
    match context.device.lock().expect("no other thread holds it").take() {
        Some(Device::Queue(mut queue)) => answer_all(context, &mut queue),
        Some(Device::Program(program)) => report_answers(context, &program),
        None => Err(io::Error::other("there is no device")),
    }
}

fn answer_all(context: &ThreadContext, queue: &mut XdpQueue<XdpSocket>) -> io::Result<()> {
    let patience = Timespec { tv_sec: 0, tv_nsec: PATIENCE.subsec_nanos().into() };
    while context.goes_on() {
        let mut sent = 0;
        let exchange = queue.burst(|frames| {
            for frame in frames {
                frame.is_sent = answer(context, frame);
                sent += usize::from(frame.is_sent);
            }
        })?;
        if exchange.received > 0 {
            context.counters_mut().burst(exchange.received);
            context.sent(sent, sent - exchange.refused);
        } else {
            wait(queue.device().as_fd(), &patience);
        }
    }
    Ok(())
}

/// Turns a frame into its answer; false: it has none.
fn answer(context: &ThreadContext, frame: &mut Frame<'_>) -> bool {
    let bytes = &mut frame.buf[..frame.len];
    let datagram = link_len(bytes).and_then(|at| Some((at, Udp::parse(&bytes[at..])?)));
    let Some((at, udp)) = datagram else {
        context.counters_mut().dropped(Reason::Malformed, 1);
        return false;
    };
    let (link, packet) = bytes.split_at_mut(at);
    let port = udp.source_port(packet);
    if !context.answer(&mut packet[udp.payload()], port) {
        return false;
    }
    // Addresses change places, and tags stay.
    let (to, from) = link[..12].split_at_mut(6);
    to.swap_with_slice(from);
    frame.len = at + udp.turn_around(packet);
    true
}

/// Reports the kernel's answers. No other thread writes these counters.
fn report_answers(context: &ThreadContext, program: &AttachedProgram) -> io::Result<()> {
    loop {
        let goes_on = context.goes_on();
        let [answered, short, response, no_peer] = program.counts().map_err(io::Error::other)?;
        let mut counts = crate::Counts { answered, bursts: answered, ..<_>::default() };
        counts.dropped[Reason::Short as usize] = short;
        counts.dropped[Reason::Response as usize] = response;
        counts.dropped[Reason::NoPeer as usize] = no_peer;
        counts.received = answered + counts.dropped();
        context.counters_mut().set(&counts);
        if !goes_on {
            return Ok(());
        }
        wait(context.on_stop.as_fd(), &LOOK);
    }
}

fn wait(fd: BorrowedFd<'_>, time: &Timespec) {
    // An early end of the wait is handled when it begins again.
    let _ = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(time));
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::frame::{LinkHeader, ReplyPath, compose, headers_len, read};
    use std::path::Path;

    #[test]
    fn a_frame_returns_with_its_vlan_tags() {
        let (context, server) = (ThreadContext::alone(), "192.0.2.1:53".parse().unwrap());
        let untagged = LinkHeader::new([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1], 4_000);
        let query = [0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for link in [untagged, untagged.behind(7), untagged.behind(7).behind(9)] {
            let way = ReplyPath { link, local: "192.0.2.2".parse().unwrap() };
            let mut bytes = vec![0; headers_len(&way)];
            assert!(compose(&mut bytes, &query, &way, server));
            bytes.extend(query);
            let len = bytes.len();
            let mut frame = Frame { buf: &mut bytes, len, is_sent: false };
            assert!(answer(&context, &mut frame));
            assert_eq!(frame.len, len);
            let datagram = read(&bytes).expect("a datagram");
            assert_eq!((datagram.way, datagram.peer), (way, server));
            assert_eq!(bytes[datagram.at..][..4], [0, 1, 0x81, 0]);
        }
    }

    #[test]
    fn the_committed_object_matches_its_source() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
        test_support::bpf::expect_object(&folder, "echo.c", "echo.o", &[]);
    }
}
