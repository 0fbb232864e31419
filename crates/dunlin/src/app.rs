//! What answers on one thread: its view of the image and of the settings, its memory, its dice.
use crate::settings::Settings;
use answer::{Now, Nowhere, Scratch, TYPE_NAMES, Tally};
use compile::Image;
use door::{Counters, CountersView, Reader};
use packet::{Drop, Packet, Transport, Verdict, proxy};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tap::Tap;
use wire::Rcode;

/// Replies by rcode, behind them those by type, and last those with TC set.
pub const COUNTERS: usize = TRUNCATED + 1;
/// Where types begin among the counters.
pub const FIRST_TYPE: usize = Rcode::ALL.len();
/// Where replies with TC set are counted.
pub const TRUNCATED: usize = FIRST_TYPE + TYPE_NAMES.len();

/// Answers bursts from the newest image.
pub struct Answerer {
    image: Reader<Image>,
    settings: Reader<Settings>,
    tap: Tap,
    scratch: Box<Scratch>,
    seed: u64,
    counters: Counters<COUNTERS>,
}

impl Answerer {
    /// `seed` must come from a good source: what is dealt from it decides who is asked first.
    pub fn new(image: Reader<Image>, settings: Reader<Settings>, tap: Tap, seed: u64) -> Self {
        let (scratch, counters) = (Box::default(), Counters::new());
        Self { image, settings, tap, scratch, seed, counters }
    }

    /// What it counts.
    pub fn counters(&self) -> CountersView<COUNTERS> {
        self.counters.view()
    }
}

impl plane::App for Answerer {
    fn burst(&mut self, packets: &mut [Packet<'_>], monotonic: Duration) {
        // Weyl's sequence: every number once; what is dealt from it is mixed by who takes it.
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Now {
            // RFC 9018 §4.3 counts seconds modulo 2^32.
            unix_seconds: unix.as_secs() as u32,
            monotonic_micros: monotonic.as_micros() as u64,
            seed: self.seed,
        };
        let world = self.image.refresh();
        let settings = self.settings.refresh();
        let policy = settings.policy();
        let mut tally = Tally::default();
        let mut answer = |packets: &mut [Packet<'_>]| {
            answer::batch(
                world,
                &policy,
                now,
                &mut Nowhere,
                &mut self.scratch,
                packets,
                &mut tally,
            );
        };
        if settings.proxies.is_empty() {
            self.tap.begin(packets, unix, monotonic);
            answer(packets);
        } else {
            strip_headers(packets, settings);
            self.tap.begin(packets, unix, monotonic);
            packets.split_mut(is_stripped_in_vain).for_each(answer);
        }
        self.tap.end(packets);
        let counts = tally.rcodes.into_iter().chain(tally.types).chain([tally.truncated]);
        for (index, count) in counts.enumerate().filter(|(_, count)| *count > 0) {
            self.counters.add(index, count.into());
        }
    }

    fn park(&mut self) {
        self.image.park();
        self.settings.park();
    }
}

/// Takes the headers of proxies off datagrams. Streams have theirs once, at their beginning.
fn strip_headers(packets: &mut [Packet<'_>], settings: &Settings) {
    for packet in packets.iter_mut().filter(|packet| packet.transport == Transport::Datagram) {
        proxy::strip(packet, |peer| settings.proxies.lists(peer));
    }
}

/// Whether a proxy's header was broken or missing: there is nothing to answer.
fn is_stripped_in_vain(packet: &Packet<'_>) -> bool {
    packet.verdict == Verdict::Drop(Drop::ProxyHeader)
}
