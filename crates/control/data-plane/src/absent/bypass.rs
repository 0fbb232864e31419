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
    pub fn open(_: &Config, _: Vec<SocketAddr>) -> (Self, Vec<QueuePort>) {
        (Self, Vec::new())
    }

    pub fn change(&mut self, _: &Config, _: Vec<SocketAddr>, _: &Threads) {}

    pub fn files(&self) -> usize {
        0
    }

    pub fn begin(&mut self, _: &Threads, _: Vec<QueuePort>) {}

    pub fn end(&mut self) {}

    pub fn status(&self) -> Option<XdpStatus> {
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
