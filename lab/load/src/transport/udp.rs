//! Connected UDP sockets: sendmmsg and recvmmsg, and where it helps the kernel's segmentation and
//! its reverse. Queries of one length leave as one large datagram that is cut below (UDP_SEGMENT);
//! answers of one length that came together are read as one (UDP_GRO).

use super::{Batch, ChannelOptions, Sent, Transport, Watched, is_passing};
use crate::clock::Clock;
use crate::limits::{BATCH_MAX, JOINED_MAX};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

/// Bytes from one buffer to the next: an odd number of cache lines, so that their beginnings do
/// not fall into the same few sets of the cache.
const STRIDE: usize = JOINED_MAX + 64;
/// Datagrams that the kernel cuts one large one into at most (UDP_MAX_SEGMENTS, before 6.9).
const SEGMENTS_MAX: usize = 64;
// SAFETY: CMSG_SPACE and CMSG_LEN only compute. Room for two bytes is room for an int, too.
const CONTROL: usize = unsafe { libc::CMSG_SPACE(2) } as usize;
// SAFETY: as above.
const CONTROL_LEN: usize = unsafe { libc::CMSG_LEN(2) } as usize;

/// A control message with the length of each datagram of a joined message, outgoing or incoming.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

impl Control {
    fn segment() -> Self {
        let mut bytes = [0; CONTROL];
        // SAFETY: numbers, each of which may be 0; with some libraries there is padding among them.
        let mut header: libc::cmsghdr = unsafe { std::mem::zeroed() };
        header.cmsg_len = CONTROL_LEN as _;
        header.cmsg_level = libc::SOL_UDP;
        header.cmsg_type = libc::UDP_SEGMENT;
        // SAFETY: the header is plain old data that fits at the beginning; unaligned is allowed.
        unsafe { bytes.as_mut_ptr().cast::<libc::cmsghdr>().write_unaligned(header) };
        Self(bytes)
    }

    fn set(&mut self, len: u16) {
        let at = CONTROL_LEN - 2;
        self.0[at..at + 2].copy_from_slice(&len.to_ne_bytes());
    }

    /// The length of each datagram if the kernel joined several; else `None`.
    fn joined(&self, len: usize) -> Option<usize> {
        // SAFETY: the header is plain old data; unaligned is allowed.
        let header = unsafe { self.0.as_ptr().cast::<libc::cmsghdr>().read_unaligned() };
        let is_ours = len >= CONTROL_LEN
            && (header.cmsg_level, header.cmsg_type) == (libc::SOL_UDP, libc::UDP_GRO);
        let at = CONTROL_LEN - 2;
        let size = self.0[at..at + 4].try_into().map(i32::from_ne_bytes).ok()?;
        usize::try_from(size).ok().filter(|size| is_ours && *size > 0)
    }
}

/// Sockets, each a channel, of one thread.
pub(crate) struct Udp {
    channels: ChannelOptions,
    sockets: Vec<OwnedFd>,
    watched: Watched,
    ready: Vec<usize>,
    /// Whether equal queries leave together.
    segments: bool,
    out: Out,
    inlet: ReceiveBuffers,
}

/// Headers of outgoing messages. Their pointers are set for each call.
pub(super) struct Out {
    headers: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
    controls: Vec<Control>,
    /// Queries in each.
    counts: Vec<usize>,
}

/// Headers of incoming messages, each with its part of one buffer; never moved.
struct ReceiveBuffers {
    headers: Vec<libc::mmsghdr>,
    /// Buffers of the headers.
    _vectors: Vec<libc::iovec>,
    controls: Vec<Control>,
    buffer: Vec<u8>,
}

/// A header of nothing.
fn empty() -> libc::mmsghdr {
    // SAFETY: all it is made of is integers and pointers, for which zeros are valid.
    unsafe { std::mem::zeroed() }
}

