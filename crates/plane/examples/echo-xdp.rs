//! The AF_XDP port and the worker alone: answers every query with itself, QR set. What `echo` is on
//! sockets.
//!
//! `echo-xdp INTERFACE ADDRESS:PORT`, until it is killed: one worker on the interface's queue 0.

use packet::{Drop, Packet, Verdict};
use plane::{App, Fleet, Seat};
use port::Udp;
use port_xdp::{Interface, Program, Rules};
use std::error::Error;
use std::sync::{Arc, mpsc};
use std::time::Duration;

struct Echo;

impl App for Echo {
    fn burst(&mut self, packets: &mut [Packet<'_>], _now: Duration) {
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
    let mut arguments = std::env::args().skip(1);
    let (Some(name), Some(address)) = (arguments.next(), arguments.next()) else {
        return Err("usage: echo-xdp INTERFACE ADDRESS:PORT".into());
    };
    let interface = Interface::find(&name)?;
    let rules = Rules { listen: vec![address.parse()?], route_check: true };
    let mut program = Program::attach(&interface, &rules)?;
    let mut queue = port_xdp::open(interface.index, 0, interface.chunk(), interface.mtu)?;
    program.serve(0, &*queue.device())?;
    let seat = Seat { ports: vec![Udp::new(queue)], app: Echo, cpu: None };
    let (sender, failures) = mpsc::channel();
    let _fleet = Fleet::start(vec![seat], Arc::new(move |failure| drop(sender.send(failure))))?;
    Err(failures.recv()?.into())
}
