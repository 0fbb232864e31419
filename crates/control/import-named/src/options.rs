//! `options`, and the same statements in the view of all clients.
use crate::clients::{self, ClientList};
use crate::config::ImportedConfig;
use crate::context::Context;
use crate::parse::Statement;
use crate::{servers, settings};
use import_report::{FilePosition, ImportError, shown};
use std::net::IpAddr;

/// Bytes of `[server] version`, as the config takes them.
const VERSION_LEN_MAX: usize = 255;

/// Statements that [`read`] imports after all others.
#[derive(Default)]
pub struct Options<'s> {
    port: Option<u16>,
    listen: [Option<Vec<String>>; 2],
    recursion: Option<(&'s str, FilePosition)>,
    allow_recursion: Option<Vec<String>>,
    allow_query_cache: Option<Vec<String>>,
    forwarders: Option<FilePosition>,
    forward: Option<(&'s str, FilePosition)>,
}

/// Imports the statements of `options`.
pub fn read<'s>(
    context: &mut Context<'s>,
    options: &mut Options<'s>,
    statements: &'s [Statement],
) -> Result<(), ImportError> {
    let port = statements.iter().find(|it| it.text(0) == "port").map(|it| it.text(1));
    options.port = port.and_then(|port| port.parse().ok()).or(options.port);
    for statement in statements {
        let block = statement.block().unwrap_or_default();
        match statement.text(0) {
            "directory" | "port" => {}
            "listen-on" => listen(context, options, statement, true)?,
            "listen-on-v6" => listen(context, options, statement, false)?,
            "version" => match statement.text(1) {
                "none" => {}
                text if text.len() > VERSION_LEN_MAX => {
                    let text = format!("version: it has more than {VERSION_LEN_MAX} bytes");
                    context.lost(&statement.place, text);
                }
                text => context.draft.version = Some(text.to_owned()),
            },
            "recursion" => options.recursion = Some((statement.text(1), statement.place.clone())),
            "forward" => options.forward = Some((statement.text(1), statement.place.clone())),
            "forwarders" => {
                options.forwarders = Some(statement.place.clone());
                servers::forward(context, ".", statement)?;
            }
            "allow-recursion" => {
                options.allow_recursion = Some(list(context, "allow-recursion", block)?);
            }
            "allow-query-cache" => {
                options.allow_query_cache = Some(list(context, "allow-query-cache", block)?);
            }
            "allow-query" => {
                let list = clients::read(context, "allow-query", block)?;
                context.draft.query = Some(with_some(context, &statement.place, &list));
            }
            "allow-transfer" => {
                let list = list(context, "allow-transfer", block)?;
                context.draft.allows_transfers |= !list.is_empty();
                context.draft.transfer = (!list.is_empty()).then_some(list);
            }
            "also-notify" => servers::notify(context, statement)?,
            "notify" if ["explicit", "no"].contains(&statement.text(1)) => {}
            _ => settings::report(context, statement),
        }
    }
    Ok(())
}

fn list(
    context: &mut Context<'_>,
    what: &str,
    block: &[Statement],
) -> Result<Vec<String>, ImportError> {
    Ok(clients::read(context, what, block)?.texts())
}

/// The elements of a list that must not be empty.
fn with_some(context: &mut Context<'_>, place: &FilePosition, list: &ClientList) -> Vec<String> {
    let texts = list.texts();
    if !texts.is_empty() {
        return texts;
    }
    let text = "allow-query: it allows no client; this host is allowed, because a server needs one";
    context.differs(place, text);
    vec!["127.0.0.0/8".to_owned(), "::1".to_owned()]
}

