//! Built-in zones: those of RFC 6303, special-use names (RFC 6761), and local rules of the config.
//! Queries for private and special names and addresses do not leave the server.
use crate::handler::ZoneFile;
use compile::{Loader, Zone};
use image::HashKey;
use std::sync::{Arc, Mutex};
use wire::{Name, NameBuf};
use zone_manager::{HoldPolicy, Lane, Source, SourceKind, SourceSettings, UpdateSender};

/// The records of each (RFC 6303 §3).
const RECORDS: &str = "@ 10800 SOA @ nobody.invalid. 1 3600 1200 604800 10800\n@ 10800 NS @\n";

/// The name of every host (RFC 6761 §6.3), and its further records.
const LOCALHOST: &str = "localhost";
const LOCALHOST_RECORDS: &str =
    "@ 10800 A 127.0.0.1\n@ 10800 AAAA ::1\n* 10800 A 127.0.0.1\n* 10800 AAAA ::1\n";

/// Without `test` and `local`, which fleets use (`cluster.local`); a rule of the config can add
/// them.
const NAMES: [&str; 37] = [
    // RFC 6761 §6.3 and §6.4, RFC 7686 §2, RFC 8375 §4.
    LOCALHOST,
    "invalid",
    "onion",
    "home.arpa",
    // RFC 6303 §4.1 (private addresses), §4.2 (special ones), §4.3 to §4.6 (IPv6).
    "10.in-addr.arpa",
    "16.172.in-addr.arpa",
    "17.172.in-addr.arpa",
    "18.172.in-addr.arpa",
    "19.172.in-addr.arpa",
    "20.172.in-addr.arpa",
    "21.172.in-addr.arpa",
    "22.172.in-addr.arpa",
    "23.172.in-addr.arpa",
    "24.172.in-addr.arpa",
    "25.172.in-addr.arpa",
    "26.172.in-addr.arpa",
    "27.172.in-addr.arpa",
    "28.172.in-addr.arpa",
    "29.172.in-addr.arpa",
    "30.172.in-addr.arpa",
    "31.172.in-addr.arpa",
    "168.192.in-addr.arpa",
    "0.in-addr.arpa",
    "127.in-addr.arpa",
    "254.169.in-addr.arpa",
    "2.0.192.in-addr.arpa",
    "100.51.198.in-addr.arpa",
    "113.0.203.in-addr.arpa",
    "255.255.255.255.in-addr.arpa",
    "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa",
    "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa",
    "d.f.ip6.arpa",
    "8.e.f.ip6.arpa",
    "9.e.f.ip6.arpa",
    "a.e.f.ip6.arpa",
    "b.e.f.ip6.arpa",
    "8.b.d.0.1.0.0.2.ip6.arpa",
];

/// Which built-in zones the config asks for.
#[derive(Clone, Debug, Default)]
pub struct BuiltInZones {
    /// Whether those that need no rule are served.
    pub by_default: bool,
    /// Suffixes of rules with `mode = "local"`.
    pub own: Vec<NameBuf>,
    /// Suffixes of other rules.
    pub others: Vec<NameBuf>,
}

impl BuiltInZones {
    /// Their names. A configured zone replaces the built-in one of its name and those below it. A
    /// rule replaces the one of its name.
    fn names(&self, configured: &[NameBuf]) -> impl Iterator<Item = NameBuf> {
        let own = self.own.iter().filter(|name| !has(configured, name)).cloned();
        let is_free = |name: &NameBuf| {
            let is_ruled = has(&self.own, name) || has(&self.others, name);
            !is_ruled && !configured.iter().any(|zone| name.as_name().is_within(zone.as_name()))
        };
        own.chain(built_in().filter(move |name| self.by_default && is_free(name)))
    }
}

fn built_in() -> impl Iterator<Item = NameBuf> {
    NAMES
        .iter()
        .map(|name| NameBuf::from_text(name.as_bytes(), Name::ROOT).expect("a constant name"))
}

fn has(names: &[NameBuf], name: &NameBuf) -> bool {
    names.iter().any(|other| other.as_name() == name.as_name())
}

/// The source of the built-in zones that the config asks for.
pub struct BuiltInSource(pub Arc<Mutex<BuiltInZones>>);

impl Source for BuiltInSource {
    type Started = BuiltInLoader;

    fn settings(&self) -> SourceSettings {
        let (name, kind) = ("built-in".to_owned(), SourceKind::BuiltIn);
        SourceSettings { name, kind, lane: Lane::Normal, hold: HoldPolicy::Never }
    }

    fn start(self, updates: UpdateSender) -> BuiltInLoader {
        BuiltInLoader { wanted: self.0, updates, given: Vec::new() }
    }
}

/// Gives built-in zones to the zone manager, and takes them back.
pub struct BuiltInLoader {
    wanted: Arc<Mutex<BuiltInZones>>,
    updates: UpdateSender,
    /// The zones that the zone manager has.
    given: Vec<NameBuf>,
}

