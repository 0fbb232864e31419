//! A TUN device that lasts as long as its descriptor.
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::c_char;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

/// The file that makes devices.
pub const FILE: &str = "/dev/net/tun";
/// The kernel replaces `%d` by the first free number.
const NAME: &[u8] = b"dunlin%d";

/// A TUN device. No process reads from it, because no rule leads packets to its routes.
pub struct Tun {
    /// Its end is the end of the device and of the routes on it.
    _descriptor: OwnedFd,
    /// The device's name.
    pub name: String,
}

impl Tun {
    /// Makes a device in the network namespace of this process.
    ///
    /// # Errors
    /// There is no `/dev/net/tun`, or the process has no CAP_NET_ADMIN.
    pub fn open() -> Result<Self, String> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(FILE, flags, Mode::empty()).map_err(|why| match why {
            Errno::NOENT | Errno::NODEV | Errno::NXIO => {
                format!(
                    "{FILE} is not there: {why}; load the module `tun`, or give the container the \
                     device"
                )
            }
            Errno::ACCESS => format!(
                "{FILE} cannot be opened by the user of [server]: `chmod 666 {FILE}`, its usual \
                 mode (a device needs CAP_NET_ADMIN besides)"
            ),
            Errno::PERM => format!("{FILE} is not allowed: DeviceAllow={FILE} rw in the unit"),
            why => format!("{FILE} cannot be opened: {why}"),
        })?;
        let name = attach(&descriptor).map_err(|why| match Errno::from_io_error(&why) {
            Some(Errno::PERM) => {
                "no TUN device without CAP_NET_ADMIN: grant it to dunlin".to_owned()
            }
            _ => format!("the kernel makes no TUN device: {why}"),
        })?;
        Ok(Self { _descriptor: descriptor, name })
    }
}

/// Makes the device of a descriptor; returns its name.
fn attach(descriptor: &OwnedFd) -> io::Result<String> {
    // SAFETY: all bytes zero are a valid `ifreq`: it has numbers, addresses and null pointers.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(NAME) {
        *to = *from as c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
    // SAFETY: the descriptor is open, and TUNSETIFF reads and writes one `ifreq`.
    let done = unsafe { libc::ioctl(descriptor.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    let bytes = request.ifr_name.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8);
    Ok(String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned())
}