/// `listen-on [port N] { … };`
fn listen<'s>(
    context: &mut Context<'s>,
    options: &mut Options<'s>,
    statement: &'s Statement,
    is_ipv4: bool,
) -> Result<(), ImportError> {
    let name = if is_ipv4 { "listen-on" } else { "listen-on-v6" };
    let mut port = options.port.unwrap_or(53);
    let mut words = statement.words().skip(1);
    while let Some(word) = words.next() {
        match (word.text.as_str(), words.next()) {
            ("port", Some(value)) => port = value.text.parse().unwrap_or(port),
            ("tls" | "http", Some(value)) if value.text != "none" => {
                let text = format!("{name} … {}: Dunlin answers over UDP and TCP", word.text);
                context.lost(&word.place, text);
                return Ok(());
            }
            _ => context.lost(&word.place, format!("{name} … {}: unknown", shown(&word.text))),
        }
    }
    let list = clients::read(context, name, statement.block().unwrap_or_default())?;
    let mut addresses = Vec::new();
    for rule in list.rules.iter().filter(|rule| rule.address.is_ipv4() == is_ipv4) {
        let is_usable = rule.is_host() || rule.is_all() || rule.address.is_loopback();
        match (rule.is_allowed, rule.address, is_usable) {
            (false, ..) if rule.is_all() => {}
            (true, IpAddr::V4(address), true) if rule.address.is_loopback() && !rule.is_host() => {
                addresses
                    .push(format!("{}:{port}", std::net::Ipv4Addr::from(u32::from(address) | 1)));
            }
            (true, IpAddr::V4(address), true) => addresses.push(format!("{address}:{port}")),
            (true, IpAddr::V6(address), true) => addresses.push(format!("[{address}]:{port}")),
            _ => {
                let not = if rule.is_allowed { "" } else { "!" };
                let text = format!(
                    "{name} … {not}{}: write the addresses into [server] listen",
                    rule.prefix()
                );
                context.lost(&statement.place, text);
            }
        }
    }
    options.listen[usize::from(!is_ipv4)].get_or_insert_default().extend(addresses);
    Ok(())
}

/// Completes the config after all zones. `begin`: the place for what is not there.
pub fn close(context: &mut Context<'_>, options: Options<'_>, begin: &FilePosition) {
    let Options { port, listen, .. } = &options;
    let usual = ["0.0.0.0", "[::]"].map(|any| format!("{any}:{}", port.unwrap_or(53)));
    let [v4, v6] = listen;
    let mut all: Vec<String> = v4.clone().unwrap_or_else(|| vec![usual[0].clone()]);
    all.extend(v6.clone().unwrap_or_else(|| vec![usual[1].clone()]));
    let mut known = std::collections::BTreeSet::new();
    all.retain(|address| known.insert(address.clone()));
    if all.is_empty() {
        context.lost(begin, "listen-on: no address is left; write them into [server] listen");
    } else if all != ["0.0.0.0:53", "[::]:53"] {
        context.draft.listen = Some(all);
    }
    close_forwarding(context, options, begin);
}

/// Takes out all rules: no client is forwarded for.
fn forward_nothing(context: &mut Context<'_>, place: &FilePosition, why: &str) {
    if !context.draft.forwards.is_empty() {
        context.draft.forwards.clear();
        context.differs(place, format!("{why}: nothing is forwarded, so there are no rules"));
    }
}

/// Who is forwarded for, and what is not the same.
fn close_forwarding(context: &mut Context<'_>, options: Options<'_>, begin: &FilePosition) {
    let Options { recursion, allow_recursion, allow_query_cache, forwarders, forward, .. } =
        options;
    let draft: &mut ImportedConfig = &mut context.draft;
    if let Some(("no" | "false" | "0", place)) = recursion {
        return forward_nothing(context, &place, "recursion no");
    }
    let has_servers = draft.forwards.iter().any(|(suffix, it)| suffix == "." && !it.is_empty());
    if has_servers || allow_recursion.is_some() || allow_query_cache.is_some() {
        let is_named = allow_recursion.is_some() || allow_query_cache.is_some();
        let list = allow_recursion.or(allow_query_cache).or_else(|| draft.query.clone());
        if list.as_ref().is_some_and(Vec::is_empty) {
            return forward_nothing(context, begin, "allow-recursion: it allows no client");
        }
        draft.recursion = list;
        let from_query = draft.recursion.is_some();
        if !is_named && from_query {
            let text = "forwarders: as in BIND without allow-recursion, the clients of allow-query \
                        are forwarded for";
            context.differs(forwarders.as_ref().unwrap_or(begin), text);
        } else if !is_named {
            let text = "forwarders: BIND forwards for the networks of this host, Dunlin for all \
                        private networks; [acl] recursion sets them";
            context.differs(forwarders.as_ref().unwrap_or(begin), text);
        }
    }
    if !has_servers {
        let text = "recursion: BIND queries the name servers of the Internet itself, Dunlin \
                    forwards: name resolvers in [forward] \".\", or set `recursion no` if it is \
                    not used";
        context.lost(recursion.as_ref().map_or(begin, |(_, place)| place), text);
        return;
    }
    match forward {
        Some(("only", _)) => {}
        other => {
            let place = other.map(|(_, place)| place).or(forwarders);
            let text = "forward first: BIND queries other name servers if no forwarder answers, \
                        Dunlin does not";
            context.differs(place.as_ref().unwrap_or(begin), text);
        }
    }
}
