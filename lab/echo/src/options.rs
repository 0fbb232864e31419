//! Options of the echo.

use crate::Error;
use crate::limits::{BATCH_MAX, BUFFER_MAX, BUSY_POLL_MAX, PROCESSES_MAX, SPIN_MAX, THREADS_MAX};
use cpu::CpuList;
use std::net::SocketAddr;
use std::time::Duration;

/// An I/O model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Model {
    /// recvfrom, which waits; sendto.
    Blocking,
    /// recvfrom, which does not wait, again and again; sendto.
    Spin,
    /// recvmmsg and sendmmsg, a batch a call.
    Recvmmsg,
    /// poll, then recvfrom and sendto until the socket is empty or a batch is done.
    Poll,
    /// The same behind select.
    Select,
    /// The same behind epoll.
    Epoll,
    /// io_uring: one receive that continues for ever, buffers lent to the kernel, a batch of sends
    /// a call.
    IoUring,
    /// AF_PACKET: IP packets from the device, before the network stack; recvmmsg and sendmmsg.
    Packet,
    /// Dunlin's own worker loop and socket port.
    Worker,
    /// AF_XDP: frames in rings shared with the device's driver.
    AfXdp,
    /// XDP_TX: an XDP program sends frames back before the network stack.
    XdpTx,
}

impl Model {
    /// All models.
    pub const ALL: [Self; 11] = [
        Self::Blocking,
        Self::Spin,
        Self::Recvmmsg,
        Self::Poll,
        Self::Select,
        Self::Epoll,
        Self::IoUring,
        Self::Packet,
        Self::Worker,
        Self::AfXdp,
        Self::XdpTx,
    ];

    /// Its name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Spin => "spin",
            Self::Recvmmsg => "recvmmsg",
            Self::Poll => "poll",
            Self::Select => "select",
            Self::Epoll => "epoll",
            Self::IoUring => "io_uring",
            Self::Packet => "packet",
            Self::Worker => "worker",
            Self::AfXdp => "af_xdp",
            Self::XdpTx => "xdp_tx",
        }
    }

    /// A description in one line.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Blocking => "recvfrom, which waits, and sendto: one datagram a call",
            Self::Spin => "the same without waiting: polls all the time, and uses a whole CPU",
            Self::Recvmmsg => "recvmmsg and sendmmsg: up to a batch of datagrams a call",
            Self::Poll => "poll, then recvfrom and sendto, up to a batch a wake-up",
            Self::Select => "select, then the same",
            Self::Epoll => "epoll, then the same",
            Self::IoUring => {
                "io_uring: one multishot receive into a ring of buffers, a batch of answers in a \
                 system call (Linux 6.1 or later)"
            }
            Self::Packet => {
                "AF_PACKET: packets from the device before the network stack, spread in turns \
                 (PACKET_FANOUT), headers and checksums by ourselves (needs CAP_NET_RAW)"
            }
            Self::Worker => "Dunlin's own worker loop and socket port: the ceiling of dunlin serve",
            Self::AfXdp => {
                "AF_XDP: frames in rings shared with the driver, a queue of the device a thread, \
                 on the rings of dunlin serve (needs root)"
            }
            Self::XdpTx => {
                "XDP_TX: a BPF program returns each frame to its sender and wakes no process \
                 (needs root)"
            }
        }
    }

    /// The model with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|model| model.name() == name)
    }

    /// The default number of datagrams for each call or wake-up, and whether it can be set.
    pub const fn batch(self) -> (usize, bool) {
        match self {
            Self::Blocking | Self::Spin => (1, false),
            Self::Worker | Self::AfXdp => (packet::BURST_MAX, false),
            Self::XdpTx => (1, false),
            _ => (64, true),
        }
    }
}

/// The remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The address to answer at. With all addresses (`0.0.0.0`, `[::]`), the kernel chooses the
    /// source address of an answer by the route back.
    pub listen: SocketAddr,
    /// How.
    pub model: Model,
    /// Processes. Number of processes, including the calling one.
    pub processes: usize,
    /// Threads of each process.
    pub threads: usize,
    /// One socket for all threads of all processes, instead of one each (`SO_REUSEPORT`).
    pub shared: bool,
    /// Datagrams a call or a wake-up at most; `None`: what the model takes.
    pub batch: Option<usize>,
    /// CPUs to pin the threads to, in turn; `None`: threads are not pinned.
    pub cpus: Option<CpuList>,
    /// Bytes of a socket's receive queue, the kernel's bookkeeping counted in.
    pub receive_buffer: usize,
    /// Bytes of a socket's send queue.
    pub send_buffer: usize,
    /// How long a socket that is waited for polls its device (`SO_BUSY_POLL`); zero: not at all.
    pub busy_poll: Duration,
    /// Time that is spent on each query.
    pub spin: Duration,
    /// The network namespace the sockets are of, by its name in /run/netns.
    pub netns: Option<String>,
}

impl Options {
    /// Answers at `listen` by `model`: one process, one thread, no pinning, queues as large as
    /// those of `dunlin serve`.
    pub fn new(listen: SocketAddr, model: Model) -> Self {
        Self {
            listen,
            model,
            processes: 1,
            threads: 1,
            shared: false,
            batch: None,
            cpus: None,
            receive_buffer: port_socket::limits::RECEIVE_BUFFER,
            send_buffer: port_socket::limits::SEND_BUFFER,
            busy_poll: Duration::ZERO,
            spin: Duration::ZERO,
            netns: None,
        }
    }

