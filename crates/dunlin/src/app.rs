//! What answers on one thread: its view of the image, its memory, its dice.
use answer::{CookieSecret, Now, Policy, Scratch, Tally};
use compile::Image;
use door::{Counters, CountersView, Reader};
use packet::Packet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wire::Rcode;

/// What the operator decided, shared by all threads.
#[derive(Debug)]
pub struct Decided {
    pub udp_size_max: u16,
    pub cookie_secrets: Vec<CookieSecret>,
    pub nsid: String,
    pub version: String,
    pub id: String,
}

impl Decided {
    fn policy(&self) -> Policy<'_> {
        Policy {
            udp_size_max: self.udp_size_max,
            cookie_secrets: &self.cookie_secrets,
            nsid: self.nsid.as_bytes(),
            version: self.version.as_bytes(),
            id: self.id.as_bytes(),
            ..Policy::default()
        }
    }
}

/// Replies by rcode, and behind them those with TC set.
pub const COUNTERS: usize = Rcode::ALL.len() + 1;

/// Answers bursts from the newest image.
pub struct Answerer {
    reader: Reader<Image>,
    decided: Arc<Decided>,
    scratch: Box<Scratch>,
    seed: u64,
    counters: Counters<COUNTERS>,
}

impl Answerer {
    /// `seed` must come from a good source: what is dealt from it decides who is asked first.
    pub fn new(reader: Reader<Image>, decided: Arc<Decided>, seed: u64) -> Self {
        Self { reader, decided, scratch: Box::default(), seed, counters: Counters::new() }
    }

    /// What it counts.
    pub fn counters(&self) -> CountersView<COUNTERS> {
        self.counters.view()
    }
}

impl plane::App for Answerer {
    fn burst(&mut self, packets: &mut [Packet<'_>], now: Duration) {
        // Weyl's sequence: every number once; what is dealt from it is mixed by who takes it.
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // RFC 9018 §4.3 counts seconds modulo 2^32.
        let now = Now {
            unix_seconds: since.as_secs() as u32,
            monotonic_micros: now.as_micros() as u64,
            seed: self.seed,
        };
        let world = self.reader.refresh();
        let mut tally = Tally::default();
        answer::batch(world, &self.decided.policy(), now, &mut self.scratch, packets, &mut tally);
        let counts = tally.rcodes.into_iter().chain([tally.truncated]);
        for (index, count) in counts.enumerate().filter(|(_, count)| *count > 0) {
            self.counters.add(index, count.into());
        }
    }

    fn park(&mut self) {
        self.reader.park();
    }
}
