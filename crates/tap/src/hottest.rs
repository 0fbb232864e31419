//! The hottest names and clients.
use crate::limits::{HOT_RANKS, SKETCH_ENTRIES, SKETCH_HALF_LIFE};
use crate::sample::Sample;
use crate::sketch::Sketch;
use control::status::{Hot, Rank};
use std::net::IpAddr;
use std::time::Duration;
use wire::{HEADER_LEN, Name};

/// Counts both. Queries that were dropped count too: who asks more than they may is hot.
pub struct Hottest {
    /// Names as octets in lower case.
    names: Sketch<[u8]>,
    clients: Sketch<IpAddr>,
}

impl Default for Hottest {
    fn default() -> Self {
        Self {
            names: Sketch::new(SKETCH_ENTRIES, SKETCH_HALF_LIFE),
            clients: Sketch::new(SKETCH_ENTRIES, SKETCH_HALF_LIFE),
        }
    }
}

impl Hottest {
    /// Counts a sample that stands for so many queries.
    pub fn add(&mut self, sample: &Sample<'_>, times: f64, now: Duration) {
        self.clients.add(&sample.client.ip(), times, now);
        let question = sample.query.get(HEADER_LEN..).unwrap_or_default();
        if let Ok(name) = Name::parse(question) {
            self.names.add(&name.octets().to_ascii_lowercase(), times, now);
        }
    }

    /// What they are.
    pub fn tell(&self, now: Duration) -> Hot {
        let name = |octets: Vec<u8>| Name::parse(&octets).unwrap_or(Name::ROOT).to_string();
        let names = self.names.top(HOT_RANKS, now).into_iter();
        let clients = self.clients.top(HOT_RANKS, now).into_iter();
        Hot {
            names: names.map(|(octets, share)| Rank { what: name(octets), share }).collect(),
            clients: clients.map(|(ip, share)| Rank { what: ip.to_string(), share }).collect(),
        }
    }
}
