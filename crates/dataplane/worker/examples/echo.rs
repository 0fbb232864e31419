//! The port and the worker alone: answers every query with itself, QR set. What `bench/echo.c` is
//! in C, so that one can be measured against the other.
//!
//! `echo ADDRESS:PORT [WORKERS [steer]]`, until it is killed. Without WORKERS there is one, on
//! whatever CPU; else worker N is pinned to the N-th CPU allowed, and `steer` gives each what its
//! CPU receives.

use packet::{DropReason, Packet, Verdict};
use port::Port;
use port_socket::{SocketPort, bind, steer};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use worker::{App, WorkerSetup, Workers};

struct Echo;

impl App for Echo {
    fn burst(&mut self, packets: &mut [Packet<'_>], _now: Duration) {
        for packet in packets {
            packet.verdict = match packet.len {
                0..12 => Verdict::Drop(DropReason::Short),
                _ => Verdict::Reply,
            };
            packet.buf[2] |= 0x80;
        }
    }

    fn park(&mut self) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let address: SocketAddr = arguments.first().ok_or("usage: echo ADDRESS:PORT")?.parse()?;
    let cpus: Vec<Option<usize>> = match arguments.get(1) {
        None => vec![None],
        Some(workers) => {
            let allowed = cpu::allowed()?;
            allowed.as_slice().iter().take(workers.parse()?).copied().map(Some).collect()
        }
    };
    let mut setups = Vec::new();
    for &cpu in &cpus {
        setups.push(WorkerSetup { ports: vec![SocketPort::new(bind(address)?)?], app: Echo, cpu });
    }
    if arguments.get(2).is_some_and(|argument| argument == "steer") {
        let cpus: Vec<_> = cpus.iter().flatten().copied().collect();
        let socket = setups[0].ports[0].as_fd().ok_or("a socket has a descriptor")?;
        steer(socket, &cpus)?;
    }
    let (sender, failures) = mpsc::channel();
    let _fleet = Workers::start(setups, Arc::new(move |failure| drop(sender.send(failure))))?;
    Err(failures.recv()?.into())
}