    /// Datagrams a call or a wake-up at most.
    pub fn batch(&self) -> usize {
        self.batch.unwrap_or(self.model.batch().0)
    }

    /// The CPU that a thread is pinned to; threads are numbered through all processes.
    pub(crate) fn cpu(&self, thread: usize) -> Option<usize> {
        let cpus = self.cpus.as_ref()?.as_slice();
        cpus.get(thread % cpus.len().max(1)).copied()
    }

    /// # Errors
    /// The options are invalid, or need more than this process has.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let model = self.model.name();
        let wrong = |text: String| Err(Error::Invalid(text));
        if !(1..=PROCESSES_MAX).contains(&self.processes) || self.threads == 0 {
            return wrong(format!("1 to {PROCESSES_MAX} processes of at least one thread each"));
        }
        if self.processes.saturating_mul(self.threads) > THREADS_MAX {
            return wrong(format!("{THREADS_MAX} threads at most, all processes together"));
        }
        let (batch, may_differ) = self.model.batch();
        if !may_differ && self.batch() != batch {
            return wrong(format!("model {model} has a batch of {batch}; leave it out"));
        }
        if !(1..=BATCH_MAX).contains(&self.batch()) {
            return wrong(format!("a batch is 1 to {BATCH_MAX} datagrams"));
        }
        if self.receive_buffer.max(self.send_buffer) > BUFFER_MAX {
            return wrong(format!("a socket's buffer has {} MiB at most", BUFFER_MAX >> 20));
        }
        if self.spin > SPIN_MAX || self.busy_poll > BUSY_POLL_MAX {
            return wrong("a query may take 1 s at most, and a poll of a device likewise".into());
        }
        let is_bypass = matches!(self.model, Model::AfXdp | Model::XdpTx);
        let is_of_device = is_bypass || self.model == Model::Packet;
        if is_of_device && self.listen.ip().is_unspecified() {
            return wrong(format!("model {model} needs one address of this host, not all of them"));
        }
        if is_bypass && (self.processes > 1 || self.shared) {
            return wrong(format!("model {model} has one process, and nothing to be shared"));
        }
        if self.model == Model::XdpTx && (self.threads > 1 || !self.spin.is_zero()) {
            return wrong("model xdp_tx has one thread, which only looks on".into());
        }
        if self.listen.port() == 0 && self.processes * self.threads > 1 && !self.shared {
            return wrong("port 0 would be another one for each thread; name one".into());
        }
        self.check_cpus()
    }

    fn check_cpus(&self) -> Result<(), Error> {
        let Some(cpus) = &self.cpus else { return Ok(()) };
        let allowed =
            cpu::allowed().map_err(|error| Error::failed("which CPUs there are", error))?;
        match cpus.as_slice().iter().find(|cpu| !allowed.as_slice().contains(cpu)) {
            None => Ok(()),
            Some(cpu) => Err(Error::Invalid(format!(
                "CPU {cpu} is not one that this process may use: \
                                            {allowed}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(model: Model) -> Options {
        Options::new("127.0.0.1:5353".parse().unwrap(), model)
    }

    fn refusal(options: &Options) -> String {
        match options.check() {
            Err(Error::Invalid(text)) => text,
            other => panic!("{options:?}: {other:?}"),
        }
    }

    #[test]
    fn models_have_names_of_their_own() {
        for model in Model::ALL {
            assert_eq!(Model::of_name(model.name()), Some(model));
            assert!(options(model).check().is_ok(), "{model:?}");
        }
        assert_eq!(Model::of_name("dpdk"), None);
    }

    #[test]
    fn threads_take_cpus_in_turns() {
        let cpus = "2-3,5".parse().ok();
        let options = Options { cpus, ..options(Model::Poll) };
        let taken: Vec<_> = (0..5).map(|thread| options.cpu(thread).unwrap()).collect();
        assert_eq!(taken, [2, 3, 5, 2, 3]);
    }

    #[test]
    fn invalid_options_are_refused_with_the_limits() {
        let poll = || options(Model::Poll);
        for (options, part) in [
            (Options { processes: 0, ..poll() }, "1 to 256 processes"),
            (Options { threads: 0, ..poll() }, "at least one thread"),
            (Options { processes: 33, threads: 32, ..poll() }, "1024 threads at most"),
            (Options { batch: Some(0), ..poll() }, "1 to 1024"),
            (Options { batch: Some(1_025), ..poll() }, "1 to 1024"),
            (Options { batch: Some(2), ..options(Model::Blocking) }, "a batch of 1"),
            (Options { batch: Some(65), ..options(Model::Worker) }, "a batch of 64"),
            (Options { receive_buffer: BUFFER_MAX + 1, ..poll() }, "1024 MiB"),
            (Options { spin: SPIN_MAX * 2, ..poll() }, "1 s at most"),
            (Options { cpus: "1000".parse().ok(), ..poll() }, "CPU 1000"),
            (Options { threads: 2, listen: "[::1]:0".parse().unwrap(), ..poll() }, "port 0"),
            (
                Options { listen: "0.0.0.0:53".parse().unwrap(), ..options(Model::Packet) },
                "one address",
            ),
            (Options { shared: true, ..options(Model::AfXdp) }, "one process"),
            (Options { processes: 2, ..options(Model::AfXdp) }, "one process"),
            (Options { threads: 2, ..options(Model::XdpTx) }, "one thread"),
        ] {
            let text = refusal(&options);
            assert!(text.contains(part), "{text:?} lacks {part:?}");
        }
        assert!(Options { batch: Some(1), ..options(Model::Spin) }.check().is_ok());
    }
}
