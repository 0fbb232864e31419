//! Datagrams out of frames.

use crate::links::Links;
use crate::{Burst, Frame, FrameBurst, Frames, Port, PortCapabilities};
use arrayvec::ArrayVec;
use packet::frame::{NETWORK_MAX, ReplyPath, compose, headers_len, read};
use packet::{BURST_MAX, DropReason, LocalAddress, Packet, Transport, Verdict};
use std::io;
use std::os::fd::BorrowedFd;

/// The datagrams that a device's frames carry. What answers sees payloads alone; a reply's headers
/// are written in front of it, where the question's were.
#[derive(Debug)]
pub struct Udp<F> {
    frames: F,
    caps: PortCapabilities,
    links: Links,
}

/// What is left of a frame beside the packet shown of it.
struct FrameRest<'a> {
    way: ReplyPath,
    head: &'a mut [u8],
    len: &'a mut usize,
    is_sent: &'a mut bool,
}

impl<F: Frames> Udp<F> {
    /// A port on a device that lets through what is for us.
    pub fn new(frames: F) -> Self {
        let room = frames.mtu().saturating_sub(NETWORK_MAX);
        Self { frames, caps: PortCapabilities { burst_max: BURST_MAX, room }, links: Links::new() }
    }

    /// The device.
    pub fn frames(&mut self) -> &mut F {
        &mut self.frames
    }
}

impl<F: Frames> Port for Udp<F> {
    fn caps(&self) -> &PortCapabilities {
        &self.caps
    }

    fn burst(&mut self, mut app: impl FnMut(&mut [Packet<'_>])) -> io::Result<Burst> {
        let (room, mut burst, links) = (self.caps.room, Burst::default(), &mut self.links);
        let FrameBurst { received, refused } =
            self.frames.burst(|frames| show(frames, room, &mut app, (links, &mut burst)))?;
        burst.received = received;
        burst.replied -= refused;
        burst.dropped[DropReason::Unsent as usize] += refused;
        Ok(burst)
    }

    fn queue(&mut self, reply: &Packet<'_>) -> bool {
        let payload = reply.message();
        let way = reply.origin.local.and_then(|LocalAddress { ip, interface }| {
            self.links.get(interface).map(|link| ReplyPath { link, local: ip })
        });
        let Some(way) = way.filter(|_| payload.len() <= self.caps.room) else {
            return false;
        };
        let at = headers_len(&way);
        self.frames.queue(|room| {
            let (head, rest) = room.split_at_mut_checked(at)?;
            let rest = rest.get_mut(..payload.len())?;
            rest.copy_from_slice(payload);
            compose(head, rest, &way, reply.peer).then_some(at + payload.len())
        })
    }

    fn flush(&mut self, reported: impl FnMut(bool)) {
        self.frames.flush(reported);
    }

    fn is_stuck(&self) -> bool {
        self.frames.is_stuck()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.frames.as_fd()
    }

    fn may_pause(&self) -> bool {
        self.frames.may_pause()
    }
}

/// Shows the datagrams of a burst's frames, and turns those round that are answered.
#[inline]
fn show(
    frames: &mut [Frame<'_>],
    room: usize,
    mut app: impl FnMut(&mut [Packet<'_>]),
    (links, burst): (&mut Links, &mut Burst),
) {
    let mut packets = ArrayVec::<_, BURST_MAX>::new();
    let mut rests = ArrayVec::<_, BURST_MAX>::new();
    for frame in frames.iter_mut().take(BURST_MAX) {
        if let Some((packet, rest)) = open(frame, room, links, burst) {
            packets.push(packet);
            rests.push(rest);
        }
    }
    if !packets.is_empty() {
        app(&mut packets);
    }
    for (packet, rest) in packets.iter().zip(rests) {
        match packet.verdict {
            Verdict::Reply => {
                if compose(rest.head, packet.message(), &rest.way, packet.peer) {
                    (*rest.len, *rest.is_sent) = (rest.head.len() + packet.len, true);
                    burst.replied += 1;
                } else {
                    burst.drop(DropReason::Unsent);
                }
            }
            Verdict::Drop(reason) => burst.drop(reason),
            Verdict::Deferred | Verdict::Control | Verdict::Stream => {}
        }
    }
}

/// The packet in a frame, and the rest of it; what cannot be answered is counted.
#[inline]
fn open<'f>(
    frame: &'f mut Frame<'_>,
    room: usize,
    links: &mut Links,
    burst: &mut Burst,
) -> Option<(Packet<'f>, FrameRest<'f>)> {
    let datagram = match read(&frame.buf[..frame.len]) {
        Ok(datagram) if datagram.len <= room => datagram,
        Ok(_) => {
            burst.drop(DropReason::Oversize);
            return None;
        }
        Err(reason) => {
            burst.drop(reason);
            return None;
        }
    };
    let (head, payload) = frame.buf.split_at_mut(datagram.at);
    let room = room.min(payload.len());
    let (way, peer, len) = (datagram.way, datagram.peer, datagram.len);
    let mut packet = Packet::new(&mut payload[..room], len, peer, Transport::Datagram);
    packet.origin.local = Some(LocalAddress { ip: way.local, interface: links.number(&way.link) });
    Some((packet, FrameRest { way, head, len: &mut frame.len, is_sent: &mut frame.is_sent }))
}
