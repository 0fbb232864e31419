//! Stands for `bypass` in a build without the feature `xdp`: there is no interface, and no port.
use crate::threads::Threads;
use config::Config;
use packet::Packet;
use port::{Burst, Port, PortCapabilities};
use server_status::XdpStatus;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// The port of an AF_XDP queue: there is none.
pub enum QueuePort {}

/// No interface.
#[derive(Debug, Default)]
pub struct Bypass;

impl Bypass {
    /// No interface.
    pub fn open(_: &Config, _: Vec<SocketAddr>) -> (Self, Vec<QueuePort>) {
        (Self, Vec::new())
    }

    pub(crate) fn change(&mut self, _: &Config, _: Vec<SocketAddr>, _: &Threads) {}

    /// None.
    pub fn files(&self) -> usize {
        0
    }

    pub(crate) fn begin(&mut self, _: &Threads, _: Vec<QueuePort>) {}

    pub(crate) fn end(&mut self) {}

    pub(crate) fn status(&self) -> Option<XdpStatus> {
        None
    }
}

impl Port for QueuePort {
    fn caps(&self) -> &PortCapabilities {
        match *self {}
    }

    fn burst(&mut self, _: impl FnMut(&mut [Packet<'_>])) -> io::Result<Burst> {
        match *self {}
    }

    fn queue(&mut self, _: &Packet<'_>) -> bool {
        match *self {}
    }

    fn flush(&mut self, _: impl FnMut(bool)) {
        match *self {}
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        match *self {}
    }
}
