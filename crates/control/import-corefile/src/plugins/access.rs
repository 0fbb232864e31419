//! Access control.
use crate::importer::Importer;
use crate::lex::CorefileWord;
use crate::parse::Directive;
use import_report::shown;
use std::net::IpAddr;

/// A rule: a network, and whether it is allowed.
type AccessRule = (IpAddr, u32, bool);

/// `acl [ZONES] { ACTION [type QTYPE…] [net SOURCE…] }`: the first matching rule decides; without
/// one, access is allowed. In Dunlin the longest network decides.
pub fn acl(importer: &mut Importer<'_>, directive: &Directive) {
    if let Some(zone) = directive.args.first() {
        // Denying a client all names would be too much.
        let text = format!(
            "acl {}: access is the same for all names; this rule is not imported",
            shown(&zone.text)
        );
        return importer.lost(zone, &text);
    }
    let mut rules: Vec<AccessRule> = Vec::new();
    for line in &directive.body {
        let action = line.name.text.as_str();
        if !["allow", "block", "drop"].contains(&action) {
            let text = format!("acl {{ {} }}: unknown action", shown(action));
            importer.lost(&line.name, &text);
            continue;
        }
        let Some(networks) = networks(importer, line) else { continue };
        let is_let_in = match action {
            "block" => keeps_out(importer, &line.name, "refuse"),
            "drop" => keeps_out(importer, &line.name, "drop"),
            _ => true,
        };
        for (word, address, len) in networks {
            // An earlier rule for the whole network decides.
            if rules.iter().any(|(a, l, _)| *l <= len && holds((*a, *l), address)) {
                let text = format!("acl: an earlier rule decides about {}", shown(&word.text));
                importer.note(word, &text);
            } else {
                rules.push((address, len, is_let_in));
            }
        }
    }
    if rules.is_empty() {
        return;
    }
    let rest = [IpAddr::from([0_u8; 4]), IpAddr::from([0_u8; 16])];
    let decided = |any: &IpAddr| rules.iter().any(|(a, len, _)| *len == 0 && a == any);
    let mut list = Vec::new();
    // Networks without a rule are allowed.
    if !rest.iter().all(decided) {
        list.push("any".to_owned());
    }
    list.extend(rules.iter().map(|(address, len, is_let_in)| {
        let not = if *is_let_in { "" } else { "!" };
        format!("{not}{address}/{len}")
    }));
    if list.iter().all(|rule| rule.starts_with('!')) {
        let text = "acl: it allows no client; this host is allowed, because a server needs one";
        importer.note(&directive.name, text);
        for host in ["127.0.0.0/8", "::1/128"] {
            list.retain(|rule| rule.trim_start_matches('!') != host);
            list.push(host.to_owned());
        }
    }
    importer.note_acl(&directive.name, &list);
    if importer.draft.acl.is_empty() {
        importer.draft.acl = list;
    } else if importer.draft.acl != list {
        importer.lost(&directive.name, "acl: Dunlin has one for all blocks, and uses the first");
    }
}

fn keeps_out(importer: &mut Importer<'_>, word: &CorefileWord, how: &'static str) -> bool {
    importer.keep(word, "acl: the action for denied queries", how, |draft| &mut draft.denied);
    false
}

/// The networks of a rule; `None` if it depends on types.
fn networks<'d>(
    importer: &mut Importer<'_>,
    line: &'d Directive,
) -> Option<Vec<(&'d CorefileWord, IpAddr, u32)>> {
    let (mut networks, mut words) = (Vec::new(), line.args.iter());
    let any = |word| [(word, IpAddr::from([0; 4]), 0), (word, IpAddr::from([0; 16]), 0)];
    let mut is_net = false;
    for word in words.by_ref() {
        match word.text.as_str() {
            "net" => is_net = true,
            "type" => {
                importer.lost(word, "acl … type: access is the same for all types");
                return None;
            }
            "*" if is_net => networks.extend(any(word)),
            text => match network(text) {
                Some((address, len)) if is_net => networks.push((word, address, len)),
                _ => {
                    importer.lost(word, &format!("acl … {}: this is not a network", shown(text)));
                }
            },
        }
    }
    if networks.is_empty() && !is_net {
        networks.extend(any(&line.name));
    }
    Some(networks)
}

fn network(text: &str) -> Option<(IpAddr, u32)> {
    let (address, len) = text.split_once('/').unwrap_or((text, ""));
    let address: IpAddr = address.parse().ok()?;
    let all = if address.is_ipv4() { 32 } else { 128 };
    let len = if len.is_empty() { all } else { len.parse().ok()? };
    (len <= all).then(|| (masked(address, len), len))
}

/// Clears all bits after `len`.
fn masked(address: IpAddr, len: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - len).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

fn holds((network, len): (IpAddr, u32), address: IpAddr) -> bool {
    network.is_ipv4() == address.is_ipv4() && masked(address, len) == network
}
