//! The most frequent names and clients.
use crate::limits::{HOT_RANKS, SKETCH_ENTRIES, SKETCH_HALF_LIFE};
use crate::sketch::Sketch;
use server_status::{HotEntry, HottestNames};
use std::net::IpAddr;
use std::time::Duration;
use tap::Sample;
use wire::{HEADER_LEN, Name};

/// Counts names and clients, with those of dropped queries.
pub struct HotCounters {
    /// Names as bytes in lower case.
    names: Sketch<[u8]>,
    clients: Sketch<IpAddr>,
    /// Samples as of `counted_at`; older ones count less, as in the sketches.
    samples: f64,
    counted_at: Duration,
}

impl Default for HotCounters {
    fn default() -> Self {
        Self {
            names: Sketch::new(SKETCH_ENTRIES, SKETCH_HALF_LIFE),
            clients: Sketch::new(SKETCH_ENTRIES, SKETCH_HALF_LIFE),
            samples: 0.0,
            counted_at: Duration::ZERO,
        }
    }
}

impl HotCounters {
    /// Counts a sample that represents this many queries.
    pub fn add(&mut self, sample: &Sample<'_>, times: f64, now: Duration) {
        self.samples = self.samples_at(now) + 1.0;
        self.counted_at = now;
        self.clients.add(&sample.client.ip(), times, now);
        let question = sample.query.get(HEADER_LEN..).unwrap_or_default();
        if let Ok(name) = Name::parse(question) {
            self.names.add(&name.as_bytes().to_ascii_lowercase(), times, now);
        }
    }

    fn samples_at(&self, now: Duration) -> f64 {
        let age = now.saturating_sub(self.counted_at).as_secs_f64();
        self.samples * (-age / SKETCH_HALF_LIFE.as_secs_f64()).exp2()
    }

    /// The most frequent ones.
    pub fn tell(&self, now: Duration) -> HottestNames {
        let name = |bytes: Vec<u8>| Name::parse(&bytes).unwrap_or(Name::ROOT).to_string();
        let names = self.names.top(HOT_RANKS, now).into_iter();
        let clients = self.clients.top(HOT_RANKS, now).into_iter();
        HottestNames {
            samples: self.samples_at(now).round() as u64,
            names: names.map(|(bytes, share)| HotEntry { what: name(bytes), share }).collect(),
            clients: clients.map(|(ip, share)| HotEntry { what: ip.to_string(), share }).collect(),
        }
    }
}
