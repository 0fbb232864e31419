//! An AF_XDP socket: memory and rings shared with the kernel, and the calls that wake it.

use crate::limits::{FRAMES, QUEUE_CHECK_INTERVAL, QUEUE_FREED_MAX, RING};
use crate::queue::{XdpDevice, XdpQueue};
use crate::ring::QueueRings;
use crate::ring::{Consumer, Producer, RingLayout};
use crate::umem::Mapping;
use libc::{c_int, sockaddr_xdp, socklen_t, xdp_mmap_offsets, xdp_options, xdp_ring_offset};
use libc::{xdp_statistics, xdp_umem_reg};
use std::io::{self, ErrorKind};
use std::mem::{self, MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// Packets sent by one call, if the kernel supports the option (Linux 6.17).
const XDP_MAX_TX_SKB_BUDGET: c_int = 9;
const SEND_BUDGET: u32 = 128;

/// The kernel at the other ends of the rings.
#[derive(Debug)]
pub struct XdpSocket {
    fd: OwnedFd,
    is_zero_copy: bool,
}

/// Opens the socket of one queue of an interface, and binds it. Zero copy is used if the driver
/// supports it.
///
/// # Errors
/// What the kernel refused: it needs CAP_NET_RAW, and memory that may be locked.
pub fn open(interface: u32, queue: u32, chunk: u32, mtu: usize) -> io::Result<XdpQueue<XdpSocket>> {
    let (domain, kind) = (libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC);
    // SAFETY: takes numbers only.
    let fd = checked(unsafe { libc::socket(domain, kind, 0) }, "AF_XDP socket")?;
    // SAFETY: it was just opened, and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let len = (FRAMES * chunk) as usize;
    let memory = Arc::new(Mapping::huge(len).or_else(|_| Mapping::anonymous(len))?);
    // SAFETY: all zero is valid for numbers.
    let mut registered: xdp_umem_reg = unsafe { mem::zeroed() };
    registered.addr = memory.base() as u64;
    registered.len = len as u64;
    registered.chunk_size = chunk;
    set(&fd, libc::XDP_UMEM_REG, &registered, "registering its memory")?;
    for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING] {
        set(&fd, ring, &RING, "the size of a ring")?;
    }
    for ring in [libc::XDP_RX_RING, libc::XDP_TX_RING] {
        set(&fd, ring, &RING, "the size of a ring")?;
    }
    let rings = rings(&fd)?;
    // Older kernels do not have it, and need more calls.
    let _ = set(&fd, XDP_MAX_TX_SKB_BUDGET, &SEND_BUDGET, "");
    bind(&fd, interface, queue)?;
    let options: xdp_options = get(&fd, libc::XDP_OPTIONS, "its options")?;
    let is_zero_copy = options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0;
    Ok(XdpQueue::new(XdpSocket { fd, is_zero_copy }, rings, memory, chunk, mtu))
}

/// Adds what was tried to an error.
fn checked(result: c_int, what: &str) -> io::Result<c_int> {
    if result >= 0 {
        return Ok(result);
    }
    let error = io::Error::last_os_error();
    Err(io::Error::new(error.kind(), format!("{what}: {error}")))
}

fn set<T>(fd: &OwnedFd, option: c_int, value: &T, what: &str) -> io::Result<()> {
    let (value, len) = (ptr::from_ref(value).cast(), size_of::<T>() as socklen_t);
    // SAFETY: the value lives through the call and has the stated length.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, value, len) };
    checked(result, what).map(drop)
}

fn get<T>(fd: &OwnedFd, option: c_int, what: &str) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as socklen_t;
    let at = value.as_mut_ptr().cast();
    // SAFETY: there is room for the stated number of bytes.
    let result = unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, at, &mut len) };
    checked(result, what)?;
    // SAFETY: the types are the kernel's structures of numbers, valid when zero, as fields that an
    // older kernel does not fill stay zero.
    Ok(unsafe { value.assume_init() })
}