impl BuiltInLoader {
    /// Those that the config asks for, beside these zones.
    fn wanted(&self, zones: &[ZoneFile]) -> Vec<NameBuf> {
        let configured: Vec<NameBuf> = zones.iter().map(|zone| zone.origin.clone()).collect();
        super::lock(&self.wanted).names(&configured).collect()
    }

    /// Gives those that the zone manager does not have yet.
    pub fn put(&mut self, zones: &[ZoneFile]) {
        let key = self.updates.publisher().key();
        for name in self.wanted(zones) {
            if !self.given.contains(&name) {
                // Configured zones go before it.
                drop(self.updates.sync_zone(load(&key, name.as_name()), None));
                self.given.push(name);
            }
        }
    }

    /// Takes back those that are not wanted any more. Waits until they are gone.
    pub fn remove_unwanted(&mut self, zones: &[ZoneFile]) {
        let (wanted, mut last) = (self.wanted(zones), None);
        let updates = &self.updates;
        self.given.retain(|name| {
            let is_wanted = wanted.contains(name);
            if !is_wanted {
                last = Some(updates.remove_zone(name.as_name()));
            }
            is_wanted
        });
        last.and_then(|last| self.updates.publisher().wait(last));
    }
}

/// Builds a built-in zone.
fn load(key: &Arc<HashKey>, origin: Name<'_>) -> Zone {
    let mut loader = Loader::new(Arc::clone(key), origin, None);
    let is_localhost = origin.as_bytes() == b"\x09localhost\0";
    let more = if is_localhost { LOCALHOST_RECORDS } else { "" };
    zonefile::read_stream(&mut [RECORDS, more].concat().as_bytes(), origin, &mut |record| {
        loader.add(record.owner, record.rtype, record.ttl, record.rdata, 0)
    })
    .expect("constant records");
    loader.finish().expect("a constant zone").yielding()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Rtype;

    fn name(text: &str) -> NameBuf {
        NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
    }

    fn by_default() -> BuiltInZones {
        BuiltInZones { by_default: true, ..BuiltInZones::default() }
    }

    fn key() -> Arc<HashKey> {
        Arc::new(HashKey::new([1; image::HASH_KEY_WORDS]))
    }

    /// The origins of the built-in zones beside these configured ones.
    fn beside(configured: &[&str], zones: &BuiltInZones) -> Vec<String> {
        let configured: Vec<NameBuf> = configured.iter().map(|text| name(text)).collect();
        let names = zones.names(&configured);
        names.map(|name| load(&key(), name.as_name()).origin().to_string()).collect()
    }

    #[test]
    fn all_of_them_are_zones() {
        let all = beside(&["example.org", "1.10.in-addr.arpa"], &by_default());
        assert_eq!(all.len(), NAMES.len());
        assert!(all.contains(&"10.in-addr.arpa.".to_owned()));
    }

    #[test]
    fn a_configured_zone_goes_before() {
        let rest = beside(&["10.in-addr.arpa", "ip6.arpa"], &by_default());
        assert!(!rest.contains(&"10.in-addr.arpa.".to_owned()), "the same name");
        assert!(!rest.iter().any(|name| name.ends_with("ip6.arpa.")), "a name above");
        assert!(rest.contains(&"127.in-addr.arpa.".to_owned()));
    }

    #[test]
    fn a_rule_decides_about_its_own_name() {
        let names = |texts: &[&str]| texts.iter().map(|text| name(text)).collect();
        let rules = BuiltInZones {
            own: names(&["Internal", "onion"]),
            others: names(&[".", "home.arpa", "10.in-addr.arpa", "x.invalid"]),
            ..by_default()
        };
        let all = beside(&[], &rules);
        let is_there = ["home.arpa.", "10.in-addr.arpa.", "internal.", "onion.", "invalid."]
            .map(|name| all.iter().filter(|other| *other == name).count());
        assert_eq!(is_there, [0, 0, 1, 1, 1]);
        let without = BuiltInZones { by_default: false, ..rules.clone() };
        let alone = beside(&["example", "onion"], &without);
        assert_eq!(alone, ["internal."], "a rule is not a default, and a zone goes before it");
        assert_eq!(beside(&["arpa", "."], &rules), ["internal.", "onion."], "nor is it above it");
    }

    #[test]
    fn localhost_has_its_addresses() {
        let zone = load(&key(), name("localhost").as_name());
        for (owner, rtype, address) in [
            ("localhost", Rtype::A, &[127, 0, 0, 1][..]),
            ("*.localhost", Rtype::A, &[127, 0, 0, 1]),
            ("localhost", Rtype::AAAA, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        ] {
            let set = zone.set(name(owner).as_name(), rtype).expect("addresses");
            assert_eq!(set.records().collect::<Vec<_>>(), [address], "{owner}");
        }
        assert_eq!(load(&key(), name("invalid").as_name()).count(), (1, 2));
    }
}
