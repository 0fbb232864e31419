//! AF_XDP: whole frames without the network stack, in rings that are shared with the kernel.
//!
//! A channel also has a socket of the kernel. It reserves the channel's port, so that no other
//! process on this host uses it, and it receives what the program passes to the kernel: fragments,
//! answers longer than a frame, and answers that the device put into the queue of another thread.

mod route;

use super::post::Post;
use super::{ChannelOptions, Sent, Transport, Udp, wait_for};
use crate::clock::Clock;
use crate::limits::{QUERY_MAX, STUCK_NAP_NS};
use crate::options::Options;
use packet::frame::NETWORK_MAX;
use port::Frames;
use port_xdp::{FilterProgram, Interface, SocketWatch, XdpQueue, XdpSocket};
use route::Hop;
use rustix::event::{PollFd, PollFlags};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

/// The part that threads of a load share: the interface, and the program there that lets their
/// answers in. The first thread attaches it. It is detached when this is dropped, and when the
/// process ends, in whichever way.
#[derive(Debug, Default)]
pub(crate) struct AttachOnce(Mutex<Option<Open>>);

#[derive(Debug)]
struct Open {
    interface: Interface,
    program: FilterProgram,
}

impl AttachOnce {
    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.0.lock().expect("who has it does not panic")
    }

    /// Opens a queue of the interface to a thread.
    fn queue(
        &self,
        options: &Options,
        hop: &Hop,
        queue: u32,
    ) -> Result<XdpQueue<XdpSocket>, String> {
        let mut guard = self.lock();
        let open = match guard.as_mut() {
            Some(open) => open,
            None => guard.insert(Open::at(options, hop)?),
        };
        let Open { interface, program } = open;
        if interface.name != hop.name {
            return Err(format!(
                "some sources reach the server by {} and others by {}: choose one (--interface)",
                interface.name, hop.name
            ));
        }
        let opened = port_xdp::open(interface.index, queue, interface.chunk(), interface.mtu);
        let mut opened = opened.map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::PermissionDenied => "; it takes CAP_NET_RAW (root has it)",
                io::ErrorKind::ResourceBusy => "; another AF_XDP socket has that queue",
                _ => "",
            };
            format!("{}: {error}{hint}", interface.name)
        })?;
        program.serve(queue, &*opened.device()).map_err(|error| error.to_string())?;
        Ok(opened)
    }

    /// Replaces the ports whose answers the queue of a thread receives.
    fn change(&self, queue: u32, old: Option<SocketAddr>, new: SocketAddr) -> io::Result<()> {
        let mut guard = self.lock();
        let Some(Open { program, .. }) = guard.as_mut() else { return Ok(()) };
        old.map_or(Ok(()), |old| program.dismiss(old))
            .and_then(|()| program.admit(new, queue))
            .map_err(io::Error::other)
    }
}

impl Open {
    fn at(options: &Options, hop: &Hop) -> Result<Self, String> {
        let (name, threads) = (&hop.name, options.threads);
        let interface = Interface::find(name).map_err(|error| error.to_string())?;
        if threads > interface.queues as usize {
            return Err(format!(
                "{name} has queues for {} threads, not {threads} (`ethtool -l {name}`)",
                interface.queues
            ));
        }
        if interface.mtu < NETWORK_MAX + QUERY_MAX {
            let mtu = interface.mtu;
            return Err(format!("packets on {name} have up to {mtu} bytes, and queries more"));
        }
        let channels = (options.channels_each() * threads) as u32;
        let program = FilterProgram::attach_for_answers(&interface, channels);
        let program = program.map_err(|error| format!("{error}; or --path sockets"))?;
        Ok(Self { interface, program })
    }
}

/// A queue of an interface, and channels of one thread on it.
pub(crate) struct Xdp {
    post: Post<XdpQueue<XdpSocket>>,
    queue: u32,
    watch: SocketWatch,
    /// The channels' sockets.
    under: Udp,
    /// Answers that these received.
    detoured: u64,
    attach: Arc<AttachOnce>,
}

impl Xdp {
    /// The channels of the thread of a number, which has the queue of that number.
    ///
    /// # Errors
    /// There is no way to the server, another program is on it, or the kernel refuses: what to do.
    pub fn new(
        options: &Options,
        channels: ChannelOptions,
        index: usize,
        attach: &Arc<AttachOnce>,
    ) -> io::Result<Self> {
        let (server, queue) = (channels.server, index as u32);
        let under = Udp::new(channels, options.channels_each(), false)?;
        let locals = (0..options.channels_each()).map(|channel| under.local(channel));
        let locals: Vec<SocketAddr> = locals.collect::<io::Result<_>>()?;
        let hop = Hop::find(server.ip(), locals[0].ip(), options.interface.as_deref());
        let hop = hop.map_err(io::Error::other)?;
        let mut frames = attach.queue(options, &hop, queue).map_err(io::Error::other)?;
        locals.iter().try_for_each(|local| attach.change(queue, None, *local))?;
        // Attaching a program has some drivers take the link down: it is looked up behind that.
        let link = [hop.address, hop.resolve().map_err(io::Error::other)?];
        let watch = frames.device().watch()?;
        let post = Post::new(frames, server, link, locals);
        Ok(Self { post, queue, watch, under, detoured: 0, attach: attach.clone() })
    }
}

impl Transport for Xdp {
    #[inline]
    fn takes(&self, _lane: usize) -> usize {
        usize::MAX
    }

    fn send(&mut self, batch: &super::Batch) -> Sent {
        self.post.send(batch)
    }

    fn receive(&mut self, clock: &Clock, each: &mut impl FnMut(usize, u64, &[u8])) -> usize {
        let received = self.post.receive(clock, each);
        let detoured = self.under.receive(clock, each);
        self.detoured += detoured as u64;
        received + detoured
    }

    fn wait(&mut self, length_ns: u64) {
        let most = if self.post.is_stuck() { STUCK_NAP_NS } else { u64::MAX };
        let under = self.under.as_fd();
        // Frames of AF_XDP have a descriptor.
        let frames = Frames::as_fd(self.post.frames()).unwrap_or(under);
        let of = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        wait_for(&mut [of(frames), of(under)], length_ns.min(most));
    }

    fn renew(&mut self, channel: usize) -> io::Result<()> {
        self.under.renew(channel)?;
        let (old, new) = (self.post.local(channel), self.under.local(channel)?);
        self.post.change(channel, new);
        self.attach.change(self.queue, Some(old), new)
    }

    fn failure(&self) -> Option<&io::Error> {
        self.post.failure()
    }

    fn dropped(&self) -> u64 {
        // A kernel that does not report drops counts as 0. Packets for which there was no frame are
        // dropped packets, too.
        let losses = self.watch.losses().unwrap_or_default();
        losses.dropped + losses.ring_full
    }

    fn detoured(&self) -> u64 {
        self.detoured
    }
}
