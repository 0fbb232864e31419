//! A wire between two hosts that takes time, as one between two sites does: each host is a network
//! namespace with a TUN device, and a thread passes each packet on after a delay. It needs no
//! support of the kernel for delays (netem).
use crate::skip::skip;
use crate::spaces::{Host, guard, run, within};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{io, mem};

const FILE: &str = "/dev/net/tun";
const NAME: &str = "wire0";
/// Packets on their way in one direction; more are lost, as in a router.
const WAITING_MAX: usize = 4_096;
/// How often to look whether the wire is to end.
const ROUND: Duration = Duration::from_millis(20);
const PACKET_MAX: usize = 2_048;

/// The wire, until it is dropped.
pub struct Relay {
    /// 10.77.0.1 and 10.77.0.2.
    pub hosts: [Host; 2],
    control: Arc<Control>,
    passing: Option<JoinHandle<()>>,
    guard: Child,
}

#[derive(Default)]
struct Control {
    /// Each way.
    delay_micros: AtomicU64,
    is_cut: AtomicBool,
    has_ended: AtomicBool,
    passed: AtomicU64,
    lost: AtomicU64,
}

impl Relay {
    /// Makes both hosts, whose names begin with `name`, and a wire that takes so long each way.
    /// `None`: there are no TUN devices, and the test is skipped.
    ///
    /// # Panics
    /// Without root, or without iproute2.
    pub fn start_or_skip(name: &str, delay: Duration) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if let Err(why) = rustix::fs::open(FILE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
            skip(&format!("{FILE}: {why}"));
            return None;
        }
        let number = NEXT.fetch_add(1, Relaxed);
        let hosts = [1, 2].map(|last| Host {
            space: format!("{name}-{}-{number}-{last}", std::process::id()),
            address: Ipv4Addr::new(10, 77, 0, last),
        });
        let guard = guard(&[&hosts[0].space, &hosts[1].space]);
        let devices = [(0, 1), (1, 0)].map(|(own, peer)| device(&hosts[own], hosts[peer].address));
        let control = Arc::<Control>::default();
        let passing = {
            let control = Arc::clone(&control);
            thread::spawn(move || pass(&devices, &control))
        };
        let relay = Self { hosts, control, passing: Some(passing), guard };
        relay.set_delay(delay);
        Some(relay)
    }

    /// Packets take so long each way from now on.
    pub fn set_delay(&self, delay: Duration) {
        self.control.delay_micros.store(delay.as_micros() as u64, Relaxed);
    }

    /// Loses all packets from now on, or passes them on again.
    pub fn cut(&self, is_cut: bool) {
        self.control.is_cut.store(is_cut, Relaxed);
    }

    /// How many packets were passed on.
    pub fn passed(&self) -> u64 {
        self.control.passed.load(Relaxed)
    }

    /// How many packets were lost.
    pub fn lost(&self) -> u64 {
        self.control.lost.load(Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.control.has_ended.store(true, Relaxed);
        if let Some(passing) = self.passing.take() {
            passing.join().expect("it passes packets on");
        }
        drop(self.guard.stdin.take());
        self.guard.wait().expect("it ends");
    }
}

/// The namespace of a host, and its device, whose other end is the peer.
fn device(host: &Host, peer: Ipv4Addr) -> OwnedFd {
    let Host { space, address } = host;
    run(&format!("ip netns add {space}"));
    let device = within(space, open);
    let ip = format!("ip -n {space}");
    run(&format!("{ip} link set lo up"));
    run(&format!("{ip} addr add {address} peer {peer} dev {NAME}"));
    run(&format!("{ip} link set {NAME} up"));
    device
}

/// A TUN device in the namespace of this thread.
fn open() -> OwnedFd {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let device = rustix::fs::open(FILE, flags, Mode::empty()).expect("a TUN device");
    // SAFETY: all bytes zero are a valid `ifreq`: it has numbers, addresses and null pointers.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(NAME.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
    // SAFETY: the descriptor is open, and TUNSETIFF reads and writes one `ifreq`.
    let done = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    assert_eq!(done, 0, "a TUN device: {}", io::Error::last_os_error());
    device
}

/// Packets of one direction, and when each arrives.
type Waiting = VecDeque<(Instant, Vec<u8>)>;

/// Passes packets on until the wire ends.
fn pass(devices: &[OwnedFd; 2], control: &Control) {
    let mut waiting: [Waiting; 2] = Default::default();
    while !control.has_ended.load(Relaxed) {
        let next = waiting.iter().filter_map(|queue| Some(queue.front()?.0)).min();
        let pause = next.map_or(ROUND, |at| at.saturating_duration_since(Instant::now()));
        let pause = Timespec::try_from(pause.min(ROUND)).expect("it is short");
        let mut polled = devices.each_ref().map(|device| PollFd::new(device, PollFlags::IN));
        // An interruption is one round more.
        let _ = poll(&mut polled, Some(&pause));
        for (device, queue) in devices.iter().zip(&mut waiting) {
            take(device, queue, control);
        }
        let now = Instant::now();
        for (device, queue) in devices.iter().rev().zip(&mut waiting) {
            while let Some((_, packet)) = queue.pop_front_if(|(at, _)| *at <= now) {
                // A device that is down takes none.
                let is_passed = rustix::io::write(device, &packet).is_ok();
                let counter = if is_passed { &control.passed } else { &control.lost };
                counter.fetch_add(1, Relaxed);
            }
        }
    }
}

/// Takes all packets that a host has sent.
fn take(device: &OwnedFd, queue: &mut Waiting, control: &Control) {
    let mut buffer = [0; PACKET_MAX];
    while let Ok(len) = rustix::io::read(device, &mut buffer) {
        if control.is_cut.load(Relaxed) || queue.len() >= WAITING_MAX {
            control.lost.fetch_add(1, Relaxed);
            continue;
        }
        let delay = Duration::from_micros(control.delay_micros.load(Relaxed));
        queue.push_back((Instant::now() + delay, buffer[..len].to_vec()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    /// Sends a text from one host to the other; `None`: it did not arrive.
    fn send(relay: &Relay, text: &str, patience: Duration) -> Option<Duration> {
        let [from, to] = &relay.hosts;
        let receiver = within(&to.space, || UdpSocket::bind((to.address, 0)).expect("a socket"));
        receiver.set_read_timeout(Some(patience)).expect("a timeout");
        let sender = within(&from.space, || UdpSocket::bind((from.address, 0)).expect("a socket"));
        let began = Instant::now();
        sender.send_to(text.as_bytes(), receiver.local_addr().expect("bound")).expect("sent");
        let mut buffer = [0; 100];
        let (len, _) = receiver.recv_from(&mut buffer).ok()?;
        assert_eq!(&buffer[..len], text.as_bytes());
        Some(began.elapsed())
    }

    #[test]
    fn packets_take_the_delay_and_are_lost_while_the_wire_is_cut() {
        if !rustix::process::geteuid().is_root() {
            return skip("namespaces need root");
        }
        let delay = Duration::from_millis(30);
        let Some(relay) = Relay::start_or_skip("relay", delay) else { return };
        let patience = crate::wait::deadline();
        let took = send(&relay, "one", patience).expect("it arrives");
        assert!(took >= delay, "{took:?}");
        relay.cut(true);
        let lost = relay.lost();
        assert_eq!(send(&relay, "two", Duration::from_millis(100)), None);
        assert!(relay.lost() > lost);
        relay.cut(false);
        relay.set_delay(Duration::ZERO);
        send(&relay, "three", patience).expect("it arrives again");
        assert!(relay.passed() >= 2);
    }
}
