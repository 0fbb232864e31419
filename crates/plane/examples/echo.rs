//! The port and the worker alone: answers every query with itself, QR set. What `bench/echo.c` is
//! in C, so that one can be measured against the other.
//!
//! `echo ADDRESS:PORT`, until it is killed.

use packet::{Drop, Packet, Verdict};
use plane::{App, OnStop, Worker};
use port_socket::{SocketPort, bind};
use std::error::Error;

struct Echo;

impl App for Echo {
    fn burst(&mut self, packets: &mut [Packet<'_>]) {
        for packet in packets {
            packet.verdict = match packet.len {
                0..12 => Verdict::Drop(Drop::Short),
                _ => Verdict::Reply,
            };
            packet.buf[2] |= 0x80;
        }
    }

    fn park(&mut self) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("usage: echo ADDRESS:PORT")?.parse()?;
    let port = SocketPort::new(bind(address)?)?;
    Ok(Worker::new(vec![port], Echo, OnStop::new()?)?.run()?)
}
