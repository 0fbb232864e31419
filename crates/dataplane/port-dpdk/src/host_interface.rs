//! An interface of the kernel, which gets what a device receives for the host, and sends by it.

use crate::DpdkError;
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, read, write};
use std::ffi::c_char;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

/// The file that makes devices.
const FILE: &str = "/dev/net/tun";

/// A TAP device. It is persistent: its addresses, and connections over them, outlive the server.
#[derive(Debug)]
pub struct HostInterface {
    descriptor: OwnedFd,
    mac: [u8; 6],
}

impl HostInterface {
    /// Makes an interface of this name in the network namespace of this process, or takes the one
    /// that is there. Bringing it up and giving it addresses is left to others.
    ///
    /// # Errors
    /// There is no `/dev/net/tun`; the process has no CAP_NET_ADMIN and does not own the interface;
    /// another process has it; or it is another kind of interface.
    pub fn open(name: &str) -> Result<Self, DpdkError> {
        let wrong = |why: String| DpdkError::Interface(name.to_owned(), why);
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let descriptor = rustix::fs::open(FILE, flags, Mode::empty()).map_err(|why| {
            wrong(format!("{FILE} cannot be opened: {why}: load the module `tun`"))
        })?;
        let mut request = request(name);
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as i16;
        ioctl(&descriptor, libc::TUNSETIFF, &raw mut request).map_err(|why| {
            wrong(match Errno::from_io_error(&why) {
                Some(Errno::PERM) => format!(
                    "it may not be made: start as root, or `ip tuntap add {name} mode tap user \
                     USER` for the user of the server"
                ),
                Some(Errno::BUSY) => "another process has it".to_owned(),
                Some(Errno::INVAL) => "there is another interface of that name".to_owned(),
                _ => format!("the kernel does not make it: {why}"),
            })
        })?;
        // One that the user owns already is persistent.
        let _ = ioctl(&descriptor, libc::TUNSETPERSIST, ptr::without_provenance_mut(1));
        ioctl(&descriptor, libc::SIOCGIFHWADDR, &raw mut request)
            .map_err(|why| wrong(format!("its Ethernet address: {why}")))?;
        // SAFETY: the kernel has just written an address there.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr }.sa_data;
        let mac = std::array::from_fn(|nth| address[nth] as u8);
        Ok(Self { descriptor, mac })
    }

    /// Its Ethernet address, which is the device's, too.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Readable while the kernel sends frames.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Gives the kernel a frame; false: it does not take it now, or is down.
    #[inline]
    pub(crate) fn pass(&self, frame: &[u8]) -> bool {
        write(&self.descriptor, frame).is_ok()
    }

    /// Takes a frame that the kernel sends; `None`: there is none.
    #[inline]
    pub(crate) fn take(&self, room: &mut [u8]) -> Option<usize> {
        read(&self.descriptor, room).ok().filter(|len| *len > 0)
    }
}

/// A request about an interface.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: all bytes zero are a valid `ifreq`: it has numbers, addresses and null pointers.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // The last byte stays 0.
    let last = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..last].iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
    request
}

fn ioctl(descriptor: &OwnedFd, number: libc::Ioctl, request: *mut libc::ifreq) -> io::Result<()> {
    // SAFETY: the descriptor is open; the requests above read and write one `ifreq`, or take the
    // argument for a number.
    match unsafe { libc::ioctl(descriptor.as_raw_fd(), number, request) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
