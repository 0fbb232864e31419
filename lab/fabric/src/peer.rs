//! The server's end, in a process of its own.
use crate::ends::accept;
use crate::limits::{PACKET_BYTES, ROUND_TRIP_BYTES, WRITE_BYTES};
use crate::stream::Stream;
use crate::{Result, Way, Work, datagrams, failed, pages};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// What the server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Returns what it gets.
    Echo,
    /// Serves pages.
    Pages,
    /// Counts packets.
    Packets,
    /// Counts bytes.
    Bytes,
}

/// What a server's process has to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub role: Role,
    pub way: String,
    pub cpu: usize,
    pub is_same_cpu: bool,
    pub connections: usize,
}

/// The whole of a server's process: its order is JSON, its input what it listens to. It writes what
/// it counted.
///
/// # Errors
/// The order makes no sense, or the kernel refuses.
pub fn serve(order: &str) -> Result<()> {
    let order: Order = serde_json::from_str(order).map_err(|error| error.to_string())?;
    let input = std::io::stdin().as_fd().try_clone_to_owned().map_err(failed("no input"))?;
    let work = order.serve(input)?;
    println!("{}", serde_json::to_string(&work).map_err(|error| error.to_string())?);
    Ok(())
}

impl Order {
    fn serve(&self, server: OwnedFd) -> Result<Work> {
        let way = Way::named(&self.way).ok_or("an unknown way")?;
        cpu::pin(self.cpu).map_err(failed("cannot pin a server"))?;
        let is_of_datagrams = !matches!(way, Way::Threads | Way::Ring);
        if self.role == Role::Packets && is_of_datagrams {
            return datagrams::receive(way, server);
        }
        let mut streams = accept(way, server, self.connections, self.is_same_cpu)?;
        if self.role == Role::Pages {
            return pages::serve(streams).map(|()| Work::default());
        }
        let stream = streams.pop().ok_or("no connection")?;
        match self.role {
            Role::Echo => echo(stream),
            Role::Packets => drain(stream, PACKET_BYTES, |_| 1),
            _ => drain(stream, WRITE_BYTES, |len| len as u64),
        }
    }
}

fn echo(mut stream: Stream) -> Result<Work> {
    let mut bytes = [0; ROUND_TRIP_BYTES];
    while stream.read_exact(&mut bytes).is_ok() {
        stream.write_all(&bytes).map_err(failed("cannot answer"))?;
    }
    Ok(Work::default())
}

fn drain(mut stream: Stream, at_once: usize, count: impl Fn(usize) -> u64) -> Result<Work> {
    let mut bytes = vec![0; at_once];
    let told = failed("cannot read");
    stream.read(&mut bytes).map_err(&told)?;
    let (begin, mut units) = (Instant::now(), 0);
    loop {
        match stream.read(&mut bytes).map_err(&told)? {
            0 => break,
            len => units += count(len),
        }
    }
    Ok(Work { units, seconds: begin.elapsed().as_secs_f64().max(1e-9) })
}

/// A server that runs, until it is dropped.
pub(crate) enum Peer {
    Thread(Option<JoinHandle<Result<Work>>>),
    Process(Child),
}

impl Peer {
    /// # Errors
    /// It does not start.
    pub fn start(order: Order, server: OwnedFd, command: &dyn Fn() -> Command) -> Result<Self> {
        if order.way == Way::Threads.name() {
            let begin = move || order.serve(server);
            let thread = thread::Builder::new().name("fabric-server".into()).spawn(begin);
            return Ok(Self::Thread(Some(thread.map_err(failed("cannot start a thread"))?)));
        }
        let text = serde_json::to_string(&order).map_err(|error| error.to_string())?;
        let mut command = command();
        command.arg(text).stdin(Stdio::from(server)).stdout(Stdio::piped());
        Ok(Self::Process(command.spawn().map_err(failed("cannot start a server"))?))
    }

    /// What it counted; its client has ended.
    ///
    /// # Errors
    /// It failed.
    pub fn result(mut self) -> Result<Work> {
        match &mut self {
            Self::Thread(thread) => match thread.take().map(JoinHandle::join) {
                Some(Ok(result)) => result,
                _ => Err("a server panicked".into()),
            },
            Self::Process(child) => {
                let mut text = String::new();
                let output = child.stdout.as_mut().ok_or("a server has no output")?;
                output.read_to_string(&mut text).map_err(failed("a server"))?;
                child.wait().map_err(failed("a server"))?;
                serde_json::from_str(&text)
                    .map_err(|error| format!("a server ended without a result: {error}"))
            }
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Self::Process(child) = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
