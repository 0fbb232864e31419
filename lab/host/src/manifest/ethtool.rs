//! Parses the output of `ethtool`, `tc` and `ip`. Unknown values are left out.

use std::collections::BTreeMap;

/// The current value, which follows the maximum.
pub(super) fn current(text: &str) -> &str {
    text.split_once("Current hardware settings:").map_or("", |(_, current)| current)
}

/// `name: value`, a line each; several on a line, as `Adaptive RX: off  TX: off`, are one value.
/// Leaves out unknown values (`n/a`) and headlines.
pub(super) fn pairs(text: &str) -> BTreeMap<String, String> {
    let pair = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_known = !value.is_empty() && !value.split(' ').all(|w| w == "n/a" || w == "TX:");
        is_known.then(|| (name.trim().to_lowercase().replace(' ', "-"), value))
    };
    text.lines().filter_map(pair).collect()
}

/// The names of what is on.
pub(super) fn offloads(text: &str) -> String {
    let is_on = |value: &str| value.split_whitespace().next() == Some("on");
    let on = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        is_on(value).then(|| name.trim().to_owned())
    });
    on.collect::<Vec<_>>().join(" ")
}

/// How often the table names each queue; the key of the hash is left out, as it is a secret.
pub(super) fn rss(text: &str) -> BTreeMap<String, String> {
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for line in text.lines() {
        let Some((index, queues)) = line.split_once(':') else { continue };
        if index.trim().parse::<u32>().is_err() {
            continue;
        }
        let queues = queues.split_whitespace().map_while(|queue| queue.parse::<u32>().ok());
        queues.for_each(|queue| *counts.entry(queue).or_default() += 1);
    }
    counts.into_iter().map(|(queue, count)| (format!("rx-{queue}"), count.to_string())).collect()
}

/// The lines behind the headline: `IP SA`, `L4 bytes 0 & 1 [TCP/UDP src port]`.
pub(super) fn hash_fields(text: &str) -> String {
    let fields = text.lines().skip(1).map(str::trim).filter(|line| !line.is_empty());
    fields.filter(|line| *line != "None").collect::<Vec<_>>().join(", ")
}

/// The kind of the one at the root.
pub(super) fn root_qdisc(json: &str) -> String {
    let lines: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let root = lines.as_array().into_iter().flatten().find(|line| line["root"] == true);
    root.and_then(|line| line["kind"].as_str()).unwrap_or_default().to_owned()
}

/// In the driver, in the card, or generic.
pub(super) fn xdp(json: &str) -> String {
    let lines: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    match lines[0]["xdp"]["mode"].as_u64() {
        Some(1) => "driver",
        Some(2) => "generic",
        Some(3) => "card",
        Some(4) => "several",
        _ => "",
    }
    .to_owned()
}
