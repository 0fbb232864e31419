//! A device of DPDK: whole frames in rings that are shared with another process (memif), or with a
//! card. Its library is opened at run time.

use super::post::Post;
use super::{Batch, ChannelOptions, Sent, Transport};
use crate::clock::Clock;
use crate::limits::{DPDK_LINK_PATIENCE, DPDK_MEMORY, DPDK_TRIES, FIRST_PORT};
use crate::options::{DpdkPeer, Options};
use port::Frames;
use port_dpdk::{DeviceAddress, DeviceView, DpdkQueue, Environment, EnvironmentOptions};
use port_dpdk::{Library, Selection};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The device of a load, which its first thread opens. It is closed when this and the queues are
/// dropped.
#[derive(Debug, Default)]
pub(crate) struct OpenOnce(Mutex<Option<Opened>>);

#[derive(Debug)]
struct Opened {
    /// Those that no thread has taken yet.
    queues: Vec<Option<DpdkQueue>>,
    view: Arc<DeviceView>,
}

impl OpenOnce {
    /// The queue of a thread.
    fn queue(
        &self,
        options: &Options,
        index: usize,
    ) -> Result<(DpdkQueue, Arc<DeviceView>), String> {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = match guard.as_mut() {
            Some(opened) => opened,
            None => guard.insert(open(options)?),
        };
        let queue = opened.queues.get_mut(index).and_then(Option::take);
        Ok((queue.ok_or("a thread has its queue already")?, Arc::clone(&opened.view)))
    }
}

/// DPDK starts once in a process.
fn environment(peer: &DpdkPeer, cpus: &[usize]) -> Result<Environment, String> {
    if let Some(environment) = Environment::current() {
        return Ok(environment);
    }
    let library = Library::open(&peer.library).map_err(|error| error.to_string())?;
    let cpus: Vec<_> = cpus.iter().map(ToString::to_string).collect();
    let allowed = || cpu::allowed().map(|cpus| cpus.to_string()).unwrap_or_default();
    let options = EnvironmentOptions {
        prefix: format!("dunlin-lab-{}", std::process::id()),
        huge_pages: false,
        memory: DPDK_MEMORY,
        cpus: if cpus.is_empty() { allowed() } else { cpus.join(",") },
        devices: Vec::new(),
    };
    Environment::start(library, &options).map_err(|error| error.to_string())
}

/// Opens the device, and waits for its link. The server of a memif that has just lost another peer
/// refuses the next one.
fn open(options: &Options) -> Result<Opened, String> {
    let peer = options.dpdk.as_ref().ok_or("no device of DPDK")?;
    let environment = environment(peer, &options.cpus)?;
    let address: DeviceAddress = peer.device.parse().map_err(|error| format!("{error}"))?;
    for _ in 0..DPDK_TRIES {
        let opened =
            environment.open(&address, options.threads as u16, &Selection::everything(), None);
        let (queues, view) = opened.map_err(|error| error.to_string())?;
        let end = Instant::now() + DPDK_LINK_PATIENCE;
        while Instant::now() < end {
            if view.counts().is_up {
                let queues = queues.into_iter().map(Some).collect();
                return Ok(Opened { queues, view: Arc::new(view) });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    Err(format!("{}: its link is down: does the server have its other end?", address.name()))
}

/// A queue of a device, and channels of one thread on it: addresses alone.
pub(crate) struct Dpdk {
    post: Post<DpdkQueue>,
    view: Arc<DeviceView>,
    /// Whether this thread says what the device dropped.
    counts: bool,
}

impl Dpdk {
    /// The channels of the thread of a number, which has the queue of that number.
    ///
    /// # Errors
    /// DPDK or its device cannot be used: why, and what to do.
    pub fn new(
        options: &Options,
        channels: &ChannelOptions,
        index: usize,
        once: &OpenOnce,
    ) -> io::Result<Self> {
        let (mut queue, view) = once.queue(options, index).map_err(io::Error::other)?;
        // From its first call on, a ring has buffers for answers.
        queue.burst(|_| {})?;
        let peer = options.dpdk.as_ref().ok_or_else(|| io::Error::other("no device of DPDK"))?;
        let each = options.channels_each();
        let local = |channel: usize| {
            let mut source = channels.sources[channel % channels.sources.len()];
            if source.port() == 0 {
                source.set_port(FIRST_PORT + (index * each + channel) as u16);
            }
            source
        };
        let link = [view.info.mac, peer.server_mac];
        let post = Post::new(queue, options.server, link, (0..each).map(local));
        Ok(Self { post, view, counts: index == 0 })
    }
}

impl Transport for Dpdk {
    #[inline]
    fn takes(&self, _channel: usize) -> usize {
        usize::MAX
    }

    fn send(&mut self, batch: &Batch) -> Sent {
        self.post.send(batch)
    }

    fn receive(&mut self, clock: &Clock, each: &mut impl FnMut(usize, u64, &[u8])) -> usize {
        self.post.receive(clock, each)
    }

    /// Nothing wakes a thread that polls, so that it does not sleep.
    fn wait(&mut self, _length_ns: u64) {
        std::hint::spin_loop();
    }

    fn renew(&mut self, channel: usize) -> io::Result<()> {
        let mut local = self.post.local(channel);
        local.set_port(local.port().wrapping_add(1).max(FIRST_PORT));
        self.post.change(channel, local);
        Ok(())
    }

    fn failure(&self) -> Option<&io::Error> {
        self.post.failure()
    }

    fn dropped(&self) -> u64 {
        let counts = self.view.counts();
        if self.counts { counts.missed + counts.no_buffer } else { 0 }
    }
}
