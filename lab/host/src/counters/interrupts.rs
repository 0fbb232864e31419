//! Interrupts by source and CPU, and NET_RX softirqs by CPU.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Interrupts and softirqs since boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupts {
    /// By source, such as `24 eth0-rx-0`: a count for each CPU (`/proc/interrupts`). Only numbered
    /// sources: timers and calls between CPUs have names.
    pub sources: BTreeMap<String, Vec<u64>>,
    /// NET_RX softirqs of each CPU (`/proc/softirqs`).
    pub net_rx: Vec<u64>,
}

impl Interrupts {
    /// Reads them; a missing file is empty.
    pub fn take() -> Self {
        let text = |file: &str| crate::tool::text(Path::new(file)).unwrap_or_default();
        parse(&text("/proc/interrupts"), &text("/proc/softirqs"))
    }

    /// The change since `earlier`; sources without any are left out.
    pub fn since(&self, earlier: &Self) -> Self {
        let change = |now: &[u64], before: Option<&Vec<u64>>| -> Vec<u64> {
            let before = |cpu: usize| before.and_then(|counts| counts.get(cpu)).copied();
            let less = |(cpu, count): (usize, &u64)| count.saturating_sub(before(cpu).unwrap_or(0));
            now.iter().enumerate().map(less).collect()
        };
        let sources = self
            .sources
            .iter()
            .map(|(name, counts)| (name.clone(), change(counts, earlier.sources.get(name))));
        Self {
            sources: sources.filter(|(_, counts)| counts.iter().any(|count| *count > 0)).collect(),
            net_rx: change(&self.net_rx, Some(&earlier.net_rx)),
        }
    }
}

fn parse(interrupts: &str, softirqs: &str) -> Interrupts {
    let mut sources = BTreeMap::new();
    let cpus = interrupts.lines().next().unwrap_or_default().split_whitespace().count();
    for line in interrupts.lines().skip(1) {
        let Some((number, rest)) = line.split_once(':') else { continue };
        let number = number.trim();
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let words: Vec<&str> = rest.split_whitespace().collect();
        let counts: Vec<u64> =
            words.iter().take(cpus).map_while(|word| word.parse().ok()).collect();
        if counts.len() == cpus {
            let name = words.last().filter(|_| words.len() > cpus).copied().unwrap_or_default();
            sources.insert(format!("{number} {name}"), counts);
        }
    }
    let row = softirqs.lines().find_map(|line| line.trim_start().strip_prefix("NET_RX:"));
    let words = row.unwrap_or_default().split_whitespace();
    Interrupts { sources, net_rx: words.map_while(|word| word.parse().ok()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERRUPTS: &str = "           CPU0       CPU1\n\
        24:       1000          2   PCI-MSI 512000-edge      eth0-rx-0\n\
        25:          0          7   PCI-MSI 512001-edge      eth0-rx-1\n\
       LOC:     500000     600000   Local timer interrupts\n\
        26:       torn\n";
    const SOFTIRQS: &str =
        "                    CPU0       CPU1\n     NET_TX:  1 2\n     NET_RX:  30  40\n";

    #[test]
    fn numbered_sources_and_net_rx_are_read() {
        let read = parse(INTERRUPTS, SOFTIRQS);
        assert_eq!(read.sources.len(), 2);
        assert_eq!(read.sources["24 eth0-rx-0"], [1_000, 2]);
        assert_eq!(read.net_rx, [30, 40]);
        assert_eq!(parse("", ""), Interrupts::default());
    }

    #[test]
    fn sources_without_a_change_are_left_out() {
        let before = parse(INTERRUPTS, SOFTIRQS);
        let mut after = before.clone();
        after.sources.get_mut("25 eth0-rx-1").unwrap()[0] += 5;
        after.net_rx[1] += 9;
        let change = after.since(&before);
        assert_eq!(change.sources, BTreeMap::from([("25 eth0-rx-1".into(), vec![5, 0])]));
        assert_eq!(change.net_rx, [0, 9]);
    }
}
