//! Who may ask.
use crate::importer::Importer;
use crate::lex::Word;
use crate::note::shown;
use crate::parse::Directive;
use std::net::IpAddr;

/// A rule: a network, and whether it is let in.
type Rule = (IpAddr, u32, bool);

/// `acl [ZONES] { ACTION [type QTYPE…] [net SOURCE…] }`: the first rule that fits decides, and whom
/// none fits is let in. In Dunlin the longest network decides.
pub fn acl(importer: &mut Importer<'_>, directive: &Directive) {
    if let Some(zone) = directive.args.first() {
        // To keep somebody out of all names is not what was meant.
        let text = format!(
            "acl {}: who may ask is the same for all names, and none of this is taken over",
            shown(&zone.text)
        );
        return importer.lost(zone, &text);
    }
    if importer.zones.iter().all(|zone| zone != ".") {
        let text = "acl: it holds for all names, and not for this block's alone";
        importer.note(&directive.name, text);
    }
    let mut rules: Vec<Rule> = Vec::new();
    for line in &directive.body {
        let action = line.name.text.as_str();
        if !["allow", "block", "drop"].contains(&action) {
            let text = format!("acl {{ {} }}: this action is not known", shown(action));
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
            // What an earlier rule holds as a whole is never reached.
            if rules.iter().any(|(a, l, _)| *l <= len && holds((*a, *l), address)) {
                let text = format!("acl: a rule above decides about {}", shown(&word.text));
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
    // Whom no rule fits is let in.
    if !rest.iter().all(decided) {
        list.push("any".to_owned());
    }
    list.extend(rules.iter().map(|(address, len, is_let_in)| {
        let not = if *is_let_in { "" } else { "!" };
        format!("{not}{address}/{len}")
    }));
    if importer.draft.acl.is_empty() {
        importer.draft.acl = list;
    } else if importer.draft.acl != list {
        importer.lost(&directive.name, "acl: Dunlin has one for all blocks, and keeps the first");
    }
}

fn keeps_out(importer: &mut Importer<'_>, word: &Word, how: &'static str) -> bool {
    importer.keep(word, "acl: what becomes of a question", how, |draft| &mut draft.denied);
    false
}

/// The networks of a rule; nothing where it is about types too.
fn networks<'d>(
    importer: &mut Importer<'_>,
    line: &'d Directive,
) -> Option<Vec<(&'d Word, IpAddr, u32)>> {
    let (mut networks, mut words) = (Vec::new(), line.args.iter());
    let any = |word| [(word, IpAddr::from([0; 4]), 0), (word, IpAddr::from([0; 16]), 0)];
    let mut is_net = false;
    for word in words.by_ref() {
        match word.text.as_str() {
            "net" => is_net = true,
            "type" => {
                importer.lost(word, "acl … type: who may ask is the same for all types");
                return None;
            }
            "*" if is_net => networks.extend(any(word)),
            text => match network(text) {
                Some((address, len)) if is_net => networks.push((word, address, len)),
                _ => {
                    importer.lost(word, &format!("acl … {}: this is no network", shown(text)));
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

/// An address without what stands behind so many bits.
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
