//! Tells other servers of changes: looks at the zones, and sends and receives notifications.
use crate::limits::NOTIFY_INTERVAL;
use crate::notifications::{Notifications, Sender};
use crate::source::OwnedRecord;
use crate::transfers::{Access, Transfers};
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tsig::Key;
use wire::{Name, NameBuf};

/// Bytes of a response to a notification.
const RESPONSE_LEN_MAX: usize = 1_232;

/// Follows the zones: their differences are recorded, and other servers notified.
pub struct Notifier {
    transfers: Arc<Transfers>,
    notifications: Notifications,
    /// The last serial of each zone.
    serials: HashMap<Box<[u8]>, u32>,
    generation: Option<u64>,
    begin: Instant,
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
}

impl Notifier {
    /// Within a runtime. Servers of an address family that the machine lacks are not notified.
    pub async fn new(transfers: Arc<Transfers>) -> Self {
        let v4 = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await.ok();
        let v6 = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).await.ok();
        let (notifications, serials) = (Notifications::default(), HashMap::new());
        let begin = Instant::now();
        Self { transfers, notifications, serials, generation: None, begin, v4, v6 }
    }

    /// Runs as long as the runtime does.
    pub async fn run(mut self) {
        let mut ticks = interval(NOTIFY_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut of_v4, mut of_v6) = ([0; RESPONSE_LEN_MAX], [0; RESPONSE_LEN_MAX]);
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    self.scan();
                    self.send();
                }
                (from, len) = receive(self.v4.as_ref(), &mut of_v4) => {
                    self.receive(from, &of_v4[..len]);
                }
                (from, len) = receive(self.v6.as_ref(), &mut of_v6) => {
                    self.receive(from, &of_v6[..len]);
                }
            }
        }
    }

    /// Notes zones that have changed.
    fn scan(&mut self) {
        let access = Arc::clone(&self.transfers.access);
        let generation = access.generation();
        if self.generation.replace(generation) == Some(generation) {
            return;
        }
        let (now, targets) = (self.begin.elapsed(), access.notify_targets());
        let mut serials = HashMap::with_capacity(self.serials.len());
        for zone in access.zones() {
            let Some((soa, serial)) = OwnedRecord::soa(&zone).zip(zone.serial()) else { continue };
            self.transfers.record(&zone);
            let key: Box<[u8]> = zone.origin().as_bytes().into();
            if self.serials.get(&key) != Some(&serial) {
                self.notifications.record(zone.origin(), &soa, &targets, now);
            }
            serials.insert(key, serial);
        }
        self.transfers.retain(|origin| serials.contains_key(origin));
        self.serials = serials;
    }

    fn send(&mut self) {
        let Self { transfers, notifications, v4, v6, begin, .. } = self;
        let mut outside = Outside { access: &*transfers.access, v4: v4.as_ref(), v6: v6.as_ref() };
        notifications.poll(begin.elapsed(), &mut outside);
        self.count();
    }

    fn receive(&mut self, from: SocketAddr, message: &[u8]) {
        let now = self.transfers.access.now();
        self.notifications.receive(from, message, now);
        self.count();
    }

    fn count(&self) {
        let counts = &self.transfers.notified;
        *counts.lock().unwrap_or_else(PoisonError::into_inner) = self.notifications.outcomes;
    }
}

/// The next datagram; never without a socket.
async fn receive(socket: Option<&UdpSocket>, buf: &mut [u8]) -> (SocketAddr, usize) {
    let Some(socket) = socket else { return std::future::pending().await };
    loop {
        // An error is that of an earlier message, such as no server at its port.
        match socket.recv_from(buf).await {
            Ok((len, from)) => return (from, len),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

struct Outside<'o> {
    access: &'o dyn Access,
    v4: Option<&'o UdpSocket>,
    v6: Option<&'o UdpSocket>,
}

impl Sender for Outside<'_> {
    fn key(&self, name: &str) -> Option<Arc<Key>> {
        let name = NameBuf::from_text(name.as_bytes(), Name::ROOT).ok()?;
        self.access.key(name.as_name()).map(|known| known.key)
    }

    fn unix_seconds(&self) -> u64 {
        self.access.now()
    }

    fn id(&mut self) -> u16 {
        let mut id = [0; 2];
        // Without randomness the address alone says who answers.
        let _ = getrandom::fill(&mut id);
        u16::from_ne_bytes(id)
    }

    fn send(&mut self, to: SocketAddr, message: &[u8]) {
        let socket = if to.is_ipv4() { self.v4 } else { self.v6 };
        // What cannot be sent now is sent again.
        let _ = socket.map(|socket| socket.try_send_to(message, to));
    }
}