impl ReceiveBuffers {
    fn new() -> Self {
        let mut buffer = vec![0u8; STRIDE * BATCH_MAX];
        let mut vectors: Vec<libc::iovec> = buffer
            .chunks_exact_mut(STRIDE)
            .map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: JOINED_MAX })
            .collect();
        let mut controls = vec![Control([0; CONTROL]); BATCH_MAX];
        let headers = vectors
            .iter_mut()
            .zip(&mut controls)
            .map(|(vector, control)| {
                let mut header = empty();
                header.msg_hdr.msg_iov = vector;
                header.msg_hdr.msg_iovlen = 1;
                header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
                header.msg_hdr.msg_controllen = CONTROL as _;
                header
            })
            .collect();
        Self { headers, _vectors: vectors, controls, buffer }
    }

    /// Reads what there is; how many messages.
    fn read(&mut self, fd: &OwnedFd) -> io::Result<usize> {
        // SAFETY: the headers point at vectors and controls, and the vectors at disjoint parts of
        // the buffer; all live as long as they do and are not borrowed meanwhile.
        let count = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                BATCH_MAX as u32,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    /// The datagrams of a message.
    fn datagrams(&mut self, index: usize) -> impl Iterator<Item = &[u8]> {
        let Self { headers, controls, buffer, .. } = self;
        let header = &mut headers[index];
        let len = (header.msg_len as usize).min(JOINED_MAX);
        let message = &buffer[index * STRIDE..index * STRIDE + len];
        let joined = controls[index].joined(header.msg_hdr.msg_controllen as _);
        // The next call writes its own control message there.
        header.msg_hdr.msg_controllen = CONTROL as _;
        message.chunks(joined.unwrap_or(len).max(1))
    }
}

impl Out {
    pub(super) fn new() -> Self {
        Self {
            headers: vec![empty(); BATCH_MAX],
            vectors: vec![libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; BATCH_MAX],
            controls: vec![Control::segment(); BATCH_MAX],
            counts: vec![0; BATCH_MAX],
        }
    }

    /// Sets headers for what waits in a batch; how many they are.
    pub(super) fn lay(&mut self, batch: &Batch, segments: bool) -> usize {
        let (mut used, mut at) = (0, batch.done);
        while at < batch.ends.len() {
            let first = batch.query(at);
            let mut count = 1;
            while segments
                && count < SEGMENTS_MAX
                && at + count < batch.ends.len()
                && batch.query(at + count).len() == first.len()
            {
                count += 1;
            }
            let vector = &mut self.vectors[used];
            // The kernel only reads it.
            vector.iov_base = first.as_ptr().cast_mut().cast();
            vector.iov_len = first.len() * count;
            let header = &mut self.headers[used].msg_hdr;
            header.msg_iov = vector;
            header.msg_iovlen = 1;
            let control = &mut self.controls[used];
            if count > 1 {
                control.set(first.len() as u16);
                header.msg_control = control.0.as_mut_ptr().cast();
                header.msg_controllen = CONTROL as _;
            } else {
                header.msg_control = ptr::null_mut();
                header.msg_controllen = 0;
            }
            self.counts[used] = count;
            (used, at) = (used + 1, at + count);
        }
        used
    }

    /// Queries in these headers.
    pub(super) fn queries(&self, headers: Range<usize>) -> usize {
        self.counts[headers].iter().sum()
    }

    /// A header that `lay` has set.
    pub(super) fn header(&self, index: usize) -> *const libc::msghdr {
        &raw const self.headers[index].msg_hdr
    }

