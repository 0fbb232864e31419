//! What is measured of a way between two CPUs.
use crate::ends::{ClientEnds, Ends};
use crate::limits::{CONNECTIONS, PACKET_BYTES, ROUND_TRIP_BYTES, WRITE_BYTES};
use crate::memory::share_left;
use crate::pages::{load, new_histogram};
use crate::peer::{Order, Peer, Role};
use crate::spaces::Spaces;
use crate::{Result, Way, Work, failed};
use hdrhistogram::Histogram;
use std::io::{Read, Write};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// A way between two CPUs.
pub struct Setting<'a> {
    /// How the ends reach each other.
    pub way: Way,
    /// The client's and the server's CPU.
    pub cpus: [usize; 2],
    /// A third CPU, which copies while a stream is measured again; `None`: there is none.
    pub third: Option<usize>,
    /// How long each of the measurements takes.
    pub length: Duration,
    /// Namespaces, for the ways that need them.
    pub spaces: Option<&'a Spaces>,
    /// A command that calls [`crate::serve`] with its last argument.
    pub command: &'a (dyn Fn() -> Command + Sync),
}

/// Raw results.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Round trips of 64 bytes, in nanoseconds.
    pub round_trips: Histogram<u64>,
    /// Pages on one connection, in nanoseconds.
    pub pages: Histogram<u64>,
    /// Pages on 16 connections.
    pub page_rate: Work,
    /// Packets of 1,400 bytes that arrived.
    pub packets: Work,
    /// Bytes of a stream.
    pub bytes: Work,
    /// The share of the bandwidth of copies on a third CPU that is left beside such a stream.
    pub memory_left: Option<f64>,
}

impl Setting<'_> {
    /// Measures one after the other.
    ///
    /// # Errors
    /// The kernel refuses, or an end fails.
    pub fn measure(&self) -> Result<Measured> {
        let told = |what: &'static str| {
            move |why| format!("{what} by {} between {:?}: {why}", self.way.name(), self.cpus)
        };
        Ok(Measured {
            round_trips: self.round_trips().map_err(told("round trips"))?,
            pages: self.pages(1).map_err(told("pages"))?.0,
            page_rate: self.pages(CONNECTIONS).map_err(told("pages"))?.1,
            packets: self.packets().map_err(told("packets"))?,
            bytes: self.bytes().map_err(told("bytes"))?,
            memory_left: self.memory_left().map_err(told("bytes"))?,
        })
    }

    /// Does the client's part on its CPU while the server does its own.
    fn run_both<T: Send>(
        &self,
        role: Role,
        connections: usize,
        ends: Ends,
        client: impl FnOnce(&ClientEnds) -> Result<T> + Send,
    ) -> Result<(T, Work)> {
        let [own, cpu] = self.cpus;
        let is_same_cpu = own == cpu;
        let way = self.way.name().into();
        let order = Order { role, way, cpu, is_same_cpu, connections };
        let (server, ends) = ends.split();
        let peer = Peer::start(order, server, self.command)?;
        let run = || {
            cpu::pin(own).map_err(failed("cannot pin a client"))?;
            client(&ends)
        };
        let done = thread::scope(|scope| scope.spawn(run).join());
        let done = done.map_err(|_| "a client panicked".to_owned())?;
        // The client's ends are closed: a server that waits for more ends.
        drop(ends);
        Ok((done?, peer.result()?))
    }

    fn streams(&self, connections: usize) -> Result<Ends> {
        Ends::streams(self.way, connections, self.cpus[0] == self.cpus[1], self.spaces)
    }

    fn round_trips(&self) -> Result<Histogram<u64>> {
        let client = |ends: &ClientEnds| {
            let mut stream = ends.connect(0)?;
            let mut times = new_histogram()?;
            let mut bytes = [7; ROUND_TRIP_BYTES];
            let mut now = Instant::now();
            let end = now + self.length;
            while now < end {
                let begin = now;
                stream.write_all(&bytes).map_err(failed("cannot write"))?;
                stream.read_exact(&mut bytes).map_err(failed("cannot read"))?;
                now = Instant::now();
                times.saturating_record((now - begin).as_nanos() as u64);
            }
            Ok(times)
        };
        Ok(self.run_both(Role::Echo, 1, self.streams(1)?, client)?.0)
    }

    fn pages(&self, connections: usize) -> Result<(Histogram<u64>, Work)> {
        let client = |ends: &ClientEnds| {
            let streams: Result<Vec<_>> = (0..connections).map(|n| ends.connect(n)).collect();
            load(streams?, self.length)
        };
        Ok(self.run_both(Role::Pages, connections, self.streams(connections)?, client)?.0)
    }

    fn packets(&self) -> Result<Work> {
        if matches!(self.way, Way::Threads | Way::Ring) {
            return self.written(Role::Packets, PACKET_BYTES);
        }
        let client = |ends: &ClientEnds| {
            let send = ends.sender()?;
            repeat(self.length, || {
                send(&[3; PACKET_BYTES]);
                Ok(())
            })
        };
        let ends = Ends::datagrams(self.way, self.spaces)?;
        Ok(self.run_both(Role::Packets, 0, ends, client)?.1)
    }

    fn bytes(&self) -> Result<Work> {
        self.written(Role::Bytes, WRITE_BYTES)
    }

    fn memory_left(&self) -> Result<Option<f64>> {
        let Some(third) = self.third else { return Ok(None) };
        Ok(Some(share_left(third, self.length, || self.bytes())?.1))
    }

    fn written(&self, role: Role, at_once: usize) -> Result<Work> {
        let client = |ends: &ClientEnds| {
            let mut stream = ends.connect(0)?;
            let bytes = vec![1; at_once];
            repeat(self.length, || stream.write_all(&bytes).map_err(failed("cannot write")))
        };
        Ok(self.run_both(role, 1, self.streams(1)?, client)?.1)
    }
}

/// Does something again and again for a time.
fn repeat(length: Duration, mut one: impl FnMut() -> Result<()>) -> Result<()> {
    let end = Instant::now() + length;
    while Instant::now() < end {
        for _ in 0..16 {
            one()?;
        }
    }
    Ok(())
}
