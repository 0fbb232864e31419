//! Zones that code writes: big record sets around the usual sizes, and random trees.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::random::Random;

/// Record sets around 512, 1232 and 4096 bytes, in every section.
pub fn big() -> String {
    let mut zone = String::from(
        "$TTL 300\n@ SOA ns1 hostmaster 1 3600 600 86400 60\n@ NS ns1\nns1 A 192.0.2.1\n",
    );
    for count in (20..=34).chain(66..=80).chain([60, 240]) {
        for host in 0..count {
            writeln!(zone, "a{count} A 10.{}.{}.{host}", count % 256, host / 256).unwrap();
        }
    }
    for count in (14..=20).chain(38..=46) {
        for host in 0..count {
            writeln!(zone, "q{count} AAAA 2001:db8::{count}:{host:x}").unwrap();
        }
    }
    for size in (380..=480).step_by(10).chain((1080..=1200).step_by(10)).chain([3000]) {
        writeln!(zone, "t{size} TXT {}", strings(size)).unwrap();
        writeln!(zone, "c{size} CNAME t{size}").unwrap();
    }
    for host in 0..40 {
        writeln!(zone, "m{host} A 10.1.0.{host}\nm{host} AAAA 2001:db8:1::{host:x}").unwrap();
    }
    for count in [4, 6, 8, 10, 12, 16, 20, 24, 30, 40] {
        for host in 0..count {
            writeln!(zone, "mx{count} MX {host} m{host}\nns{count} NS m{host}").unwrap();
            writeln!(zone, "srv{count} SRV 0 {host} 80 m{host}").unwrap();
            writeln!(zone, "own{count} NS n{host}.own{count}").unwrap();
            writeln!(zone, "n{host}.own{count} A 10.2.{count}.{host}").unwrap();
        }
    }
    writeln!(zone, "*.w TXT {}\n*.v CNAME t1100\nd DNAME w", strings(1150)).unwrap();
    zone
}

/// `size` bytes of TXT data, length bytes included, in strings of at most 200.
fn strings(size: usize) -> String {
    let mut text = String::new();
    let mut left = size;
    while left > 0 {
        let string = left.min(201);
        write!(text, "\"{}\" ", "x".repeat(string - 1)).unwrap();
        left -= string;
    }
    text
}

/// What a random zone may point at outside itself.
const ELSEWHERE: [&str; 6] = [
    "host1.wild.test.",
    "x.a.wild.test.",
    "www.alias.test.",
    "x.d1.alias.test.",
    "www.child.parent.test.",
    "www.example.net.",
];

const LABELS: [&str; 10] = ["*", "a", "b", "c", "d", "e", "www", "_tcp", "x1", "ns"];

/// A random tree of about `size` names, legal in every server: no other data at an alias, nothing
/// below a DNAME, no delegation by wildcard.
pub fn tree(seed: u64, size: usize) -> String {
    let mut random = Random::new(seed);
    let mut nodes: BTreeMap<Vec<&str>, BTreeSet<String>> = BTreeMap::new();
    let mut names: Vec<Vec<&str>> = vec![vec![]];
    for _ in 0..size {
        let above = random.pick(&names).clone();
        let barren = nodes.get(&above).is_some_and(|set| set.iter().any(|r| r.starts_with("DN")));
        let name: Vec<_> = [*random.pick(&LABELS)].into_iter().chain(above).collect();
        if barren || name.len() > 5 || names.contains(&name) {
            continue;
        }
        names.push(name.clone());
        let set = nodes.entry(name.clone()).or_default();
        let wild = name[0] == "*";
        match random.below(20) {
            0..4 => {}
            4..7 => drop(set.insert(format!("CNAME {}", target(&mut random, &names)))),
            7 if !wild => drop(set.insert(format!("DNAME {}", target(&mut random, &names)))),
            8..10 if !wild => cut(&mut random, &name, &names, set),
            _ => plain(&mut random, &names, set),
        }
    }
    let mut zone = String::from(
        "$TTL 300\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns0\nns0 A 192.0.2.1\n\
         @ NS ns1.wild.test.\n",
    );
    for (name, set) in nodes {
        for record in set {
            writeln!(zone, "{} {record}", name.join(".")).unwrap();
        }
    }
    zone
}

fn target(random: &mut Random, names: &[Vec<&str>]) -> String {
    match random.below(10) {
        0..2 => (*random.pick(&ELSEWHERE)).to_owned(),
        2 => format!("z{}", random.below(9)),
        _ => {
            let mut name = random.pick(names).clone();
            if random.chance(40) {
                name.insert(0, *random.pick(&LABELS[1..]));
            }
            if name.is_empty() { "@".into() } else { name.join(".") }
        }
    }
}

fn cut(random: &mut Random, name: &[&str], names: &[Vec<&str>], set: &mut BTreeSet<String>) {
    set.insert(format!("NS ns.{}", name.join(".")));
    for _ in 0..random.below(3) {
        set.insert(format!("NS {}", target(random, names)));
    }
    if random.chance(40) {
        set.insert(format!("DS {} 13 2 {}", random.below(65536), "5a".repeat(32)));
    }
}

fn plain(random: &mut Random, names: &[Vec<&str>], set: &mut BTreeSet<String>) {
    for _ in 0..1 + random.below(3) {
        let number = random.below(250);
        set.insert(match random.below(9) {
            0..3 => format!("A 192.0.2.{number}"),
            3 => format!("AAAA 2001:db8::{number:x}"),
            4 => format!("TXT \"text {number}\""),
            5 => format!("MX {number} {}", target(random, names)),
            6 => format!("SRV 0 {number} 80 {}", target(random, names)),
            7 => format!("HTTPS 1 {} alpn=h2", target(random, names)),
            _ => format!("TYPE65400 \\# 2 {number:04x}"),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{strings, tree};

    #[test]
    fn a_seed_is_a_tree() {
        assert_eq!(tree(3, 50), tree(3, 50));
        assert_ne!(tree(3, 50), tree(4, 50));
    }

    #[test]
    fn strings_have_the_size_asked_for() {
        let bytes: usize = strings(500).split_whitespace().map(|s| s.len() - 1).sum();
        assert_eq!(bytes, 500);
    }
}