    /// Sends the first `used` headers, and returns the number that the kernel accepted.
    fn send(&mut self, fd: &OwnedFd, used: usize) -> io::Result<usize> {
        // SAFETY: `lay` has set so many headers, whose vectors lie within the batch, which the
        // caller holds, and whose controls are ours.
        let count = unsafe {
            libc::sendmmsg(
                fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                used as u32,
                libc::MSG_DONTWAIT as _,
            )
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }
}

impl Udp {
    /// This many sockets.
    ///
    /// # Errors
    /// One cannot be made.
    pub fn new(mut channels: ChannelOptions, count: usize, segments: bool) -> io::Result<Self> {
        let (mut sockets, watched) = (Vec::with_capacity(count), Watched::new()?);
        for channel in 0..count {
            let socket = open(&mut channels, segments)?;
            watched.add(&socket, channel, false)?;
            sockets.push(socket);
        }
        let ready = Vec::with_capacity(BATCH_MAX);
        let (out, inlet) = (Out::new(), ReceiveBuffers::new());
        Ok(Self { channels, sockets, watched, ready, segments, out, inlet })
    }

    /// The source address of a channel.
    ///
    /// # Errors
    /// The kernel does not report it.
    pub(super) fn local(&self, channel: usize) -> io::Result<SocketAddr> {
        Ok(rustix::net::getsockname(&self.sockets[channel])?.try_into()?)
    }

    /// A descriptor to watch: it is readable when one of the sockets is.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.watched.epoll.as_fd()
    }
}

impl Transport for Udp {
    #[inline]
    fn takes(&self, _lane: usize) -> usize {
        usize::MAX
    }

    fn send(&mut self, batch: &Batch) -> Sent {
        let fd = &self.sockets[batch.channel];
        let used = self.out.lay(batch, self.segments);
        // A pending socket error may belong to an earlier datagram: then nothing was sent now.
        for _ in 0..2 {
            match self.out.send(fd, used) {
                Ok(count) => {
                    return Sent { taken: self.out.queries(0..count), refused: false };
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Sent::default();
                }
                Err(error) if is_passing(&error) => {}
                // The device or the path cannot cut: then we do.
                Err(error) if self.segments && is_about_segments(&error) => {
                    self.segments = false;
                    return self.send(batch);
                }
                Err(_) => break,
            }
        }
        Sent { taken: 0, refused: true }
    }

    fn receive(&mut self, clock: &Clock, each: &mut impl FnMut(usize, u64, &[u8])) -> usize {
        self.ready.clear();
        match self.sockets.len() {
            1 => self.ready.push(0),
            _ => {
                let events = self.watched.look().iter().map(|event| event.data.u64() as usize);
                self.ready.extend(events);
            }
        }
        let mut received = 0;
        for &channel in &self.ready {
            // The error belongs to an earlier datagram, and reading it clears it.
            let count = self.inlet.read(&self.sockets[channel]).unwrap_or(0);
            let now = if count > 0 { clock.now() } else { 0 };
            for index in 0..count {
                self.inlet.datagrams(index).for_each(|message| {
                    received += 1;
                    each(channel, now, message);
                });
            }
        }
        received
    }

    fn wait(&mut self, length_ns: u64) {
        self.watched.wait(length_ns);
    }

    fn renew(&mut self, channel: usize) -> io::Result<()> {
        let socket = open(&mut self.channels, self.segments)?;
        self.watched.add(&socket, channel, false)?;
        self.sockets[channel] = socket; // closing the old one ends its being watched
        Ok(())
    }
}

/// A socket that is handed joined datagrams, where that is wanted and the kernel knows how (5.0).
fn open(channels: &mut ChannelOptions, joins: bool) -> io::Result<OwnedFd> {
    let socket = channels.datagrams()?;
    if joins {
        let on: libc::c_int = 1;
        // SAFETY: the option takes an int, which lives as long as the call. Without it datagrams
        // come one by one, which is as good.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_UDP,
                libc::UDP_GRO,
                ptr::from_ref(&on).cast(),
                size_of_val(&on) as libc::socklen_t,
            )
        };
    }
    Ok(socket)
}

/// Whether the error means that the kernel cannot segment messages here.
pub(super) fn is_about_segments(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::ENOPROTOOPT)
    )
}
