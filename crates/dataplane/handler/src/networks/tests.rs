use super::*;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Instant;
use wire::{Name, NameBuf};

fn qname(text: &str) -> QName {
    let mut name = QName::new();
    name.set(NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name").as_name());
    name
}

fn set(rules: &[(&str, NameVerdicts)]) -> Arc<NameSet> {
    let key = HashKey::new(std::array::from_fn(|n| (n as u64 + 1).wrapping_mul(0x9e37_79b9)));
    let mut set = NameSet::new(Arc::new(key), rules.len());
    for (text, verdicts) in rules {
        let name = NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name");
        let bytes = name.as_name().as_bytes();
        set.add(&bytes[..bytes.len() - 1], *verdicts);
    }
    Arc::new(set)
}

fn network(prefixes: &[&str], names: Vec<Arc<NameSet>>) -> NetworkSettings {
    NetworkSettings {
        prefixes: prefixes.iter().map(|text| text.parse().expect("a prefix")).collect(),
        view: View(3),
        location: Location::parse("eu/fra1").expect("a location"),
        names,
        denial: Denial::NxDomain,
        slot: 1,
    }
}

const DENY: NameVerdicts = NameVerdicts::DENY;
const ALLOW: NameVerdicts = NameVerdicts::ALLOW;

#[test]
fn longest_name_decides_and_the_name_itself_before_names_below_another() {
    let own = set(&[
        ("ads.example", DENY.below()),
        ("good.ads.example", ALLOW),
        ("only.example", DENY),
        ("both.example", DENY),
        ("both.example", ALLOW),
        ("deep.ads.example", ALLOW.below()),
        ("bad.deep.ads.example", DENY),
    ]);
    let of_file = set(&[("tracker.example", DENY), ("good.ads.example", DENY.below())]);
    let list = NetworkList::new(vec![network(&["10.0.0.0/8"], vec![own, of_file])], &[], None);
    for (text, denied) in [
        ("ads.example", false),
        ("x.ads.example", true),
        ("X.Y.ads.example", true),
        ("good.ads.example", false),
        ("x.good.ads.example", true),
        ("only.example", true),
        ("x.only.example", false),
        ("both.example", false),
        ("deep.ads.example", true),
        ("x.deep.ads.example", false),
        ("bad.deep.ads.example", true),
        ("tracker.example", true),
        ("x.tracker.example", false),
        ("example", false),
        (".", false),
    ] {
        assert_eq!(list.deny(1, &qname(text)), denied, "{text}");
        assert!(!list.deny(0, &qname(text)), "clients in no network");
    }
}

#[test]
fn everything_is_denied_but_what_is_allowed() {
    let all = NameVerdicts(DENY.0 | DENY.below().0);
    let names = set(&[(".", all), ("corp.example", ALLOW.below())]);
    let list = NetworkList::new(vec![network(&["10.0.0.0/8"], vec![names])], &[], None);
    for (text, denied) in [(".", true), ("a.b", true), ("www.corp.example", false)] {
        assert_eq!(list.deny(1, &qname(text)), denied, "{text}");
    }
}

#[test]
fn client_has_the_longest_prefix_of_its_family() {
    assert!(NetworkList::default().is_empty() && NetworkList::default().networks().is_none());
    let settings = vec![
        network(&["10.0.0.0/8", "2001:db8::/32"], Vec::new()),
        network(&["10.1.0.0/16", "2001:db8:1::/48"], Vec::new()),
    ];
    let list = NetworkList::new(settings, &[], None);
    for (text, number) in [
        ("10.0.0.1", 1),
        ("10.1.0.1", 2),
        ("10.2.0.0", 1),
        ("11.0.0.0", 0),
        ("::ffff:10.1.0.1", 2),
        ("2001:db8::1", 1),
        ("2001:db8:1::1", 2),
        ("2001:db9::", 0),
    ] {
        assert_eq!(list.number(text.parse().expect("an address")), number, "{text}");
    }
    let networks = list.networks().expect("there are some");
    let expected = Network { view: View(3), location: LocationNumber(1), denies: false };
    assert_eq!(networks.networks[2], expected);
    assert_eq!(list.locations().len(), 1, "each once");
}

/// Says how long it takes; only a hang fails.
#[test]
fn list_of_100_000_prefixes_is_built() {
    let prefixes: Vec<Prefix> = (0..50_000u32)
        .flat_map(|n| {
            let v4 = Ipv4Addr::from_bits(n.wrapping_mul(0x9e37_79b9) & !0xff);
            let v6 = Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(n) << 64);
            [(v4.into(), 24), (v6.into(), 64)]
        })
        .map(|(address, len)| Prefix::new(address, len).expect("a prefix"))
        .collect();
    let begun = Instant::now();
    let settings = NetworkSettings { prefixes: prefixes.clone(), ..network(&[], Vec::new()) };
    let list = NetworkList::new(vec![settings], &[], None);
    println!("100,000 prefixes: {:?}", begun.elapsed());
    assert!(prefixes.iter().all(|prefix| list.number(prefix.address()) == 1));
}
