//! An AF_XDP socket: memory and rings that it shares with the kernel, and the calls that wake it.

use crate::limits::{FRAMES, QUEUE_FREED_MAX, QUEUE_LOOK, RING};
use crate::queue::{Device, Queue, Rings};
use crate::ring::{Consumer, Layout, Producer};
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

/// Packets that one call sends, where the kernel lets that be chosen (Linux 6.17).
const XDP_MAX_TX_SKB_BUDGET: c_int = 9;
const SEND_BUDGET: u32 = 128;

/// The kernel at the other ends of the rings.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    is_zero_copy: bool,
}

/// Opens the socket of one queue of an interface, and binds it. Zero copy is taken where the driver
/// has it.
///
/// # Errors
/// What the kernel refused: it takes CAP_NET_RAW, and memory that may be locked.
pub fn open(interface: u32, queue: u32, chunk: u32, mtu: usize) -> io::Result<Queue<Socket>> {
    let (domain, kind) = (libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC);
    // SAFETY: takes numbers only.
    let fd = checked(unsafe { libc::socket(domain, kind, 0) }, "AF_XDP socket")?;
    // SAFETY: it was just opened, and is nobody else's.
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
    // Older kernels do not know it, and are asked more often.
    let _ = set(&fd, XDP_MAX_TX_SKB_BUDGET, &SEND_BUDGET, "");
    bind(&fd, interface, queue)?;
    let options: xdp_options = get(&fd, libc::XDP_OPTIONS, "its options")?;
    let is_zero_copy = options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0;
    Ok(Queue::new(Socket { fd, is_zero_copy }, rings, memory, chunk, mtu))
}

/// Says what was tried.
fn checked(result: c_int, what: &str) -> io::Result<c_int> {
    if result >= 0 {
        return Ok(result);
    }
    let error = io::Error::last_os_error();
    Err(io::Error::new(error.kind(), format!("{what}: {error}")))
}

fn set<T>(fd: &OwnedFd, option: c_int, value: &T, what: &str) -> io::Result<()> {
    let (value, len) = (ptr::from_ref(value).cast(), size_of::<T>() as socklen_t);
    // SAFETY: the value lives through the call and is as long as is said.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, value, len) };
    checked(result, what).map(drop)
}

fn get<T>(fd: &OwnedFd, option: c_int, what: &str) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as socklen_t;
    let at = value.as_mut_ptr().cast();
    // SAFETY: there is room for as many octets as is said.
    let result = unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, at, &mut len) };
    checked(result, what)?;
    // SAFETY: the types are the kernel's structures of numbers, valid when zero, as what an older
    // kernel does not fill in stays.
    Ok(unsafe { value.assume_init() })
}

fn rings(fd: &OwnedFd) -> io::Result<Rings> {
    let offsets: xdp_mmap_offsets = get(fd, libc::XDP_MMAP_OFFSETS, "where the rings are")?;
    let mapped = |offset: &xdp_ring_offset, page: i64, entry: usize| {
        let layout = Layout {
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
    Ok(Rings {
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
        // SAFETY: the address lives through the call and is as long as is said.
        let result = unsafe { libc::bind(fd.as_raw_fd(), at, len) };
        let bound = checked(result, &format!("binding to queue {queue}"));
        let is_taken = bound.as_ref().is_err_and(|error| error.kind() == ErrorKind::ResourceBusy);
        if !is_taken || Instant::now() > end {
            return bound.map(drop);
        }
        thread::sleep(QUEUE_LOOK);
    }
}

impl Socket {
    /// Whether the driver reads and writes the frames itself, or the kernel copies them.
    pub fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// Another descriptor of it, to be asked from elsewhere.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn watch(&self) -> io::Result<Watch> {
        Ok(Watch(self.fd.try_clone()?))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Device for Socket {
    fn send(&mut self) -> io::Result<bool> {
        let (fd, flags) = (self.fd.as_raw_fd(), libc::MSG_DONTWAIT);
        // SAFETY: nothing is read of a message of no octets, nor an address of none.
        let result = unsafe { libc::sendto(fd, ptr::null(), 0, flags, ptr::null(), 0) };
        if result >= 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // It sent as many as it does at a time, or the way is full.
            Some(libc::EAGAIN | libc::EINTR | libc::EBUSY | libc::ENOBUFS | libc::ENOMEM) => {
                Ok(true)
            }
            // The device is down for now, or gone: what is left waits.
            Some(libc::ENETDOWN | libc::ENXIO) => Ok(false),
            // A driver's own word, which need not be its last: EINVAL of some means that their
            // queues are being changed.
            _ => Err(error),
        }
    }

    fn receive(&mut self) {
        let (fd, flags) = (self.fd.as_raw_fd(), libc::MSG_DONTWAIT);
        // What is wrong is told by sending, or by polling.
        // SAFETY: nothing is written of a message of no octets.
        unsafe { libc::recv(fd, ptr::null_mut(), 0, flags) };
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What the kernel lost at one socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Frames that were dropped for other reasons than a full ring.
    pub dropped: u64,
    /// Frames that came while as many were received and not taken yet as there is room for.
    pub ring_full: u64,
    /// Frames that came while there was none to receive into.
    pub fill_empty: u64,
    /// Descriptors that the kernel could not make anything of.
    pub invalid: u64,
}

/// A look at a socket from another thread.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Watch {
    /// What the kernel lost there, as it counts (`XDP_STATISTICS`).
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn losses(&self) -> io::Result<Losses> {
        let told: xdp_statistics = get(&self.0, libc::XDP_STATISTICS, "its statistics")?;
        Ok(Losses {
            dropped: told.rx_dropped,
            ring_full: told.rx_ring_full,
            fill_empty: told.rx_fill_ring_empty_descs,
            invalid: told.rx_invalid_descs + told.tx_invalid_descs,
        })
    }
}
