//! Blocks that only forward, and to which another block forwards: a hop of one server to itself.
use crate::parse::{Block, Directive};
use crate::zones;
use std::net::{IpAddr, SocketAddr};

/// Plugins of a hop that do not change its answers.
const HARMLESS: [&str; 14] = [
    "any",
    "bind",
    "bufsize",
    "cache",
    "cancel",
    "debug",
    "errors",
    "health",
    "log",
    "loop",
    "multisocket",
    "prometheus",
    "ready",
    "reload",
];

/// The block that serves at an address of this machine.
pub fn block_at(blocks: &[Block], address: SocketAddr) -> Option<usize> {
    blocks.iter().position(|block| is_at(block, address))
}

/// Whether a block serves at an address of this machine.
pub fn is_at(block: &Block, address: SocketAddr) -> bool {
    let keys = block.keys.iter().filter_map(|key| zones::key(&key.text).ok());
    let mut ports = keys.filter(|key| key.scheme == "dns").map(|key| key.port);
    let is_local = address.ip().is_loopback() || address.ip().is_unspecified();
    ports.any(|port| port == address.port()) && (is_local || is_bound(block, address.ip()))
}

/// Whether a block serves plain DNS.
pub fn is_plain(block: &Block) -> bool {
    let mut keys = block.keys.iter().filter_map(|key| zones::key(&key.text).ok());
    keys.any(|key| key.scheme == "dns")
}

fn is_bound(block: &Block, ip: IpAddr) -> bool {
    let binds = block.directives.iter().filter(|directive| directive.name.text == "bind");
    binds.flat_map(|bind| &bind.args).any(|word| word.text.parse() == Ok(ip))
}

/// The only rule of a block of all names that does nothing but forward.
pub fn rule_of(block: &Block) -> Option<&Directive> {
    let mut keys = block.keys.iter().filter_map(|key| zones::key(&key.text).ok());
    if !keys.any(|key| key.zones.iter().any(|zone| zone == ".")) {
        return None;
    }
    let mut others =
        block.directives.iter().filter(|one| !HARMLESS.contains(&one.name.text.as_str()));
    let rule = others.next().filter(|one| one.name.text == "forward")?;
    let is_of_all = rule.args.first().is_some_and(|from| from.text == ".");
    (others.next().is_none() && is_of_all).then_some(rule)
}

/// For each block, whether it is a hop of another one.
pub fn find(blocks: &[Block]) -> Vec<bool> {
    let mut hops = vec![false; blocks.len()];
    for (from, block) in blocks.iter().enumerate() {
        let rules = block.directives.iter().filter(|one| one.name.text == "forward");
        for word in rules.flat_map(|rule| rule.args.iter().skip(1)) {
            let text = word.text.strip_prefix("dns://").unwrap_or(&word.text);
            let Some(address) = address(text, 53) else { continue };
            let Some(to) = block_at(blocks, address) else { continue };
            hops[to] |= to != from && rule_of(&blocks[to]).is_some();
        }
    }
    hops
}

/// An address with or without port.
pub fn address(text: &str, usual: u16) -> Option<SocketAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let without_port = || Some(SocketAddr::new(bare.parse().ok()?, usual));
    text.parse().ok().or_else(without_port)
}
