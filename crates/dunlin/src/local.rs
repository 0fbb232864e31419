//! Zones that are answered where they are asked, so that questions about private and special
//! addresses do not leak (RFC 6303).
use compile::{Loader, Zone};
use image::HashKey;
use std::sync::Arc;
use wire::{Name, NameBuf};

/// What each of them holds (RFC 6303 §3).
const RECORDS: &str = "@ 10800 SOA @ nobody.invalid. 1 3600 1200 604800 10800\n@ 10800 NS @\n";

/// RFC 6303 §4.1 (private addresses), §4.2 (special ones), §4.3 to §4.6 (IPv6).
const NAMES: [&str; 33] = [
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

/// Their names, but for those that a configured zone answers for.
pub fn names(configured: &[NameBuf]) -> impl Iterator<Item = NameBuf> {
    NAMES
        .iter()
        .map(|name| NameBuf::from_text(name.as_bytes(), Name::ROOT).expect("a constant name"))
        .filter(|name| !configured.iter().any(|zone| name.as_name().is_within(zone.as_name())))
}

/// One of them.
pub fn load(key: &Arc<HashKey>, origin: Name<'_>) -> Zone {
    let mut loader = Loader::new(Arc::clone(key), origin, None);
    zonefile::read_stream(&mut RECORDS.as_bytes(), origin, &mut |record| {
        loader.add(record.owner, record.rtype, record.ttl, record.rdata, 0)
    })
    .expect("constant records");
    loader.finish().expect("a constant zone")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The origins of the local zones beside these configured ones.
    fn beside(configured: &[&str]) -> Vec<String> {
        let name = |text: &&str| NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name");
        let configured: Vec<NameBuf> = configured.iter().map(name).collect();
        let key = Arc::new(HashKey::new([1; image::HASH_KEY_WORDS]));
        names(&configured).map(|name| load(&key, name.as_name()).origin().to_string()).collect()
    }

    #[test]
    fn all_of_them_are_zones() {
        let all = beside(&["example.org", "1.10.in-addr.arpa"]);
        assert_eq!(all.len(), NAMES.len());
        assert!(all.contains(&"10.in-addr.arpa.".to_owned()));
    }

    #[test]
    fn a_configured_zone_goes_before() {
        let rest = beside(&["10.in-addr.arpa", "ip6.arpa"]);
        assert!(!rest.contains(&"10.in-addr.arpa.".to_owned()), "the same name");
        assert!(!rest.iter().any(|name| name.ends_with("ip6.arpa.")), "a name above");
        assert!(rest.contains(&"127.in-addr.arpa.".to_owned()));
    }
}