fn rings(fd: &OwnedFd) -> io::Result<QueueRings> {
    let offsets: xdp_mmap_offsets = get(fd, libc::XDP_MMAP_OFFSETS, "where the rings are")?;
    let mapped = |offset: &xdp_ring_offset, page: i64, entry: usize| {
        let layout = RingLayout {
            producer: offset.producer as usize,
            consumer: offset.consumer as usize,
            flags: offset.flags as usize,
            entries: offset.desc as usize,
        };
        let len = layout.entries + RING as usize * entry;
        Mapping::shared(len, fd.as_raw_fd(), page).map(|mapping| (Arc::new(mapping), layout))
    };
    let (number, frame) = (size_of::<u64>(), size_of::<libc::xdp_desc>());
    let fill = mapped(&offsets.fr, libc::XDP_UMEM_PGOFF_FILL_RING as i64, number)?;
    let complete = mapped(&offsets.cr, libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64, number)?;
    let receive = mapped(&offsets.rx, libc::XDP_PGOFF_RX_RING, frame)?;
    let send = mapped(&offsets.tx, libc::XDP_PGOFF_TX_RING, frame)?;
    Ok(QueueRings {
        fill: Producer::new(fill.0, fill.1, RING),
        receive: Consumer::new(receive.0, receive.1, RING),
        send: Producer::new(send.0, send.1, RING),
        complete: Consumer::new(complete.0, complete.1, RING),
    })
}

fn bind(fd: &OwnedFd, interface: u32, queue: u32) -> io::Result<()> {
    let address = sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let (at, len) = (ptr::from_ref(&address).cast(), size_of::<sockaddr_xdp>() as socklen_t);
    let end = Instant::now() + QUEUE_FREED_MAX;
    loop {
        // SAFETY: the address lives through the call and has the stated length.
        let result = unsafe { libc::bind(fd.as_raw_fd(), at, len) };
        let bound = checked(result, &format!("binding to queue {queue}"));
        let is_taken = bound.as_ref().is_err_and(|error| error.kind() == ErrorKind::ResourceBusy);
        if !is_taken || Instant::now() > end {
            return bound.map(drop);
        }
        thread::sleep(QUEUE_CHECK_INTERVAL);
    }
}

impl XdpSocket {
    /// Whether the driver accesses the frames itself; otherwise the kernel copies them.
    pub fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// Another descriptor, for another thread.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn watch(&self) -> io::Result<SocketWatch> {
        Ok(SocketWatch(self.fd.try_clone()?))
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl XdpDevice for XdpSocket {
    fn send(&mut self) -> io::Result<bool> {
        let (fd, flags) = (self.fd.as_raw_fd(), libc::MSG_DONTWAIT);
        // SAFETY: a message of no bytes is not read, nor is an address of none.
        let result = unsafe { libc::sendto(fd, ptr::null(), 0, flags, ptr::null(), 0) };
        if result >= 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // It sent the maximum of one call, or the device's queue is full.
            Some(libc::EAGAIN | libc::EINTR | libc::EBUSY | libc::ENOBUFS | libc::ENOMEM) => {
                Ok(true)
            }
            // The device is down for now, or gone: frames stay in the ring.
            Some(libc::ENETDOWN | libc::ENXIO) => Ok(false),
            // A driver's own error, which may be temporary: some return EINVAL while their queues
            // are being changed.
            _ => Err(error),
        }
    }

    fn receive(&mut self) {
        let (fd, flags) = (self.fd.as_raw_fd(), libc::MSG_DONTWAIT);
        // Errors are reported by sending, or by polling. SAFETY: a message of no bytes is not
        // written.
        unsafe { libc::recv(fd, ptr::null_mut(), 0, flags) };
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What the kernel dropped at one socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelDrops {
    /// Frames dropped for other reasons than a full ring.
    pub dropped: u64,
    /// Frames dropped because too many received ones were not taken yet.
    pub ring_full: u64,
    /// Frames dropped because there was none to receive into.
    pub fill_empty: u64,
    /// Invalid descriptors.
    pub invalid: u64,
}

/// A view of a socket for another thread.
#[derive(Debug)]
pub struct SocketWatch(OwnedFd);

impl AsFd for SocketWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl SocketWatch {
    /// The kernel's drop counters (`XDP_STATISTICS`).
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn losses(&self) -> io::Result<KernelDrops> {
        let reported: xdp_statistics = get(&self.0, libc::XDP_STATISTICS, "its statistics")?;
        Ok(KernelDrops {
            dropped: reported.rx_dropped,
            ring_full: reported.rx_ring_full,
            fill_empty: reported.rx_fill_ring_empty_descs,
            invalid: reported.rx_invalid_descs + reported.tx_invalid_descs,
        })
    }
}
