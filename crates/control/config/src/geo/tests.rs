use super::*;
use crate::Config;
use std::fs;
use test_support::folder::Folder;
use test_support::mmdb::{self, place, system};

fn locations(records: &[(&str, mmdb::Value)]) -> GeoTable {
    let folder = Folder::new("geo-locations");
    let file = folder.join("places.mmdb");
    fs::write(&file, mmdb::file(records)).expect("a file");
    read_locations(&file).expect("locations")
}

/// The path of an address.
fn path_of(table: &GeoTable, address: &str) -> Option<String> {
    let number = match address.parse().expect("an address") {
        IpAddr::V4(v4) => number_of(&table.v4, v4.to_bits()),
        IpAddr::V6(v6) => number_of(&table.v6, v6.to_bits()),
    };
    Some(table.paths[usize::from(number).checked_sub(1)?].to_string())
}

fn number_of<B: Ord>(ranges: &GeoRanges<B>, address: B) -> u16 {
    ranges.numbers[ranges.bounds.partition_point(|bound| *bound <= address)]
}

#[test]
fn neighbors_with_one_location_are_one_range() {
    let table = locations(&[
        ("192.0.2.0/25", place("EU", Some("DE"), None)),
        ("192.0.2.128/25", place("EU", Some("DE"), None)),
        ("192.0.3.0/24", place("EU", Some("DE"), Some("BY"))),
        ("198.51.100.0/24", place("NA", Some("US"), Some("CA"))),
        ("203.0.113.7/32", mmdb::Value::Map(Vec::new())),
        ("255.0.0.0/8", place("AN", None, None)),
        ("2001:db8::/32", place("EU", Some("DE"), Some("BY"))),
        ("2001:db9::/32", place("EU", Some("DE"), Some("BY"))),
    ]);
    let paths: Vec<&str> = table.paths.iter().map(|path| &**path).collect();
    assert_eq!(paths, ["eu/de", "eu/de/by", "na/us/ca", "an"]);
    assert_eq!((table.v4.bounds.len(), table.v4.numbers.clone()), (6, vec![0, 1, 2, 0, 3, 0, 4]));
    assert_eq!((table.v6.bounds.len(), table.v6.numbers.clone()), (2, vec![0, 2, 0]));
    for (address, path) in [
        ("192.0.1.255", None),
        ("192.0.2.0", Some("eu/de")),
        ("192.0.2.255", Some("eu/de")),
        ("192.0.3.1", Some("eu/de/by")),
        ("192.0.4.0", None),
        ("203.0.113.7", None),
        ("255.255.255.255", Some("an")),
        ("2001:db9:ffff::1", Some("eu/de/by")),
        ("2001:dba::", None),
        ("::1", None),
    ] {
        assert_eq!(path_of(&table, address).as_deref(), path, "{address}");
    }
}

#[test]
fn each_address_has_the_location_of_its_prefix() {
    let mut random = fastrand::Rng::with_seed(43);
    let codes = ["AA", "BB", "CC", "DD"];
    let mut wanted = Vec::new();
    let mut records = Vec::new();
    for number in 0..400_u32 {
        // Each in a /16 of its own, of which it has a part or all.
        let (len, code) = (random.u32(16..=32), random.usize(..codes.len()));
        let mask = u32::MAX << (32 - len);
        let first = (number << 16 | random.u32(..1 << 16)) & mask;
        let prefix = format!("{}/{len}", IpAddr::from(first.to_be_bytes()));
        wanted.push((first, first | !mask, code));
        records.push((prefix, place("EU", Some(codes[code]), None)));
    }
    let records: Vec<_> = records.iter().map(|(prefix, it)| (&**prefix, it.clone())).collect();
    let table = locations(&records);
    for (first, last, code) in wanted {
        let path = format!("eu/{}", codes[code].to_ascii_lowercase());
        for address in [first, last, random.u32(first..=last)] {
            let address = IpAddr::from(address.to_be_bytes()).to_string();
            assert_eq!(path_of(&table, &address).as_deref(), Some(&*path), "{address}");
        }
    }
}

#[test]
fn file_that_cannot_be_used_is_an_error_with_its_name() {
    let folder = Folder::new("geo-errors");
    let file = folder.join("geo.mmdb");
    let places = mmdb::file(&[("192.0.2.0/24", place("EU", Some("DE"), None))]);
    let systems = mmdb::file(&[("192.0.2.0/24", system(64_500))]);
    let bad = mmdb::file(&[("192.0.2.0/24", place("E U", None, None))]);
    let read = |bytes: &[u8], key| {
        fs::write(&file, bytes).expect("a file");
        let geo = GeoNetworks::default();
        let named = match key {
            "maxmind" => GeoNetworks { maxmind: Some(file.clone()), ..geo },
            _ => GeoNetworks { maxmind_as: Some(file.clone()), ..geo },
        };
        named.read_files(&HashSet::from([64_500])).map_err(|why| why.to_string())
    };
    for (bytes, key, why) in [
        (&systems[..], "maxmind", "no record has a continent"),
        (&places, "maxmind_as", "no record has the number of an autonomous system"),
        (b"$TTL 60\n", "maxmind", "is no MaxMind file, or is cut off"),
        (b"", "maxmind", "is no MaxMind file, or is cut off"),
        (&bad, "maxmind", "192.0.2.0/24: \"e u\" is no location"),
    ] {
        let told = read(bytes, key).expect_err(why);
        assert!(told.contains("geo.mmdb: ") && told.contains(why), "{told}");
    }
    for len in 0..places.len() {
        assert!(read(&places[..len], "maxmind").is_err(), "cut off after {len} bytes");
    }
    let read = read(&systems, "maxmind_as").expect("the systems");
    assert_eq!(*read.systems, [("192.0.2.0/24".parse().expect("a prefix"), 64_500)]);
    // Its length is 0, and it has content: as a file that grows meanwhile.
    let grown = read_file(Path::new("/proc/self/status")).expect_err("it grew");
    assert_eq!(grown, "was written while it was read");
}

#[test]
fn section_names_its_files_and_networks_their_systems() {
    let folder = Folder::new("geo-config");
    let at = folder.join("dunlin.toml");
    let records = [("192.0.2.0/24", system(64_500)), ("198.51.100.0/24", system(64_501))];
    fs::write(folder.join("as.mmdb"), mmdb::file(&records)).expect("a file");
    let text = "[networks]\nmaxmind_as = \"as.mmdb\"\n[[network]]\nname = \"a\"\nas = [64500]\n";
    let config = Config::parse(&at, text).expect("a config");
    assert_eq!(config.geo.systems.len(), 1, "that of the network alone");
    assert_eq!(config.networks[0].systems, [64_500]);
    let errors = Config::parse(&at, "[networks]\nmaxmind = \"none.mmdb\"\n").expect_err("absent");
    assert!(errors[0].to_string().contains("none.mmdb: cannot be read"), "{}", errors[0]);
    let text =
        "[[network]]\nname = \"a\"\nas = [64500, 0]\n[[network]]\nname = \"b\"\nas = [64500]\n";
    let errors = Config::parse(Path::new("f"), text).expect_err("three errors");
    let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
    for why in ["a number from 1 to 4294967295", "has 64500, as another network", "maxmind_as"] {
        assert!(told.iter().any(|line| line.contains(why)), "{why}: {told:?}");
    }
}
