//! The kinds of port. No other module distinguishes them.
use crate::bypass::QueuePort;
use crate::dpdk::DpdkPort;
use packet::Packet;
use port::{Burst, PortCapabilities};
use port_socket::SocketPort;
use std::io;
use std::os::fd::BorrowedFd;

pub enum Port {
    /// A kernel UDP socket.
    Socket(SocketPort),
    /// A queue of an AF_XDP interface.
    Xdp(Box<QueuePort>),
    /// A queue of a device of DPDK.
    Dpdk(Box<DpdkPort>),
}

impl port::Port for Port {
    fn caps(&self) -> &PortCapabilities {
        match self {
            Self::Socket(port) => port.caps(),
            Self::Xdp(port) => port.caps(),
            Self::Dpdk(port) => port.caps(),
        }
    }

    fn burst(&mut self, app: impl FnMut(&mut [Packet<'_>])) -> io::Result<Burst> {
        match self {
            Self::Socket(port) => port.burst(app),
            Self::Xdp(port) => port.burst(app),
            Self::Dpdk(port) => port.burst(app),
        }
    }

    fn queue(&mut self, reply: &Packet<'_>) -> bool {
        match self {
            Self::Socket(port) => port.queue(reply),
            Self::Xdp(port) => port.queue(reply),
            Self::Dpdk(port) => port.queue(reply),
        }
    }

    fn flush(&mut self, told: impl FnMut(bool)) {
        match self {
            Self::Socket(port) => port.flush(told),
            Self::Xdp(port) => port.flush(told),
            Self::Dpdk(port) => port.flush(told),
        }
    }

    fn is_stuck(&self) -> bool {
        match self {
            Self::Socket(port) => port.is_stuck(),
            Self::Xdp(port) => port.is_stuck(),
            Self::Dpdk(port) => port.is_stuck(),
        }
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Socket(port) => port.as_fd(),
            Self::Xdp(port) => port.as_fd(),
            Self::Dpdk(port) => port.as_fd(),
        }
    }

    fn may_pause(&self) -> bool {
        match self {
            Self::Socket(_) | Self::Xdp(_) => true,
            Self::Dpdk(port) => port.may_pause(),
        }
    }
}
