//! I/O paths of datagrams.
use clap::ValueEnum;
use lab_load::Path;

/// Where the package `dunlin-dpdk` has the library.
pub const DPDK_LIBRARY: &str = "/usr/lib/dunlin/libdunlin-dpdk.so";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Calls {
    /// sendmmsg and recvmmsg.
    Sockets,
    /// A ring that is shared with the kernel.
    #[value(name = "io_uring")]
    IoUring,
    /// AF_XDP: as root, through an interface to another host, with one queue of the interface for
    /// each thread. Sockets reserve the ports.
    #[value(name = "af_xdp")]
    AfXdp,
    /// A device of DPDK, such as a memif, with one queue for each thread: its threads poll.
    Dpdk,
}

impl Calls {
    /// The path of datagrams that are not joined.
    pub const fn path(self) -> Path {
        let segments = false;
        match self {
            Self::Sockets => Path::Udp { segments },
            Self::IoUring => Path::Uring { segments },
            Self::AfXdp => Path::Xdp,
            Self::Dpdk => Path::Dpdk,
        }
    }
}

/// An Ethernet address.
///
/// # Errors
/// It is none.
pub fn mac(text: &str) -> Result<[u8; 6], String> {
    let wrong = || format!("`{text}` is no Ethernet address, such as 02:00:00:00:00:53");
    let bytes = text.split(':').map(|byte| u8::from_str_radix(byte, 16));
    let bytes: Vec<u8> = bytes.collect::<Result<_, _>>().map_err(|_| wrong())?;
    bytes.try_into().map_err(|_| wrong())
}
